//! Who holds and who waits, for people and for programs.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use real_agent::{Agent, Client, Proxy};
use serde_json::Value as Json;

use crate::support::{Dev, PATIENCE, Running, contenders, program, run, scene, wait_until};

fn json(text: &str) -> Json {
    serde_json::from_str(text.trim()).expect("JSON")
}

#[test]
fn status_shows_holders_and_waiters_in_order_with_node_and_session() {
    let (agent, prefix) = scene();
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    let session = holder.event("granted")["session"].clone();
    holder.event("started");
    let mut waiters = Vec::new();
    for name in ["first", "second"] {
        let arguments = ["--value", name, &prefix, "--", "true"];
        waiters.push(Running::start(agent.url(), &arguments));
        let all = waiters.len() + 1;
        wait_until("a waiter", || contenders(&agent, &prefix) == all);
    }
    let shown = run(agent.url(), &["status", "--json", &prefix]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let shown = json(&shown.stdout);
    assert_eq!(shown["limit"], 1);
    assert_eq!(shown["holders"][0]["session"], session);
    assert!(shown["holders"][0]["node"].is_string(), "{shown}");
    assert!(shown["holders"][0]["since"].is_string(), "{shown}");
    assert_eq!(shown["waiters"][0]["value"], "first");
    assert!(shown["waiters"][0]["since"].is_string(), "{shown}");
    assert_eq!(shown["waiters"][1]["value"], "second");

    let text = run(agent.url(), &["status", &prefix]).stdout;
    assert!(text.contains("1 of 1 held, 2 waiting"), "{text}");
    let holder_line = text.lines().nth(1).expect("a line");
    assert!(
        holder_line.contains(&format!("/{}", holder.pid())),
        "{text}"
    );
    assert!(text.contains("waits 1  first"), "{text}");

    let listed = run(agent.url(), &["list", "--json", &prefix]);
    let listed = json(&listed.stdout);
    assert_eq!(listed["held"], 1, "{listed}");
    assert_eq!(listed["waiting"], 2, "{listed}");
    holder.signal("TERM");
    holder.end();
    for waiter in waiters {
        assert_eq!(waiter.end().0, Some(0));
    }
    agent.assert_nothing_left(&prefix);
}

#[test]
fn status_says_since_when_also_where_name_and_value_are_the_users() {
    let (agent, prefix) = scene();
    let chosen = ["--name", "nightly", "--value", "db-7"];
    let held = [&prefix, "--", "sleep", "1000"];
    let arguments: Vec<&str> = chosen.into_iter().chain(held.map(|it| it)).collect();
    let mut holder = Running::start(agent.url(), &arguments);
    holder.event("started");
    let shown = json(&run(agent.url(), &["status", "--json", &prefix]).stdout);
    let member = &shown["holders"][0];
    assert_eq!(member["value"], "db-7");
    assert!(member["since"].is_string(), "{shown}");
    let name = member["name"].as_str().expect("a name");
    assert!(name.starts_with("nightly "), "{shown}");
    holder.signal("TERM");
    holder.end();
    agent.assert_nothing_left(&prefix);
}

#[test]
fn where_there_is_no_semaphore_the_answer_is_no() {
    let (agent, prefix) = scene();
    run(agent.url(), &["status", &prefix]).assert(1, "no semaphore");
    assert_eq!(run(agent.url(), &["list", &prefix]).code, Some(1));
}

#[test]
fn what_is_an_election_is_told_and_how_to_see_its_leader() {
    let (agent, prefix) = scene();
    let key = format!("{prefix}/leader");
    let record = format!("{prefix}/.lock");
    for (key, asked) in [(&key, &key), (&record, &prefix)] {
        let ran = run(agent.url(), &["elect", "run", key, "--", "true"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        for arguments in [["status", "--json"], ["status", "--watch"]] {
            let arguments = [&arguments[..], &[asked]].concat();
            let shown = run(agent.url(), &arguments);
            shown.assert(123, &format!("`elect status {key}` shows who leads"));
        }
        let shown = run(agent.url(), &["elect", "status", key]);
        assert_eq!(shown.stdout, format!("{key}: nobody leads\n"));
    }
}

#[test]
fn who_asks_for_the_leader_of_a_semaphore_is_told_how_to_see_its_holders() {
    let (agent, prefix) = scene();
    let nobody = run(agent.url(), &["elect", "status", &prefix]);
    assert_eq!(nobody.stdout, format!("{prefix}: nobody leads\n"));
    let ran = run(agent.url(), &["run", &prefix, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown = run(agent.url(), &["elect", "status", &prefix]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    let said = format!("it is a semaphore, and `status {prefix}` shows who holds");
    assert!(shown.stdout.contains(&said), "{shown:?}");
}

#[test]
fn watch_tells_each_change() {
    let (agent, prefix) = scene();
    let first = run(agent.url(), &["run", &prefix, "--", "true"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let mut watch = program(agent.url(), &["status", "--watch", "--json", &prefix]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || json(&lines.next().expect("a line").expect("text"));
    assert_eq!(next()["holders"], Json::Array(Vec::new()));
    let mut holder = Running::start(agent.url(), &[&prefix, "--", "sleep", "1000"]);
    let session = holder.event("granted")["session"].clone();
    while next()["holders"][0]["session"] != session {}
    holder.signal("TERM");
    holder.end();
    while next()["holders"] != Json::Array(Vec::new()) {}
    watch.kill().expect("it runs");
    watch.wait().expect("an end");
}

/// A program that prints JSON until it is dropped.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    fn start(url: &str, arguments: &[&str]) -> Self {
        Self::telling(url, arguments, Stdio::null())
    }

    /// What it says beside the JSON goes there.
    fn telling(url: &str, arguments: &[&str], stderr: impl Into<Stdio>) -> Self {
        let mut command = program(url, arguments);
        command.stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = stdout.lines().map_while(Result::ok);
            lines
                .map_while(|line| sender.send(line).ok())
                .for_each(drop);
        });
        Self { child, lines }
    }

    /// Reads until a line is as expected.
    #[track_caller]
    fn wait_for(&self, what: &str, is_so: impl Fn(&Json) -> bool) {
        while !is_so(&json(&self.lines.recv_timeout(PATIENCE).expect(what))) {}
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent that has lost its state, and has new keys already, in the place of one with a higher
/// index: a poll at the old index would wait for ever.
#[test]
fn watches_go_on_where_an_agent_counts_from_the_beginning_again() {
    let before = Agent::start().expect("an agent");
    let after = Agent::start().expect("an agent");
    for number in 0..200 {
        let key = format!("/v1/kv/other/{number}");
        before.client().put(&key, b"").expect("an answer");
    }
    let proxy = Proxy::start(before.addr()).expect("a port");
    for (agent, limit) in [(&before, "1"), (&after, "2")] {
        let ran = run(&agent.url(), &["run", "-n", limit, "p", "--", "true"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let leader = program(&after.url(), &["elect", "run", "--json"]);
    let mut leader = Running::spawn(leader, &["l", "--", "sleep", "1000"]);
    leader.event("started");
    let slots = Watch::start(&proxy.url(), &["status", "--watch", "--json", "p"]);
    let lead = Watch::start(&proxy.url(), &["elect", "watch", "--json", "l"]);
    slots.wait_for("the state before", |it| it["limit"] == 1);
    lead.wait_for("the state before", |it| it["event"] == "leaderless");
    proxy.set_target(after.addr());
    proxy.cut();
    slots.wait_for("the state after", |it| it["limit"] == 2);
    lead.wait_for("the state after", |it| it["event"] == "elected");
    leader.signal("TERM");
    leader.end();
}

#[test]
fn watches_behind_a_gateway_that_drops_the_index_go_on_and_status_says_so_once() {
    let dev = Dev::start(&[]);
    let ways = [
        (&["run", "--json"][..], "p"),
        (&["elect", "run", "--json"], "l"),
    ];
    for (way, name) in ways {
        let ran = run(&dev.url, &[way, &[name, "--", "true"]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    let ordered = Client::new(&dev.url).put("/mock/no-index", b"");
    assert_eq!(ordered.expect("an answer").status, 200);
    let (reader, writer) = io::pipe().expect("a pipe");
    let slots = ["status", "--watch", "--json", "p"];
    let slots = Watch::telling(&dev.url, &slots, writer);
    let mut told = BufReader::new(reader).lines();
    let first = told.next().expect("a line").expect("text");
    assert!(first.contains("no X-Consul-Index"), "{first}");
    assert!(first.contains("once a second"), "{first}");
    let lead = Watch::start(&dev.url, &["elect", "watch", "--json", "l"]);
    for value in ["first", "second"] {
        for ((way, name), watch) in ways.into_iter().zip([&slots, &lead]) {
            let holds = ["--value", value, name, "--", "sleep", "1000"];
            let holder = Running::spawn(program(&dev.url, way), &holds);
            watch.wait_for("a holder", |it| {
                it["holders"][0]["value"] == value || it["leader"]["value"] == value
            });
            holder.signal("TERM");
            holder.end();
            watch.wait_for("nobody", |it| {
                it["holders"][0].is_null() && it["leader"].is_null()
            });
        }
    }
    drop(slots);
    let more: Vec<String> = told.map_while(Result::ok).collect();
    assert!(more.is_empty(), "{more:?}");
}

/// An agent behind a gateway that answers each poll at once, with what is known already. Each answer
/// has these headers, and is reported.
fn hasty_agent(headers: &'static str) -> (String, Receiver<Instant>) {
    const RECORD: &str = r#"[{"LockIndex":0,"Key":"p/.lock","Flags":16210313421097356768,
        "Value":"eyJMaW1pdCI6MSwiSG9sZGVycyI6e319","CreateIndex":5,"ModifyIndex":5}]"#;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (answered, answers) = mpsc::channel();
    let serve = move |connection: &TcpStream| -> io::Result<()> {
        let mut lines = BufReader::new(connection).lines();
        while lines.next().transpose()?.is_some() {
            while lines.next().transpose()?.is_some_and(|it| !it.is_empty()) {}
            let length = RECORD.len();
            let head = format!("{headers}Content-Length: {length}\r\n");
            write!(&mut &*connection, "HTTP/1.1 200 OK\r\n{head}\r\n{RECORD}")?;
            if answered.send(Instant::now()).is_err() {
                break;
            }
        }
        Ok(())
    };
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            // An error ends the connection, which the client sees.
            thread::spawn(move || serve(&connection));
        }
    });
    (url, answers)
}

#[test]
fn a_watch_rests_between_polls_that_are_answered_at_once() {
    for (headers, count) in [("X-Consul-Index: 5\r\n", 10), ("", 1)] {
        let (url, answers) = hasty_agent(headers);
        let _watch = Watch::start(&url, &["status", "--watch", "--json", "p"]);
        let next = |_| answers.recv_timeout(PATIENCE).expect("an answer");
        let answers: Vec<Instant> = (0..count + 2).map(next).collect();
        let took = answers[count + 1].duration_since(answers[1]);
        assert!(took >= Duration::from_millis(900), "{took:?}, {headers:?}");
    }
}

const FLAGS: &str = "16210313421097356768";

/// A session that contends there.
fn contender(agent: &Client, prefix: &str) -> String {
    let made = agent.create_session(r#"{"Behavior":"delete","TTL":"60s"}"#);
    let session = made.expect("a session");
    let path = format!("/v1/kv/{prefix}/{session}?acquire={session}&flags={FLAGS}");
    assert!(agent.put(&path, b"same").expect("an answer").is_true());
    session
}

#[test]
fn a_watch_tells_the_node_of_each_newcomer_however_many_have_come_and_gone() {
    let (agent, prefix) = scene();
    let ran = run(agent.url(), &["run", &prefix, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let watch = Watch::start(agent.url(), &["status", "--watch", "--json", &prefix]);
    // One read has this many sessions looked up, and the next one more.
    for count in [64, 1] {
        let come = (0..count).map(|_| contender(&agent, &prefix));
        let sessions: Vec<String> = come.collect();
        watch.wait_for("the newcomers", |it| {
            let waiters = it["waiters"].as_array().expect("waiters");
            waiters.len() == count && waiters.iter().all(|it| it["node"].is_string())
        });
        for session in &sessions {
            agent.destroy_session(session).expect("an answer");
        }
        watch.wait_for("nobody", |it| it["waiters"][0].is_null());
    }
}

#[test]
fn columns_stay_apart_however_many_wait() {
    let (agent, prefix) = scene();
    let come = (0..101).map(|_| contender(&agent, &prefix));
    let sessions: Vec<String> = come.collect();
    let record = format!(r#"{{"Limit":1,"Holders":{{"{}":true}}}}"#, sessions[0]);
    let path = format!("/v1/kv/{prefix}/.lock?flags={FLAGS}");
    agent.put(&path, record.as_bytes()).expect("an answer");
    let shown = run(agent.url(), &["status", &prefix]).stdout;
    for session in &sessions {
        agent.destroy_session(session).expect("an answer");
    }
    let rows: Vec<&str> = shown.lines().skip(1).collect();
    let column = rows[0].find("same").expect("a value");
    assert!(
        rows.iter().all(|row| row.find("same") == Some(column)),
        "{shown}"
    );
    assert!(rows.iter().all(|row| row.contains("  same  ")), "{shown}");
    assert!(rows[100].starts_with("  waits 100  same"), "{shown}");
}

#[test]
fn what_turns_text_around_reaches_no_terminal_and_stays_in_json() {
    let (agent, prefix) = scene();
    let value = "a\u{202e}b\u{9b}c";
    let name = "a\u{202e}b";
    let held = ["--value", value, "--name", name, &prefix, "--"];
    let sleep = ["sleep", "1000"];
    let arguments: Vec<&str> = held.into_iter().chain(sleep).collect();
    let mut holder = Running::start(agent.url(), &arguments);
    holder.event("started");
    let is_bad = |c: char| matches!(c, '\u{202e}' | '\u{9b}');
    for arguments in [
        &["status", &prefix][..],
        &["status", "--json", &prefix],
        &["list", &prefix],
        &["run", "--try", &prefix, "--", "true"],
        &["run", "--json", "--try", &prefix, "--", "true"],
        &["status", value],
        &["run", "--verbose", "--try", value, "--", "true"],
    ] {
        let shown = run(agent.url(), arguments);
        assert!(!shown.stdout.contains(is_bad), "{shown:?}");
        assert!(!shown.stderr.contains(is_bad), "{shown:?}");
    }
    let shown = json(&run(agent.url(), &["status", "--json", &prefix]).stdout);
    assert_eq!(
        shown["holders"][0]["name"]
            .as_str()
            .map(|it| it.starts_with(name)),
        Some(true)
    );
    holder.signal("TERM");
    holder.end();
    agent.assert_nothing_left(&prefix);
}

#[test]
fn list_without_a_prefix_shows_all_of_consul() {
    let (agent, prefix) = scene();
    let ran = run(agent.url(), &["run", "-n", "4", &prefix, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for all in ["", "/"] {
        let listed = run(agent.url(), &["list", "--json", all]);
        assert_eq!(listed.code, Some(0), "{listed:?}");
        let mut found = listed.stdout.lines().map(json);
        let ours = found.find(|it| it["prefix"] == prefix.as_str());
        assert_eq!(ours.expect("ours")["limit"], 4, "{listed:?}");
    }
}

#[test]
fn nothing_is_shown_to_have_begun_in_the_future() {
    let (agent, prefix) = scene();
    let ahead = r#"{"host":"h","pid":1,"since":"2999-01-01T00:00:00Z"}"#;
    let arguments = ["--value", ahead, &prefix, "--", "sleep", "1000"];
    let mut holder = Running::start(agent.url(), &arguments);
    holder.event("started");
    let shown = run(agent.url(), &["status", &prefix]).stdout;
    assert!(shown.contains("(0s)") && !shown.contains("2999"), "{shown}");
    let mut own = Running::start(agent.url(), &["-n", "1", &prefix, "--", "true"]);
    wait_until("a waiter", || contenders(&agent, &prefix) == 2);
    let shown = json(&run(agent.url(), &["status", "--json", &prefix]).stdout);
    let since = shown["waiters"][0]["since"].as_str().expect("a time");
    let since: jiff::Timestamp = since.parse().expect("a time");
    assert!(since <= jiff::Timestamp::now(), "{since}");
    holder.signal("TERM");
    holder.end();
    own.event("released");
    assert_eq!(own.end().0, Some(0));
}

#[test]
fn list_shows_every_semaphore_and_election_below() {
    let (agent, prefix) = scene();
    let (semaphore, key) = (format!("{prefix}/a"), format!("{prefix}/leader"));
    let ran = run(agent.url(), &["run", "-n", "4", &semaphore, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = run(agent.url(), &["elect", "run", &key, "--", "true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let listed = run(agent.url(), &["list", &prefix]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let text = listed.stdout;
    assert!(text.contains("0 of 4 held, 0 waiting"), "{text}");
    assert!(text.contains("nobody leads"), "{text}");
}
