//! The end of a permit or leadership as a token of tokio-util, for code that takes one.

use semaphore_core::lost::LostSignal;
use tokio_util::sync::CancellationToken;

use crate::transport::ReqwestTransport;

impl ReqwestTransport {
    /// A token that is cancelled when the permit or leadership ends: it is lost, given back or
    /// dropped, or its runtime ends. Pass it to spawned tasks.
    ///
    /// ```no_run
    /// # async fn example(transport: transport_reqwest::ReqwestTransport, permit: transport_reqwest::Permit) {
    /// let token = transport.cancellation_token(permit.lost_signal());
    /// tokio::spawn(async move {
    ///     tokio::select! {
    ///         () = token.cancelled() => {}
    ///         () = work() => {}
    ///     }
    /// });
    /// # async fn work() {}
    /// # }
    /// ```
    pub fn cancellation_token(&self, signal: LostSignal) -> CancellationToken {
        let token = CancellationToken::new();
        // The guard also cancels when the runtime drops this task.
        let guard = token.clone().drop_guard();
        self.wire.handle.spawn(async move {
            signal.await;
            drop(guard);
        });
        token
    }
}
