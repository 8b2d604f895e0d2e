//! Which requests share a connection, and how many connections there are.

use std::time::Duration;

use real_agent::Proxy;
use semaphore_core::adapter::TransportErrorKind;

use crate::scene::{Trust, get, meet, poll, put, send, start, start_with};
use crate::server::Server;

/// The first request finds out which version the agent speaks.
#[tokio::test]
async fn requests_that_are_sent_at_once_share_a_connection() {
    let trust = Trust::new();
    let mut server = Server::start(&trust.tls).await;
    let transport = trust.builder(&server.url()).build().unwrap();
    let sent: Vec<_> = (0..20)
        .map(|_| send(&transport, put("/v1/kv/a", "")))
        .collect();
    server.next().await.answer("true");
    for arrived in server.next_of(19).await {
        assert_eq!(arrived.connection, 2);
        arrived.answer("true");
    }
    for sent in sent {
        sent.await.unwrap().unwrap();
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_first_request_without_an_answer_holds_others_up_for_a_second() {
    let trust = Trust::new();
    let mut server = Server::start(&trust.tls).await;
    let transport = trust.builder(&server.url()).build().unwrap();
    let silent = send(&transport, get("/v1/silent"));
    let silent_there = server.next().await;
    let next = send(&transport, get("/v1/next"));
    server.next().await.answer("true");
    next.await.unwrap().unwrap();
    silent_there.answer("true");
    silent.await.unwrap().unwrap();
}

/// All short requests use one more connection.
#[tokio::test]
async fn a_hundred_polls_share_a_connection() {
    let (mut server, transport) = start().await;
    let polls: Vec<_> = (0..250)
        .map(|_| send(&transport, poll("/v1/kv/a")))
        .collect();
    let arrived = server.next_of(250).await;
    for no in 2..=4 {
        let on_it = arrived.iter().filter(|it| it.connection == no).count();
        assert_eq!(on_it, if no == 4 { 50 } else { 100 });
    }

    let renewal = send(&transport, put("/v1/session/renew/a", ""));
    let renewal_there = server.next().await;
    assert_eq!(renewal_there.connection, 5);
    renewal_there.answer("[]");
    renewal.await.unwrap().unwrap();
    for arrived in arrived {
        arrived.answer("[]");
    }
    for poll in polls {
        poll.await.unwrap().unwrap();
    }
    assert_eq!(server.connections(), 5);
}

#[tokio::test]
async fn a_connection_that_was_cut_is_replaced_by_one_other() {
    let (mut server, transport) = start().await;
    let lost: Vec<_> = (0..20)
        .map(|_| send(&transport, put("/v1/a", "")))
        .collect();
    server.next_of(20).await;
    server.cut();
    for lost in lost {
        let error = lost.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), TransportErrorKind::Unknown, "{error:?}");
    }
    let before = server.connections();
    let sent: Vec<_> = (0..20)
        .map(|_| send(&transport, put("/v1/a", "")))
        .collect();
    // The next request finds out again which version the agent speaks.
    for _ in 0..20 {
        server.next().await.answer("true");
    }
    for sent in sent {
        sent.await.unwrap().unwrap();
    }
    assert!(server.connections() <= before + 2);
}

/// As a server does before it stops.
#[tokio::test]
async fn a_connection_that_takes_no_further_requests_answers_those_under_way() {
    let (mut server, transport) = start().await;
    let under_way = send(&transport, put("/v1/a", ""));
    let under_way_there = server.next().await;
    server.go_away();
    let next = loop {
        let next = send(&transport, put("/v1/b", ""));
        let next_there = server.next().await;
        let is_elsewhere = next_there.connection != under_way_there.connection;
        next_there.answer("true");
        if is_elsewhere {
            break next;
        }
        next.await.unwrap().unwrap();
    };
    next.await.unwrap().unwrap();
    under_way_there.answer("true");
    under_way.await.unwrap().unwrap();
}

/// A silent connection may be dead.
#[tokio::test]
async fn after_a_timeout_requests_go_by_another_connection_and_what_is_under_way_goes_on() {
    let (mut server, transport) = start().await;
    let slow = send(&transport, put("/v1/slow", ""));
    let slow_there = server.next().await;
    let silent = put("/v1/silent", "").with_timeout(Duration::from_millis(50));
    let silent = send(&transport, silent);
    let silent_there = server.next().await;
    assert_eq!(silent_there.connection, slow_there.connection);
    let error = silent.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), TransportErrorKind::Timeout);

    let next = send(&transport, put("/v1/next", ""));
    let next_there = server.next().await;
    assert_ne!(next_there.connection, slow_there.connection);
    next_there.answer("true");
    next.await.unwrap().unwrap();
    slow_there.answer("true");
    slow.await.unwrap().unwrap();
}

/// The limit is five seconds plus the connect timeout. The polls would wait for a minute.
#[tokio::test]
async fn a_connection_without_a_sign_of_life_is_given_up() {
    let trust = Trust::new();
    let mut server = Server::start(&trust.tls).await;
    let proxy = Proxy::start(server.address()).unwrap();
    let builder = trust.builder(&format!("https://{}", proxy.addr()));
    let transport = builder
        .connect_timeout(Duration::from_millis(200))
        .build()
        .unwrap();
    meet(&mut server, &transport).await;
    let polls: Vec<_> = (0..20)
        .map(|_| send(&transport, poll("/v1/kv/a")))
        .collect();
    server.next_of(20).await;
    proxy.stall();
    for poll in polls {
        let error = poll.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), TransportErrorKind::Unknown, "{error:?}");
    }
    let next = send(&transport, poll("/v1/kv/a"));
    server.next().await.answer("true");
    next.await.unwrap().unwrap();
}

#[tokio::test]
async fn no_more_connections_are_opened_than_allowed() {
    let (mut server, transport) = start_with(|it| it.max_connections(2)).await;
    let polls: Vec<_> = (0..100)
        .map(|_| send(&transport, poll("/v1/kv/a")))
        .collect();
    let requests: Vec<_> = (0..20)
        .map(|_| send(&transport, put("/v1/a", "")))
        .collect();
    for arrived in server.next_of(120).await {
        arrived.answer("true");
    }
    for sent in polls.into_iter().chain(requests) {
        sent.await.unwrap().unwrap();
    }
    assert_eq!(server.connections(), 3, "one of them before it was known");
}
