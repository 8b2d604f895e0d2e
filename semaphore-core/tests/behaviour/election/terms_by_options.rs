//! The options of the loop: the length of terms, who goes first, how many elections one process
//! leads, and which callbacks run when.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use semaphore_core::terms::{TermLimit, Terms};
use semaphore_core::{Election, Error, Lost, blocking};
use transport_mock::{MockConsul, Task};

use crate::support::election::*;
use crate::support::*;

/// Who was elected, and when, in seconds.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Vec<(String, u64)>>>);

impl Book {
    fn take(&self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.0.lock().expect("a book"))
    }

    fn hosts(&self) -> Vec<String> {
        self.take().into_iter().map(|(host, _)| host).collect()
    }
}

/// A service on this host with these options. Its work takes that many seconds.
fn serve(
    world: &MockConsul,
    host: &'static str,
    key: &str,
    work: u64,
    book: &Book,
    options: impl FnOnce(Terms<'static>) -> Terms<'static>,
) -> (Election, Task<Result<(), Error>>) {
    let election = Election::builder(key)
        .value(host)
        .connect(world.client(host))
        .expect("built");
    let terms = options(election.terms());
    let (book, clock) = (book.clone(), world.clone());
    let began = world.now();
    let running = terms.run(move |_| {
        let at = clock.now().saturating_since(began).as_secs();
        book.0.lock().expect("a book").push((host.to_owned(), at));
        let clock = clock.clone();
        async move { clock.sleep(secs(work)).await }
    });
    (election, world.start(running))
}

const FOR_EVER: u64 = 1_000_000;

fn end(world: &MockConsul, services: Vec<(Election, Task<Result<(), Error>>)>) {
    for (election, task) in services {
        world.run(election.shutdown());
        world.run(task).expect("told to stop");
    }
}

#[test]
fn a_term_lasts_no_longer_than_the_longest() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let services = ["a", "b"].map(|host| {
        serve(&world, host, KEY, FOR_EVER, &book, |terms| {
            terms.longest(secs(10))
        })
    });
    world.advance(secs(65));
    let hosts = book.hosts();
    assert!((6..=7).contains(&hosts.len()), "{hosts:?}");
    assert!(hosts.windows(2).all(|pair| pair[0] != pair[1]), "{hosts:?}");
    end(&world, services.into());
    assert_only_key_left(&world);
}

#[test]
fn a_term_lasts_as_long_as_the_least_although_the_work_ends_at_once() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let services =
        ["a", "b"].map(|host| serve(&world, host, KEY, 0, &book, |terms| terms.least(secs(10))));
    world.advance(secs(65));
    let hosts = book.hosts();
    assert!((6..=7).contains(&hosts.len()), "{hosts:?}");
    end(&world, services.into());
}

#[test]
fn the_pause_after_a_term_is_as_long_as_asked_for() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let alone = serve(&world, "a", KEY, 1, &book, |terms| terms.pause(secs(9)));
    world.advance(secs(45));
    let count = book.take().len();
    assert!((4..=5).contains(&count), "{count}");
    end(&world, vec![alone]);
}

#[test]
fn who_holds_back_lets_the_preferred_candidate_lead_and_leads_where_that_can_not() {
    let world = MockConsul::new(1);
    let book = Book::default();
    // It comes first, but yields.
    let second = serve(&world, "second", KEY, FOR_EVER, &book, |terms| {
        terms.hold_back(secs(3)).longest(secs(20))
    });
    world.advance(secs(2));
    assert_eq!(book.hosts(), [""; 0], "it lets others go first");
    world.advance(secs(4));
    assert_eq!(book.hosts(), ["second"]);
    let preferred = serve(&world, "preferred", KEY, FOR_EVER, &book, |terms| terms);
    world.advance(secs(30));
    assert_eq!(book.hosts(), ["preferred"]);
    for _ in 0..3 {
        world.run(preferred.0.step_down()).expect("stepped down");
        world.advance(secs(5));
        assert_eq!(book.hosts(), ["preferred"]);
    }
    end(&world, vec![preferred]);
    world.advance(secs(8));
    assert_eq!(book.hosts(), ["second"]);
    end(&world, vec![second]);
    assert_only_key_left(&world);
}

#[test]
fn a_process_that_leads_as_many_as_it_may_leaves_the_other_shards_to_others() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let few = || TermLimit::new(NonZeroUsize::new(3).expect("some"));
    let keys: Vec<_> = (0..6)
        .map(|shard| format!("shards/{shard}/leader"))
        .collect();
    let shards = |host, limit: &TermLimit| {
        let serve = |key: &String| {
            serve(&world, host, key, FOR_EVER, &book, |terms| {
                terms.at_most(limit)
            })
        };
        keys.iter().map(serve).collect::<Vec<_>>()
    };
    let (of_a, of_b) = (few(), few());
    let a = shards("a", &of_a);
    world.advance(secs(10));
    assert_eq!(book.hosts(), ["a"; 3], "there would be more to lead");
    let b = shards("b", &of_b);
    world.advance(secs(10));
    assert_eq!(book.hosts(), ["b"; 3]);
    assert_eq!((of_a.taken(), of_b.taken()), (3, 3));
    // One process ends. The other one leads no more than it may.
    end(&world, a);
    world.advance(secs(20));
    assert_eq!(book.hosts(), [""; 0]);
    assert_eq!((of_a.taken(), of_b.taken()), (0, 3));
    let (election, _) = &b[5];
    assert!(election.discovery().key().as_str().contains("shards"));
    end(&world, b);
    assert_eq!(of_b.taken(), 0);
}

#[test]
fn a_shard_that_is_led_elsewhere_keeps_no_place_from_one_that_is_not() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let limit = |most| TermLimit::new(NonZeroUsize::new(most).expect("some"));
    let keys: Vec<_> = (0..10).map(|shard| format!("shards/{shard}")).collect();
    let shards = |host, limit: &TermLimit| {
        let serve = |key: &String| {
            serve(&world, host, key, FOR_EVER, &book, |terms| {
                terms.at_most(limit)
            })
        };
        keys.iter().map(serve).collect::<Vec<_>>()
    };
    let (of_a, of_b) = (limit(5), limit(5));
    let a = shards("a", &of_a);
    world.advance(secs(10));
    let b = shards("b", &of_b);
    world.advance(secs(10));
    assert_eq!((of_a.taken(), of_b.taken()), (5, 5));
    book.take();
    // Five more services of host a waited for a place. They keep waiting until b leads their
    // shards.
    let led_by_a = keys
        .iter()
        .position(|key| world.leader(key).as_deref() == Some("a"));
    let (election, _) = &a[led_by_a.expect("a leads")];
    world.run(election.step_down()).expect("stepped down");
    world.advance(secs(4));
    assert_eq!(book.hosts(), ["a"], "nobody else may lead it");
    end(&world, a);
    end(&world, b);
}

#[test]
fn what_is_asked_to_be_called_is_called_in_order() {
    let world = MockConsul::new(1);
    let told = Mutex::new(Vec::new());
    let tell = |text: String| told.lock().expect("told").push(text);
    let election = election(&world, "a");
    let terms = election
        .terms()
        .on_elected(|leadership| tell(format!("elected {}", leadership.is_leader())))
        .on_lost(|lost| {
            tell(format!(
                "lost {}",
                matches!(lost, Lost::LeaseExpired { .. })
            ));
        })
        .on_new_leader(|leader| tell(format!("new {}", leader.text().unwrap_or_default())));
    let clock = world.clone();
    let work = |_| {
        tell("works".to_owned());
        let clock = clock.clone();
        async move { clock.sleep(secs(FOR_EVER)).await }
    };
    let closing = election.clone();
    let script = async {
        clock.sleep(secs(5)).await;
        clock.partition("a");
        clock.sleep(secs(60)).await;
        clock.heal("a");
        clock.sleep(secs(60)).await;
        closing.shutdown().await;
    };
    let (ended, ()) = world.run(futures_util::future::join(terms.run(work), script));
    ended.expect("told to stop");
    let told = told.into_inner().expect("told");
    let first: Vec<_> = told.iter().filter(|it| !it.starts_with("new")).collect();
    assert_eq!(
        first,
        [
            "elected true",
            "works",
            "lost true",
            "elected true",
            "works",
            "lost false"
        ]
    );
    let new = told.iter().filter(|it| *it == "new a").count();
    assert_eq!(new, 2, "{told:?}");
}

/// Threads and tasks report the same about a term that ended as planned.
#[test]
fn a_term_that_was_as_long_as_it_may_be_was_not_lost() {
    let world = MockConsul::new(1);
    let lost = Arc::new(Mutex::new(Vec::new()));
    let tell = |host: &'static str| {
        let lost = Arc::clone(&lost);
        move |why: &Lost| {
            lost.lock()
                .expect("told")
                .push((host, matches!(why, Lost::SteppedDown)));
        }
    };
    let on_tasks = election(&world, "a");
    let terms = on_tasks.terms().longest(secs(3)).on_lost(tell("a"));
    let task = world.start(async move { terms.run(|_| std::future::pending()).await });
    let builder = blocking::Election::builder("another/key");
    let on_threads = builder.connect(world.client("b")).expect("valid settings");
    let (running, on_lost) = (on_threads.clone(), tell("b"));
    let thread = world.spawn_thread(move || {
        let mut terms = 0;
        let options = running.terms().longest(secs(3)).on_lost(on_lost);
        let end = options.run(|leadership| {
            terms += 1;
            leadership.lost();
        });
        end.map(|()| terms)
    });
    world.advance(secs(20));
    assert_eq!(*lost.lock().expect("told"), []);
    world.run(on_tasks.shutdown());
    world.run(task).expect("told to stop");
    world
        .spawn_thread(move || on_threads.shutdown())
        .join()
        .expect("shut down");
    let terms = thread.join().expect("no panic").expect("told to stop");
    assert!(terms >= 4, "{terms}");
}

#[test]
fn a_loop_that_waits_for_others_ends_with_the_election_too() {
    let world = MockConsul::new(1);
    let book = Book::default();
    let leader = serve(&world, "a", KEY, FOR_EVER, &book, |terms| terms);
    world.advance(secs(1));
    let limit = TermLimit::new(NonZeroUsize::MIN);
    let mut waits = serve(&world, "b", KEY, FOR_EVER, &book, |terms| {
        terms.hold_back(secs(1)).at_most(&limit)
    });
    world.advance(secs(20));
    waits.0.close();
    world.advance(secs(5));
    let ended = waits.1.try_take().expect("it waits for what does not come");
    ended.expect("told to stop");
    end(&world, vec![leader]);
}
