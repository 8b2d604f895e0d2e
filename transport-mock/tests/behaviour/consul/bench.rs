//! A Consul with a clock, and short functions for requests.

use std::time::Duration;

use semaphore_core::Token;
use semaphore_core::adapter::{Instant, Method, Request, Response};
use serde_json::Value;
use transport_mock::consul::{Consul, Exchange, Profile};

pub(crate) struct Bench {
    pub(crate) consul: Consul,
    pub(crate) now: Instant,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::of(Profile::default())
    }

    /// A Consul with this profile.
    pub(crate) fn of(profile: impl Into<Profile>) -> Self {
        Self {
            consul: Consul::with_profile(1, profile),
            now: Instant::ORIGIN,
        }
    }

    /// Sends a request that is answered at once.
    pub(crate) fn send(&mut self, request: &Request) -> Response {
        let exchange = self.consul.submit(self.now, request);
        let (answered, response) = self.consul.poll_answer().expect("an answer at once");
        assert_eq!(answered, exchange);
        response
    }

    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.send(&Request::new(Method::Get, target))
    }

    pub(crate) fn put(&mut self, target: &str, body: &str) -> Response {
        self.send(&Request::new(Method::Put, target).with_body(body))
    }

    pub(crate) fn delete(&mut self, target: &str) -> Response {
        self.send(&Request::new(Method::Delete, target))
    }

    pub(crate) fn get_as(&mut self, token: &str, target: &str) -> Response {
        self.send(&Request::new(Method::Get, target).with_token(Some(Token::new(token).unwrap())))
    }

    /// Creates a session and returns its id.
    pub(crate) fn session(&mut self, body: &str) -> String {
        let response = self.put("/v1/session/create", body);
        assert_eq!(response.status(), 200, "{}", text(&response));
        json(&response)["ID"].as_str().unwrap().to_owned()
    }

    /// Starts a blocking query that must wait.
    pub(crate) fn start(&mut self, target: &str) -> Exchange {
        let exchange = self
            .consul
            .submit(self.now, &Request::new(Method::Get, target));
        assert_eq!(self.consul.poll_answer(), None, "{target} does not wait");
        exchange
    }

    /// The only answer that is ready.
    pub(crate) fn only_answer(&mut self) -> (Exchange, Response) {
        let answer = self.consul.poll_answer().expect("an answer");
        assert_eq!(self.consul.poll_answer(), None);
        answer
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.consul.handle_timeout(self.now);
    }
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The time less one nanosecond.
pub(crate) fn just_under(time: Duration) -> Duration {
    time.saturating_sub(Duration::from_nanos(1))
}

pub(crate) fn text(response: &Response) -> String {
    String::from_utf8_lossy(response.body()).into_owned()
}

pub(crate) fn json(response: &Response) -> Value {
    serde_json::from_slice(response.body()).unwrap_or_default()
}

pub(crate) fn index(response: &Response) -> u64 {
    response.header("X-Consul-Index").unwrap().parse().unwrap()
}
