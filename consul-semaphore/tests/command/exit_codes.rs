//! The exit codes are an interface.

use real_agent::{Agent, Proxy};

use crate::support::{Running, closed_port, program, run, scene};

#[test]
fn the_commands_own_code_is_passed_on_and_nothing_is_left() {
    let (agent, prefix) = scene();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 119", 119),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let ran = run(
            agent.url(),
            &["run", "-n", "3", &prefix, "--", "sh", "-c", script],
        );
        assert_eq!(ran.code, Some(code), "{script}: {ran:?}");
        // Nobody watches, so the program is quiet.
        assert_eq!(ran.stderr, "", "{script}");
    }
    agent.assert_nothing_left(&prefix);
}

#[test]
fn a_command_that_is_missing_or_can_not_be_run_is_told_before_anything_is_sent() {
    let nowhere = closed_port();
    run(&nowhere, &["run", "p", "--", "no-such-command"]).assert(127, "no-such-command");
    run(&nowhere, &["run", "p", "--", "./nosuch"]).assert(127, "No such file or directory");
    run(&nowhere, &["run", "p", "--", "/etc/passwd"]).assert(126, "/etc/passwd");
}

#[test]
fn bad_usage_is_told_before_anything_is_sent() {
    let nowhere = closed_port();
    for (arguments, said) in [
        (vec!["run", "p"], "COMMAND"),
        (vec!["run", "-n", "0", "p", "--", "true"], "limit"),
        (vec!["run", "a//b", "--", "true"], "a//b"),
        (vec!["run", "--ttl", "1s", "p", "--", "true"], "TTL"),
        (vec!["run", "--grace", "30s", "p", "--", "true"], "--grace"),
        (
            vec!["run", "--timeout", "soon", "p", "--", "true"],
            "duration",
        ),
        (
            vec!["run", "--token=secret", "p", "--", "true"],
            "--token-file",
        ),
        (
            vec!["run", "-http-addr=http://", "p", "--", "true"],
            "address",
        ),
        (vec!["no-such-subcommand"], "no-such-subcommand"),
    ] {
        run(&nowhere, &arguments).assert(125, said);
    }
}

#[test]
fn help_and_version_are_no_failure() {
    let nowhere = closed_port();
    let help = run(&nowhere, &["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("Exit codes"), "{help:?}");
    assert_eq!(run(&nowhere, &["--version"]).code, Some(0));
}

#[test]
fn an_agent_that_is_not_there_is_told_apart_from_others_who_hold() {
    let nowhere = closed_port();
    let waited = ["run", "--timeout", "500ms", "p", "--", "true"];
    run(&nowhere, &waited).assert(121, "could not be reached");
}

#[test]
fn an_agent_that_takes_requests_and_answers_none_is_told_apart_from_others_who_hold() {
    let (agent, prefix) = scene();
    let address = agent.url().strip_prefix("http://").expect("an address");
    let proxy = Proxy::start(address.parse().expect("an address")).expect("a port");
    proxy.silence();
    let mut arguments = vec!["run", "--timeout", "2s", "--conflict-exit-code", "0"];
    arguments.extend([&prefix, "--", "true"]);
    run(&proxy.url(), &arguments).assert(121, "Consul has not answered for 2 s");
}

#[test]
fn a_token_that_lacks_a_permission_is_refused() {
    let agent = Agent::builder()
        .acl("11111111-2222-3333-4444-555555555555")
        .start()
        .expect("an agent");
    let ran = run(&agent.url(), &["run", "p", "--", "true"]);
    ran.assert(122, "denies");
}

#[test]
fn another_limit_and_a_key_of_something_else_are_conflicts() {
    let (agent, prefix) = scene();
    let first = run(agent.url(), &["run", "-n", "3", &prefix, "--", "true"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    run(agent.url(), &["run", "-n", "2", &prefix, "--", "true"]).assert(123, "limit");
    let adopted = ["run", "-n", "2", "--adopt-limit", &prefix, "--", "true"];
    assert_eq!(run(agent.url(), &adopted).code, Some(0));
    let resized = ["run", "-n", "2", "--resize-if-idle", &prefix, "--", "true"];
    assert_eq!(run(agent.url(), &resized).code, Some(0));
    run(agent.url(), &["run", "-n", "3", &prefix, "--", "true"]).assert(123, "limit");
    let other = format!("{prefix}/other");
    let key = format!("/v1/kv/{other}/.lock");
    agent.put(&key, b"mine").expect("an answer");
    run(agent.url(), &["run", &other, "--", "true"]).assert(123, "not a semaphore's");
}

#[test]
fn what_is_not_granted_has_a_code_which_can_be_chosen() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    holder.event("started");
    let timed = ["run", "--timeout", "300ms", &prefix, "--", "true"];
    run(agent.url(), &timed).assert(124, "granted");
    let tried = ["run", "--try", &prefix, "--", "true"];
    run(agent.url(), &tried).assert(124, "0 of 1 slots are free");
    let chosen = [
        "run",
        "--try",
        "--conflict-exit-code",
        "7",
        &prefix,
        "--",
        "true",
    ];
    run(agent.url(), &chosen).assert(7, "0 of 1 slots are free");
    holder.signal("TERM");
    assert_eq!(holder.end().0, Some(143));
    agent.assert_nothing_left(&prefix);
    assert_eq!(run(agent.url(), &tried).code, Some(0));
}

#[test]
fn several_slots_are_taken_at_once_or_none() {
    let (agent, prefix) = scene();
    let two = ["--permits", "2", "-n", "3", &prefix, "--", "sleep", "1000"];
    let mut holder = Running::start(agent.url(), &two);
    let granted = holder.event("granted");
    assert_eq!(granted["sequencers"].as_array().map(Vec::len), Some(2));
    holder.event("started");
    let try_two = [
        "run",
        "--try",
        "--permits",
        "2",
        "-n",
        "3",
        &prefix,
        "--",
        "true",
    ];
    run(agent.url(), &try_two).assert(124, "1 of 3 slots are free");
    holder.signal("TERM");
    holder.end();
    assert_eq!(run(agent.url(), &try_two).code, Some(0));
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let (agent, prefix) = scene();
    let ran = run(agent.url(), &["run", &prefix, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for arguments in [["list", &prefix], ["status", &prefix], ["check", &prefix]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = program(agent.url(), &arguments);
        let output = command.stdout(writer).output().expect("an end");
        // As for a program that SIGPIPE ends, and without a word.
        assert_eq!(output.status.code(), Some(141), "{output:?}");
        assert_eq!(output.stderr, b"", "{output:?}");
    }
}

#[test]
fn each_step_is_told_in_words_if_that_is_asked_for() {
    let (agent, prefix) = scene();
    let ran = run(
        agent.url(),
        &["run", "--verbose", &prefix, "--", "sh", "-c", "exit 3"],
    );
    assert_eq!(ran.code, Some(3), "{ran:?}");
    for said in [
        format!("waits for {prefix}"),
        format!("has {prefix}, session "),
        "runs the command, process ".to_owned(),
        "the command has ended with 3".to_owned(),
        "has given it back".to_owned(),
    ] {
        assert!(ran.stderr.contains(&said), "{said}: {ran:?}");
    }
}
