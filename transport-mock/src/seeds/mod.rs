//! Runs one test with many seeds. Reduces a failure before it is shown.

mod quiet;
mod shrink;

use std::any::Any;
use std::env;
use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

use self::quiet::Quiet;
pub(crate) use self::quiet::is_quiet;
use self::shrink::Shrinking;
use crate::fault::Faults;
use crate::mock::MockConsul;

/// Names the one seed to run.
const VARIABLE: &str = "CONSUL_MOCK_SEED";

/// How long, in real time, a failure is reduced.
const LONGEST_SEARCH: Duration = Duration::from_secs(20);

/// A test that is run with many seeds, each time in a separate world.
///
/// A failing run is repeated with fewer faults, fewer kinds of faults and lower rates, as long as
/// it still fails. The smallest failure is shown: its seed, its faults, and the end of the trace.
/// To repeat it, set the variable `CONSUL_MOCK_SEED` to the seed and pass the faults to
/// [`MockConsul::set_faults`].
///
/// ```
/// use transport_mock::{Seeds, Semaphore};
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
    /// The seeds from zero to `count`, or only the seed in `CONSUL_MOCK_SEED`.
    ///
    /// # Panics
    /// If the variable is not a number.
    pub fn new(count: u64) -> Self {
        let named = env::var_os(VARIABLE);
        let named = named.map(|it| it.to_string_lossy().into_owned());
        Self {
            seeds: chosen(count, named.as_deref()),
            most: 0.0,
        }
    }

    /// Draws faults for each world: some kinds, each at a rate of up to `most`. See
    /// [`Faults::drawn`].
    pub fn with_faults(mut self, most: f64) -> Self {
        self.most = most;
        self
    }

    /// Runs a test on worlds with separate time.
    ///
    /// # Panics
    /// If the test panics.
    pub fn run(self, mut test: impl FnMut(MockConsul)) {
        let runs = self.run_each(MockConsul::new, async |world| test(world));
        // Nothing in them waits for real time.
        let ended = runs.now_or_never();
        debug_assert!(ended.is_some(), "a run waits");
    }

    /// Runs a test on worlds [on tokio](MockConsul::on_tokio), one after the other, in a
    /// `#[tokio::test(start_paused = true)]`. Tasks that a run leaves behind are not ended before
    /// the next run.
    ///
    /// # Panics
    /// If the test panics, and outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future ends the run.
    #[cfg(feature = "tokio")]
    pub async fn run_on_tokio(self, test: impl AsyncFnMut(MockConsul)) {
        self.run_each(MockConsul::on_tokio, test).await;
    }

    async fn run_each(
        self,
        world: impl Fn(u64) -> MockConsul,
        mut test: impl AsyncFnMut(MockConsul),
    ) {
        for &seed in &self.seeds {
            let mut run = async |faults| test(prepared(world(seed), faults)).await;
            let Some(drawn) = self.drawn(seed) else {
                let _told = Told { seed, faults: None };
                run(Faults::none()).await;
                continue;
            };
            let quiet = Quiet::begin();
            let Err(panic) = unwinding(run(drawn)).await else {
                continue;
            };
            let said = quiet.said();
            let mut shrinking = Shrinking::from(drawn);
            let began = Instant::now();
            while began.elapsed() < LONGEST_SEARCH
                && let Some(idea) = shrinking.poll_idea()
            {
                if unwinding(run(idea)).await.is_err() {
                    shrinking.handle_failure(idea);
                }
            }
            drop(quiet);
            let smallest = shrinking.smallest();
            let _told = Told::of(seed, smallest);
            run(smallest).await;
            eprintln!("{}", Unrepeatable(&said));
            resume_unwind(panic);
        }
    }

    /// The faults of this seed, if faults were requested.
    fn drawn(&self, seed: u64) -> Option<Faults> {
        (self.most > 0.0).then(|| Faults::drawn(seed, self.most))
    }
}

fn prepared(world: MockConsul, faults: Faults) -> MockConsul {
    if faults != Faults::none() {
        world.note(faults);
        world.set_faults(faults);
    }
    world
}

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

/// The panic of `future`, if it panics.
async fn unwinding<F: Future>(future: F) -> Result<F::Output, Panic> {
    // A run's only remains are its world, which nobody uses again.
    AssertUnwindSafe(future).catch_unwind().await
}

/// Says how to repeat a failure.
struct Told {
    seed: u64,
    faults: Option<Faults>,
}

impl Told {
    fn of(seed: u64, smallest: Faults) -> Self {
        let faults = Some(smallest);
        Self { seed, faults }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if thread::panicking() {
            // To stderr, which the test harness captures.
            eprintln!("{self}");
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.faults {
            None => {}
            Some(faults) if faults == Faults::none() => {
                f.write_str("it fails without any fault, too\n")?;
            }
            Some(faults) => writeln!(f, "the fewest faults with which it still fails: {faults}")?,
        }
        write!(f, "{VARIABLE}={} repeats it alone", self.seed)
    }
}

/// The message about a failure that could not be repeated.
struct Unrepeatable<'a>(&'a str);

impl fmt::Display for Unrepeatable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\nthe same seed and the same faults did not fail again: something in the test is left to chance",
            self.0
        )
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
}
