//! Key names that are not UTF-8.

use super::bench::{Bench, json};

/// An agent of 1.8.7 does the same. Random scripts found it, with the seed 3362546259 of
/// `conformance`.
#[test]
fn two_names_that_are_not_utf_8_are_two_though_they_look_alike() {
    let mut bench = Bench::new();
    bench.put("/v1/kv/p/%FF", "1");
    bench.put("/v1/kv/p/%c3", "2");
    for list in ["/v1/kv/p/?keys", "/v1/kv/p/?keys&separator=/"] {
        let names = json(&bench.get(list));
        assert_eq!(names.as_array().map(Vec::len), Some(2), "{list}: {names}");
    }
}
