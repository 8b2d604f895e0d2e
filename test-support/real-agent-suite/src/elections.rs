//! Campaigning, leading and resigning.

use std::time::{Duration, Instant};

use semaphore_core::sans_io::api::LOCK_FLAGS;
use semaphore_core::{
    Builder, Conflict, Discovery, Election, Error, LeaderEvent, Leadership, Lost, Semaphore,
    SequencerStatus, blocking,
};

use crate::Backend;
use crate::scene::{PATIENCE, Scene, Task, value, wait_until};

pub(crate) fn key<B: Backend>(scene: &Scene<'_, B>) -> String {
    format!("{}/leader", scene.prefix())
}

/// It has no lock delay: when an operator ends a session, the key is free at once.
pub(crate) fn builder(key: &str) -> Builder<Election> {
    let builder = Election::builder(key);
    builder.lock_delay(Duration::ZERO)
}

/// A separate candidate with this name as its value.
pub(crate) fn candidate<B: Backend>(scene: &Scene<'_, B>, key: &str, name: &str) -> Election {
    let builder = builder(key).value(name);
    builder.connect(scene.adapter()).unwrap()
}

pub(crate) fn lead<B: Backend>(scene: &Scene<'_, B>, election: &Election) -> Leadership {
    scene.run(election.campaign()).unwrap()
}

pub(crate) fn start_campaign<B: Backend>(
    scene: &Scene<'_, B>,
    election: &Election,
) -> Task<Result<Leadership, Error>> {
    let election = election.clone();
    scene.start(async move { election.campaign().await })
}

fn session(leadership: &Leadership) -> String {
    leadership.sequencer().session.to_string()
}

/// How many sessions this election has.
pub(crate) fn sessions<B: Backend>(scene: &Scene<'_, B>) -> usize {
    let left = scene.admin().leftovers(scene.prefix()).unwrap();
    left.sessions.len()
}

pub(crate) fn discovery<B: Backend>(scene: &Scene<'_, B>, key: &str) -> Discovery {
    Discovery::builder(key).connect(scene.adapter()).unwrap()
}

/// Asserts that only the key and its value are left, and that no session holds the key.
#[track_caller]
pub(crate) fn clean_up<B: Backend>(scene: &Scene<'_, B>, key: &str) {
    let entry = scene.entry(key).unwrap();
    assert!(entry["Session"].is_null(), "{entry}");
    scene.admin().delete(&format!("/v1/kv/{key}")).unwrap();
    scene.assert_nothing_left_soon();
}

pub fn a_leader_resigns_and_whoever_waits_leads_at_once(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let key = key(&scene);
    let (one, other) = (
        candidate(&scene, &key, "one"),
        candidate(&scene, &key, "other"),
    );
    let first = lead(&scene, &one);
    assert!(first.is_leader());
    assert_eq!(first.term(), 1);
    let remaining = first.remaining();
    assert!(remaining > Duration::ZERO && remaining <= Duration::from_secs(15));
    let entry = scene.entry(&key).unwrap();
    assert_eq!(entry["Session"], session(&first));
    assert_eq!(entry["Flags"], LOCK_FLAGS);
    assert_eq!(value(&entry), b"one");
    let info = scene.session_info(&session(&first));
    assert_eq!(
        (&info["TTL"], &info["Behavior"]),
        (&"15s".into(), &"release".into())
    );

    assert!(scene.run(other.try_campaign()).unwrap().is_err());
    let late = scene.run(other.campaign_timeout(Duration::from_millis(300)));
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    let waiting = start_campaign(&scene, &other);
    wait_until("both campaign", || sessions(&scene) == 2);
    assert_eq!(scene.entry(&key).unwrap()["Session"], session(&first));
    let (sequencer, token) = (first.sequencer().clone(), first.fencing_token());
    let discovery = discovery(&scene, &key);
    let verify = |sequencer| scene.run(discovery.verify(sequencer)).unwrap();
    assert_eq!(verify(&sequencer), SequencerStatus::Current);

    scene.run(first.resign()).unwrap();
    let second = scene.finish(waiting).unwrap();
    assert_eq!(second.term(), 2);
    assert!(second.fencing_token() > token);
    assert_eq!(verify(&sequencer), SequencerStatus::Stale);
    assert_eq!(verify(second.sequencer()), SequencerStatus::Current);
    assert_eq!(value(&scene.entry(&key).unwrap()), b"other");
    scene.run(other.step_down()).unwrap();
    let lost = scene.run(second.lost());
    assert!(matches!(lost, Lost::SteppedDown), "{lost:?}");
    scene.run(second.resign()).unwrap();
    drop((one, other));
    clean_up(&scene, &key);
}

pub fn a_dropped_leadership_or_campaign_leaves_nothing(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let key = key(&scene);
    let (one, other) = (
        candidate(&scene, &key, "one"),
        candidate(&scene, &key, "other"),
    );
    let first = lead(&scene, &one);
    {
        let waiting = scene.run(other.campaign_timeout(Duration::from_millis(200)));
        assert!(waiting.is_err(), "{waiting:?}");
    }
    drop(first);
    let second = lead(&scene, &other);
    assert_eq!(second.term(), 2);
    drop((one, other));
    assert!(second.is_leader());
    drop(second);
    wait_until("nobody leads", || {
        scene.entry(&key).unwrap()["Session"].is_null()
    });
    clean_up(&scene, &key);
}

pub fn a_leaders_values_are_seen_by_those_who_follow(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let key = key(&scene);
    let mut follower = discovery(&scene, &key).follow();
    let mut next = || scene.run(follower.next()).unwrap().unwrap();
    let event = next();
    assert!(matches!(event, LeaderEvent::Leaderless { .. }), "{event:?}");
    let leadership = lead(&scene, &candidate(&scene, &key, "10.0.0.1"));
    let event = next();
    let LeaderEvent::Elected(leader) = &event else {
        panic!("{event:?}");
    };
    assert_eq!(leader.text(), Some("10.0.0.1"));
    assert_eq!(&leader.sequencer(), leadership.sequencer());
    for value in [&b"10.0.0.2"[..], b"", b"\xff\0"] {
        scene.run(leadership.set_value(value)).unwrap();
        let event = next();
        let LeaderEvent::ValueChanged(leader) = &event else {
            panic!("{event:?}");
        };
        assert_eq!(leader.value, value);
        assert_eq!(&leader.sequencer(), leadership.sequencer());
    }
    scene.run(leadership.resign()).unwrap();
    let event = next();
    assert!(matches!(event, LeaderEvent::Leaderless { .. }), "{event:?}");
    clean_up(&scene, &key);
}

/// Harms the leader while another candidate waits. The leader learns of its loss, the other one
/// leads, and nothing stays behind.
fn loses<B: Backend>(
    backend: &B,
    harm: impl FnOnce(&Scene<'_, B>, &str, &Leadership),
    is_expected: impl FnOnce(&Lost) -> bool,
) {
    let scene = Scene::shared(backend);
    let key = key(&scene);
    let (one, other) = (
        candidate(&scene, &key, "one"),
        candidate(&scene, &key, "other"),
    );
    let first = lead(&scene, &one);
    let waiting = start_campaign(&scene, &other);
    wait_until("both campaign", || sessions(&scene) == 2);
    harm(&scene, &key, &first);
    let lost = scene.run(first.lost());
    assert!(is_expected(&lost), "{lost:?}");
    assert!(!first.is_leader());
    let second = scene.finish(waiting).unwrap();
    assert!(second.fencing_token() > first.fencing_token());
    let set = scene.run(first.set_value("late"));
    assert!(matches!(set, Err(Error::Lost(_))), "{set:?}");
    drop(first);
    scene.run(one.shutdown());
    assert!(
        second.is_leader(),
        "a late resignation has no effect on others"
    );
    assert_eq!(value(&scene.entry(&key).unwrap()), b"other");
    assert_eq!(sessions(&scene), 1);
    scene.run(second.resign()).unwrap();
    drop(other);
    clean_up(&scene, &key);
}

pub fn a_leader_whose_session_is_destroyed_notices(backend: &impl Backend) {
    loses(
        backend,
        |scene, _, first| scene.admin().destroy_session(&session(first)).unwrap(),
        |lost| matches!(lost, Lost::KeyReleased { .. } | Lost::KeyTaken { .. }),
    );
}

pub fn a_leader_whose_key_is_deleted_notices(backend: &impl Backend) {
    loses(
        backend,
        |scene, key, _| {
            let deleted = scene.admin().delete(&format!("/v1/kv/{key}"));
            assert!(deleted.unwrap().is_true());
        },
        |lost| matches!(lost, Lost::KeyDeleted { .. } | Lost::KeyTaken { .. }),
    );
}

pub fn nobody_leads_during_the_lock_delay_of_a_session_that_was_destroyed(backend: &impl Backend) {
    const DELAY: Duration = Duration::from_secs(2);
    let scene = Scene::shared(backend);
    let key = key(&scene);
    let candidate = || {
        let builder = builder(&key).lock_delay(DELAY);
        builder.connect(scene.adapter()).unwrap()
    };
    let first = lead(&scene, &candidate());
    let waiting = start_campaign(&scene, &candidate());
    wait_until("both campaign", || sessions(&scene) == 2);
    // Consul counts from a later moment than this.
    let before = Instant::now();
    scene.admin().destroy_session(&session(&first)).unwrap();
    let second = scene.finish(waiting).unwrap();
    assert!(before.elapsed() >= DELAY);
    assert!(!first.is_leader());
    scene.run(second.resign()).unwrap();
    drop(first);
    clean_up(&scene, &key);
}

pub fn an_election_and_a_semaphore_refuse_each_others_keys(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let semaphore = scene.semaphore(1);
    let permit = scene.acquire(&semaphore);
    let contender = permit.sequencers()[0].key.clone();
    for key in [scene.record_key(), contender] {
        let before = scene.entry(&key).unwrap();
        let refused = scene.run(candidate(&scene, &key, "one").campaign());
        let Err(Error::NotAnElection { conflict, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(conflict, Conflict::Semaphore);
        assert_eq!(scene.entry(&key).unwrap(), before);
    }
    assert!(permit.is_held());
    scene.release(permit);
    scene.assert_nothing_left_soon();

    let prefix = format!("{}/elected", scene.prefix());
    let key = format!("{prefix}/.lock");
    let leadership = lead(&scene, &candidate(&scene, &key, "one"));
    let before = scene.entry(&key).unwrap();
    let semaphore = Semaphore::builder(&prefix, 1).connect(scene.adapter());
    let refused = scene.run(semaphore.unwrap().acquire());
    assert!(
        matches!(
            &refused,
            Err(Error::Conflict {
                conflict: Conflict::Flags { .. },
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(scene.entry(&key).unwrap(), before);
    assert!(leadership.is_leader());
    scene.run(leadership.resign()).unwrap();
    clean_up(&scene, &key);
}

pub fn a_thread_campaigns_leads_and_resigns(backend: &impl Backend) {
    let scene = Scene::shared(backend);
    let key = key(&scene);
    let candidate = |name: &str| -> blocking::Election {
        let builder = builder(&key).value(name);
        builder.connect_blocking(scene.adapter()).unwrap()
    };
    let (one, other) = (candidate("one"), candidate("other"));
    let first = one.campaign().unwrap();
    assert!(other.try_campaign().unwrap().is_err());
    let late = other.campaign_timeout(Duration::from_millis(200));
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    first.set_value("moved").unwrap();
    assert_eq!(value(&scene.entry(&key).unwrap()), b"moved");
    assert!(first.lost_timeout(Duration::from_millis(20)).is_none());
    let waiting = std::thread::spawn(move || other.campaign_timeout(PATIENCE));
    first.resign().unwrap();
    let second = waiting.join().unwrap().unwrap();
    assert_eq!(second.term(), 2);
    let destroyed = second.sequencer().session.to_string();
    scene.admin().destroy_session(&destroyed).unwrap();
    assert!(matches!(second.lost(), Lost::KeyReleased { .. }));
    let resigned = second.resign();
    assert!(matches!(resigned, Err(Error::Lost(_))), "{resigned:?}");
    drop(one);
    clean_up(&scene, &key);
}
