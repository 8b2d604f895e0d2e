//! Input that people type.
//!
//! Input: which kind, then its text.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use semaphore_core::adapter::{AgentEnvironment, AgentUrl, Files, Stamp};
use semaphore_core::sans_io::api::{
    AcquireKey, CasKey, CreateSession, DeleteKey, ListKeys, ReadKey, ReleaseKey,
};
use semaphore_core::sans_io::{ElectionSettings, Index, Request, SessionOptions, Settings, Value};
use semaphore_core::{
    Behavior, LockKey, Prefix, Scope, Sequencer, SessionId, Token, TokenSource as _,
};

use crate::choices::Choices;
use crate::mangle;
use crate::oracle::{check_line, path};

/// Passes the text to one of the types that parse text.
pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    match choices.below(6) {
        0 => {
            let text = text(choices);
            prefix(&text);
            lock_key(&text);
        }
        1 => url(&text(choices)),
        2 => sequencer(&text(choices)),
        3 => environment(&mut choices),
        4 => options(&mut choices),
        _ => names(&mut choices),
    }
}

fn text(choices: Choices<'_>) -> String {
    String::from_utf8_lossy(choices.rest()).into_owned()
}

fn prefix(text: &str) {
    let prefix = match Prefix::new(text) {
        Ok(prefix) => prefix,
        Err(error) => return drop(error.to_string()),
    };
    assert_eq!(Prefix::new(prefix.as_str()).as_ref(), Ok(&prefix));
    let scope = Scope::new();
    let session = SessionId::new(mangle::SESSIONS[0]).expect("a session");
    let contender = prefix.contender_key(&session);
    let list = ListKeys {
        prefix: &prefix,
        wait: Some((Index(1), Duration::from_millis(1))),
        consistent: true,
    };
    check_key(&list.request(&scope), &prefix.directory());
    let lock = prefix.record_key();
    let cas = CasKey {
        key: &lock,
        index: Index(u64::MAX),
        value: b"",
        flags: u64::MAX,
    };
    check_key(&cas.request(&scope), &lock);
    let acquire = AcquireKey {
        key: &contender,
        session: &session,
        value: b"",
        flags: 0,
    };
    check_key(&acquire.request(&scope), &contender);
    let delete = DeleteKey {
        key: &contender,
        index: None,
    };
    check_key(&delete.request(&scope), &contender);
    Settings::new(prefix, 1).expect("a limit");
}

/// A valid prefix is also a valid key, and the other way round.
fn lock_key(text: &str) {
    let is_prefix = Prefix::new(text).is_ok();
    let key = match LockKey::new(text) {
        Ok(key) => key,
        Err(error) => {
            assert!(!is_prefix, "{error}");
            return;
        }
    };
    assert!(is_prefix, "{key} is no prefix");
    assert_eq!(LockKey::new(key.as_str()).as_ref(), Ok(&key));
    assert_eq!(key.to_string(), key.as_str());
    let scope = Scope::new();
    let session = SessionId::new(mangle::SESSIONS[0]).expect("a session");
    let read = ReadKey {
        key: key.as_str(),
        wait: Some((Index(1), Duration::from_millis(1))),
        consistent: true,
    };
    check_key(&read.request(&scope), key.as_str());
    let release = ReleaseKey {
        key: key.as_str(),
        session: &session,
        value: b"",
        flags: u64::MAX,
    };
    check_key(&release.request(&scope), key.as_str());
    let sequencer = Sequencer {
        key: key.to_string(),
        lock_index: u64::MAX,
        session,
    };
    check_sequencer(&sequencer);
    assert_eq!(ElectionSettings::new(key.clone()).key(), &key);
}

/// The request must name this key, and nothing that Consul would redirect.
fn check_key(request: &Request, key: &str) {
    check_line(request);
    let (path, _) = split(request);
    let path = path.strip_prefix("/v1/kv/").expect("a key");
    let decoded = percent_decode_str(path).decode_utf8().expect("UTF-8");
    assert_eq!(decoded, key);
    for segment in path.trim_end_matches('/').split('/') {
        assert!(!matches!(segment, "" | "." | ".."), "{path}");
    }
}

fn split(request: &Request) -> (&str, &str) {
    request
        .target()
        .split_once('?')
        .unwrap_or((request.target(), ""))
}

fn url(text: &str) {
    let url: AgentUrl = match text.parse() {
        Ok(url) => url,
        Err(error) => return drop(error.to_string()),
    };
    let shown = url.to_string();
    assert_eq!(shown.parse::<AgentUrl>().as_ref(), Ok(&url));
    assert!(!url.host().is_empty());
    assert!(url.port() > 0);
    // A socket's path may contain characters that a URL's path may not.
    assert!(url.socket().is_some() || !shown.contains(['?', '#', ' ']));
    assert!(!shown.contains(char::is_control));
    assert!(!url.host().contains(['@', '/']));
    assert!(url.join("/v1/x").ends_with("/v1/x"));
    match url.clone().with_https() {
        Ok(encrypted) => assert!(encrypted.to_string().starts_with("https://")),
        Err(_) => assert!(url.socket().is_some()),
    }
    if let Ok(renamed) = url.with_host(text) {
        assert_eq!(renamed.host(), text);
        assert_eq!(renamed.to_string().parse::<AgentUrl>(), Ok(renamed));
    }
}

fn sequencer(text: &str) {
    match text.parse::<Sequencer>() {
        Ok(sequencer) => check_sequencer(&sequencer),
        Err(error) => drop(error.to_string()),
    }
}

/// A sequencer must be read back as it was printed, and must read its own key.
pub(crate) fn check_sequencer(sequencer: &Sequencer) {
    assert_eq!(sequencer.to_string().parse().as_ref(), Ok(sequencer));
    let verify = sequencer.verify(&Scope::new());
    check_line(&verify);
    assert_eq!(path(&verify), format!("/v1/kv/{}", sequencer.key));
}

fn environment(choices: &mut Choices<'_>) {
    let names = [
        "CONSUL_HTTP_ADDR",
        "CONSUL_HTTP_AUTH",
        "CONSUL_HTTP_SSL",
        "CONSUL_HTTP_SSL_VERIFY",
        "CONSUL_HTTP_TOKEN",
        "CONSUL_HTTP_TOKEN_FILE",
        "CONSUL_CACERT",
        "CONSUL_CLIENT_CERT",
        "CONSUL_CLIENT_KEY",
    ];
    let variables: Vec<_> = names
        .iter()
        .map(|name| (*name, choices.flag().then(|| choices.text(24))))
        .collect();
    let content = choices.bytes(32).to_vec();
    let lookup = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.and_then(|(_, value)| value.clone())
    };
    let files = EqualFiles(content);
    if let Ok(environment) = AgentEnvironment::read(lookup) {
        let _ = environment.certificates(|path| files.read(Path::new(path)));
    }
    if let Ok(Some(tokens)) = AgentEnvironment::tokens(lookup, files)
        && let Some(token) = tokens.token()
    {
        check_token(&token);
    }
}

/// Every second path is a file, and all have this content.
struct EqualFiles(Vec<u8>);

impl Files for EqualFiles {
    fn stamp(&self, _: &Path) -> Option<Stamp> {
        None
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path.as_os_str().len().is_multiple_of(2) {
            Ok(self.0.clone())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![path.to_owned()])
    }
}

fn check_token(token: &Token) {
    assert!(token.reveal().bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(format!("{token:?}"), "Token(hidden)");
}

fn options(choices: &mut Choices<'_>) {
    let duration = |choices: &mut Choices<'_>| {
        let nanos = u32::try_from(choices.below(1_000_000_000)).unwrap_or_default();
        Duration::new(choices.number() >> choices.below(64), nanos)
    };
    let (ttl, lock_delay) = (duration(choices), duration(choices));
    let options = SessionOptions::new();
    let options = options.clone().with_ttl(ttl).unwrap_or(options);
    let options = options
        .clone()
        .with_lock_delay(lock_delay)
        .unwrap_or(options);
    let (name, node) = (choices.text(16), choices.text(16));
    let options = options.clone().with_name(name).unwrap_or(options);
    let options = options.clone().with_node(node).unwrap_or(options);
    let checks = [choices.text(8), choices.text(8)];
    let options = options
        .clone()
        .with_node_checks(checks.clone())
        .unwrap_or(options);
    let options = options
        .clone()
        .with_service_checks(checks)
        .unwrap_or(options);
    let options = options.with_behavior(choices.pick(&[Behavior::Delete, Behavior::Release]));
    assert!((SessionOptions::MIN_TTL..=SessionOptions::MAX_TTL).contains(&options.ttl()));
    let request = CreateSession { options: &options }.request(&Scope::new());
    let body: serde_json::Value = serde_json::from_slice(request.body()).expect("JSON");
    assert!(body["NodeChecks"].is_array());
    let ttl = body["TTL"].as_str().expect("a TTL");
    let shown = match ttl.strip_suffix("ns") {
        Some(nanos) => nanos.parse().map(Duration::from_nanos),
        None => ttl.trim_end_matches('s').parse().map(Duration::from_secs),
    };
    assert_eq!(shown.as_ref(), Ok(&options.ttl()));
}

fn names(choices: &mut Choices<'_>) {
    let mut scope = Scope::new().with_consistent_reads(choices.flag());
    let values = [choices.text(16), choices.text(16), choices.text(16)];
    let [datacenter, namespace, partition] = values.clone();
    scope = scope.clone().with_datacenter(datacenter).unwrap_or(scope);
    scope = scope.clone().with_namespace(namespace).unwrap_or(scope);
    scope = scope.clone().with_partition(partition).unwrap_or(scope);
    if let Ok(token) = Token::new(choices.text(16)) {
        check_token(&token);
        scope = scope.with_token(token);
    }
    let read = ReadKey {
        key: "k",
        wait: None,
        consistent: true,
    };
    let request = read.request(&scope);
    check_line(&request);
    let (_, query) = split(&request);
    for (name, value) in ["dc", "ns", "partition"].iter().zip(values) {
        let sent = query
            .split('&')
            .find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        if let Some(sent) = sent {
            let decoded = percent_decode_str(sent).decode_utf8().expect("UTF-8");
            assert_eq!(decoded, value);
        }
    }
    if scope.token().is_some() {
        let other = scope.with_token(Token::new("other").expect("a token"));
        let another = read.request(&other);
        assert_eq!(format!("{request:?}"), format!("{another:?}"));
    }
    let value = Value::new(choices.bytes(64)).expect("a small value");
    assert!(value.as_bytes().len() <= 64);
    let id = choices.text(40);
    if let Ok(session) = SessionId::new(id.as_str()) {
        assert_eq!(session.as_str(), id.to_ascii_lowercase());
        assert_eq!(SessionId::new(session.as_str()), Ok(session));
    }
}
