//! A command that has become another user can't be signalled. That is told, and it keeps its slot.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::support::{Running, contenders, is_alive, is_root, names, program, scene, send, within};

/// Why the program may not signal its command.
enum Wall {
    /// The command is another user's, as with `sudo`, but the other way round: only root can start a
    /// process of another user.
    User,
    /// A library that is loaded before the system's answers as the system would. Everybody can have
    /// that.
    Library { folder: TempDir },
}

/// What the system does with a signal to a group of another user.
const LIBRARY: &str = "
    #include <errno.h>
    #include <signal.h>
    int killpg(pid_t group, int signal) {
        if (kill(-group, 0) == 0) errno = EPERM;
        return -1;
    }";

impl Wall {
    /// Those that this user can build.
    fn all() -> Vec<Self> {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("wall.c"), LIBRARY).expect("a file");
        // Rust needs one to link.
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o", "wall.so", "wall.c"])
            .current_dir(folder.path())
            .status();
        assert!(built.expect("`cc`, a C compiler").success());
        let mut all = vec![Self::Library { folder }];
        if is_root() {
            all.push(Self::User);
        }
        all
    }

    /// A command that the program can't signal.
    fn start(&self, url: &str, arguments: &[&str]) -> (Running, u32) {
        let mut ours = program(url, &["run", "--json"]);
        let mut arguments = arguments.to_vec();
        arguments.push("--");
        match self {
            Self::Library { folder } => {
                // A path may have a space, which would end the name of a library.
                ours.env("LD_PRELOAD", "./wall.so")
                    .current_dir(folder.path());
            }
            Self::User => {
                let weak = ["--bounding-set", "-kill", "--inh-caps", "-kill"];
                ours = within(&[&["setpriv"], &weak[..]].concat(), &ours);
                arguments.extend(["setpriv", "--reuid", "65534", "--clear-groups"]);
            }
        }
        arguments.extend(["sh", "-c", "echo ready; exec sleep 1000"]);
        let mut running = Running::spawn(ours, &arguments);
        let command = running.command();
        assert_eq!(running.line(), "ready");
        (running, command)
    }
}

#[test]
fn a_signal_that_can_not_be_sent_is_told_and_the_slot_is_kept_while_the_command_lives() {
    for wall in Wall::all() {
        let (agent, prefix) = scene();
        let (mut running, command) = wall.start(agent.url(), &[&prefix]);
        running.signal("TERM");
        let told = running.event("not-sent");
        assert_eq!(told["signal"], 15);
        let why = told["why"].as_str().expect("a reason");
        assert!(
            why.contains("another user") && why.contains("nothing is given back"),
            "{why}"
        );
        assert!(is_alive(command));
        assert_eq!(contenders(&agent, &prefix), 1);
        send("KILL", command);
        let (code, events) = running.end();
        assert_eq!(code, Some(137), "{events:?}");
        assert!(!names(&events).contains(&"passed"), "{events:?}");
        agent.assert_nothing_left(&prefix);
    }
}

#[test]
fn a_command_that_can_not_be_killed_at_a_loss_is_not_told_as_killed_and_is_waited_for() {
    for wall in Wall::all() {
        let (agent, prefix) = scene();
        let arguments = ["--grace", "300ms", &prefix];
        let (mut running, command) = wall.start(agent.url(), &arguments);
        let sessions = agent.get(&format!("/v1/kv/{prefix}/?keys")).expect("keys");
        let sessions = sessions.text();
        let mut keys = sessions.split('"');
        let contender = |key: &'_ str| key.strip_prefix(&format!("{prefix}/")).map(str::to_owned);
        let session = keys.find_map(|key| contender(key).filter(|name| name != ".lock"));
        let session = session.expect("a contender");
        agent.destroy_session(&session).expect("an answer");
        running.event("lost");
        assert_eq!(running.event("not-sent")["signal"], 15);
        assert_eq!(running.event("not-sent")["signal"], 9);
        assert!(is_alive(command));
        send("KILL", command);
        let (code, events) = running.end();
        assert_eq!(code, Some(120), "{events:?}");
        let names = names(&events);
        assert!(
            !names.contains(&"told") && !names.contains(&"killed"),
            "{names:?}"
        );
    }
}
