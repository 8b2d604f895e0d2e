//! The loop of a service with one leader: one term after the other, until it is told to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use semaphore_core::sans_io::Method;
use semaphore_core::{Election, Error, Leadership, blocking};
use transport_mock::{MockConsul, Task};

use crate::support::election::*;
use crate::support::stranger::operate;
use crate::support::*;

/// The leaders in order, how many lead now, and the most that ever did.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<(Vec<String>, usize, usize)>>);

impl Book {
    fn terms(&self) -> Vec<String> {
        self.0.lock().expect("a book").0.clone()
    }

    fn now_leading(&self) -> usize {
        self.0.lock().expect("a book").1
    }

    fn most_at_once(&self) -> usize {
        self.0.lock().expect("a book").2
    }

    fn begins(&self, host: &str) -> Entry {
        let mut book = self.0.lock().expect("a book");
        book.0.push(host.to_owned());
        book.1 += 1;
        book.2 = book.2.max(book.1);
        Entry(self.clone())
    }
}

/// Removes its leader when the work is dropped.
struct Entry(Book);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.0.lock().expect("a book").1 -= 1;
    }
}

/// A service on this host whose work takes this long.
fn serve(
    world: &MockConsul,
    host: &'static str,
    work: u64,
    book: &Book,
) -> (Election, Task<Result<(), Error>>) {
    let election = election(world, host);
    let (running, clock, book) = (election.clone(), world.clone(), book.clone());
    let task = world.start(async move {
        let work = |leadership: Arc<Leadership>| {
            let (clock, entry) = (clock.clone(), book.begins(host));
            async move {
                let _entry = entry;
                assert!(leadership.is_leader());
                clock.sleep(secs(work)).await;
            }
        };
        running.run(work).await
    });
    (election, task)
}

const FOR_EVER: u64 = 1_000_000;

#[test]
fn candidates_whose_work_ends_lead_in_turn() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let services = ["a", "b"].map(|host| serve(&world, host, 2, &book));
    world.advance(secs(60));
    let terms = book.terms();
    assert!(terms.len() >= 20, "{terms:?}");
    assert!(terms.windows(2).all(|pair| pair[0] != pair[1]), "{terms:?}");
    assert_eq!(book.most_at_once(), 1);
    for (election, task) in services {
        world.run(election.shutdown());
        world.run(task).expect("told to stop");
    }
    assert_eq!(book.now_leading(), 0);
    assert_only_key_left(&world);
}

#[test]
fn a_shutdown_ends_the_work_and_hands_over_in_a_moment() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let (a, of_a) = serve(&world, "a", FOR_EVER, &book);
    world.advance(secs(1));
    let (b, of_b) = serve(&world, "b", FOR_EVER, &book);
    world.advance(secs(30));
    assert_eq!(book.terms(), ["a"]);
    world.run(a.shutdown());
    world.run(of_a).expect("told to stop");
    world.advance(millis(100));
    assert_eq!(book.terms(), ["a", "b"]);
    assert_eq!(book.most_at_once(), 1);
    world.run(b.shutdown());
    world.run(of_b).expect("told to stop");
    assert_only_key_left(&world);
}

#[test]
fn a_loss_drops_the_work_before_anybody_else_leads_and_the_loop_goes_on() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let (a, of_a) = serve(&world, "a", FOR_EVER, &book);
    world.advance(secs(1));
    let (b, of_b) = serve(&world, "b", FOR_EVER, &book);
    world.advance(secs(5));
    world.partition("a");
    world.advance(secs(14));
    assert_eq!(book.now_leading(), 0, "the lease is over");
    world.advance(secs(60));
    assert_eq!(book.terms(), ["a", "b"]);
    world.heal("a");
    world.advance(secs(30));
    world.run(b.step_down()).expect("stepped down");
    world.advance(secs(5));
    assert_eq!(book.most_at_once(), 1);
    assert!(book.terms().len() >= 3, "{:?}", book.terms());
    for (election, task) in [(a, of_a), (b, of_b)] {
        world.run(election.shutdown());
        world.run(task).expect("told to stop");
    }
    assert_only_key_left(&world);
}

#[test]
fn stepping_down_ends_the_term_and_not_the_loop() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let (a, of_a) = serve(&world, "a", FOR_EVER, &book);
    world.advance(secs(1));
    world.run(a.step_down()).expect("stepped down");
    world.advance(secs(5));
    assert_eq!(book.terms(), ["a", "a"]);
    world.run(a.shutdown());
    world.run(of_a).expect("told to stop");
}

#[test]
fn a_key_that_is_something_else_from_the_beginning_is_told() {
    let world = MockConsul::new(1);
    let target = format!("/v1/kv/{KEY}");
    operate(&world, Method::Put, &target, "something else");
    let book = Book::default();
    let (_a, of_a) = serve(&world, "a", FOR_EVER, &book);
    let end = world.run(of_a);
    assert!(matches!(end, Err(Error::NotAnElection { .. })), "{end:?}");
    assert!(book.terms().is_empty());
}

#[test]
fn a_key_that_a_stranger_overwrites_does_not_end_the_loops_and_heals() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let services = ["a", "b"].map(|host| serve(&world, host, FOR_EVER, &book));
    world.advance(secs(30));
    let target = format!("/v1/kv/{KEY}");
    operate(&world, Method::Put, &target, "something else");
    // The former leader's session still holds the key. A waiter sees the foreign data, and
    // continues.
    world.advance(secs(60));
    let before = book.terms().len();
    operate(&world, Method::Delete, &target, "");
    world.advance(secs(30));
    assert_eq!(book.terms().len(), before + 1, "{:?}", book.terms());
    assert_eq!(book.now_leading(), 1);
    assert_eq!(book.most_at_once(), 1);
    for (election, task) in services {
        world.run(election.shutdown());
        world.run(task).expect("told to stop");
    }
}

#[test]
fn a_loop_that_is_dropped_resigns() {
    let world = MockConsul::new(1);
    let election = election(&world, "a");
    let stop = world.sleep(secs(5));
    {
        let work = |_| std::future::pending();
        let run = std::pin::pin!(election.run(work));
        world.run(futures_util::future::select(run, std::pin::pin!(stop)));
    }
    world.advance(secs(1));
    drop(election);
    assert_only_key_left(&world);
}

#[test]
fn threads_lead_in_turn_until_they_are_told_to_stop() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let builder = blocking::Election::builder(KEY).value("a");
    let election = builder.connect(world.client("a")).expect("valid settings");
    let (running, noted) = (election.clone(), book.clone());
    let is_told = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_told);
    let thread = world.spawn_thread(move || {
        running.run(|leadership| {
            let _entry = noted.begins("a");
            // The end may be told in the moment in which a term begins.
            assert!(leadership.is_leader() || told.load(Ordering::SeqCst));
            assert!(leadership.lost_timeout(secs(3)).is_none() || !leadership.is_leader());
        })
    });
    world.advance(secs(20));
    let terms = book.terms().len();
    assert!(terms >= 4, "{terms}");
    assert_eq!(book.most_at_once(), 1);
    is_told.store(true, Ordering::SeqCst);
    world
        .spawn_thread(move || election.shutdown())
        .join()
        .expect("shut down");
    thread.join().expect("no panic").expect("told to stop");
    assert_eq!(book.now_leading(), 0);
    assert_only_key_left(&world);
}
