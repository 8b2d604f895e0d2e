//! `consul lock` beside our clients.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use real_agent::Agent;

/// A `consul lock`. It is killed when this is dropped.
pub(crate) struct Locker(Child);

impl Locker {
    /// Starts one with this many slots. Its child is the shell script, in which `$1` is the path.
    pub(crate) fn start(
        agent: &Agent,
        slots: u32,
        prefix: &str,
        script: &str,
        path: &Path,
    ) -> Self {
        let child = Command::new(agent.binary())
            .args(["lock", "-shell=false", "-n", &slots.to_string()])
            .arg(format!("-http-addr={}", agent.addr()))
            .args([prefix, "sh", "-c", script, "sh"])
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// Waits for its end, and asserts that it succeeded.
    #[track_caller]
    pub(crate) fn ends_well(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
