//! Programs on a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, openpty};
use nix::unistd::tcgetpgrp;

use crate::support::{PATIENCE, program, wait_until, within};

/// A program on a separate terminal, and its output there.
pub(crate) struct OnTerminal {
    child: Child,
    terminal: File,
    output: Receiver<Vec<u8>>,
    seen: String,
    read_to: usize,
}

impl OnTerminal {
    pub(crate) fn start(url: &str, arguments: &[&str]) -> Self {
        let pty = openpty(None, None).expect("a terminal");
        Self::start_on(pty, url, arguments)
    }

    pub(crate) fn start_on(pty: OpenptyResult, url: &str, arguments: &[&str]) -> Self {
        Self::spawn(pty, &program(url, arguments))
    }

    /// A shell with job control, which has a prompt, and the program as `$program`.
    pub(crate) fn shell(url: &str) -> Self {
        let mut shell = Command::new("bash");
        shell.args(["--norc", "--noprofile", "-i"]);
        let ours = program(url, &[]);
        shell.env("program", ours.get_program()).env("PS1", "> ");
        for (name, value) in ours.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let pty = openpty(None, None).expect("a terminal");
        let mut shell = Self::spawn(pty, &shell);
        shell.wait_for("> ");
        // What is typed is not shown, so that it is not taken for what a program has printed.
        // `set -b` lets it tell at once that a job has stopped.
        shell.write("stty -echo; bind 'set enable-bracketed-paste off'; set -b; echo rea''dy\n");
        shell.wait_for("ready");
        shell
    }

    fn spawn(pty: OpenptyResult, program: &Command) -> Self {
        let slave = |fd: &OwnedFd| Stdio::from(fd.try_clone().expect("a descriptor"));
        // `setsid` makes the terminal the program's own.
        let mut command = within(&["setsid", "--ctty", "--wait"], program);
        command.stdin(slave(&pty.slave));
        command.stdout(slave(&pty.slave));
        command.stderr(slave(&pty.slave));
        command.process_group(0);
        // The end of the test closes the terminal, unless another process has it, too.
        let close = FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC);
        fcntl(&pty.master, close).expect("a descriptor");
        let child = command.spawn().expect("the program starts");
        let terminal = File::from(pty.master);
        let output = read_all(terminal.try_clone().expect("a descriptor"));
        Self {
            child,
            terminal,
            output,
            seen: String::new(),
            read_to: 0,
        }
    }

    /// Reads until this text appears.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_from(0, text);
    }

    /// Reads until this text appears after the last one that was waited for like this.
    #[track_caller]
    pub(crate) fn wait_for_next(&mut self, text: &str) {
        self.wait_from(self.read_to, text);
        let at = self.seen[self.read_to..].find(text).expect("it is there");
        self.read_to += at + text.len();
    }

    #[track_caller]
    fn wait_from(&mut self, from: usize, text: &str) {
        while !self.seen[from..].contains(text) {
            let Ok(read) = self.output.recv_timeout(PATIENCE) else {
                panic!("{text:?} is not in {:?}", self.seen);
            };
            self.seen.push_str(&String::from_utf8_lossy(&read));
        }
    }

    /// In a shell: continues its job in the foreground.
    #[track_caller]
    pub(crate) fn foreground(&mut self) {
        let shell = tcgetpgrp(&self.terminal).expect("a group");
        self.write("fg\n");
        // What is typed before is the shell's.
        wait_until("the job", || tcgetpgrp(&self.terminal) != Ok(shell));
    }

    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).expect("it reads");
    }

    #[track_caller]
    pub(crate) fn end(mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            self.seen.extend(
                self.output
                    .recv_timeout(Duration::from_millis(10))
                    .map(|read| String::from_utf8_lossy(&read).into_owned()),
            );
            assert!(Instant::now() < end, "no end after {:?}", self.seen);
        }
    }
}

/// What appears on the terminal, until nobody has it any more.
fn read_all(mut terminal: File) -> Receiver<Vec<u8>> {
    let (sender, output) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = terminal.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    output
}
