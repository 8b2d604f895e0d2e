//! Foreign clients use the same prefix. The limit is kept, and everybody gets in (L1).
//!
//! The foreign clients use the algorithm of HashiCorp's Go client and of the guide: they have no
//! queue, and the first write wins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use semaphore_core::adapter::Transport as _;
use semaphore_core::sans_io::{Dialect, Method, Request, Response};
use serde_json::{Value as Json, json};
use transport_mock::{MockClient, MockConsul};

use crate::support::*;

/// How a foreign client writes the record.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Make {
    Go,
    Guide,
    Java,
}

impl Make {
    fn flags(self) -> u64 {
        match self {
            Self::Go => 0xe0f6_9a2b_aa41_4de0,
            Self::Guide | Self::Java => 0,
        }
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Go | Self::Guide => ("Limit", "Holders"),
            Self::Java => ("limit", "holders"),
        }
    }

    /// Panics if the client of this make would fail.
    fn decode(self, value: &[u8], flags: u64) -> Vec<String> {
        assert!(self != Self::Go || flags == self.flags(), "a conflict");
        let record: Json = serde_json::from_slice(value).expect("a record");
        let (limit, holders) = self.names();
        assert!(record[limit].is_u64(), "{record}");
        match &record[holders] {
            Json::Object(map) if self == Self::Go => map.keys().cloned().collect(),
            Json::Array(list) if self != Self::Go => list
                .iter()
                .map(|holder| holder.as_str().expect("a session").to_owned())
                .collect(),
            other => panic!("not this client's dialect: {other}"),
        }
    }

    fn encode(self, limit: u32, sessions: &[String]) -> Vec<u8> {
        let holders = match self {
            Self::Go => json!(
                sessions
                    .iter()
                    .map(|session| (session.clone(), true))
                    .collect::<BTreeMap<_, _>>()
            ),
            Self::Guide | Self::Java => json!(sessions),
        };
        let names = self.names();
        json!({ names.0: limit, names.1: holders })
            .to_string()
            .into_bytes()
    }
}

pub(crate) struct Foreigner {
    make: Make,
    client: MockClient,
    limit: u32,
    session: String,
}

/// The content of one list.
struct Listed {
    index: String,
    cas: u64,
    flags: u64,
    holders: Vec<String>,
}

impl Foreigner {
    pub(crate) async fn enter(make: Make, client: MockClient, limit: u32) -> Self {
        let mut this = Self {
            make,
            client,
            limit,
            session: String::new(),
        };
        let body = r#"{"TTL":"3600s","Behavior":"delete"}"#;
        let created = this.put("/v1/session/create", body.into()).await;
        let created: Json = serde_json::from_slice(created.body()).expect("an id");
        this.session = created["ID"].as_str().expect("an id").to_owned();
        let target = format!(
            "/v1/kv/{PREFIX}/{id}?acquire={id}&flags={}",
            make.flags(),
            id = this.session
        );
        assert_eq!(this.put(&target, Vec::new()).await.body(), b"true");
        this
    }

    pub(crate) async fn acquire(&self) {
        let mut listed = self.list(None).await;
        loop {
            if listed.holders.len() < self.limit as usize {
                listed.holders.push(self.session.clone());
                if self.store(&listed).await {
                    return;
                }
            }
            listed = self.list(Some(&listed.index)).await;
        }
    }

    pub(crate) async fn release(self) {
        loop {
            let mut listed = self.list(None).await;
            listed.holders.retain(|holder| *holder != self.session);
            if self.store(&listed).await {
                break;
            }
        }
        let key = format!("/v1/kv/{PREFIX}/{}", self.session);
        self.send(Request::new(Method::Delete, key)).await;
        let target = format!("/v1/session/destroy/{}", self.session);
        self.put(&target, Vec::new()).await;
    }

    /// Reads the prefix and prunes dead holders.
    async fn list(&self, index: Option<&str>) -> Listed {
        let mut target = format!("/v1/kv/{PREFIX}/?recurse");
        if let Some(index) = index {
            target = format!("{target}&index={index}&wait=15s");
        }
        let request = Request::new(Method::Get, target).with_timeout(secs(20));
        let answer = self.send(request).await;
        let index = answer
            .header("X-Consul-Index")
            .expect("an index")
            .to_owned();
        let entries: Vec<Json> = serde_json::from_slice(answer.body()).expect("a list");
        let mut listed = Listed {
            index,
            cas: 0,
            flags: self.make.flags(),
            holders: Vec::new(),
        };
        let alive: Vec<_> = entries
            .iter()
            .filter_map(|e| e["Session"].as_str())
            .collect();
        for entry in &entries {
            if entry["Key"].as_str() == Some("service/db/.lock") {
                let value = entry["Value"].as_str().expect("a value");
                let value = base64::engine::general_purpose::STANDARD.decode(value);
                listed.flags = entry["Flags"].as_u64().expect("flags");
                listed.cas = entry["ModifyIndex"].as_u64().expect("an index");
                listed.holders = self.make.decode(&value.expect("base64"), listed.flags);
                listed
                    .holders
                    .retain(|holder| alive.contains(&holder.as_str()));
            }
        }
        listed
    }

    async fn store(&self, listed: &Listed) -> bool {
        let target = format!(
            "/v1/kv/{PREFIX}/.lock?cas={}&flags={}",
            listed.cas, listed.flags
        );
        let body = self.make.encode(self.limit, &listed.holders);
        self.put(&target, body).await.body() == b"true"
    }

    async fn put(&self, target: &str, body: Vec<u8>) -> Response {
        self.send(Request::new(Method::Put, target).with_body(body))
            .await
    }

    async fn send(&self, request: Request) -> Response {
        let answer = self.client.send(request).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        answer
    }
}

/// Counts how many hold at the same time.
#[derive(Clone, Default)]
pub(crate) struct Gauge(Arc<(AtomicUsize, AtomicUsize)>);

impl Gauge {
    pub(crate) async fn hold(&self, world: &MockConsul) {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        world.sleep(millis(20)).await;
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

/// Four of each kind take ten turns over two slots.
fn mix(make: Make, foreigners_first: bool) {
    let world = MockConsul::new(9);
    world.set_latency(millis(1)..=millis(4));
    let gauge = Gauge::default();
    let foreigners = (0..4).map(|number| {
        let (world, gauge) = (world.clone(), gauge.clone());
        async move {
            for _ in 0..10 {
                let client = world.client(format!("foreign-{number}"));
                let foreigner = Foreigner::enter(make, client, 2).await;
                foreigner.acquire().await;
                gauge.hold(&world).await;
                foreigner.release().await;
            }
        }
    });
    let ours = (0..4).map(|number| {
        let (world, gauge) = (world.clone(), gauge.clone());
        async move {
            let semaphore = semaphore(&world, &format!("ours-{number}"), 2);
            if foreigners_first {
                world.sleep(millis(50)).await;
            }
            for _ in 0..10 {
                let permit = semaphore.acquire().await.expect("a slot");
                gauge.hold(&world).await;
                assert!(permit.is_held());
                permit.release().await.expect("released");
            }
        }
    });
    world.run(async {
        futures_util::future::join(
            futures_util::future::join_all(foreigners),
            futures_util::future::join_all(ours),
        )
        .await;
    });
    let took = world.now().since_origin();
    eprintln!("80 turns took {took:?}, {:?}", world.stats().requests);
    assert!(took < secs(30), "{took:?}");
    assert_eq!(gauge.most(), 2);
    let dialect = record(&world).expect("a record").dialect();
    let expected = match make {
        Make::Go => Dialect::Map,
        Make::Guide => Dialect::Array,
        Make::Java => Dialect::LowerCaseArray,
    };
    assert_eq!(dialect, expected);
    assert_nothing_left(&world);
}

#[test]
fn the_go_client_shares_a_semaphore_that_either_made() {
    mix(Make::Go, true);
    mix(Make::Go, false);
}

#[test]
fn clients_of_the_guide_and_of_java_share_a_semaphore_that_they_made() {
    mix(Make::Guide, true);
    mix(Make::Java, true);
}

#[test]
fn a_foreigner_that_waits_ahead_and_never_claims_blocks_nobody() {
    let world = MockConsul::new(9);
    let semaphore = semaphore(&world, "a", 1);
    world.run(async {
        let stuck = Foreigner::enter(Make::Go, world.client("stuck"), 1).await;
        for _ in 0..5 {
            let start = world.now();
            let permit = semaphore.acquire().await.expect("a slot");
            let waited = world.now().saturating_since(start);
            assert!(waited < millis(1_200), "{waited:?}");
            permit.release().await.expect("released");
        }
        stuck.release().await;
    });
    assert_nothing_left(&world);
}
