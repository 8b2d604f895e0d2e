//! Holders by `consul lock`, which does not know our queue. It uses `-n` for a semaphore, and no
//! `-n` for an election.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, io};

use fastrand::Rng;
use rustix::process::getppid;

use crate::diary::Diary;
use crate::moment::Moment;
use crate::record::{Hold, Place};

/// All names of their sessions begin with this.
pub const THEIRS: &str = "chaos-lock-";

const POLL: Duration = Duration::from_millis(50);
const BEAT: Duration = Duration::from_millis(100);

/// Threads that run `consul lock` again and again.
#[derive(Debug)]
pub struct Lockers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<bool>>>,
}

/// What all of them share.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The Consul binary.
    pub binary: PathBuf,
    /// The addresses of the servers.
    pub agents: Vec<String>,
    /// The token, if agents ask for one.
    pub token: Option<String>,
    /// Where the holders write.
    pub log: PathBuf,
}

impl Lockers {
    /// Starts one for each of `places`.
    pub fn start(setup: &Setup, places: &[&Place], rng: &mut Rng) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let threads = places.iter().enumerate().map(|(number, place)| {
            let place = Place::clone(place);
            let (setup, stop, rng) = (setup.clone(), Arc::clone(&stop), rng.fork());
            thread::spawn(move || lock_again_and_again(number, &place, &setup, &stop, rng))
        });
        Self {
            threads: threads.collect(),
            stop,
        }
    }

    /// Tells them not to begin another turn.
    pub fn tell_to_end(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Lets each finish its turn. Returns how many had to be killed.
    ///
    /// # Errors
    /// If one could not be run.
    pub fn end(mut self) -> io::Result<u64> {
        self.tell_to_end();
        let mut hung = 0;
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            let ended = ended.unwrap_or_else(|_| Err(io::Error::other("a locker panicked")));
            hung += u64::from(ended?);
        }
        Ok(hung)
    }
}

impl Drop for Lockers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// Returns whether the last one had to be killed.
fn lock_again_and_again(
    number: usize,
    place: &Place,
    setup: &Setup,
    stop: &AtomicBool,
    mut rng: Rng,
) -> io::Result<bool> {
    for turn in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let name = format!("{THEIRS}{number}-{turn}");
        let millis = rng.u64(50..2_500);
        let agent = &setup.agents[rng.usize(..setup.agents.len())];
        let token = setup.token.iter().map(|it| ("CONSUL_HTTP_TOKEN", it));
        let mut lock = Command::new(&setup.binary)
            .envs(token)
            // With a limit of one, it uses the key of an election.
            .args(["lock", "-shell=false", "-n", &place.limit.to_string()])
            .args(["-name", &name, "-http-addr", agent, &place.prefix])
            .arg(env::current_exe()?)
            .args(["hold", &name, &place.prefix, &millis.to_string()])
            .arg(&setup.log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        match wait(&mut lock, stop)? {
            None => return Ok(true),
            Some(status) if status.success() => {}
            // It gives up at the first failure that it can't wait out.
            Some(_) => rest(Duration::from_secs(1), stop),
        }
        rest(Duration::from_millis(rng.u64(..4_000)), stop);
    }
    Ok(false)
}

/// Waits this long, unless it is told to end.
fn rest(time: Duration, stop: &AtomicBool) {
    let end = Instant::now() + time;
    while Instant::now() < end && !stop.load(Ordering::SeqCst) {
        thread::sleep(POLL);
    }
}

/// `None` if it had to be killed.
fn wait(lock: &mut Child, stop: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    let mut patience = None;
    loop {
        if let Some(status) = lock.try_wait()? {
            return Ok(Some(status));
        }
        if stop.load(Ordering::SeqCst) {
            let deadline = *patience.get_or_insert_with(|| Instant::now() + Duration::from_mins(1));
            if Instant::now() > deadline {
                lock.kill()?;
                lock.wait()?;
                return Ok(None);
            }
        }
        thread::sleep(POLL);
    }
}

/// The child of a `consul lock`. It logs that it holds, for `time` and while its parent lives.
///
/// # Errors
/// If it can't write.
pub fn hold(name: &str, prefix: &str, time: Duration, log: &Path) -> io::Result<()> {
    let parent = getppid();
    let diary = Diary::open(log)?;
    let name = || name.to_owned();
    let began = Hold::Began {
        name: name(),
        prefix: prefix.to_owned(),
    };
    diary.write(Moment::now(), began)?;
    let end = Moment::now().plus(time);
    loop {
        let left = end.since(Moment::now());
        if left.is_zero() || getppid() != parent {
            break;
        }
        thread::sleep(left.min(BEAT));
        diary.write(Moment::now(), Hold::Goes { name: name() })?;
    }
    diary.write(Moment::now(), Hold::Ended { name: name() })
}
