//! Descriptions of long bodies in a recording: beginning, length and hash.

use ring::digest::{SHA256, digest};
use semaphore_core::adapter::Response;
use serde_json::{Value, json};

/// A body in the format of the recordings. A long one becomes its beginning, its length and its
/// hash.
pub(crate) fn told(body: &[u8]) -> Value {
    const LONG: usize = 3000;
    const BEGINNING: usize = 300;
    let text = String::from_utf8_lossy(body);
    if body.len() <= LONG {
        return json!(text);
    }
    json!({
        "begins": text.chars().take(BEGINNING).collect::<String>(),
        "bytes": body.len(),
        "sha256": hash(body),
    })
}

fn hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes)
        .as_ref()
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0xf])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// The description of a long body.
pub(crate) struct Told {
    told: Value,
    /// The `X-Consul-Index` of its answer.
    index: Option<String>,
}

impl Told {
    /// The description of this answer's body.
    pub(crate) fn of(told: &Value, response: &Response) -> Self {
        Self {
            told: told.clone(),
            index: response.header("X-Consul-Index").map(str::to_owned),
        }
    }

    /// Whether it describes this answer's body, as an agent in development mode writes it.
    pub(crate) fn is_of(&self, memory: &Response) -> bool {
        let pretty = match serde_json::from_slice::<Value>(memory.body()) {
            Err(_) => memory.body().to_vec(),
            Ok(_) => self.with_indexes(&pretty(memory.body())).into_bytes(),
        };
        self.told["bytes"] == pretty.len() && self.told["sha256"] == hash(&pretty)
    }

    /// Whether it describes a list of sessions.
    pub(crate) fn is_of_sessions(&self) -> bool {
        self.begins().contains("\"NodeChecks\"")
    }

    fn begins(&self) -> &str {
        self.told["begins"].as_str().expect("a beginning")
    }

    /// The text with the recorded indexes. Each name gets the same index everywhere: the one in the
    /// recorded beginning, or that of the answer.
    fn with_indexes(&self, text: &str) -> String {
        ["CreateIndex", "ModifyIndex"]
            .iter()
            .fold(text.to_owned(), |text, name| {
                let mark = format!("\"{name}\": ");
                let of = |text: &str| {
                    let after = text.split_once(&mark)?.1;
                    let end = after.find(|c: char| !c.is_ascii_digit())?;
                    Some(format!("{mark}{}", &after[..end]))
                };
                let header = self.index.as_ref().map(|index| format!("{mark}{index}"));
                match (of(&text), of(self.begins()).or(header)) {
                    (Some(own), Some(other)) => text.replace(&own, &other),
                    _ => text,
                }
            })
    }
}

/// JSON as an agent in development mode writes it, with its members in their order.
fn pretty(json: &[u8]) -> String {
    let mut pretty = String::new();
    let mut depth = 0;
    let (mut quoted, mut escaped) = (false, false);
    let text = String::from_utf8_lossy(json);
    let line = |depth: usize| format!("\n{}", "    ".repeat(depth));
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let is_empty = matches!((c, characters.peek()), ('[', Some(']')) | ('{', Some('}')));
        match c {
            _ if quoted => {
                quoted = escaped || c != '"';
                escaped = !escaped && c == '\\';
                pretty.push(c);
            }
            '"' => {
                quoted = true;
                pretty.push(c);
            }
            '[' | '{' if is_empty => {
                pretty.push(c);
                pretty.extend(characters.next());
            }
            '[' | '{' => {
                depth += 1;
                pretty.push(c);
                pretty += &line(depth);
            }
            ']' | '}' => {
                depth -= 1;
                pretty += &line(depth);
                pretty.push(c);
            }
            ',' => {
                pretty.push(c);
                pretty += &line(depth);
            }
            ':' => pretty += ": ",
            c => pretty.push(c),
        }
    }
    pretty
}
