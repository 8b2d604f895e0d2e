//! An agent that sometimes fails costs only time.

use crate::support::{Dev, run};

#[test]
fn failures_that_pass_change_no_exit_code_and_leave_nothing() {
    let dev = Dev::start(&["500?rate=0.2", "reset-before?rate=0.1", "latency?ms=1&to=5"]);
    for code in [0, 3, 9, 0, 4] {
        let script = format!("exit {code}");
        let arguments = ["run", "-n", "2", "faults", "--", "sh", "-c", &script];
        let ran = run(&dev.url, &arguments);
        assert_eq!(ran.code, Some(code), "{ran:?}");
    }
    let client = real_agent::Client::new(&dev.url);
    let cleared = client.put("/mock/clear", b"").expect("an answer");
    assert_eq!(cleared.status, 200);
    client.assert_nothing_left("faults");
}

#[test]
fn an_agent_that_has_no_leader_at_first_is_waited_for() {
    let dev = Dev::start(&["500?times=6"]);
    let ran = run(&dev.url, &["run", "a", "--", "sh", "-c", "exit 3"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}
