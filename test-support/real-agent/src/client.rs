//! Plain requests to an agent, for preparing a test and checking its result.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

/// Requests to one agent, each on a separate connection.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    url: String,
    token: Option<String>,
}

/// A complete answer with any status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The `X-Consul-Index`, if there is one.
    pub index: Option<u64>,
    /// The body as it came.
    pub body: Vec<u8>,
}

impl Client {
    /// A client of the agent at `url`, such as `http://127.0.0.1:8500`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            agent: agent(Duration::from_secs(30)),
            url: url.into(),
            token: None,
        }
    }

    /// The agent's URL, as it was given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends `token` as `X-Consul-Token` with each request.
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Gives up each request after `timeout`. The default is 30 s.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.agent = agent(timeout);
        self
    }

    /// `GET path`, where `path` starts with `/v1/` and carries its query.
    ///
    /// # Errors
    /// If there is no complete answer. A status of 400 or more is not an error.
    pub fn get(&self, path: &str) -> io::Result<Answer> {
        let request = self.agent.get(format!("{}{path}", self.url));
        whole(self.signed(request).call())
    }

    /// `PUT path` with `body`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn put(&self, path: &str, body: &[u8]) -> io::Result<Answer> {
        let request = self.agent.put(format!("{}{path}", self.url));
        whole(self.signed(request).send(body))
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn delete(&self, path: &str) -> io::Result<Answer> {
        let request = self.agent.delete(format!("{}{path}", self.url));
        whole(self.signed(request).call())
    }

    /// Creates a session from the JSON in `body` and returns its id.
    ///
    /// # Errors
    /// If there is no complete answer, or the agent refused.
    pub fn create_session(&self, body: &str) -> io::Result<String> {
        let answer = self.put("/v1/session/create", body.as_bytes())?;
        match answer.json()?["ID"].as_str() {
            Some(id) => Ok(id.to_owned()),
            None => Err(answer.refused()),
        }
    }

    /// Destroys a session, as an administrator does.
    ///
    /// # Errors
    /// As [`Client::create_session`].
    pub fn destroy_session(&self, id: &str) -> io::Result<()> {
        let answer = self.put(&format!("/v1/session/destroy/{id}"), b"")?;
        if answer.status == 200 {
            Ok(())
        } else {
            Err(answer.refused())
        }
    }

    /// Creates a policy of this name with these rules, and a token that has it. Returns its secret.
    ///
    /// # Errors
    /// As [`Client::create_session`].
    pub fn create_token(&self, name: &str, rules: &str) -> io::Result<String> {
        let policy = json!({ "Name": name, "Rules": rules }).to_string();
        let made = self.put("/v1/acl/policy", policy.as_bytes())?;
        if made.status != 200 {
            return Err(made.refused());
        }
        let token = json!({ "Policies": [{ "Name": name }] }).to_string();
        let made = self.put("/v1/acl/token", token.as_bytes())?;
        let secret = made.json()?["SecretID"].as_str().map(str::to_owned);
        secret.ok_or_else(|| made.refused())
    }

    fn signed<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.token {
            Some(token) => request.header("X-Consul-Token", token),
            None => request,
        }
    }
}

impl Answer {
    /// The body as text, with anything that is not UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the body is Consul's `true`, which says that the write was applied.
    pub fn is_true(&self) -> bool {
        self.status == 200 && self.body.trim_ascii() == b"true"
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// If it is not JSON. Most refusals are plain text.
    pub fn json(&self) -> io::Result<Value> {
        serde_json::from_slice(&self.body).map_err(|_| self.refused())
    }

    pub(crate) fn refused(&self) -> io::Error {
        io::Error::other(format!("{}: {}", self.status, self.text()))
    }
}

fn agent(timeout: Duration) -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_idle_connections(0)
        .proxy(None)
        .timeout_global(Some(timeout))
        .build()
        .into()
}

fn whole(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> io::Result<Answer> {
    let response = result.map_err(ureq::Error::into_io)?;
    let (parts, mut body) = response.into_parts();
    let index = parts
        .headers
        .get("X-Consul-Index")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok());
    Ok(Answer {
        status: parts.status.as_u16(),
        index,
        body: body.read_to_vec().map_err(ureq::Error::into_io)?,
    })
}
