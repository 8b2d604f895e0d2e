//! What the core costs on its own: `cargo bench -p semaphore-core`.

#![expect(clippy::expect_used, reason = "a benchmark's own documents")]

mod document;
mod record;
mod step;
mod view;

fn main() {
    divan::main();
}
