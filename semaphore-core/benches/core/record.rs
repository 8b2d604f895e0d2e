//! What reading and writing the record costs.

use divan::{Bencher, black_box};
use semaphore_core::sans_io::Record;
use semaphore_core::sans_io::api::SEMAPHORE_FLAGS;

use crate::document::Document;

const HOLDERS: [usize; 2] = [3, 1000];

#[divan::bench(args = HOLDERS)]
fn decode(bencher: Bencher, holders: usize) {
    let value = Document::new(holders, holders).record();
    bencher.bench(|| record(black_box(&value)));
}

#[divan::bench(args = HOLDERS)]
fn encode(bencher: Bencher, holders: usize) {
    let record = record(&Document::new(holders, holders).record());
    bencher.bench(|| black_box(&record).encode());
}

#[divan::bench(args = HOLDERS)]
fn copy_and_keep_all(bencher: Bencher, holders: usize) {
    let record = record(&Document::new(holders, holders).record());
    bencher.bench(|| {
        let mut copy = black_box(&record).clone();
        copy.retain(|holder| !holder.is_empty());
        copy
    });
}

#[divan::bench(args = HOLDERS)]
fn find_every_holder(bencher: Bencher, holders: usize) {
    let document = Document::new(holders, holders);
    let record = record(&document.record());
    bencher.bench(|| {
        let sessions = document.sessions();
        sessions.filter(|session| record.holds(session)).count()
    });
}

fn record(value: &str) -> Record {
    Record::decode(value.as_bytes(), SEMAPHORE_FLAGS).expect("a record")
}
