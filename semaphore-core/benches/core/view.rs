//! The time that the core takes to read a view, beside the time that `serde_json` takes to skip the
//! same answer.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use semaphore_core::SessionId;
use semaphore_core::sans_io::api::ListKeys;
use semaphore_core::sans_io::{Key, Response, View};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::document::{Document, prefix};

/// The numbers of contenders in a document.
const CONTENDERS: [usize; 3] = [10, 100, 5000];

#[divan::bench(args = CONTENDERS)]
fn skip_with_serde_json(bencher: Bencher, contenders: usize) {
    let answer = Document::new(contenders, 3).answer();
    bencher
        .counter(BytesCount::of_slice(answer.body()))
        .bench(|| serde_json::from_slice::<IgnoredAny>(black_box(answer.body())).expect("a list"));
}

/// The minimum that a view needs of each entry, as `serde_json` alone reads it.
#[divan::bench(args = CONTENDERS)]
fn decode_the_least_with_serde_json(bencher: Bencher, contenders: usize) {
    let answer = Document::new(contenders, 3).answer();
    bencher
        .counter(BytesCount::of_slice(answer.body()))
        .bench(|| {
            let text = core::str::from_utf8(black_box(answer.body())).expect("a text");
            serde_json::from_str::<Vec<Least<'_>>>(text).expect("a list")
        });
}

/// Some fields of an entry.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(dead_code, reason = "only decoding counts")]
struct Least<'a> {
    key: &'a str,
    #[serde(default)]
    session: &'a str,
    create_index: u64,
    modify_index: u64,
}

#[divan::bench(args = CONTENDERS)]
fn parse_the_list(bencher: Bencher, contenders: usize) {
    let answer = Document::new(contenders, 3).answer();
    bencher
        .counter(BytesCount::of_slice(answer.body()))
        .bench(|| {
            ListKeys::parse(black_box(&answer))
                .expect("a list")
                .entries
                .len()
        });
}

#[divan::bench(args = CONTENDERS)]
fn read_a_view(bencher: Bencher, contenders: usize) {
    let answer = Document::new(contenders, 3).answer();
    bencher
        .counter(BytesCount::of_slice(answer.body()))
        .bench(|| view(black_box(&answer)));
}

#[divan::bench(args = CONTENDERS)]
fn find_every_key(bencher: Bencher, contenders: usize) {
    let document = Document::new(contenders, contenders);
    let view = view(&document.answer());
    let sessions: Vec<_> = document
        .sessions()
        .map(|session| SessionId::new(session).expect("an id"))
        .collect();
    bencher.bench(|| {
        sessions
            .iter()
            .filter(|session| {
                view.is_alive(session.as_str())
                    && view.key(session) != Key::Absent
                    && view
                        .record()
                        .is_some_and(|record| record.holds(session.as_str()))
            })
            .count()
    });
}

fn view(answer: &Response) -> View {
    View::new(&prefix(), &ListKeys::parse(answer).expect("a list"))
}
