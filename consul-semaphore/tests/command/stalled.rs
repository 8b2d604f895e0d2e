//! A reader of the output that has stopped keeps no slot from others.

use std::fs::File;
use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::process::{Child, Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::pty::OnTerminal;
use crate::support::{
    Running, closed_port, names, program, run, run_with, scene, wait_until, within,
};

/// A pipe in which there is no room left.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("a pipe");
    let set = |flags| fcntl(&writer, FcntlArg::F_SETFL(flags)).expect("flags");
    set(OFlag::O_NONBLOCK);
    while (&writer).write(b"x").is_ok() {}
    set(OFlag::empty());
    writer.flush().expect("nothing to do");
    (reader, writer)
}

/// Waits for its end, and does not wait for ever.
fn end(mut child: Child, what: &str) -> Option<i32> {
    let mut ended = None;
    wait_until(what, || {
        ended = child.try_wait().expect("a child");
        ended.is_some()
    });
    ended.expect("an end").code()
}

fn start(mut command: Command, stderr: PipeWriter) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(stderr);
    command.spawn().expect("the program starts")
}

#[test]
fn a_command_runs_and_its_slot_is_given_back_though_nobody_reads_what_is_said() {
    let (agent, prefix) = scene();
    for option in ["--verbose", "--json"] {
        let (_reader, writer) = full_pipe();
        let arguments = ["run", option, &prefix, "--", "sh", "-c", "exit 3"];
        let child = start(program(agent.url(), &arguments), writer);
        assert_eq!(end(child, "the end of a run"), Some(3), "{option}");
        agent.assert_nothing_left(&prefix);
    }
    let (_reader, writer) = full_pipe();
    let lock = format!("{prefix}/lock");
    let arguments = ["--like-consul-lock", "-verbose", &lock, "exit 3"];
    let child = start(program(agent.url(), &arguments), writer);
    assert_eq!(end(child, "the end of a lock"), Some(0));
    agent.assert_nothing_left(&lock);
}

#[test]
fn a_command_that_can_not_be_started_gives_its_slot_back_though_nobody_reads_why() {
    let (agent, prefix) = scene();
    let folder = TempDir::new().expect("a folder");
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").expect("a file");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a program");
    let (_reader, writer) = full_pipe();
    let arguments = ["run", &prefix, "--", script.to_str().expect("text")];
    let child = start(program(agent.url(), &arguments), writer);
    assert_eq!(end(child, "the end of a run"), Some(127));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn events_have_a_file_of_their_own_into_which_the_command_does_not_write() {
    let (agent, prefix) = scene();
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("events");
    let path = file.to_str().expect("text");
    let script = r#"echo '{"event":"forged"}'; echo '{"event":"forged"}' >&2; exit 3"#;
    for _ in 0..2 {
        let arguments = ["run", "--events", path, &prefix, "--", "sh", "-c", script];
        let ran = run(agent.url(), &arguments);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        assert_eq!(ran.stdout, "{\"event\":\"forged\"}\n");
        assert_eq!(ran.stderr, "{\"event\":\"forged\"}\n");
    }
    let written = std::fs::read_to_string(&file).expect("events");
    let events: Vec<Json> = written
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of_one = ["waiting", "granted", "started", "ended", "released"];
    assert_eq!(names(&events), of_one.repeat(2));
}

#[test]
fn events_that_nobody_reads_keep_no_slot() {
    let (agent, prefix) = scene();
    let (_reader, writer) = full_pipe();
    let (_open, stderr) = pipe().expect("a pipe");
    // The shell makes the full pipe the third descriptor.
    let line = "exec 3>&0 0</dev/null; exec \"$@\"";
    let ours = program(agent.url(), &[]);
    let mut command = Command::new("sh");
    command.args(["-c", line, "sh"]).arg(ours.get_program());
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args(["run", "--events", "/dev/fd/3", &prefix, "--", "true"]);
    command.stdin(writer).stdout(Stdio::null()).stderr(stderr);
    let child = command.spawn().expect("a shell");
    assert_eq!(end(child, "the end of a run"), Some(0));
    agent.assert_nothing_left(&prefix);
}

/// A named pipe, which nobody has opened.
fn fifo(folder: &TempDir) -> String {
    let path = folder.path().join("fifo");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("it runs").success());
    path.to_str().expect("text").to_owned()
}

#[test]
fn a_fifo_for_events_that_nobody_reads_is_told_before_anything_is_sent() {
    let folder = TempDir::new().expect("a folder");
    let fifo = fifo(&folder);
    let arguments = ["run", "--events", &fifo, "p", "--", "true"];
    let mut command = program(&closed_port(), &arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stderr = child.stderr.take().expect("a pipe");
    assert_eq!(end(child, "the end of a run"), Some(125));
    let mut told = String::new();
    stderr.read_to_string(&mut told).expect("text");
    let said = format!("{fifo:?} is a pipe that nobody reads: start its reader first");
    assert!(told.contains(&said), "{told}");
}

#[test]
fn the_reader_of_a_fifo_for_events_may_begin_a_little_later_and_stop_before_the_end() {
    let (agent, prefix) = scene();
    let folder = TempDir::new().expect("a folder");
    let fifo = fifo(&folder);
    let script = "read line; exit 3";
    let arguments = ["run", "--events", &fifo, &prefix, "--", "sh", "-c", script];
    let mut command = program(agent.url(), &arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    // Opening it waits for the writer.
    let mut events = BufReader::new(File::open(&fifo).expect("a fifo")).lines();
    let mut next = || events.next().expect("an event").expect("text");
    while !next().contains("\"started\"") {}
    drop(events);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"go on\n").expect("a reader");
    assert_eq!(end(child, "the end of a run"), Some(3));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_file_of_events_that_may_not_grow_ends_nothing() {
    let (agent, prefix) = scene();
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("events");
    let path = file.to_str().expect("text");
    let arguments = ["run", "--events", path, &prefix, "--", "sh", "-c", "exit 3"];
    // The system tells of such a write by a signal that ends a program.
    let limit = ["bash", "-c", "ulimit -f 0; exec \"$0\" \"$@\""];
    let ran = run_with(within(&limit, &program(agent.url(), &arguments)), "");
    ran.assert(3, "");
    assert_eq!(std::fs::read(&file).expect("a file"), b"");
    agent.assert_nothing_left(&prefix);
}

#[test]
fn whoever_stops_the_terminal_while_it_waits_stops_only_what_is_shown() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    holder.event("started");
    let arguments = ["run", "--verbose", &prefix, "--", "sh", "-c", "exit 5"];
    let mut waiter = OnTerminal::start(agent.url(), &arguments);
    waiter.wait_for("next; 1 of 1 held by ");
    // ^S
    waiter.write("\x13");
    holder.signal("TERM");
    holder.end();
    assert_eq!(waiter.end(), Some(5));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn what_is_said_while_the_command_has_the_terminal_stops_nobody() {
    let (agent, prefix) = scene();
    let pty = openpty(None, None).expect("a terminal");
    let mut settings = tcgetattr(&pty.slave).expect("settings");
    // `stty tostop`: a process that writes without having the terminal is stopped.
    settings.local_flags.insert(LocalFlags::TOSTOP);
    tcsetattr(&pty.slave, SetArg::TCSANOW, &settings).expect("settings");
    let script = "read line; exit 4";
    let arguments = ["run", "--verbose", &prefix, "--", "sh", "-c", script];
    let mut running = OnTerminal::start_on(pty, agent.url(), &arguments);
    running.wait_for("runs the command, process ");
    running.write("a line\n");
    running.wait_for("the command has ended with 4");
    running.wait_for("has given it back");
    assert_eq!(running.end(), Some(4));
    agent.assert_nothing_left(&prefix);
}
