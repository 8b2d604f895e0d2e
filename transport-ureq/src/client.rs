use std::sync::Arc;

use semaphore_core::adapter::{AgentUrl, Method, Request, Response, TransportError};
pub(crate) use ureq::Agent;
use ureq::AsSendBody;
use ureq::config::Config;
use ureq::http;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;

use crate::connection::{Connecting, Exchange};
use crate::dial::{Dial, NoResolver};
use crate::failure;

/// How to make an agent for a worker.
pub(crate) enum Agents {
    /// With the builder's options.
    Ours { config: Box<Config>, dial: Dial },
    /// With a configuration of the user's own.
    Own(Box<Config>),
}

/// A worker's own agent, with one connection at most.
pub(crate) struct Client {
    agent: Agent,
    exchange: Arc<Exchange>,
    url: Arc<AgentUrl>,
    max_body: usize,
}

impl Client {
    pub(crate) fn new(url: Arc<AgentUrl>, max_body: usize, agents: &Agents) -> Self {
        let exchange = Arc::new(Exchange::default());
        let agent = match agents {
            Agents::Ours { config, dial } => {
                let connector = Connecting {
                    connector: dial.clone(),
                    exchange: Arc::clone(&exchange),
                };
                Agent::with_parts((**config).clone(), connector, NoResolver)
            }
            Agents::Own(config) => {
                let connector = Connecting {
                    connector: DefaultConnector::default(),
                    exchange: Arc::clone(&exchange),
                };
                Agent::with_parts((**config).clone(), connector, DefaultResolver::default())
            }
        };
        Self {
            agent,
            exchange,
            url,
            max_body,
        }
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Sends the request and waits for the whole answer on this thread.
    pub(crate) fn exchange(&self, request: &Request) -> Result<Response, TransportError> {
        self.exchange.begin(request);
        let described = self.describe(request)?;
        // ureq sends a `Content-Length` with every body that has a known length, an empty one
        // included, and none with `()`.
        match request.method() {
            Method::Put => self.run(described.map(|()| request.body()), request),
            _ if request.body().is_empty() => self.run(described, request),
            _ => Err(failure::misconfigured("only a PUT carries a body")),
        }
    }

    /// All of the request's head but what [`Exchange`] hides from ureq.
    fn describe(&self, request: &Request) -> Result<http::Request<()>, TransportError> {
        if !request.target().starts_with('/') {
            return Err(failure::misconfigured(
                "the target of a request must begin with a slash",
            ));
        }
        http::Request::builder()
            .method(request.method().as_str())
            .uri(self.url.join(request.target()))
            .body(())
            .map_err(failure::misconfigured)
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
            .map_err(|error| failure::before_answer(error, self.exchange.is_connecting()))?;
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
