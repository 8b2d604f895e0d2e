//! Completions, man pages, and a Consul to try things on.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::support::{closed_port, program, run};

#[test]
fn completions_and_man_pages_are_printed() {
    let nowhere = closed_port();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&nowhere, &["completions", shell]);
        assert_eq!(script.code, Some(0));
        assert!(script.stdout.contains("on-lost"), "{shell}");
    }
    let page = run(&nowhere, &["man"]).stdout;
    assert!(page.contains(".TH") && page.contains("status"), "{page}");
    let page = run(&nowhere, &["man", "elect", "run"]).stdout;
    assert!(page.contains("conflict\\-exit\\-code"), "{page}");
    run(&nowhere, &["man", "nothing"]).assert(125, "nothing");
}

#[test]
fn a_consul_in_memory_is_there_to_try_things_on() {
    let mut dev = program("", &["dev", "--listen", "127.0.0.1:0"]);
    let mut dev = dev.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(dev.stdout.take().expect("a pipe")).lines();
    let line = lines.next().expect("a line").expect("text");
    let url = line.strip_prefix("CONSUL_HTTP_ADDR=").expect("an address");
    let ran = run(url, &["run", "-n", "2", "a", "--", "sh", "-c", "exit 3"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let status = run("", &["status", "-http-addr", url, "a"]);
    assert_eq!(status.stdout, "a: 0 of 2 held, 0 waiting\n", "{status:?}");
    dev.kill().expect("it runs");
    dev.wait().expect("an end");
}
