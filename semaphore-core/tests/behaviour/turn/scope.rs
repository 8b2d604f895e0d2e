//! The token, datacenter, namespace, partition and consistency of every request. A token is never
//! shown.

use std::sync::Arc;

use semaphore_core::adapter::{Transport, TransportError};
use semaphore_core::sans_io::Machine as _;
use semaphore_core::sans_io::api::{
    AcquireKey, CasKey, CreateSession, DeleteKey, DestroySession, ListKeys, Operation, ReadKey,
    ReleaseKey, RenewSession, SessionInfo, Txn,
};
use semaphore_core::sans_io::{
    Index, Instant, Method, Participant, Request, Response, SessionOptions,
};
use semaphore_core::{Prefix, Scope, SessionId, Token};
use transport_mock::MockConsul;
use transport_mock::consul::{Access, Policy};

use crate::support::election::*;
use crate::support::spy::Spy;
use crate::support::*;

const SECRET: &str = "5ecret-5ecret";

fn scope() -> Scope {
    Scope::new()
        .with_token(Token::new(SECRET).expect("a token"))
        .with_consistent_reads(true)
        .with_datacenter("dc1")
        .and_then(|scope| scope.with_namespace("team"))
        .and_then(|scope| scope.with_partition("part"))
        .expect("names")
}

/// Every request of the API with this scope.
fn every_request(scope: &Scope) -> Vec<Request> {
    let (prefix, options) = (
        Prefix::new(PREFIX).expect("a prefix"),
        SessionOptions::new(),
    );
    let session = SessionId::new("4ca8e74b-6350-7587-addf-a18084928f3c").expect("an id");
    let (session, prefix, key) = (&session, &prefix, "service/db/x");
    let list = |wait| ListKeys {
        prefix,
        wait,
        consistent: false,
    };
    let read = |wait| ReadKey {
        key,
        wait,
        consistent: false,
    };
    let delete = |index| DeleteKey { key, index };
    let (value, flags) = (b"value".as_slice(), 0);
    vec![
        CreateSession { options: &options }.request(scope),
        RenewSession { session }.request(scope),
        SessionInfo { session }.request(scope),
        DestroySession { session }.request(scope),
        AcquireKey {
            key,
            session,
            value,
            flags,
        }
        .request(scope),
        ReleaseKey {
            key,
            session,
            value,
            flags,
        }
        .request(scope),
        CasKey {
            key,
            index: Index(7),
            value,
            flags,
        }
        .request(scope),
        read(None).request(scope),
        read(Some((Index(7), secs(15)))).request(scope),
        list(None).request(scope),
        list(Some((Index(7), secs(15)))).request(scope),
        delete(None).request(scope),
        delete(Some(Index(7))).request(scope),
        Txn {
            operations: &[Operation::Delete { key }],
        }
        .request(scope),
    ]
}

#[test]
fn every_request_carries_all_of_it() {
    for request in every_request(&scope()) {
        let (path, query) = request.target().split_once('?').expect("a query");
        assert!(!path.contains('&'), "{path}");
        let parameters: Vec<_> = query.split('&').collect();
        for wanted in ["dc=dc1", "ns=team", "partition=part"] {
            let count = parameters.iter().filter(|found| **found == wanted).count();
            assert_eq!(count, 1, "{}", request.target());
        }
        let is_consistent = parameters.contains(&"consistent");
        assert_eq!(is_consistent, request.method() == Method::Get, "{query}");
        let headers: Vec<_> = request.headers().collect();
        assert_eq!(headers, [("X-Consul-Token", SECRET)]);
    }
}

#[test]
fn an_election_needs_no_more_than_a_token_for_its_key_and_for_sessions() {
    let world = MockConsul::new(1);
    let policy = Policy::new()
        .with_key(KEY, Access::Write)
        .with_session_prefix("", Access::Write);
    world.consul(|consul, _| {
        consul.set_acl_default_deny();
        consul.add_token(SECRET, policy);
    });
    let spy = Spy::on(&world);
    let builder = builder_for(KEY).token(SECRET).datacenter("dc1");
    let election = elect_with(builder, &world.client("a"));
    let leadership = world.run(election.campaign()).expect("elected");
    world.advance(secs(20));
    world.run(leadership.set_value("b")).expect("set");
    world.run(leadership.resign()).expect("resigned");
    for request in spy.requests() {
        assert!(request.target().contains("dc=dc1"), "{}", request.target());
        let headers: Vec<_> = request.headers().collect();
        assert_eq!(headers, [("X-Consul-Token", SECRET)]);
    }
}

#[test]
fn without_a_scope_nothing_is_added() {
    for request in every_request(&Scope::new()) {
        assert_eq!(request.headers().count(), 0);
        for parameter in ["dc=", "ns=", "partition="] {
            assert!(!request.target().contains(parameter));
        }
    }
}

#[test]
fn the_token_is_never_shown() {
    let world = MockConsul::new(1);
    world.consul(|consul, _| consul.set_acl_default_deny());
    let settings = settings(PREFIX, 1).with_scope(scope());
    let builder = builder_of(PREFIX, 1).token(SECRET);
    let mut participant = Participant::new(settings.clone(), 1);
    let now = Instant::from_origin(secs(1));
    participant.acquire(now, 1, None).expect("accepted");
    let transmit = participant.poll_transmit(now).expect("a request");
    let semaphore = connect(builder.clone(), &world.client("a"));
    let denied = world.run(semaphore.acquire()).expect_err("denied");
    for shown in [
        format!("{:?}", scope()),
        format!("{settings:?}"),
        format!("{builder:?}"),
        format!("{participant:?}"),
        format!("{transmit:?}"),
        format!("{:?}", every_request(&scope())),
        format!("{semaphore:?}"),
        format!("{denied:?} {denied}"),
    ] {
        assert!(!shown.contains("5ecret"), "{shown}");
    }
}

/// A client with a default namespace, like one that was built from the environment.
struct InTeam(transport_mock::MockClient);

#[async_trait::async_trait]
impl Transport for InTeam {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        self.0.send(request).await
    }

    fn defaults(&self) -> Scope {
        let scope = Scope::new().with_namespace("team").expect("a name");
        scope.with_partition("part").expect("a name")
    }
}

#[test]
fn what_a_transport_says_holds_where_a_handle_says_nothing() {
    for (builder, namespace) in [
        (builder(1), "ns=team"),
        (builder(1).namespace("own"), "ns=own"),
    ] {
        let world = MockConsul::new(1);
        let spy = Spy::on(&world);
        let client = world.client("a");
        let parts = (Arc::new(InTeam(client.clone())), Arc::new(client));
        let semaphore = builder.connect_parts(parts.0, parts.1).expect("valid");
        let task = world.start(async move { semaphore.acquire().await.map(drop) });
        world.advance(secs(1));
        drop(task);
        let sent = spy.requests();
        assert!(!sent.is_empty());
        for request in sent {
            let target = request.target();
            assert!(target.contains(namespace), "{target}");
            assert!(target.contains("partition=part"), "{target}");
        }
    }
}
