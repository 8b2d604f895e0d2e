//! The signals of this process.

use std::fs;
use std::thread;

use futures_channel::mpsc::{self, UnboundedReceiver};
use futures_util::StreamExt as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals as Delivered;

use crate::failure::Failure;

/// The signals that ask this process to end, in order.
pub(crate) struct Signals(UnboundedReceiver<i32>);

impl Signals {
    /// From now on these signals don't end the process.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let ignored = ignored();
        let wanted = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
        // What `nohup` or a background shell has turned off stays off, also for the command.
        let wanted = wanted
            .into_iter()
            .filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut delivered =
            Delivered::new(wanted).map_err(Failure::system("signals can't be received"))?;
        let (sender, receiver) = mpsc::unbounded();
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in &mut delivered {
                    if sender.unbounded_send(signal).is_err() {
                        break;
                    }
                }
            })
            .map_err(Failure::system("no thread for signals can be started"))?;
        Ok(Self(receiver))
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> i32 {
        match self.0.next().await {
            Some(signal) => signal,
            // The sending thread lives as long as the process.
            None => std::future::pending().await,
        }
    }

    /// A signal that has already come.
    pub(crate) fn pending(&mut self) -> Option<i32> {
        self.0.try_recv().ok()
    }
}

/// The mask of signals that were ignored when the process started, from `/proc`. Without `/proc` it
/// is empty.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .map(str::trim);
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .unwrap_or(0)
}
