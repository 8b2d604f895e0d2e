//! Losing a slot: every way has its own reason, and is noticed in time.

use std::sync::{Arc, Mutex};

use semaphore_core::adapter::{Instant, Method, Runtime};
use semaphore_core::{Error, Lost, Permit, RequestError, SessionId};
use transport_mock::{Fault, MockClient, MockConsul, RequestKind, Rule, Task};

use crate::client::client;
use crate::support::steps::writes_record;
use crate::support::stranger::{Stranger, operate};
use crate::support::*;

/// A holder on the host `a`.
struct Holder {
    world: MockConsul,
    semaphore: semaphore_core::Semaphore,
    permit: Permit,
    session: SessionId,
}

impl Holder {
    fn new() -> Self {
        let world = MockConsul::new(1);
        let semaphore = semaphore(&world, "a", 1);
        Self::of(world, semaphore)
    }

    fn of(world: MockConsul, semaphore: semaphore_core::Semaphore) -> Self {
        let permit = world.run(semaphore.acquire()).expect("a free slot");
        world.advance(secs(1));
        let session = SessionId::new(holders(&world).remove(0)).expect("an id");
        Self {
            world,
            semaphore,
            permit,
            session,
        }
    }

    /// The loss, which an answer of the watch or the next proof must show.
    #[track_caller]
    fn loses(&self) -> Lost {
        let before = self.world.now();
        let lost = self.world.run(self.permit.lost());
        let took = self.world.now().saturating_since(before);
        let most = EDIT_SEEN_AFTER;
        assert!(took <= most, "noticed after {took:?}");
        assert!(!self.permit.is_held());
        assert_eq!(self.permit.remaining(), secs(0));
        lost
    }

    /// An operator deletes the record, which ends the hold.
    #[track_caller]
    fn loses_the_record(self) {
        let record = format!("/v1/kv/{PREFIX}/.lock");
        operate(&self.world, Method::Delete, &record, "");
        assert!(matches!(self.loses(), Lost::RemovedFromHolders { .. }));
        self.ends();
    }

    /// Asserts that nothing is renewed or left, and that the release reports the loss.
    #[track_caller]
    fn ends(self) {
        let renewals = |world: &MockConsul| world.stats().requests_of(RequestKind::SessionRenew);
        let before = renewals(&self.world);
        self.world.advance(secs(60));
        assert_eq!(renewals(&self.world), before);
        assert_nothing_left(&self.world);
        assert!(!self.permit.is_held());
        let released = self.world.run(self.permit.release());
        assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
        self.world.advance(secs(60));
        assert_nothing_left(&self.world);
        // The handle still works.
        let permit = self.world.run(self.semaphore.acquire()).expect("a slot");
        self.world.run(permit.release()).expect("released");
        assert_nothing_left(&self.world);
    }
}

#[test]
fn a_session_that_is_destroyed_is_noticed() {
    let holder = Holder::new();
    let id = holder.session.as_str();
    holder
        .world
        .consul(|consul, now| consul.destroy_session(now, id));
    match holder.loses() {
        Lost::SessionGone { session, .. } => assert_eq!(session, holder.session),
        other => panic!("{other:?}"),
    }
    holder.ends();
}

#[test]
fn a_contender_key_that_is_gone_is_told_as_that() {
    for how in ["DELETE", "release"] {
        let holder = Holder::new();
        let key = format!("/v1/kv/{PREFIX}/{}", holder.session);
        let (method, target) = match how {
            "DELETE" => (Method::Delete, key),
            _ => (Method::Put, format!("{key}?release={}", holder.session)),
        };
        operate(&holder.world, method, &target, "");
        let lost = holder.loses();
        let told = lost.to_string();
        let is_told = match lost {
            Lost::SessionGone { key_alone, .. } => key_alone && told.contains("somebody deleted"),
            Lost::ContenderKeyTaken { .. } => how == "release",
            _ => false,
        };
        assert!(is_told, "{how}: {told}");
    }
}

#[test]
fn a_node_that_is_deregistered_is_noticed() {
    let holder = Holder::new();
    holder
        .world
        .consul(|consul, now| consul.deregister_node(now, transport_mock::consul::NODE));
    assert!(matches!(holder.loses(), Lost::SessionGone { .. }));
}

#[test]
fn a_holder_that_an_operator_took_out_of_the_record_is_told() {
    let holder = Holder::new();
    operate(
        &holder.world,
        Method::Put,
        &format!("/v1/kv/{PREFIX}/.lock?flags=16210313421097356768"),
        r#"{"Limit":1,"Holders":{}}"#,
    );
    match holder.loses() {
        Lost::RemovedFromHolders { session, .. } => assert_eq!(session, holder.session),
        other => panic!("{other:?}"),
    }
    holder.ends();
}

#[test]
fn a_record_that_an_operator_deleted_is_noticed() {
    let holder = Holder::new();
    holder.loses_the_record();
}

/// A holder whose write of the record, which creates it, is answered with this fault. A semaphore
/// of a client creates it and is admitted by one write. The deleted record looks as before that.
fn holder_by_first_write(fault: Fault) -> Holder {
    let world = MockConsul::new(1);
    let creation = Rule::new(Fault::DelayAnswer(millis(5))).kind(RequestKind::SessionCreate);
    world.inject(creation);
    world.inject(Rule::new(fault).matching(writes_record));
    let client = client(&world, "a");
    let semaphore = client.semaphore(PREFIX, 1).expect("a prefix");
    let holder = Holder::of(world, semaphore);
    assert_eq!(holder.world.pending_rules(), 0);
    holder
}

#[test]
fn a_record_that_an_operator_deleted_is_noticed_although_the_answer_to_its_creation_was_lost() {
    holder_by_first_write(Fault::ResetAfter).loses_the_record();
}

#[test]
fn a_record_that_an_operator_deleted_is_noticed_although_its_creation_is_not_yet_answered() {
    holder_by_first_write(Fault::DelayAnswer(millis(2500))).loses_the_record();
}

#[test]
fn a_record_that_somebody_replaced_is_noticed_and_left_alone() {
    let holder = Holder::new();
    operate(
        &holder.world,
        Method::Put,
        &format!("/v1/kv/{PREFIX}/.lock"),
        "a mutex now",
    );
    assert!(matches!(holder.loses(), Lost::RemovedFromHolders { .. }));
    holder.world.advance(secs(60));
    assert_nothing_left(&holder.world);
    holder.world.consul(|consul, _| {
        let entry = consul
            .entry(&format!("{PREFIX}/.lock"))
            .expect("still there");
        assert_eq!(entry.value(), b"a mutex now");
    });
}

#[test]
fn an_edit_of_the_record_that_leaves_the_holder_in_costs_nothing() {
    let holder = Holder::new();
    operate(
        &holder.world,
        Method::Put,
        &format!("/v1/kv/{PREFIX}/.lock?flags=16210313421097356768"),
        &format!(
            r#"{{"Limit":7,"Holders":{{"{}":true}},"Note":"mine"}}"#,
            holder.session
        ),
    );
    holder.world.advance(secs(60));
    assert!(holder.permit.is_held());
    holder.world.run(holder.permit.release()).expect("released");
    assert_nothing_left(&holder.world);
    assert_eq!(record(&holder.world).expect("a record").limit(), 7);
}

#[test]
fn everything_deleted_below_the_prefix_is_noticed() {
    let holder = Holder::new();
    operate(
        &holder.world,
        Method::Delete,
        &format!("/v1/kv/{PREFIX}/?recurse"),
        "",
    );
    holder.loses();
    holder.ends();
}

#[test]
fn a_contender_key_that_is_deleted_counts_as_the_sessions_end() {
    let holder = Holder::new();
    operate(
        &holder.world,
        Method::Delete,
        &format!("/v1/kv/{PREFIX}/{}", holder.session),
        "",
    );
    assert!(matches!(holder.loses(), Lost::SessionGone { .. }));
    // The session was still alive. It was destroyed, not left to its TTL.
    holder.world.advance(secs(1));
    assert_nothing_left(&holder.world);
    holder.ends();
}

#[test]
fn a_contender_key_that_is_released_is_noticed() {
    let holder = Holder::new();
    let key = format!("{PREFIX}/{}", holder.session);
    operate(
        &holder.world,
        Method::Put,
        &format!("/v1/kv/{key}?release={}", holder.session),
        "",
    );
    match holder.loses() {
        Lost::ContenderKeyTaken { session, .. } => assert_eq!(session, holder.session),
        other => panic!("{other:?}"),
    }
    holder.ends();
}

#[test]
fn a_contender_key_that_another_session_has_is_noticed() {
    let holder = Holder::new();
    let world = &holder.world;
    let thief = Stranger::session(world);
    let key = format!("{PREFIX}/{}", holder.session);
    // The watch sees neither of the writes, only their result.
    world.partition("a");
    let release = format!("/v1/kv/{key}?release={}", holder.session);
    operate(world, Method::Put, &release, "");
    thief.acquires(world, &key);
    world.heal("a");
    match world.run(holder.permit.lost()) {
        Lost::ContenderKeyTaken { session, .. } => assert_eq!(session, holder.session),
        other => panic!("{other:?}\n{}", world.trace()),
    }
    assert!(world.now().since_origin() < secs(22), "{}", world.now());
    world.advance(secs(1));
    assert_eq!(
        contender_keys(world),
        [key.as_str()],
        "it is the thief's now"
    );
    thief.leaves(world);
    operate(world, Method::Delete, &format!("/v1/kv/{key}"), "");
    holder.ends();
}

#[test]
fn a_contender_key_whose_value_was_overwritten_is_still_held() {
    let holder = Holder::new();
    operate(
        &holder.world,
        Method::Put,
        &format!("/v1/kv/{PREFIX}/{}", holder.session),
        "another value",
    );
    holder.world.advance(secs(60));
    assert!(holder.permit.is_held(), "a plain PUT keeps the session");
    holder.world.run(holder.permit.release()).expect("released");
    assert_nothing_left(&holder.world);
}

#[test]
fn in_a_partition_belief_ends_strictly_before_another_is_admitted() {
    for seed in 0..20 {
        let world = MockConsul::new(seed);
        world.set_latency(millis(1)..=millis(50));
        let hosts = ["a", "b"].map(|host| semaphore(&world, host, 1));
        let permit = world.run(hosts[0].acquire()).expect("a free slot");
        let waiter = hosts[1].clone();
        let waiting = world.start(async move { waiter.acquire().await });
        // Each seed meets another moment between two renewals.
        world.advance(millis(777 * seed));
        world.partition("a");
        let permit = Arc::new(permit);
        let watched = Arc::clone(&permit);
        let clock = world.client("a");
        let lost = world.start(async move {
            let lost = watched.lost().await;
            (lost, clock.now())
        });
        let granted = world.run(waiting).expect("a slot");
        let granted_at = world.now();
        assert!(!permit.is_held(), "seed {seed}");
        let (lost, lost_at) = world.run(lost);
        assert!(matches!(lost, Lost::LeaseExpired { .. }), "{lost:?}");
        assert!(lost_at < granted_at, "{lost_at} {granted_at}");
        world.run(granted.release()).expect("released");
        drop(permit);
        world.advance(secs(60));
        assert_nothing_left(&world);
    }
}

#[test]
fn belief_ends_by_the_clock_alone() {
    // The runtime's clock jumps and nobody polls the driver, as when the process is suspended.
    let world = MockConsul::new(1);
    let clock = Arc::new(Skewed {
        client: world.client("a"),
        ahead: Mutex::default(),
    });
    let semaphore = builder(1)
        .connect_parts(Arc::new(world.client("a")), clock.clone())
        .expect("valid settings");
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let remaining = permit.remaining();
    let set = |ahead| *clock.ahead.lock().expect("a clock") = ahead;
    set(remaining.saturating_sub(std::time::Duration::from_nanos(1)));
    assert!(permit.is_held());
    set(remaining);
    assert!(!permit.is_held());
    assert_eq!(permit.remaining(), secs(0));
    // When the driver runs again, it finds the same.
    assert!(matches!(
        world.run(permit.lost()),
        Lost::LeaseExpired { .. }
    ));
    drop(permit);
    world.advance(secs(1));
    assert_nothing_left(&world);
}

/// A runtime whose clock can be set forward.
struct Skewed {
    client: MockClient,
    ahead: Mutex<std::time::Duration>,
}

#[async_trait::async_trait]
impl Runtime for Skewed {
    fn now(&self) -> Instant {
        self.client.now() + *self.ahead.lock().expect("a clock")
    }

    async fn sleep(&self, duration: std::time::Duration) {
        self.client.sleep(duration).await;
    }

    fn spawn(
        &self,
        future: semaphore_core::adapter::BoxFuture<'static, ()>,
    ) -> std::io::Result<()> {
        self.client.spawn(future)
    }

    fn seed(&self) -> u64 {
        self.client.seed()
    }
}

#[test]
fn a_lease_that_ran_out_tells_the_last_failure() {
    let holder = Holder::new();
    holder.world.lose_leader();
    match holder.world.run(holder.permit.lost()) {
        Lost::LeaseExpired {
            session,
            last_failure: Some(RequestError::Unavailable { status: 500, .. }),
            ..
        } => assert_eq!(session, holder.session),
        other => panic!("{other:?}"),
    }
    holder.world.elect_leader();
    holder.ends();
}

#[test]
fn an_outage_shorter_than_the_lease_costs_nothing() {
    let holder = Holder::new();
    for _ in 0..10 {
        holder.world.partition("a");
        holder.world.advance(secs(6));
        holder.world.heal("a");
        holder.world.advance(secs(10));
        assert!(holder.permit.is_held());
        holder.world.lose_leader();
        holder.world.advance(secs(7));
        holder.world.elect_leader();
        holder.world.advance(secs(10));
        assert!(holder.permit.is_held());
    }
    holder.world.run(holder.permit.release()).expect("released");
    assert_nothing_left(&holder.world);
}

#[test]
fn a_loss_is_told_to_all_who_wait_for_it_and_as_often_as_they_ask() {
    let holder = Holder::new();
    let Holder {
        world,
        permit,
        session,
        semaphore,
    } = holder;
    let permit = Arc::new(permit);
    let tasks: Vec<Task<Lost>> = (0..3)
        .map(|_| {
            let permit = Arc::clone(&permit);
            world.start(async move {
                let first = permit.lost().await;
                let second = permit.lost().await;
                assert_eq!(first.to_string(), second.to_string());
                second
            })
        })
        .collect();
    world.advance(secs(1));
    world.consul(|consul, now| consul.destroy_session(now, session.as_str()));
    for task in tasks {
        assert!(matches!(world.run(task), Lost::SessionGone { .. }));
    }
    assert!(matches!(world.run(permit.lost()), Lost::SessionGone { .. }));
    drop((permit, semaphore));
    world.advance(secs(1));
    assert_nothing_left(&world);
}

#[test]
fn waiting_for_a_loss_can_be_given_up_and_begun_again() {
    let holder = Holder::new();
    let world = &holder.world;
    for _ in 0..3 {
        let mut lost = Box::pin(holder.permit.lost());
        let polled = world.run(std::future::poll_fn(|cx| {
            std::task::Poll::Ready(lost.as_mut().poll(cx).is_pending())
        }));
        assert!(polled);
    }
    world.consul(|consul, now| consul.destroy_session(now, holder.session.as_str()));
    assert!(matches!(holder.loses(), Lost::SessionGone { .. }));
    holder.ends();
}

#[test]
fn permits_that_were_acquired_together_are_lost_together() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 3);
    let permit = world.run(semaphore.acquire_many(3)).expect("free slots");
    let one = holders(&world).remove(1);
    world.consul(|consul, now| consul.destroy_session(now, &one));
    match world.run(permit.lost()) {
        Lost::SessionGone { session, .. } => assert_eq!(session.as_str(), one),
        other => panic!("{other:?}"),
    }
    assert!(!permit.is_held());
    world.advance(secs(1));
    assert_nothing_left(&world);
    let released = world.run(permit.release());
    assert!(matches!(released, Err(Error::Lost(_))), "{released:?}");
}

#[test]
fn other_permits_of_the_same_client_are_not_lost_with_it() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 2);
    let first = world.run(semaphore.acquire()).expect("a free slot");
    let [session] = holders(&world).try_into().expect("one");
    let second = world.run(semaphore.acquire()).expect("a free slot");
    world.consul(|consul, now| consul.destroy_session(now, &session));
    world.run(first.lost());
    world.advance(secs(60));
    assert!(second.is_held());
    assert_eq!(holders(&world).len(), 1);
    drop(first);
    world.run(second.release()).expect("released");
    assert_nothing_left(&world);
}

#[test]
fn the_slot_of_a_lost_permit_goes_to_the_next_in_line() {
    let holder = Holder::new();
    let Holder { world, .. } = &holder;
    let next = semaphore(world, "b", 1);
    let waiting = world.start(async move { next.acquire().await });
    world.advance(secs(1));
    world.consul(|consul, now| consul.destroy_session(now, holder.session.as_str()));
    let before = world.now();
    let permit = world.run(waiting).expect("a slot");
    assert!(world.now().saturating_since(before) < millis(50));
    assert!(!holder.permit.is_held());
    world.run(permit.release()).expect("released");
    holder.ends();
}

#[test]
fn a_restored_snapshot_without_the_hold_is_noticed() {
    let world = MockConsul::new(1);
    let semaphore = semaphore(&world, "a", 1);
    let before = world.run(semaphore.acquire()).expect("a free slot");
    world.run(before.release()).expect("released");
    let snapshot = world.consul(|consul, _| consul.snapshot());
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.consul(|consul, now| consul.restore(now, &snapshot));
    let lost = world.run(permit.lost());
    assert!(
        matches!(
            lost,
            Lost::SessionGone { .. } | Lost::RemovedFromHolders { .. }
        ),
        "{lost:?}"
    );
    assert!(world.now().since_origin() < secs(6), "{}", world.now());
    drop(permit);
    world.advance(secs(60));
    assert_nothing_left(&world);
}
