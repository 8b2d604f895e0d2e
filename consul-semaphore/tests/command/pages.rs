//! Completions, man pages, and a Consul for trying things out.

use crate::support::{Dev, closed_port, run};

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
    let dev = Dev::start(&[]);
    let url = dev.url.as_str();
    let ran = run(url, &["run", "-n", "2", "a", "--", "sh", "-c", "exit 3"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let status = run("", &["status", "-http-addr", url, "a"]);
    assert_eq!(status.stdout, "a: 0 of 2 held, 0 waiting\n", "{status:?}");
}
