//! Deliberate defects that worlds of seeds show seldom or never: for each a world that leads to it, in
//! which its promise is broken with the defect and kept without.
#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semaphore_core::adapter::{MOST_CONNECTIONS, Transport as _};
use semaphore_core::defect::{Defect, switch_on};
use semaphore_core::sans_io::{Method, Request, Response};
use semaphore_core::{Client, Follower, LeaderEvent, Permit, Semaphore};
use simulation::check::Invariant;
use transport_mock::{Fault, MockConsul, PooledClient, RequestKind, Rule};

/// A promise that was broken, and how.
type Broken = (Invariant, String);

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Runs the world without the defect and with it.
#[track_caller]
fn breaks_its_promise(defect: Defect, world: fn() -> Result<(), Broken>) {
    /// A defect is on in the whole process.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    switch_on(None);
    assert_eq!(world(), Ok(()), "without {defect}");
    switch_on(Some(defect));
    let found = world();
    switch_on(None);
    let (promise, what) = found.expect_err("it breaks its promise");
    assert_eq!(promise.to_string(), defect.promise(), "{what}");
}

/// The only slot of a semaphore, held on this host.
fn held(world: &MockConsul, host: &str) -> Permit {
    let semaphore = Semaphore::builder("service/db", 1).connect(world.client(host));
    let semaphore = semaphore.expect("valid settings");
    world.run(semaphore.acquire()).expect("a slot")
}

/// An entry is lost, so its key may arrive late. Nobody needs the session after the release.
fn what_may_come_late() -> Result<(), Broken> {
    let world = MockConsul::new(1);
    let client = Client::builder().connect(world.client("a"));
    let client = client.expect("valid options");
    let entry = |request: &Request| RequestKind::of(request) == RequestKind::Txn;
    world.inject(Rule::new(Fault::LoseRequest).matching(entry).times(1));
    let semaphore = client.semaphore("service/db", 3).expect("valid settings");
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.run(permit.release()).expect("released");
    // A `Client` keeps its session for two fifths of its TTL.
    world.advance(secs(7));
    let left = world.consul(|consul, _| consul.sessions().count());
    if left == 0 {
        return Ok(());
    }
    let what = format!("{left} sessions are left\n{}", world.trace());
    Err((Invariant::L2, what))
}

#[test]
fn a_session_that_is_kept_for_what_may_come_late_is_left_behind() {
    breaks_its_promise(Defect::SessionKeptForLateKeys, what_may_come_late);
}

/// Answers come late, and then none comes any more, though those on the way arrive.
fn a_silence_after_slow_answers() -> Result<(), Broken> {
    let world = MockConsul::new(1);
    let semaphore = Semaphore::builder("service/db", 1).connect(world.client("a"));
    let permit = world.run(semaphore.expect("valid settings").acquire());
    let permit = permit.expect("a slot");
    let slow = Rule::new(Fault::DelayAnswer(Duration::from_millis(2_900)));
    world.inject(slow.always());
    world.advance(secs(20));
    world.clear_faults();
    world.inject(Rule::new(Fault::LoseRequest).always());
    // Whatever was sent has arrived by now.
    world.advance(secs(15));
    if permit.is_held() {
        return Err((Invariant::S2, world.trace()));
    }
    Ok(())
}

#[test]
fn a_belief_that_counts_from_the_answer_outlasts_its_session() {
    breaks_its_promise(Defect::LeaseFromAnswer, a_silence_after_slow_answers);
}

/// Somebody deletes the key of a holder that is cut off. Consul has no lock delay then.
fn a_key_that_was_deleted_by_hand() -> Result<(), Broken> {
    let world = MockConsul::new(1);
    let [first, second] = ["a", "b"].map(|host| {
        let builder = Semaphore::builder("service/db", 1).value(host);
        builder.connect(world.client(host)).expect("valid settings")
    });
    let permit = world.run(first.acquire()).expect("a slot");
    let _waits = world.start(async move { second.acquire().await });
    world.advance(secs(3));
    world.partition("a");
    let target = format!("/v1/kv/{}", permit.sequencers()[0].key);
    world.consul(|consul, now| consul.submit(now, &Request::new(Method::Delete, target)));
    for _ in 0..40 {
        world.advance(Duration::from_millis(500));
        if permit.is_held() && world.holders("service/db").iter().any(|it| it == "b") {
            return Err((Invariant::S1, world.trace()));
        }
    }
    assert_eq!(world.holders("service/db"), ["b"], "{}", world.trace());
    Ok(())
}

#[test]
fn a_holder_whose_key_was_deleted_is_pruned_while_it_believes() {
    breaks_its_promise(Defect::PruneAtOnce, a_key_that_was_deleted_by_hand);
}

/// Every message is lost for four fifths of the TTL.
fn a_silence_that_a_hold_outlasts() -> Result<(), Broken> {
    for after in 0..8 {
        let world = MockConsul::new(1);
        let permit = held(&world, "a");
        world.advance(secs(2) + Duration::from_millis(137) * after);
        world.partition("a");
        world.advance(secs(12));
        world.heal("a");
        world.advance(secs(8));
        if !permit.is_held() {
            return Err((Invariant::L4, world.trace()));
        }
    }
    Ok(())
}

#[test]
fn a_renewal_that_waits_for_the_one_before_costs_a_hold_after_a_silence() {
    breaks_its_promise(Defect::RenewalsInTurn, a_silence_that_a_hold_outlasts);
}

/// Each answer takes somewhat less than a third of the TTL.
fn a_hold_while_answers_are_slow() -> Result<(), Broken> {
    let world = MockConsul::new(1);
    let permit = held(&world, "a");
    world.set_latency(Duration::from_millis(2_400)..=Duration::from_millis(2_400));
    world.advance(secs(120));
    if permit.is_held() {
        return Ok(());
    }
    Err((Invariant::L4, world.trace()))
}

#[test]
fn a_time_out_that_does_not_grow_costs_a_hold_while_answers_are_slow() {
    breaks_its_promise(Defect::LatencyIgnored, a_hold_while_answers_are_slow);
}

/// A former leader renews what has ended. Nothing else is answered.
fn a_session_that_only_a_former_leader_renews() -> Result<(), Broken> {
    let world = MockConsul::new(1);
    let permit = held(&world, "a");
    let session = permit.sequencers()[0].session.to_string();
    let renewed = format!(r#"[{{"ID":"{session}"}}]"#);
    let renewed = Fault::Answer(Response::new(200, renewed));
    let renews = Rule::new(renewed).kind(RequestKind::SessionRenew);
    world.inject(renews.always());
    for kind in [RequestKind::Txn, RequestKind::KvRead, RequestKind::KvWatch] {
        world.inject(Rule::new(Fault::LoseAnswer).kind(kind).always().optional());
    }
    loop {
        world.advance(secs(1));
        let lives = world.consul(|consul, _| consul.sessions().any(|it| it.id() == session));
        match (permit.is_held(), lives) {
            (true, true) => {}
            (true, false) => return Err((Invariant::S2, world.trace())),
            (false, _) => return Ok(()),
        }
    }
}

#[test]
fn a_renewal_that_counts_without_a_proof_outlasts_its_session() {
    breaks_its_promise(
        Defect::RenewalUnconfirmed,
        a_session_that_only_a_former_leader_renews,
    );
}

/// Handles are made and dropped, and the polls of their waiters with them. The agent counts the
/// connection of each on.
fn waiters_that_give_up_again_and_again() -> Result<(), Broken> {
    let world = MockConsul::new(1);
    let pool = world.client("a").pooled(MOST_CONNECTIONS);
    let pool = pool.expect("connections");
    let _permit = held(&world, "b");
    let waiters: Vec<_> = (0..40)
        .map(|_| {
            let (world_of_it, pool) = (world.clone(), pool.clone());
            world.start(async move {
                loop {
                    let builder = Semaphore::builder("service/db", 1);
                    let runtime = Arc::new(world_of_it.client("a"));
                    let semaphore = builder.connect_parts(Arc::new(pool.clone()), runtime);
                    let semaphore = semaphore.expect("valid settings");
                    let _ = semaphore.acquire_timeout(Duration::from_millis(300)).await;
                }
            })
        })
        .collect();
    world.advance(secs(20));
    waiters.into_iter().for_each(transport_mock::Task::abort);
    let peak = pool.peak_connections();
    if peak <= MOST_CONNECTIONS {
        return Ok(());
    }
    Err((Invariant::L3, format!("{peak} connections")))
}

#[test]
fn a_poll_that_is_given_up_and_forgotten_costs_connections() {
    breaks_its_promise(
        Defect::GivenUpPollForgotten,
        waiters_that_give_up_again_and_again,
    );
}

/// Reads again and again by the connections that the holder also uses.
async fn read_on(pool: PooledClient) {
    loop {
        let read = Request::new(Method::Get, "/v1/kv/read").with_timeout(secs(600));
        let _ = pool.send(read).await;
    }
}

/// A far agent, and far more reads than connections.
fn a_holder_beside_many_reads() -> Result<(), Broken> {
    let world = MockConsul::new(1);
    let pool = world.client("a").pooled(MOST_CONNECTIONS);
    let pool = pool.expect("connections");
    let builder = Semaphore::builder("service/db", 1);
    let runtime = Arc::new(world.client("a"));
    let semaphore = builder.connect_parts(Arc::new(pool.clone()), runtime);
    let semaphore = semaphore.expect("valid settings");
    let permit = world.run(semaphore.acquire()).expect("a slot");
    world.set_latency(Duration::from_millis(500)..=Duration::from_millis(500));
    let readers: Vec<_> = (0..1_000)
        .map(|_| world.start(read_on(pool.clone())))
        .collect();
    world.advance(secs(60));
    let is_held = permit.is_held();
    readers.into_iter().for_each(transport_mock::Task::abort);
    if is_held {
        return Ok(());
    }
    let what = "a hold is lost, though Consul answered whatever it was asked".to_owned();
    Err((Invariant::L4, what))
}

#[test]
fn renewals_that_wait_behind_reads_cost_a_hold() {
    breaks_its_promise(Defect::RenewalsBehindPolls, a_holder_beside_many_reads);
}

/// The value of the next leader, or of the same one when it changes.
async fn next_value(mut follower: Follower) -> (Follower, String) {
    loop {
        if let Some(Ok(LeaderEvent::Elected(leader) | LeaderEvent::ValueChanged(leader))) =
            follower.next().await
        {
            let value = leader.text().expect("text").to_owned();
            return (follower, value);
        }
    }
}

/// A client looks for its followers at many elections together, since none of them may poll.
fn followers_of_one_client() -> Result<(), Broken> {
    const MANY: usize = 4;
    let world = MockConsul::new(1);
    let builder = Client::builder().value("first");
    let leads = builder.connect(world.client("a")).expect("valid options");
    let builder = Client::builder().own_polls(0);
    let follows = builder.connect(world.client("b")).expect("valid options");
    let key = |number| format!("service/{number}/leader");
    let mut terms = Vec::new();
    let mut followers = Vec::new();
    for number in 0..MANY {
        let election = leads.election(key(number)).expect("a key");
        terms.push(world.run(election.campaign()).expect("elected"));
        let follower = follows.discovery(key(number)).expect("a key").follow();
        let (follower, value) = world.run(next_value(follower));
        assert_eq!(value, "first");
        followers.push(world.start(next_value(follower)));
    }
    world.advance(secs(20));
    for (number, (term, mut follower)) in terms.iter().zip(followers).enumerate() {
        world.run(term.set_value("second")).expect("set");
        // The client asks once a second.
        world.advance(secs(2));
        let known = follower.try_take().map(|(_, value)| value);
        if known.as_deref() != Some("second") {
            let what = format!("the follower {number} has not learned of a change");
            return Err((Invariant::L1, what));
        }
    }
    Ok(())
}

#[test]
fn a_follower_that_does_not_read_what_has_changed_learns_of_it_late() {
    breaks_its_promise(Defect::SharedChangeUnread, followers_of_one_client);
}
