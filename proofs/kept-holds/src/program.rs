//! `contend --mode hold`, started as a user would.

use std::env;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use real_agent::Client;
use serde_json::Value;

use crate::failure::Failure;

/// How often to check whether something has happened.
const POLL: Duration = Duration::from_millis(20);
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running program. Dropping this kills it.
#[derive(Debug)]
pub(crate) struct Program(Option<Child>);

/// Its last output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    /// Whether it lost its hold.
    pub(crate) is_lost: bool,
    /// When its hold ended, in seconds since 1970.
    pub(crate) ended: f64,
}

impl Program {
    /// Starts a program that holds a slot of this prefix for this long.
    ///
    /// # Errors
    /// [`Failure::System`].
    pub(crate) fn start(
        url: &str,
        prefix: &str,
        hold: Duration,
        more: &[&str],
    ) -> Result<Self, Failure> {
        let here = env::current_exe().map_err(Failure::system("this program is nowhere"))?;
        let mut command = Command::new(here.with_file_name("contend"));
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("CONSUL_") {
                command.env_remove(name);
            }
        }
        let child = command
            .env("CONSUL_HTTP_ADDR", url)
            .args([
                "--mode", "hold", "--limit", "1", "--json", "--prefix", prefix,
            ])
            .args(["--hold-ms", &hold.as_millis().to_string()])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let child = child.map_err(Failure::system("a program can't be started"))?;
        Ok(Self(Some(child)))
    }

    /// Its output when it has ended.
    ///
    /// # Errors
    /// [`Failure::System`], [`Failure::Report`].
    pub(crate) fn said(mut self) -> Result<Said, Failure> {
        let Some(child) = self.0.take() else {
            return Err(Failure::Report(String::new()));
        };
        let output = child.wait_with_output();
        let output = output.map_err(Failure::system("a program can't be waited for"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let report: Option<Value> = serde_json::from_str(&text).ok();
        let count = |name: &str| report.as_ref()?.get(name)?.as_u64();
        let ended = report
            .as_ref()
            .and_then(|it| it.get("not_held_any_more_at"));
        match (
            count("lost"),
            count("acquisitions"),
            ended.and_then(Value::as_f64),
        ) {
            (Some(lost), Some(acquisitions), Some(ended)) if lost + acquisitions == 1 => {
                let is_lost = lost > 0;
                Ok(Said { is_lost, ended })
            }
            _ => Err(Failure::Report(text)),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The machine's clock, in seconds since 1970.
pub(crate) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// Waits until somebody holds a slot of this prefix.
///
/// # Errors
/// [`Failure::Late`].
pub(crate) fn until_held(client: &Client, prefix: &str) -> Result<(), Failure> {
    let path = format!("/v1/kv/{prefix}/.lock?raw");
    until("a grant", || {
        let record = client.get(&path).and_then(|answer| answer.json());
        record.is_ok_and(|record| {
            record["Holders"]
                .as_object()
                .is_some_and(|it| !it.is_empty())
        })
    })
}

/// Waits until `is_so` is true.
///
/// # Errors
/// [`Failure::Late`].
pub(crate) fn until(what: &'static str, is_so: impl Fn() -> bool) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > deadline {
            return Err(Failure::Late(what));
        }
        thread::sleep(POLL);
    }
    Ok(())
}
