use std::sync::Arc;

use semaphore_core::adapter::{
    AgentUrl, Method, Request, Response, TransportError, TransportErrorKind,
};
pub(crate) use ureq::Agent;
use ureq::config::Config;
use ureq::http;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{AsSendBody, Error};

use crate::connection::{Connecting, Exchange};
use crate::dial::{Dial, NoResolver};
use crate::failure;

/// How to make an agent for a worker.
pub(crate) enum Agents {
    /// Agents with the builder's options.
    Ours { config: Box<Config>, dial: Dial },
    /// Agents with the user's configuration.
    Own(Box<Config>),
}

/// One worker's agent, with one connection at most.
pub(crate) struct Client {
    agent: Agent,
    exchange: Arc<Exchange>,
    /// `None` with the user's configuration.
    dial: Option<Dial>,
    url: Arc<AgentUrl>,
    max_body: usize,
}

impl Client {
    pub(crate) fn new(url: Arc<AgentUrl>, max_body: usize, agents: &Agents) -> Self {
        let exchange = Arc::new(Exchange::default());
        let (agent, dial) = match agents {
            Agents::Ours { config, dial } => {
                let dial = dial.for_worker();
                let connector = Connecting {
                    connector: dial.clone(),
                    exchange: Arc::clone(&exchange),
                };
                let agent = Agent::with_parts((**config).clone(), connector, NoResolver);
                (agent, Some(dial))
            }
            Agents::Own(config) => {
                let connector = Connecting {
                    connector: DefaultConnector::default(),
                    exchange: Arc::clone(&exchange),
                };
                let resolver = DefaultResolver::default();
                let agent = Agent::with_parts((**config).clone(), connector, resolver);
                (agent, None)
            }
        };
        Self {
            agent,
            exchange,
            dial,
            url,
            max_body,
        }
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Sends the request and waits for the whole answer on this thread.
    pub(crate) fn exchange(&self, request: &Request) -> Result<Response, TransportError> {
        let Some(dial) = &self.dial else {
            let answer = self.once(request);
            return answer.map_err(|failed| failed.told(TransportErrorKind::Misconfigured));
        };
        let ends = dial.peers.now() + request.timeout();
        let mut refusals = 0;
        loop {
            let left = ends.saturating_since(dial.peers.now());
            let answer = self.once(&request.clone().with_timeout(left));
            match (&answer, dial.peer.get()) {
                (Ok(response), Some(peer)) => dial.peers.answered(peer, response),
                (Err(failed), Some(peer)) if failed.is_of_the_server() => dial.peers.failed(peer),
                _ => {}
            }
            let failed = match answer {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            let Failed::ByTls { connecting, .. } = failed else {
                return Err(failed.told(TransportErrorKind::Misconfigured));
            };
            dial.doubt();
            refusals += 1;
            // While certificates are being replaced, one of several servers may already have new
            // ones and another may not. If the refusal came while connecting, all servers were
            // already tried.
            if connecting || refusals >= dial.peers.count() || dial.peers.now() >= ends {
                return Err(failed.told(dial.peers.refused_by_tls()));
            }
        }
    }

    fn once(&self, request: &Request) -> Result<Response, Failed> {
        self.exchange.begin(request);
        let described = self.describe(request)?;
        // ureq sends a `Content-Length` with every body of known length, even an empty one. It
        // sends none with `()`.
        match request.method() {
            Method::Put => self.run(described.map(|()| request.body()), request),
            _ if request.body().is_empty() => self.run(described, request),
            _ => Err(failure::misconfigured("only a PUT carries a body").into()),
        }
    }

    /// The request's head, without what [`Exchange`] hides from ureq.
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
    ) -> Result<Response, Failed> {
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
            .map_err(|error| Failed::before_answer(error, self.exchange.is_connecting()))?;
        let limit = u64::try_from(self.max_body).unwrap_or(u64::MAX);
        if answer.body().content_length() > Some(limit) {
            return Err(failure::bad_answer("the body is larger than the limit").into());
        }
        // ureq already refuses a body that only reaches its limit.
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

/// Why there is no answer.
enum Failed {
    /// One side has refused the other's certificate.
    ByTls {
        error: Box<Error>,
        connecting: bool,
    },
    Otherwise(TransportError),
}

impl Failed {
    fn before_answer(error: Error, connecting: bool) -> Self {
        if failure::is_refused_by_tls(&error, connecting) {
            let error = Box::new(error);
            Self::ByTls { error, connecting }
        } else {
            Self::Otherwise(failure::before_answer(error, connecting))
        }
    }

    /// Whether the error says something about the server of this connection.
    fn is_of_the_server(&self) -> bool {
        use TransportErrorKind::{Misconfigured, NoRoom};
        match self {
            Self::ByTls { .. } => true,
            Self::Otherwise(error) => !matches!(error.kind(), Misconfigured | NoRoom),
        }
    }

    fn told(self, refused: TransportErrorKind) -> TransportError {
        match self {
            Self::ByTls { error, .. } => failure::by_tls(refused, *error),
            Self::Otherwise(error) => error,
        }
    }
}

impl From<TransportError> for Failed {
    fn from(error: TransportError) -> Self {
        Self::Otherwise(error)
    }
}
