//! Bad input is refused before anything is sent, and a missing agent is reported.

use std::net::{Ipv4Addr, TcpListener};

use crate::support::{Consul, closed_port, run};

const CONTEND: &str = env!("CARGO_BIN_EXE_contend");

#[test]
fn bad_flags_are_refused_with_the_reason() {
    let cases: [(&[&str], &str); 6] = [
        (&["--prefix", ""], "the prefix \"\" is empty"),
        (&["--prefix", "a//b"], "has an empty segment"),
        (&["--prefix", "a/../b"], "has a segment of dots"),
        (&["--limit", "0"], "--limit"),
        (&["--contenders", "0"], "--contenders"),
        (
            &["--backend", "actix"],
            "possible values: tokio, threads, smol",
        ),
    ];
    for (args, reason) in cases {
        run(CONTEND, Consul::InMemory, args).assert_refused(2, reason);
    }
}

#[test]
fn flags_that_do_not_fit_together_are_refused() {
    let cases: [(&[&str], &str); 9] = [
        (&["--mode", "hold", "--cold"], "--cold is for --mode cycle"),
        (&["--slots", "4"], "--slots is more than --limit"),
        (
            &["--mode", "fleet", "--slots", "2"],
            "--slots is not for --mode fleet",
        ),
        (
            &["--participants", "5", "--contenders", "4"],
            "more participants than contenders",
        ),
        (&["--mode", "fleet", "--cold"], "--cold is for --mode cycle"),
        (
            &["--mode", "fleet", "--contenders", "4"],
            "--contenders is not for --mode fleet",
        ),
        (
            &["--mode", "fleet", "--holds", "file"],
            "--holds is not for --mode fleet",
        ),
        (&["--semaphores", "4"], "are for --mode fleet"),
        (
            &["--mode", "hold", "--waiters", "4"],
            "are for --mode fleet",
        ),
    ];
    for (args, reason) in cases {
        run(CONTEND, Consul::InMemory, args).assert_refused(2, reason);
    }
}

#[test]
fn a_fleet_of_none_is_refused() {
    for (flag, value) in [("--semaphores", "0"), ("--transports", "none")] {
        let args = ["--mode", "fleet", flag, value];
        run(CONTEND, Consul::InMemory, &args).assert_refused(2, flag);
    }
}

#[test]
fn a_bad_address_is_refused_without_being_shown() {
    for (address, reason) in [
        ("http://user:secret@127.0.0.1:8500", "credentials"),
        ("ftp://127.0.0.1", "http"),
        ("http://", "host"),
        ("unix://", "socket"),
    ] {
        let ran = run(CONTEND, Consul::At(address), &[]);
        ran.assert_refused(2, "CONSUL_HTTP_ADDR is not the address of an agent: ");
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
}

#[test]
fn an_address_where_nobody_listens_is_told() {
    let address = closed_port().to_string();
    let gone = Consul::At("unix:///no/such/consul.sock");
    for backend in ["tokio", "threads", "smol"] {
        let ran = run(CONTEND, gone, &["--backend", backend]);
        ran.assert_refused(
            1,
            "error: no agent answers at unix:///no/such/consul.sock: ",
        );
        assert!(ran.stderr.contains("No such file"), "{}", ran.stderr);
    }
    for backend in ["tokio", "threads", "smol"] {
        let ran = run(CONTEND, Consul::At(&address), &["--backend", backend]);
        ran.assert_refused(1, &format!("error: no agent answers at http://{address}: "));
        assert!(ran.stderr.contains("onnection refused"), "{}", ran.stderr);
    }
}

#[test]
fn an_agent_that_is_silent_is_not_waited_for_without_end() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let ran = run(CONTEND, Consul::At(&address), &[]);
    ran.assert_refused(1, "the agent did not answer in time");
}
