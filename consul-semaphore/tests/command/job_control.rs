//! On a terminal the command behaves as a shell's child does: it reads and writes there, stops, and
//! goes on in the foreground and in the background.

use crate::pty::OnTerminal;
use crate::support::{is_alive, scene, send, stat, wait_until};

#[test]
fn a_command_without_standard_input_reads_from_the_terminal() {
    let (agent, prefix) = scene();
    let script = "echo ready; read x </dev/tty; echo got $x";
    let arguments = ["--like-consul-lock", &prefix, script];
    let mut running = OnTerminal::start(agent.url(), &arguments);
    running.wait_for("ready");
    running.write("some words\n");
    running.wait_for("got some words");
    assert_eq!(running.end(), Some(0));
}

#[test]
fn a_command_in_a_pipeline_reads_from_the_terminal() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    let command = "sh -c 'echo first; read x </dev/tty; echo got $x'";
    shell.write(&format!("$program run {prefix} -- {command} | cat\n"));
    shell.wait_for("first");
    shell.write("some words\n");
    shell.wait_for("got some words");
    shell.write("exit 6\n");
    assert_eq!(shell.end(), Some(6));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_command_in_the_background_of_a_script_leaves_the_terminal_to_the_script() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    // Without job control: all have one process group.
    let lock = format!("$program --like-consul-lock {prefix} 'echo lock''ed; sleep 1000'");
    shell.write(&format!(
        "sh -c \"{lock} & read x; echo got \\$x; kill \\$!; wait; exit 5\"\n"
    ));
    shell.wait_for("locked");
    shell.write("some words\n");
    shell.wait_for("got some words");
    shell.write("exit $?\n");
    assert_eq!(shell.end(), Some(5));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn both_print_on_a_terminal_that_stops_what_prints_in_the_background() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    shell.write("stty tostop\n");
    // The program prints while the command has the terminal.
    let command = "sh -c 'echo from the command'";
    shell.write(&format!("$program run --verbose {prefix} -- {command}\n"));
    shell.wait_for("from the command");
    shell.wait_for("has given it back");
    // This command gets the terminal when it prints there.
    let command = "sh -c 'echo once m''ore >/dev/tty'";
    shell.write(&format!("$program run {prefix} -- {command} >/dev/null\n"));
    shell.wait_for("once more");
    shell.write("exit 6\n");
    assert_eq!(shell.end(), Some(6));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_job_in_the_background_whose_command_reads_stops_and_goes_on_in_the_foreground() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    let command = "sh -c 'echo first; read x; echo got $x; exit 4'";
    shell.write(&format!("$program run {prefix} -- {command} &\n"));
    shell.wait_for("the command has stopped (signal 21): it is killed in ");
    // The shell says it, too.
    shell.wait_for("Stopped");
    shell.foreground();
    shell.write("some words\n");
    shell.wait_for("got some words");
    shell.write("exit $?\n");
    assert_eq!(shell.end(), Some(4));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_job_that_runs_in_the_background_gets_the_terminal_with_the_foreground() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    // It reads only after somebody has interrupted it.
    let command = "bash -c 'trap \"echo SIG$((1+1)); read x; exit 4\" INT; echo first; while :; do sleep 0.01; done'";
    shell.write(&format!("$program run {prefix} -- {command} &\n"));
    shell.wait_for("first");
    shell.foreground();
    shell.write("\x03");
    shell.wait_for("SIG2");
    shell.write("some words\n");
    shell.write("exit $?\n");
    assert_eq!(shell.end(), Some(4));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_job_that_is_stopped_goes_on_in_the_foreground() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    let command = "sh -c 'echo first; read x; echo got $x; exit 4'";
    shell.write(&format!("$program run {prefix} -- {command}\n"));
    shell.wait_for("first");
    shell.write("\x1a");
    shell.wait_for("the command has stopped (signal 20): it is killed in ");
    shell.wait_for("Stopped");
    shell.write("echo the shell''s turn\n");
    shell.wait_for("the shells turn");
    shell.foreground();
    shell.write("some words\n");
    shell.wait_for("got some words");
    shell.write("exit $?\n");
    assert_eq!(shell.end(), Some(4));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_job_in_a_pipeline_that_is_stopped_goes_on_in_the_background() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    // The terminal is not the command's: ^Z comes through the program.
    let command =
        "bash -c 'echo first; trap \"echo told; exit\" USR1; while :; do sleep 0.01; done'";
    shell.write(&format!("$program run {prefix} -- {command} | cat\n"));
    shell.wait_for("first");
    shell.write("\x1a");
    shell.wait_for("the command has stopped (signal 20)");
    shell.wait_for("Stopped");
    shell.write("bg; kill -USR1 %1; wait; exit 6\n");
    shell.wait_for("told");
    assert_eq!(shell.end(), Some(6));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn the_command_of_a_job_that_stays_stopped_is_dead_when_the_lease_ends() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    let command = "sh -c 'echo process $$.; exec sleep 1000'";
    let short = "--ttl 10s --grace 1s";
    shell.write(&format!("$program run {short} {prefix} -- {command}\n"));
    shell.wait_for(".");
    let command = printed_id(&shell);
    shell.write("\x1a");
    shell.wait_for("Stopped");
    wait_until("its end", || !is_alive(command));
    shell.write("fg\n");
    shell.write("exit $?\n");
    // It was killed a little before the lease ends. If the job goes on within that time, nothing is
    // lost but the command.
    let code = shell.end();
    assert!(matches!(code, Some(120 | 137)), "{code:?}");
    agent.assert_nothing_left(&prefix);
}

/// What the command has printed as `process ID.`
fn printed_id(shell: &OnTerminal) -> u32 {
    let (_, shown) = shell.seen().rsplit_once("process ").expect("a line");
    let pid = shown.split_once('.').expect("a line").0;
    pid.parse().expect("a process id")
}

/// Waits for the terminal and keeps it from its user, whatever it is told.
const WANTS_IT: &str = "trap \"\" TERM; while :; do read x </dev/tty; done";

#[test]
fn a_command_that_wants_the_terminal_where_no_shell_could_continue_it_ends_and_that_is_said() {
    let (agent, prefix) = scene();
    for (script, code) in [("read x </dev/tty", 143), (WANTS_IT, 137)] {
        let mut shell = OnTerminal::shell(agent.url());
        // The shell's child ends at once, and leaves an orphaned group in the background.
        let command = format!("$program run --grace 300ms {prefix} -- sh -c '{script}'");
        shell.write(&format!("( ({command}; echo co''de $?.) & )\n"));
        shell.wait_for("the command has stopped (signal 21): another job has the terminal");
        shell.wait_for("tells the command to end (signal 15): ");
        shell.wait_for(&format!("code {code}."));
        assert!(!shell.seen().contains("fg"), "{:?}", shell.seen());
        shell.write("exit 6\n");
        assert_eq!(shell.end(), Some(6));
        agent.assert_nothing_left(&prefix);
    }
}

#[test]
fn a_loss_that_is_ignored_does_not_keep_what_no_shell_could_continue() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    let options = "--grace 300ms --on-lost ignore";
    let command = format!("$program run {options} {prefix} -- sh -c '{WANTS_IT}'");
    shell.write(&format!("( ({command}; echo co''de $?.) & )\n"));
    shell.wait_for("code 137.");
    shell.write("exit 6\n");
    assert_eq!(shell.end(), Some(6));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_command_that_wants_the_terminal_in_a_job_that_may_not_stop_ends_too() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    // The job has turned the stop off, and its command has turned it on again.
    let command = "env --default-signal=TTIN sh -c 'read x </dev/tty'";
    let command = format!("$program run {prefix} -- {command}");
    shell.write(&format!("(trap '' TTIN; {command}; echo co''de $?.) &\n"));
    shell.wait_for("tells the command to end (signal 15): ");
    shell.wait_for("code 143.");
    shell.write("exit 6\n");
    assert_eq!(shell.end(), Some(6));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_command_that_is_stopped_where_no_shell_could_continue_it_goes_on_at_once_and_that_is_said() {
    let (agent, prefix) = scene();
    let script = "echo first; read x; echo got $x; exit 4";
    let arguments = ["run", &prefix, "--", "sh", "-c", script];
    // The program leads the terminal's session.
    let mut running = OnTerminal::start(agent.url(), &arguments);
    running.wait_for("first");
    running.write("\x1a");
    running.wait_for("the command has stopped (signal 20): it goes on at once");
    running.write("some words\n");
    running.wait_for("got some words");
    assert!(!running.seen().contains("fg"), "{:?}", running.seen());
    assert_eq!(running.end(), Some(4));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_command_that_somebody_has_stopped_for_good_stays_so_also_on_a_terminal_without_a_shell() {
    let (agent, prefix) = scene();
    let script = "echo process $$.; while :; do sleep 0.01; done";
    let arguments = ["run", &prefix, "--", "bash", "-c", script];
    let mut running = OnTerminal::start(agent.url(), &arguments);
    running.wait_for(".");
    let command = printed_id(&running);
    send("STOP", command);
    running.wait_for("the command has stopped (signal 19): it keeps what is held");
    assert_eq!(stat(command).expect("a process")[0], "T");
    send("TERM", command);
    send("CONT", command);
    assert_eq!(running.end(), Some(143));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_terminal_that_the_shell_has_taken_from_a_stopped_program_stays_the_shells() {
    let (agent, prefix) = scene();
    let mut shell = OnTerminal::shell(agent.url());
    let script = "echo process $$.; trap \"exit 4\" USR1; while :; do sleep 0.01; done";
    for ends_while_stopped in [false, true] {
        shell.write(&format!("$program run {prefix} -- bash -c '{script}'\n"));
        shell.wait_for_next(".\r\n");
        let command = printed_id(&shell);
        let parent = stat(command).expect("a process")[1].parse();
        let program = parent.expect("a process id");
        send("STOP", program);
        shell.wait_for_next("Stopped");
        if !ends_while_stopped {
            shell.write("bg; echo on''ce more\n");
            shell.wait_for_next("once more");
        }
        send("USR1", command);
        wait_until("its end", || !is_alive(command));
        shell.write("bg\n");
        wait_until("the program's end", || !is_alive(program));
        shell.write("echo the shell''s turn\n");
        shell.wait_for_next("the shells turn");
    }
    shell.write("exit 6\n");
    assert_eq!(shell.end(), Some(6));
    agent.assert_nothing_left(&prefix);
}
