//! On a terminal, the program says whom it waits for. While the command runs, the terminal belongs
//! to the command.

use nix::pty::{Winsize, openpty};

use crate::pty::OnTerminal;
use crate::support::{Running, run, scene};

#[test]
fn whoever_waits_on_a_terminal_sees_who_holds_since_when() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    holder.event("started");
    let held_by = format!("/{} since ", holder.pid());
    let mut waiter = OnTerminal::start(agent.url(), &["run", &prefix, "--", "echo", "my turn"]);
    waiter.wait_for("next; 1 of 1 held by ");
    waiter.wait_for(&held_by);
    holder.signal("TERM");
    holder.end();
    waiter.wait_for("my turn");
    assert_eq!(waiter.end(), Some(0));
}

#[test]
fn the_waiting_line_stays_within_its_row_however_narrow_the_terminal_is() {
    let (agent, prefix) = scene();
    let value = "\u{202e}a value that is wider than the terminal";
    let holding = ["--value", value, &prefix, "--", "sleep", "1000"];
    let mut holder = Running::start(agent.url(), &holding);
    holder.event("started");
    let size = Winsize {
        ws_row: 24,
        ws_col: 20,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let arguments = ["run", &prefix, "--", "echo", "my turn"];
    let narrow = openpty(&size, None).expect("a terminal");
    let mut waiter = OnTerminal::start_on(narrow, agent.url(), &arguments);
    let line = format!("{prefix}: next; 1 of 1 held by ");
    let row = line.chars().take(18).collect::<String>() + "…";
    waiter.wait_for(&format!("\r\x1b[K{row}\r\x1b[K{row}\r\x1b[K"));
    holder.signal("TERM");
    holder.end();
    waiter.wait_for("my turn");
    assert!(!waiter.seen().contains('\u{202e}'), "{:?}", waiter.seen());
    assert_eq!(waiter.end(), Some(0));
}

#[test]
fn runs_with_the_same_value_see_each_its_own_place() {
    let (agent, prefix) = scene();
    let sleeper = ["--value", "same", &prefix, "--", "sleep", "1000"];
    let mut holder = Running::start(agent.url(), &sleeper);
    holder.event("started");
    let mut first = Running::start(agent.url(), &sleeper);
    assert_eq!(first.event("queued")["ahead"], 0);
    let mut second = Running::start(agent.url(), &sleeper);
    assert_eq!(second.event("queued")["ahead"], 1);
    let echo = ["run", "--value", "same", &prefix, "--", "echo", "my turn"];
    let mut third = OnTerminal::start(agent.url(), &echo);
    third.wait_for("2 ahead; 1 of 1 held by same");
    first.signal("TERM");
    first.end();
    assert_eq!(second.event("queued")["ahead"], 0);
    third.wait_for("1 ahead; 1 of 1 held by same");
    second.signal("TERM");
    second.end();
    third.wait_for("next; 1 of 1 held by same");
    holder.signal("TERM");
    holder.end();
    third.wait_for("my turn");
    assert_eq!(third.end(), Some(0));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn the_command_reads_from_the_terminal_and_is_interrupted_there() {
    let (agent, prefix) = scene();
    let script = "trap 'echo interrupted; exit 3' INT; echo ready; read line; echo got $line; \
                  while :; do sleep 0.01; done";
    let arguments = ["run", &prefix, "--", "sh", "-c", script];
    let mut running = OnTerminal::start(agent.url(), &arguments);
    running.wait_for("ready");
    running.write("some words\n");
    running.wait_for("got some words");
    running.write("\x03");
    running.wait_for("interrupted");
    assert_eq!(running.end(), Some(3));
    agent.assert_nothing_left(&prefix);
}

#[test]
fn what_takes_something_away_asks_on_a_terminal_and_does_nothing_unless_the_answer_is_yes() {
    let (agent, prefix) = scene();
    let ran = run(agent.url(), &["run", &prefix, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for (answer, code) in [("\n", 1), ("no\n", 1), ("y\n", 0)] {
        let mut asked = OnTerminal::start(agent.url(), &["destroy", &prefix]);
        asked.wait_for("would be removed. Go on? [y/N] ");
        asked.write(answer);
        assert_eq!(asked.end(), Some(code), "{answer:?}");
    }
    run(agent.url(), &["status", &prefix]).assert(1, "no semaphore");
}

#[test]
fn a_watch_on_a_terminal_is_drawn_anew_with_each_change() {
    let (agent, prefix) = scene();
    let ran = run(agent.url(), &["run", &prefix, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut watch = OnTerminal::start(agent.url(), &["status", "--watch", &prefix]);
    watch.wait_for(&format!("\x1b[H\x1b[J{prefix}: 0 of 1 held, 0 waiting"));
    let mut holder = Running::start(
        agent.url(),
        &["--value", "db-7", &prefix, "--", "sleep", "1000"],
    );
    holder.event("started");
    watch.wait_for("1 of 1 held");
    watch.wait_for("who held, from ");
    watch.wait_for("db-7  =");
    watch.write("\x03");
    // `setsid` reports SIGINT like this.
    assert_eq!(watch.end(), Some(2));
    holder.signal("TERM");
    holder.end();
}
