//! Replaying a recording gives the same story.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use semaphore_core::recording::{Recorder, ReplayError, Story, replay};
use semaphore_core::{Builder, Client, Election};
use transport_mock::{Fault, MockConsul, RequestKind, Rule};

use crate::ENCODING;
use crate::support::onlooker::Onlooker;
use crate::support::spy::Spy;
use crate::support::*;

/// Clones write to the same file.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl File {
    fn text(&self) -> String {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(file.clone()).expect("JSON")
    }
}

/// An incident. A slot is held and waited for. Answers are lost, and Consul loses its leader, is
/// away for too long, and comes back.
fn incident(seed: u64, onlooker: &Onlooker) -> (String, Vec<String>) {
    let world = MockConsul::new(seed);
    let spy = Spy::on_host(&world, "a");
    let file = File::default();
    let semaphore = builder(2)
        .token("a-secret-token")
        .observer(onlooker.clone())
        .recorder(Recorder::new(file.clone()))
        .connect(world.client("a"))
        .expect("connected");
    let other = builder(2)
        .connect(world.client("other"))
        .expect("connected");
    let others = world.run(other.acquire()).expect("a free slot");
    world.inject(
        Rule::new(Fault::LoseAnswer)
            .host("a")
            .kind(RequestKind::SessionCreate)
            .times(1),
    );
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    let waiting = {
        let semaphore = semaphore.clone();
        world.start(async move { semaphore.acquire_timeout(secs(200)).await })
    };
    world.advance(secs(10));
    assert!(world.run(semaphore.try_acquire()).expect("asked").is_err());
    world.inject(Rule::new(Fault::no_leader()).host("a").times(9));
    world.advance(secs(20));
    world.partition("a");
    world.advance(secs(60));
    world.heal("a");
    world.run(others.release()).expect("released");
    let next = world.run(waiting).expect("its turn");
    assert!(!permit.is_held());
    drop((permit, next));
    world.advance(secs(60));
    world.run(semaphore.shutdown());
    let sent = spy.requests().into_iter();
    let sent = sent.map(|it| format!("{} {} ({} B)", it.method(), it.target(), it.body().len()));
    (file.text(), sent.collect())
}

/// The requests in a story.
fn sent(story: &Story) -> Vec<String> {
    let lines = story.lines().filter_map(|line| line.split_once(" > "));
    let without_id = lines.filter_map(|(_, rest)| rest.split_once(' '));
    without_id.map(|(_, request)| request.to_owned()).collect()
}

#[test]
fn an_incident_is_replayed_with_the_same_requests_and_outcomes() {
    for seed in 1..=10 {
        let onlooker = Onlooker::default();
        let (recording, requests) = incident(seed, &onlooker);
        let story = replay(&recording).expect("a recording");
        assert!(requests.len() > 50, "{}", requests.len());
        assert_eq!(sent(&story), requests, "seed {seed}");
        let told = |what: &str| story.lines().filter(|line| line.contains(what)).count();
        let words = onlooker.words();
        let seen = |what: &str| words.iter().filter(|word| word.starts_with(what)).count();
        for (notice, word) in [
            ("notice Granted", "granted"),
            ("notice Lost", "lost"),
            ("notice Released", "released"),
            ("notice Retrying", "retrying"),
            ("notice Recovered", "recovered"),
            ("notice Queued", "queued"),
        ] {
            assert_eq!(told(notice), seen(word), "{notice}, seed {seed}: {words:?}");
        }
        assert!(told("notice Lost") >= 1);
        // A failure names its request, as in the log.
        let mut failures = story.lines().filter(|line| line.contains("got no answer"));
        assert!(failures.next().is_some() && failures.all(|line| line.contains(" /v1/")));
        let again = replay(&recording).expect("a recording");
        assert_eq!(again.to_string(), story.to_string(), "byte for byte");
    }
}

#[test]
fn a_recording_has_no_token() {
    let (recording, _) = incident(1, &Onlooker::default());
    assert!(!recording.contains("a-secret-token"));
}

#[test]
fn an_election_is_replayed_too() {
    let world = MockConsul::new(1);
    let spy = Spy::on_host(&world, "a");
    let file = File::default();
    let election = Election::builder("service/leader")
        .encoding(ENCODING)
        .recorder(Recorder::new(file.clone()))
        .connect(world.client("a"))
        .expect("connected");
    let leadership = world.run(election.campaign()).expect("elected");
    world.run(leadership.set_value("another")).expect("shown");
    world.advance(secs(10));
    world.partition("a");
    world.advance(secs(40));
    world.heal("a");
    world.advance(secs(40));
    world.run(election.shutdown());
    drop(leadership);
    let story = replay(&file.text()).expect("a recording");
    let requests = spy.requests().into_iter();
    let requests =
        requests.map(|it| format!("{} {} ({} B)", it.method(), it.target(), it.body().len()));
    assert_eq!(sent(&story), requests.collect::<Vec<_>>());
    let lost = story
        .lines()
        .filter(|line| line.contains("event") && line.contains("is lost"));
    assert_eq!(lost.count(), 1, "{story}");
}

#[test]
fn one_of_a_client_is_recorded_whole() {
    let world = MockConsul::new(1);
    let client = Client::builder().encoding(ENCODING);
    let client = client.connect(world.client("a")).expect("connected");
    let file = File::default();
    let semaphore = builder(1).recorder(Recorder::new(file.clone()));
    let semaphore = semaphore.connect(client.clone()).expect("connected");
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(secs(30));
    world.run(permit.release()).expect("released");
    let story = replay(&file.text()).expect("a recording");
    let renewals = sent(&story).into_iter();
    let renewals = renewals.filter(|it| it.contains("/v1/session/renew/"));
    assert!(renewals.count() >= 20, "{story}");
}

#[test]
fn a_recording_is_bounded_and_says_where_it_ends() {
    let world = MockConsul::new(1);
    let file = File::default();
    let most = 20_000;
    let semaphore = builder(1)
        .recorder(Recorder::new(file.clone()).with_most(most))
        .connect(world.client("a"))
        .expect("connected");
    let permit = world.run(semaphore.acquire()).expect("a free slot");
    world.advance(secs(600));
    assert!(permit.is_held(), "it goes on without a recorder");
    let text = file.text();
    assert!(text.len() as u64 <= most, "{}", text.len());
    assert!(text.len() as u64 > most / 2, "{}", text.len());
    let story = replay(&text).expect("a recording");
    assert!(story.is_full());
}

#[test]
fn a_builder_that_connects_twice_records_the_first() {
    let world = MockConsul::new(1);
    let file = File::default();
    let builder: Builder = builder(2).recorder(Recorder::new(file.clone()));
    let first = builder
        .clone()
        .connect(world.client("a"))
        .expect("connected");
    let second = builder.connect(world.client("b")).expect("connected");
    let permits = world.run(async { (first.acquire().await, second.acquire().await) });
    world.advance(secs(20));
    drop(permits);
    world.advance(secs(1));
    replay(&file.text()).expect("one recording");
}

#[test]
fn a_file_that_is_cut_off_or_garbage_is_an_error_that_names_the_line() {
    let (recording, _) = incident(1, &Onlooker::default());
    assert!(matches!(replay(""), Err(ReplayError::Empty)));
    let lines = recording.lines().count();
    let cut = &recording[..recording.len() - 2];
    assert!(matches!(replay(cut), Err(ReplayError::Garbled { line, .. }) if line == lines));
    for (number, garbage) in [(1, "{}"), (2, "null"), (3, "\u{0}"), (9, "{\"at\":1}")] {
        let mut all: Vec<_> = recording.lines().collect();
        all[number - 1] = garbage;
        let text = all.join("\n") + "\n";
        let error = replay(&text).expect_err("garbage");
        assert!(
            matches!(error, ReplayError::Garbled { line, .. } if line == number),
            "{garbage}: {error}"
        );
    }
    let newer = recording.replacen("\"recording\":1", "\"recording\":2", 1);
    assert!(matches!(replay(&newer), Err(ReplayError::UnknownForm)));
    let limitless = recording.replacen("\"limit\":2", "\"limit\":0", 1);
    assert!(matches!(
        replay(&limitless),
        Err(ReplayError::InvalidSettings(_))
    ));
}

#[test]
fn a_machine_that_acts_otherwise_than_then_is_an_error() {
    let (recording, _) = incident(1, &Onlooker::default());
    let other = recording.replacen("\"ttl_ms\":15000", "\"ttl_ms\":20000", 1);
    let diverged = replay(&other);
    assert!(
        matches!(diverged, Err(ReplayError::Diverged { .. })),
        "{diverged:?}"
    );
}
