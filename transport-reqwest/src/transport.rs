use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{CONTENT_LENGTH, HeaderValue};
use reqwest::{Client, Url};
use semaphore_core::{AgentUrl, BuildError, Method, Request, Response, Transport, TransportError};
use tokio::runtime::Handle;

use crate::builder::TransportBuilder;
use crate::failure;

/// HTTP(S) to a Consul agent through reqwest, on tokio.
///
/// Clones share one pool of connections. Nothing is sent until a request is.
///
/// - HTTP/1.1 only; connections are kept open and reused.
/// - A redirect is not followed, and a proxy of the environment not used: an agent is local, and
///   a proxy would see the token.
/// - [`Request::timeout`] covers all of a request, from name resolution to the last byte.
/// - The future of a request can be awaited on any executor, as long as the tokio runtime runs in
///   which the transport was built.
#[derive(Clone)]
pub struct ReqwestTransport {
    client: Client,
    url: Arc<AgentUrl>,
    max_body: usize,
    pub(crate) handle: Handle,
    pub(crate) origin: boot_time::Instant,
}

impl ReqwestTransport {
    /// A transport to the agent at `url`, for example `http://127.0.0.1:8500`, with the default
    /// options. It uses the tokio runtime that this is called in.
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent.
    pub fn new(url: impl AsRef<str>) -> Result<Self, BuildError> {
        Self::builder(url).build()
    }

    /// A transport to the agent at `url` with options.
    ///
    /// `url` is `http://host:port`, `https://host:port` or `host:port`. A path in it, as of an
    /// agent behind a proxy, is put before the path of each request.
    pub fn builder(url: impl AsRef<str>) -> TransportBuilder {
        TransportBuilder::new(url.as_ref().parse().map_err(BuildError::Url))
    }

    /// A transport to the agent that the environment names, see [`TransportBuilder::from_env`].
    ///
    /// # Errors
    /// [`BuildError`], before anything is sent.
    pub fn from_env() -> Result<Self, BuildError> {
        TransportBuilder::from_env()?.build()
    }

    pub(crate) fn from_parts(
        client: Client,
        url: AgentUrl,
        max_body: usize,
        handle: Handle,
    ) -> Self {
        Self {
            client,
            url: Arc::new(url),
            max_body,
            handle,
            origin: boot_time::Instant::now(),
        }
    }

    fn describe(&self, request: Request) -> Result<reqwest::Request, TransportError> {
        if !request.target().starts_with('/') {
            return Err(failure::misconfigured(
                "the target of a request must begin with a slash",
            ));
        }
        let url = Url::parse(&self.url.join(request.target())).map_err(failure::misconfigured)?;
        let mut described = reqwest::Request::new(method(request.method()), url);
        *described.timeout_mut() = Some(request.timeout());
        for (name, value) in request.headers() {
            let mut value = HeaderValue::from_str(value).map_err(failure::misconfigured)?;
            value.set_sensitive(true);
            described.headers_mut().insert(name, value);
        }
        if request.method() == Method::Put || !request.body().is_empty() {
            described
                .headers_mut()
                .insert(CONTENT_LENGTH, request.body().len().into());
            *described.body_mut() = Some(request.into_body().into());
        }
        Ok(described)
    }

    async fn receive(&self, mut answer: reqwest::Response) -> Result<Response, TransportError> {
        let too_large = || failure::bad_answer("the body is larger than the limit");
        let announced = answer.content_length().unwrap_or(0);
        if usize::try_from(announced).map_or(true, |length| length > self.max_body) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failure::during_body)? {
            if chunk.len() > self.max_body - body.len() {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        let headers = answer.headers().iter();
        Ok(headers.fold(
            Response::new(answer.status().as_u16(), body),
            |response, (name, value)| {
                response.with_header(name.as_str(), String::from_utf8_lossy(value.as_bytes()))
            },
        ))
    }
}

#[async_trait]
impl Transport for ReqwestTransport {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let described = self.describe(request)?;
        let mut exchange = pin!(async {
            let answer = self.client.execute(described).await;
            self.receive(answer.map_err(failure::before_answer)?).await
        });
        // Sockets and timers of tokio panic when they are polled outside of its runtime.
        poll_fn(|context| {
            let _inside = self.handle.enter();
            exchange.as_mut().poll(context)
        })
        .await
    }
}

impl fmt::Debug for ReqwestTransport {
    /// Shows the address and the limit. reqwest's client would show its default headers, too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReqwestTransport")
            .field("url", &self.url)
            .field("max_body", &self.max_body)
            .finish_non_exhaustive()
    }
}

fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Put => reqwest::Method::PUT,
        Method::Delete => reqwest::Method::DELETE,
    }
}
