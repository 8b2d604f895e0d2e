//! Contenders at work, on tasks or threads, and the wait for all of them.

use std::future::Future;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use semaphore_core::adapter::Runtime as _;

use crate::backend::Host;
use crate::failure::Failure;

/// The started contenders, and the channel for their results.
#[derive(Debug)]
pub struct Crew<T> {
    started: usize,
    home: Sender<T>,
    done: Receiver<T>,
}

impl<T: Send + 'static> Crew<T> {
    /// Nobody yet.
    pub fn new() -> Self {
        let (home, done) = mpsc::channel();
        Self {
            started: 0,
            home,
            done,
        }
    }

    /// Starts one as a task of the host's runtime.
    ///
    /// # Errors
    /// [`Failure::Thread`].
    pub fn task(
        &mut self,
        host: &Host,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<(), Failure> {
        let home = self.home.clone();
        host.spawn(Box::pin(async move {
            // If it is late, nobody waits any more.
            let _ = home.send(work.await);
        }))
        .map_err(Failure::Thread)?;
        self.started += 1;
        Ok(())
    }

    /// Starts one as a thread.
    ///
    /// # Errors
    /// [`Failure::Thread`].
    pub fn thread(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Result<(), Failure> {
        let home = self.home.clone();
        thread::Builder::new()
            .name("contender".to_owned())
            .spawn(move || {
                let _ = home.send(work());
            })
            .map_err(Failure::Thread)?;
        self.started += 1;
        Ok(())
    }

    /// Waits until all are done, at most `within`.
    ///
    /// # Errors
    /// [`Failure::Late`], also for one that panicked.
    pub fn finish(self, within: Duration) -> Result<Vec<T>, Failure> {
        let Self {
            started,
            home,
            done,
        } = self;
        // Otherwise the channel would not end with the last contender.
        drop(home);
        let began = Instant::now();
        let mut finished = Vec::with_capacity(started);
        while let Ok(outcome) = done.recv_timeout(within.saturating_sub(began.elapsed())) {
            finished.push(outcome);
        }
        if finished.len() < started {
            return Err(Failure::Late {
                finished: finished.len(),
                contenders: started,
                after: began.elapsed(),
            });
        }
        Ok(finished)
    }
}

impl<T: Send + 'static> Default for Crew<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_were_started_come_home() {
        let mut crew = Crew::new();
        for number in 0..3 {
            crew.thread(move || number).expect("a thread");
        }
        let mut home = crew.finish(Duration::from_secs(60)).expect("all of them");
        home.sort_unstable();
        assert_eq!(home, [0, 1, 2]);
    }

    #[test]
    fn one_who_does_not_come_home_in_time_is_told() {
        let (keep, wait) = mpsc::channel::<()>();
        let mut crew = Crew::new();
        crew.thread(|| ()).expect("a thread");
        crew.thread(move || assert!(wait.recv().is_err()))
            .expect("a thread");
        let late = crew
            .finish(Duration::from_millis(50))
            .expect_err("one is missing");
        assert!(
            matches!(late, Failure::Late { contenders: 2, .. }),
            "{late}"
        );
        drop(keep);
    }
}
