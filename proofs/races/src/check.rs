use std::env;
use std::sync::Arc;
use std::thread::panicking;

use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::{Config, Runner};

/// Runs the scene in as many schedules as the variable `RACES_SCHEDULES` says. Half of them are
/// random. The others change the running thread only a few times, at the worst places.
#[allow(clippy::disallowed_methods, reason = "read by tests, not by the core")]
pub fn check(scene: impl Fn() + Send + Sync + 'static) {
    let schedules: usize = env::var("RACES_SCHEDULES").map_or(500, |count| count.parse().unwrap());
    let scene = Arc::new(scene);
    let free = RandomScheduler::new(schedules.div_ceil(2));
    let few_changes = PctScheduler::new(3, schedules / 2);
    run(free, Arc::clone(&scene));
    run(few_changes, scene);
}

/// Lets the others take any number of steps.
pub fn sometime() {
    let mut random = shuttle::rand::thread_rng();
    let most = 10_u32.pow(random.gen_range(1..=3));
    for _ in 0..random.gen_range(0..most) {
        shuttle::thread::yield_now();
    }
}

fn run(scheduler: impl Scheduler + 'static, scene: Arc<impl Fn() + Send + Sync + 'static>) {
    let mut config = Config::new();
    // Unoptimized machines need more than the default.
    config.stack_size = 512 * 1024;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || {
        semaphore_core::sync::set_scheduler(step);
        scene();
    });
}

thread_local! {
    /// All shuttle threads of a test run on one system thread.
    static STEPS: AtomicUsize = const { AtomicUsize::new(0) };
}

/// Makes a step of the core a step of shuttle.
fn step(waits: bool) {
    if panicking() {
        return;
    }
    if waits {
        shuttle::thread::yield_now();
    } else {
        STEPS.with(|steps| steps.load(Ordering::SeqCst));
    }
}
