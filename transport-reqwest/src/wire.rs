//! One request and its answer, on a connection of its lane.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use reqwest::header::{CONTENT_LENGTH, HeaderValue};
use semaphore_core::adapter::{
    AgentUrl, BasicAuth, Instant, Lane, Lanes, Method, Request, Response, TokenProvider,
    TransportError, TransportErrorKind,
};
use tokio::runtime::Handle;

use crate::clients::{Clients, Made};
use crate::clock::Clock;
use crate::failure;
use crate::farewell::Farewell;
use crate::life::Life;

/// What requests are sent with.
pub(crate) struct Wire {
    pub(crate) clients: Clients,
    pub(crate) url: AgentUrl,
    pub(crate) max_body: usize,
    pub(crate) basic_auth: Option<BasicAuth>,
    pub(crate) tokens: Option<TokenProvider>,
    pub(crate) handle: Handle,
    pub(crate) life: Life,
    pub(crate) clock: Clock,
    pub(crate) farewell: Farewell,
}

impl Wire {
    /// The same agent and clock, on another runtime.
    pub(crate) fn anew(&self) -> impl FnOnce(Handle) -> Self + Send + use<> {
        let clients = self.clients.anew();
        let (url, max_body, clock) = (self.url.clone(), self.max_body, self.clock.clone());
        let (basic_auth, tokens) = (self.basic_auth.clone(), self.tokens.clone());
        move |handle| Self {
            clients,
            url,
            max_body,
            basic_auth,
            tokens,
            life: Life::of(&handle),
            handle,
            clock,
            farewell: Farewell::default(),
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

    async fn exchange(&self, lane: Lane, request: Request) -> Result<Response, TransportError> {
        let ends = self.now() + request.timeout();
        let scouting = self.clients.scout().await;
        let made = self.clients.of(lane, self.now());
        let made = made.map_err(failure::misconfigured)?;
        let answer = self.sent(&made, request, ends).await;
        drop(scouting);
        if let Err(error) = &answer
            && error.kind() == TransportErrorKind::Timeout
        {
            self.clients.leave(&made);
        }
        if let Some(route) = &made.route {
            match &answer {
                Ok(response) => route.answered(self.now(), response),
                Err(error) if is_of_the_server(error) => route.failed(self.now()),
                Err(_) => {}
            }
        }
        answer
    }

    async fn sent(
        &self,
        made: &Made,
        request: Request,
        ends: Instant,
    ) -> Result<Response, TransportError> {
        let mut refusals = 0;
        loop {
            let left = ends.saturating_since(self.now());
            let described = self.describe(request.clone().with_timeout(left))?;
            let error = match made.client.execute(described).await {
                Ok(answer) => {
                    self.clients.answered(made, answer.version());
                    if let (Some(route), Some(peer)) = (&made.route, answer.remote_addr()) {
                        route.connected(self.now(), peer.ip());
                    }
                    return self.receive(answer).await;
                }
                Err(error) => error,
            };
            if failure::is_without_http2(&error) {
                self.clients.refused(made);
            } else if failure::breaks_the_connection(&error) {
                self.clients.broken(made);
            }
            let (Some(route), true) = (&made.route, failure::is_refused_by_tls(&error)) else {
                return Err(failure::before_answer(
                    error,
                    TransportErrorKind::Misconfigured,
                ));
            };
            refusals += 1;
            self.clients.recipe.doubt();
            route.failed(self.now());
            // While certificates are being replaced, one of several servers may already have new
            // ones and another may not.
            if refusals >= route.servers.count() || self.now() >= ends {
                let kind = route.servers.refused_by_tls(self.now());
                return Err(failure::before_answer(error, kind));
            }
        }
    }
}

/// Whether the error says something about the server or the network path.
fn is_of_the_server(error: &TransportError) -> bool {
    use TransportErrorKind::{Misconfigured, NoRoom};
    !matches!(error.kind(), Misconfigured | NoRoom)
}

#[async_trait]
impl Lanes for Wire {
    async fn send_on(&self, lane: Lane, request: Request) -> Result<Response, TransportError> {
        let request = request.with_basic_auth(self.basic_auth.clone());
        let mut exchange = pin!(self.exchange(lane, request));
        let mut end = pin!(self.life.ended());
        let mut is_begun = false;
        // Tokio's sockets and timers panic if they are polled outside its runtime, or after its
        // end.
        poll_fn(|context| {
            if end.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(failure::runtime_ended(is_begun)));
            }
            is_begun = true;
            let _inside = self.handle.enter();
            exchange.as_mut().poll(context)
        })
        .await
    }

    fn close(&self, lane: Lane) {
        self.clients.close(lane);
    }

    fn polls_per_connection(&self) -> usize {
        self.clients.polls_per_connection()
    }

    fn tokens(&self) -> Option<&TokenProvider> {
        self.tokens.as_ref()
    }

    /// See [`Clock`].
    fn now(&self) -> Instant {
        let _inside = self.handle.enter();
        self.clock.now()
    }

    async fn sleep(&self, duration: Duration) {
        let mut end = pin!(self.life.ended());
        let mut sleep = pin!(async {
            let sleep = {
                let _inside = self.handle.enter();
                tokio::time::sleep(duration)
            };
            sleep.await;
        });
        poll_fn(|context| {
            if end.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }
}

fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Put => reqwest::Method::PUT,
        Method::Delete => reqwest::Method::DELETE,
    }
}
