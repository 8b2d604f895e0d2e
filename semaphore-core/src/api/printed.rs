//! Reads entries that are formatted exactly as an agent prints them.
//!
//! An agent prints an entry's fields in one order and without spaces. Code that knows what comes
//! next is several times faster than a general parser. That matters for a list of thousands of
//! entries, which is sent again at each change.
//!
//! Everything that is read here, `serde_json` would read the same way. Everything else is left to
//! it, including the error texts: escapes, fields of other editions, the indentation of an agent
//! with `-dev`, and invalid answers.

use std::borrow::Cow;

use super::SEMAPHORE_FLAGS;
use super::entry::{Entries, Entry, USUAL_FLAGS};

/// The entries of a list in any format.
pub(super) fn list(text: &str) -> serde_json::Result<Vec<Entry<'_>>> {
    match as_printed(text) {
        Some(entries) => Ok(entries),
        None => serde_json::from_str(text).map(|Entries(entries)| entries),
    }
}

/// The answer to a read: `[{…},…]`.
fn as_printed(text: &str) -> Option<Vec<Entry<'_>>> {
    let mut rest = Rest(text);
    rest.skip("[")?;
    let entries = rest.all(Rest::entry)?;
    (rest.0 == "]").then_some(entries)
}

/// The answer to a transaction that was applied: `{"Results":[{"KV":{…}},…],"Errors":null}`.
pub(super) fn results(text: &str) -> Option<Vec<Entry<'_>>> {
    let mut rest = Rest(text);
    rest.skip(r#"{"Results":["#)?;
    let entries = rest.all(Rest::result)?;
    (rest.0 == r#"],"Errors":null}"#).then_some(entries)
}

/// The rest of the text. After a mismatch it is no longer used.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// One or more entries.
    fn all(&mut self, one: impl Fn(&mut Self) -> Option<Entry<'a>>) -> Option<Vec<Entry<'a>>> {
        let mut entries = vec![one(self)?];
        while self.skip(",").is_some() {
            entries.push(one(self)?);
        }
        Some(entries)
    }

    fn result(&mut self) -> Option<Entry<'a>> {
        self.skip(r#"{"KV":"#)?;
        let entry = self.entry()?;
        self.skip("}")?;
        Some(entry)
    }

    fn entry(&mut self) -> Option<Entry<'a>> {
        self.skip(r#"{"LockIndex":"#)?;
        let lock_index = self.number()?;
        self.skip(r#","Key":"#)?;
        let key = self.text()?;
        self.skip(r#","Flags":"#)?;
        let flags = self.flags()?;
        self.skip(r#","Value":"#)?;
        let value = self.value()?;
        let session = match self.skip(r#","Session":"#) {
            Some(()) => self.text()?,
            None => "",
        };
        self.skip(r#","CreateIndex":"#)?;
        let create_index = self.number()?;
        self.skip(r#","ModifyIndex":"#)?;
        let modify_index = self.number()?;
        self.skip("}")?;
        Some(Entry {
            key: Cow::Borrowed(key),
            create_index,
            modify_index,
            lock_index,
            flags,
            value: Some(value),
            session: Cow::Borrowed(session),
        })
    }

    /// Nearly every entry has the same flags, which are the longest number in it.
    fn flags(&mut self) -> Option<u64> {
        match self.skip(USUAL_FLAGS) {
            Some(()) => Some(SEMAPHORE_FLAGS),
            None => self.number(),
        }
    }

    /// A value, which stays encoded.
    fn value(&mut self) -> Option<&'a str> {
        let start = self.0;
        if self.skip("null").is_none() {
            self.text()?;
        }
        start.get(..start.len() - self.0.len())
    }

    fn number(&mut self) -> Option<u64> {
        let is_other = |byte: &u8| !byte.is_ascii_digit();
        let digits = self.take(self.0.as_bytes().iter().position(is_other)?)?;
        // JSON numbers don't begin with a zero.
        let is_padded = digits.len() > 1 && digits.starts_with('0');
        if is_padded { None } else { digits.parse().ok() }
    }

    /// A text without escapes, and without characters that need them.
    fn text(&mut self) -> Option<&'a str> {
        self.skip("\"")?;
        let (chunks, _) = self.0.as_bytes().as_chunks::<CHUNK>();
        let plain = CHUNK * chunks.iter().take_while(|it| is_plain(*it)).count();
        let is_last = |byte: &u8| !is_plain(&[*byte]);
        let rest = self.0.as_bytes().get(plain..)?;
        let text = self.take(plain + rest.iter().position(is_last)?)?;
        self.skip("\"")?;
        Some(text)
    }

    fn take(&mut self, length: usize) -> Option<&'a str> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn skip(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }
}

/// How many bytes of a text are checked together.
const CHUNK: usize = 16;

/// Whether none of these bytes ends a text or begins an escape. It checks every byte before it
/// decides, so that the compiler can check many at once.
fn is_plain(bytes: &[u8]) -> bool {
    let ends = |byte| u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < b' ');
    bytes.iter().fold(0, |any, byte| any | ends(*byte)) == 0
}

#[cfg(test)]
mod tests {
    use super::super::{ListKeys, Txn, TxnOutcome};
    use super::*;
    use crate::http::Response;

    /// Entries as Consul 1.8.7 printed them.
    const ENTRIES: [&str; 3] = [
        r#"{"LockIndex":0,"Key":"p/.lock","Flags":0,"Value":"eyJMaW1pdCI6MX0=","CreateIndex":10,"ModifyIndex":10}"#,
        r#"{"LockIndex":1,"Key":"p/08177021-e4ed-02f5-7523-1b9540f4fbb5","Flags":16210313421097356768,"Value":"d29ya2Vy","Session":"08177021-e4ed-02f5-7523-1b9540f4fbb5","CreateIndex":9,"ModifyIndex":9}"#,
        r#"{"LockIndex":0,"Key":"p/empty","Flags":0,"Value":null,"CreateIndex":11,"ModifyIndex":11}"#,
    ];

    fn a_list() -> String {
        format!("[{}]", ENTRIES.join(","))
    }

    fn an_answer() -> String {
        let results = ENTRIES.map(|entry| format!(r#"{{"KV":{entry}}}"#));
        format!(r#"{{"Results":[{}],"Errors":null}}"#, results.join(","))
    }

    /// How a text is read as a list, and as an answer to a transaction.
    fn understood(text: &str) -> [Option<String>; 2] {
        let response = Response::new(200, text).with_header("X-Consul-Index", "7");
        let list = ListKeys::parse(&response).ok();
        let applied = match Txn::parse(&response) {
            Ok(TxnOutcome::Applied(results)) => Some(results.entries),
            _ => None,
        };
        [list.map(|list| list.entries), applied].map(|entries| Some(format!("{:?}", entries?)))
    }

    /// The same, read only by `serde_json`.
    fn understood_in_full(text: &str) -> [Option<String>; 2] {
        let spaced = format!("{text} ");
        assert!(as_printed(&spaced).is_none() && results(&spaced).is_none());
        understood(&spaced)
    }

    #[test]
    fn what_an_agent_prints_is_read_here() {
        let list_of = as_printed(&a_list()).map(|entries| entries.len());
        let results_of = results(&an_answer()).map(|entries| entries.len());
        assert_eq!((list_of, results_of), (Some(3), Some(3)));
    }

    #[test]
    fn it_is_read_as_serde_json_reads_it() {
        for text in [a_list(), an_answer()] {
            assert_ne!(understood(&text), [None, None]);
            assert_eq!(understood(&text), understood_in_full(&text));
        }
    }

    #[test]
    fn so_is_what_differs_from_it_in_one_place() {
        for text in [a_list(), an_answer()] {
            let (mut read, mut left) = (0, 0);
            for at in 0..text.len() {
                for changed in changes(text.as_bytes(), at) {
                    let Ok(changed) = String::from_utf8(changed) else {
                        continue;
                    };
                    let is_read = as_printed(&changed).is_some() || results(&changed).is_some();
                    *(if is_read { &mut read } else { &mut left }) += 1;
                    let [here, in_full] = [understood(&changed), understood_in_full(&changed)];
                    assert_eq!(here, in_full, "{changed}");
                }
            }
            assert!(read > 1_000 && left > 1_000, "{read} and {left}");
        }
    }

    /// One byte is changed, removed or doubled, or the text ends there.
    fn changes(text: &[u8], at: usize) -> Vec<Vec<u8>> {
        let (before, after) = text.split_at(at);
        let others = b"\"\\09a,:[]{} -.+\n\x7f".iter();
        others
            .map(|other| [before, &[*other], &after[1..]].concat())
            .chain([
                [before, &after[1..]].concat(),
                [before, &after[..1], after].concat(),
                [before, &after[..1]].concat(),
            ])
            .collect()
    }

    #[test]
    fn a_text_ends_at_its_quote_however_long_it_is() {
        for length in 0..=3 * CHUNK {
            for last in ["", "é", "🙂"] {
                let text = format!("{}{last}", "x".repeat(length));
                let printed = format!(r#""{text}","#);
                let mut rest = Rest(&printed);
                assert_eq!((rest.text(), rest.0), (Some(text.as_str()), ","));
                // The text has no end in some, and an escape in others.
                for other in ["", "\\\"\"", "\n\"", "\0\""] {
                    assert_eq!(Rest(&format!("\"{text}{other}")).text(), None);
                }
            }
        }
    }

    #[test]
    fn a_number_that_json_has_not_is_none() {
        for (text, number) in [
            ("0,", Some(0)),
            ("10,", Some(10)),
            ("18446744073709551615,", Some(u64::MAX)),
            ("18446744073709551616,", None),
            ("01,", None),
            ("00,", None),
            ("+1,", None),
            ("-1,", None),
            (",", None),
            ("1", None),
            ("", None),
        ] {
            assert_eq!(Rest(text).number(), number, "{text}");
        }
    }
}
