//! The same seed and the same calls give the same answers.

use super::bench::{Bench, json, seconds, text};
use transport_mock::consul::Consul;

fn story(seed: u64) -> Vec<String> {
    let mut bench = Bench::new();
    bench.consul = Consul::new(seed);
    let mut told = Vec::new();
    for round in 0..20 {
        let id = bench.session(r#"{"TTL":"10s","NodeChecks":[],"Behavior":"delete"}"#);
        let key = format!("/v1/kv/x/{id}?acquire={id}");
        told.push(text(&bench.put(&key, "v")));
        told.push(text(&bench.get("/v1/kv/x/?recurse")));
        bench.start("/v1/kv/y?index=1000&wait=7s");
        bench.pass(seconds(round));
        while let Some((exchange, response)) = bench.consul.poll_answer() {
            told.push(format!("{exchange:?} {response:?}"));
        }
        told.push(format!("{:?}", bench.consul.poll_timeout()));
    }
    told
}

#[test]
fn one_seed_tells_one_story() {
    assert_eq!(story(7), story(7));
    assert_ne!(story(7), story(8));
}

#[test]
fn session_ids_are_uuids_of_version_4() {
    let mut bench = Bench::new();
    for _ in 0..100 {
        let id = bench.session("");
        let lengths: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&id[14..15], "4");
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"));
    }
    let listed = bench.get("/v1/session/list");
    assert_eq!(json(&listed).as_array().unwrap().len(), 100);
}
