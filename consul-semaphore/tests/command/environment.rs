//! The command's input and variables. It gets nothing that must stay hidden.

use crate::support::{
    Running, closed_port, program, run, run_with, scene, unshare, wait_until, within,
};

#[test]
fn standard_input_passes_through() {
    let (agent, prefix) = scene();
    let cat = program(agent.url(), &["run", &prefix, "--", "cat"]);
    let ran = run_with(cat, "to be read\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout, "to be read\n");
}

#[test]
fn the_command_learns_what_it_runs_under() {
    let (agent, prefix) = scene();
    let script = "echo $CONSUL_SEMAPHORE_PREFIX; echo $CONSUL_SEMAPHORE_SESSION; \
                  echo $CONSUL_SEMAPHORE_SEQUENCER; echo $CONSUL_SEMAPHORE_FENCING_TOKEN; \
                  echo $CONSUL_SEMAPHORE_LIMIT $CONSUL_SEMAPHORE_PERMITS";
    let arguments = ["-n", "3", &prefix, "--", "sh", "-c", script];
    let mut running = Running::start(agent.url(), &arguments);
    let granted = running.event("granted");
    let session = granted["session"].as_str().expect("a session");
    assert_eq!(running.line(), prefix);
    assert_eq!(running.line(), session);
    assert_eq!(running.line(), granted["sequencers"][0]);
    assert_eq!(running.line(), granted["fencing_token"].to_string());
    assert_eq!(running.line(), "3 1");
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_command_that_adopts_the_limit_learns_which_one_that_is() {
    let (agent, prefix) = scene();
    let ran = run(agent.url(), &["run", "-n", "5", &prefix, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for wait in ["--try", "--timeout=60s"] {
        let script = "echo $CONSUL_SEMAPHORE_LIMIT";
        let run_with_another = ["run", "-n", "2", "--adopt-limit", wait, &prefix, "--"];
        let mut arguments = run_with_another.to_vec();
        arguments.extend(["sh", "-c", script]);
        let ran = run(agent.url(), &arguments);
        assert_eq!(ran.stdout, "5\n", "{ran:?}");
    }
}

#[test]
fn a_shell_runs_one_line_if_it_is_asked_for_and_no_shell_otherwise() {
    let (agent, prefix) = scene();
    let plain = run(agent.url(), &["run", &prefix, "--", "echo", "$HOME;", "a"]);
    assert_eq!(plain.stdout, "$HOME; a\n");
    let mut command = program(agent.url(), &["run", "--shell", &prefix, "--"]);
    command.args(["echo a;", "exit 9"]).env("SHELL", "/bin/sh");
    let ran = run_with(command, "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(9), "a\n"), "{ran:?}");
}

#[test]
fn the_commands_arguments_are_shown_to_nobody_and_name_and_value_are_as_they_were_chosen() {
    let (agent, prefix) = scene();
    let secret = "--password=hunter2";
    let arguments = [&prefix, "--", "sh", "-c", "echo held; sleep 1000", secret];
    let mut running = Running::start(agent.url(), &arguments);
    assert_eq!(running.line(), "held");
    let sessions = agent.get("/v1/session/list").expect("sessions").text();
    assert!(sessions.contains("consul-semaphore on "), "{sessions}");
    let keys = agent.get(&format!("/v1/kv/{prefix}/?recurse"));
    let keys = keys.expect("keys").text();
    assert!(!sessions.contains("hunter2") && !keys.contains("hunter2"));
    running.signal("TERM");
    running.end();

    let chosen = ["--name", "nightly", "--value", "db-7"];
    let held = [&prefix, "--", "sh", "-c", "echo held; sleep 1000"];
    let arguments: Vec<&str> = chosen.into_iter().chain(held.map(|it| it)).collect();
    let mut running = Running::start(agent.url(), &arguments);
    let session = running.event("granted")["session"].clone();
    let session = session.as_str().expect("a session").to_owned();
    assert_eq!(running.line(), "held");
    let info = agent.get(&format!("/v1/session/info/{session}"));
    let info = info.and_then(|it| it.json()).expect("a session");
    let name = info[0]["Name"].as_str().expect("a name");
    assert!(
        name.starts_with("nightly (consul-semaphore since "),
        "{name}"
    );
    let key = agent.get(&format!("/v1/kv/{prefix}/{session}?raw"));
    assert_eq!(key.expect("a key").text(), "db-7");
    running.signal("TERM");
    running.end();
    agent.assert_nothing_left(&prefix);
}

#[test]
fn no_token_is_in_the_list_of_processes() {
    let (agent, prefix) = scene();
    let mut command = program(agent.url(), &["run", "--json"]);
    command.env("CONSUL_HTTP_TOKEN", "hunter2");
    let mut running = Running::spawn(command, &[&prefix, "--", "sleep", "1000"]);
    let command = format!("/proc/{}/cmdline", running.command());
    wait_until("the command", || {
        std::fs::read(&command).is_ok_and(|words| words.starts_with(b"sleep"))
    });
    let mut seen = Vec::new();
    for process in std::fs::read_dir("/proc").expect("processes") {
        let folder = process.expect("a process").path();
        // A process that has ended meanwhile has no status.
        let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        let words = std::fs::read(folder.join("cmdline")).unwrap_or_default();
        let of_ours = [
            format!("\nPid:\t{}\n", running.pid()),
            format!("\nPPid:\t{}\n", running.pid()),
        ];
        if of_ours.iter().any(|line| status.contains(line)) {
            seen.push(String::from_utf8_lossy(&words).into_owned());
        }
    }
    // The program itself, the command, and the guard.
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(
        !seen.iter().any(|words| words.contains("hunter2")),
        "{seen:?}"
    );
    running.signal("TERM");
    running.end();
}

#[test]
fn a_command_is_found_without_a_path_where_the_system_looks() {
    let (agent, prefix) = scene();
    let mut command = program(agent.url(), &["run", &prefix, "--", "ls", "/"]);
    command.env_remove("PATH");
    let ran = run_with(command, "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("usr"), "{ran:?}");
}

#[test]
fn where_no_command_can_be_started_that_is_told_before_anything_is_sent() {
    let script = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    let ours = program(&closed_port(), &["run", "p", "--", "true"]);
    let ours = within(&["sh", "-c", script], &ours);
    run_with(unshare(&["--mount"], &ours), "").assert(125, "is /proc mounted?");
}
