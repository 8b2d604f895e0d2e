//! What is known about a failed request.

use h2::Reason;
use semaphore_core::adapter::{Transport as _, TransportErrorKind};
use transport_reqwest::ReqwestTransport;

use crate::scene::{Trust, put, send, start};
use crate::server::{Server, frame, start_raw};

#[tokio::test]
async fn a_refused_stream_was_not_applied() {
    assert_eq!(
        kind_after(Reason::REFUSED_STREAM).await,
        TransportErrorKind::NotSent
    );
}

#[tokio::test]
async fn a_stream_that_is_reset_for_another_reason_leaves_the_outcome_unknown() {
    for reason in [
        Reason::CANCEL,
        Reason::INTERNAL_ERROR,
        Reason::NO_ERROR,
        Reason::ENHANCE_YOUR_CALM,
    ] {
        assert_eq!(kind_after(reason).await, TransportErrorKind::Unknown);
    }
}

#[tokio::test]
async fn a_request_after_the_last_one_that_a_goaway_names_was_not_applied() {
    assert_eq!(kind_after_goaway(0).await, TransportErrorKind::NotSent);
    // The first stream of a client.
    assert_eq!(kind_after_goaway(1).await, TransportErrorKind::Unknown);
}

#[tokio::test]
async fn an_answer_that_is_none_is_no_answer() {
    let sent = sent_to(frame(0, 1, b"no headers")).await;
    assert_eq!(sent, TransportErrorKind::Unknown);
}

async fn kind_after(reason: Reason) -> TransportErrorKind {
    let (mut server, transport) = start().await;
    let sent = send(&transport, put("/v1/a", ""));
    server.next().await.reset(reason);
    sent.await.unwrap().unwrap_err().kind()
}

/// The connection is closed afterwards.
async fn kind_after_goaway(last: u8) -> TransportErrorKind {
    let mut answer = frame(7, 0, &[0, 0, 0, last, 0, 0, 0, 0]);
    if last > 0 {
        // This invalid frame ends the connection.
        answer.extend(frame(9, 0, &[]));
    }
    sent_to(answer).await
}

async fn sent_to(answer: Vec<u8>) -> TransportErrorKind {
    let trust = Trust::new();
    let address = start_raw(&trust.tls, answer).await;
    let builder = trust.builder(&format!("https://{address}"));
    let transport: ReqwestTransport = builder.build().unwrap();
    let sent = send(&transport, put("/v1/a", ""));
    sent.await.unwrap().unwrap_err().kind()
}

/// In TLS 1.3 the agent refuses after the client's handshake is over. If the refusal arrives before
/// the request is sent, the connection is merely gone.
#[tokio::test]
async fn a_missing_client_certificate_is_a_misconfiguration_in_the_end() {
    let trust = Trust::demanding_certificates();
    let server = Server::start(&trust.tls).await;
    let transport = trust.builder(&server.url()).build().unwrap();
    let kind = loop {
        let error = transport.send(put("/v1/a", "")).await.unwrap_err();
        if error.kind() != TransportErrorKind::NotSent {
            break error.kind();
        }
    };
    assert_eq!(kind, TransportErrorKind::Misconfigured);
}
