//! What a holder sends while nothing is answered. Each request keeps a connection until it is given up, and an agent
//! has few for one address: forty processes of one host must not take them all (invariant L4).

use std::collections::BTreeSet;

use transport_mock::MockConsul;

use crate::support::*;

/// The requests of a holder over this time, and how many are under way at its end.
fn requests(text: &str) -> (usize, usize) {
    let mut sent = 0;
    let mut under_way = BTreeSet::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(2);
        let (Some(no), Some(sign)) = (words.next(), words.next()) else {
            continue;
        };
        match sign {
            ">" if !line.contains("index=") => {
                sent += 1;
                under_way.insert(no.to_owned());
            }
            "<" | "x" => {
                under_way.remove(no);
            }
            _ => {}
        }
    }
    (sent, under_way.len())
}

#[test]
fn few_requests_are_sent_and_fewer_are_under_way_while_nothing_is_answered() {
    // A renewal and its proof each second, as always, and more at the end.
    for (seconds, most_sent, most_left) in [(4, 9, 9), (10, 22, 8), (12, 32, 9)] {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.advance(secs(20));
        let before = world.trace().len();
        world.partition("a");
        world.advance(secs(seconds));
        world.heal("a");
        let silent = world.trace().len();
        world.advance(secs(5));
        let trace = world.trace();
        assert!(permit.is_held(), "{trace}");
        let (sent, under_way) = requests(&trace[before..silent]);
        assert!(
            sent > 1 && sent <= most_sent,
            "{sent} in {seconds} s\n{trace}"
        );
        assert!(
            under_way <= most_left,
            "{under_way} after {seconds} s\n{trace}"
        );
        let (after, _) = requests(&trace[silent..]);
        assert!(after <= 12, "{after} after {seconds} s\n{trace}");
    }
}
