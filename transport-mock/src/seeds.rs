//! One test, many seeds.

use std::env;
use std::thread;

use fastrand::Rng;

use crate::fault::Faults;
use crate::mock::MockConsul;

/// Names the one seed that is to be run.
const VARIABLE: &str = "CONSUL_MOCK_SEED";

/// A test that is run once for each of many seeds, in a world of its own each time. When one fails, its seed is printed, and
/// the variable `CONSUL_MOCK_SEED` repeats it alone.
///
/// ```
/// use transport_mock::Semaphore;
/// use transport_mock::Seeds;
///
/// Seeds::new(20).with_faults(0.05).run(|world| {
///     let semaphore = Semaphore::builder("service/db", 1).connect(world.client("node-1")).unwrap();
///     world.run(async {
///         if let Ok(permit) = semaphore.acquire().await {
///             assert!(permit.is_held());
///         }
///     });
/// });
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `run`"]
pub struct Seeds {
    seeds: Vec<u64>,
    most: f64,
}

impl Seeds {
    /// So many seeds, from zero on, or the one that `CONSUL_MOCK_SEED` names.
    ///
    /// # Panics
    /// When the variable is no number.
    pub fn new(count: u64) -> Self {
        let named = env::var_os(VARIABLE);
        let named = named.map(|it| it.to_string_lossy().into_owned());
        Self {
            seeds: chosen(count, named.as_deref()),
            most: 0.0,
        }
    }

    /// Draws faults for each world: some kinds of them, each at a rate of up to `most`. See [`Faults::drawn`].
    pub fn with_faults(mut self, most: f64) -> Self {
        self.most = most;
        self
    }

    /// Runs a test on worlds whose time is their own.
    ///
    /// # Panics
    /// When the test does.
    pub fn run(self, mut test: impl FnMut(MockConsul)) {
        for &seed in &self.seeds {
            let _told = Told { seed };
            test(self.prepared(MockConsul::new(seed)));
        }
    }

    /// Runs a test on worlds [on tokio](MockConsul::on_tokio), one after the other, in a `#[tokio::test(start_paused = true)]`.
    ///
    /// # Panics
    /// When the test does, and outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// What has run has run.
    #[cfg(feature = "tokio")]
    pub async fn run_on_tokio(self, mut test: impl AsyncFnMut(MockConsul)) {
        for &seed in &self.seeds {
            let _told = Told { seed };
            test(self.prepared(MockConsul::on_tokio(seed))).await;
        }
    }

    fn prepared(&self, world: MockConsul) -> MockConsul {
        if self.most > 0.0 {
            let faults = Faults::drawn(world.seed(), self.most);
            world.note(format_args!("{faults:?}"));
            world.set_faults(faults);
        }
        world
    }
}

/// Says how to repeat what failed.
struct Told {
    seed: u64,
}

impl Drop for Told {
    fn drop(&mut self) {
        if thread::panicking() {
            // Where a test's output goes, captured as that is.
            eprintln!("{VARIABLE}={} repeats it alone", self.seed);
        }
    }
}

#[expect(clippy::panic, reason = "documented")]
fn chosen(count: u64, named: Option<&str>) -> Vec<u64> {
    match named.map(str::parse) {
        None => (0..count).collect(),
        Some(Ok(seed)) => vec![seed],
        Some(Err(error)) => panic!("{VARIABLE} is no seed: {error}"),
    }
}

impl Faults {
    /// About half of the kinds of [`Faults::chaos`], drawn from the seed, each at a rate of up to `most`, and outages of up to a
    /// tenth of it.
    pub fn drawn(seed: u64, most: f64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x6661_756c_7473_2121);
        let mut draw = |most: f64| {
            let rate = most * rng.f64();
            if rng.bool() { rate } else { 0.0 }
        };
        Self {
            refuse: draw(most),
            lose_request: draw(most),
            lose_answer: draw(most),
            reset_before: draw(most),
            reset_after: draw(most),
            duplicate: draw(most),
            bad_answer: draw(most),
            too_many_requests: draw(most),
            unavailable: draw(most),
            reorder: draw(most),
            reorder_answer: draw(most),
            leader_loss: draw(most / 10.0),
            partition: draw(most / 10.0),
            ..Self::none()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_the_only_seed() {
        assert_eq!(chosen(3, None), [0, 1, 2]);
        assert_eq!(chosen(3, Some("17")), [17]);
    }

    #[test]
    #[should_panic(expected = "CONSUL_MOCK_SEED is no seed")]
    fn a_variable_that_is_no_number_is_told() {
        chosen(3, Some("seventeen"));
    }

    #[test]
    fn faults_differ_between_seeds_and_keep_to_the_rate() {
        let drawn = |seed| Faults::drawn(seed, 0.1);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        for seed in 0..100 {
            let Faults {
                refuse,
                partition,
                session_loss,
                ..
            } = drawn(seed);
            assert!((0.0..=0.1).contains(&refuse) && (0.0..=0.01).contains(&partition));
            assert_eq!(session_loss.to_bits(), 0);
        }
        assert!((0..100).any(|seed| drawn(seed).refuse > 0.0));
    }
}
