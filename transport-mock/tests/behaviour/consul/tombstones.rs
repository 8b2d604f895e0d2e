//! What deletions leave behind, and for how long.

use std::time::Duration;

use super::bench::{Bench, index, just_under, seconds};

#[test]
fn a_tombstone_keeps_an_emptied_prefix_apart_from_other_writes_for_a_quarter_of_an_hour() {
    let mut bench = Bench::new();
    bench.put("/v1/kv/x/k", "v");
    bench.delete("/v1/kv/x/k");
    let emptied = index(&bench.get("/v1/kv/x/?recurse"));
    bench.put("/v1/kv/y", "v");
    bench.pass(just_under(seconds(15 * 60)));
    assert_eq!(index(&bench.get("/v1/kv/x/?recurse")), emptied);
    bench.pass(Duration::from_nanos(1));
    let missing = index(&bench.get("/v1/kv/x/?recurse"));
    assert_eq!(missing, bench.consul.entry("y").unwrap().modify_index());
}

#[test]
fn a_tombstone_is_nothing_to_wait_for() {
    let mut bench = Bench::new();
    bench.put("/v1/kv/x/k", "v");
    bench.delete("/v1/kv/x/k");
    assert_eq!(bench.consul.poll_timeout(), None);
}
