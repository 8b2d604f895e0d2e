use std::sync::Arc;

use semaphore_core::{AgentUrl, Method, Request, Response, TransportError};
use ureq::http::{self, HeaderValue};
use ureq::{Agent, AsSendBody};

use crate::dial::{Dial, NoResolver, Phase};
use crate::failure;

/// How to make an agent for a worker.
pub(crate) enum Agents {
    /// With the builder's options.
    Ours {
        config: Box<ureq::config::Config>,
        dial: Dial,
    },
    /// As the user makes them.
    Own(Box<dyn Fn() -> Agent + Send + Sync>),
}

/// A worker's own agent, with one connection at most.
pub(crate) struct Client {
    agent: Agent,
    phase: Arc<Phase>,
    url: Arc<AgentUrl>,
    max_body: usize,
}

impl Client {
    pub(crate) fn new(url: Arc<AgentUrl>, max_body: usize, agents: &Agents) -> Self {
        let phase = Arc::new(Phase::default());
        let agent = match agents {
            Agents::Ours { config, dial } => {
                let dial = dial.reporting_to(Arc::clone(&phase));
                Agent::with_parts((**config).clone(), dial, NoResolver)
            }
            Agents::Own(make) => make(),
        };
        Self {
            agent,
            phase,
            url,
            max_body,
        }
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Sends the request and waits for the whole answer on this thread.
    pub(crate) fn exchange(&self, request: &Request) -> Result<Response, TransportError> {
        self.phase.set_connecting(false);
        let described = self.describe(request)?;
        // ureq sends a `Content-Length` with every body that has a known length, an empty one
        // included, and none with `()`.
        match request.method() {
            Method::Put => self.run(described.map(|()| request.body()), request),
            _ if request.body().is_empty() => self.run(described, request),
            _ => Err(failure::misconfigured("only a PUT carries a body")),
        }
    }

    fn describe(&self, request: &Request) -> Result<http::Request<()>, TransportError> {
        if !request.target().starts_with('/') {
            return Err(failure::misconfigured(
                "the target of a request must begin with a slash",
            ));
        }
        let mut described = http::Request::builder()
            .method(request.method().as_str())
            .uri(self.url.join(request.target()))
            .body(())
            .map_err(failure::misconfigured)?;
        for (name, value) in request.headers() {
            let mut value = HeaderValue::from_str(value).map_err(failure::misconfigured)?;
            value.set_sensitive(true);
            described.headers_mut().insert(name, value);
        }
        Ok(described)
    }

    fn run(
        &self,
        described: http::Request<impl AsSendBody>,
        request: &Request,
    ) -> Result<Response, TransportError> {
        let configured = self
            .agent
            .configure_request(described)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .accept_encoding(ureq::config::AutoHeaderValue::None)
            .timeout_global(Some(request.timeout()))
            .build();
        let mut answer = self
            .agent
            .run(configured)
            .map_err(|error| failure::before_answer(error, self.phase.is_connecting()))?;
        let limit = u64::try_from(self.max_body).unwrap_or(u64::MAX);
        if answer.body().content_length() > Some(limit) {
            return Err(failure::bad_answer("the body is larger than the limit"));
        }
        // ureq refuses a body that reaches its limit, and not only one that exceeds it.
        let body = answer
            .body_mut()
            .with_config()
            .limit(limit.saturating_add(1))
            .read_to_vec()
            .map_err(failure::during_body)?;
        let headers = answer.headers().iter();
        Ok(headers.fold(
            Response::new(answer.status().as_u16(), body),
            |response, (name, value)| {
                response.with_header(name.as_str(), String::from_utf8_lossy(value.as_bytes()))
            },
        ))
    }
}
