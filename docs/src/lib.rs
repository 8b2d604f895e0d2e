//! The code of README and guides, compiled and run as tests.
//!
//! The examples run as documentation tests. Those that need an agent are marked `no_run`: they are only compiled there, and
//! `tests/on_an_agent.rs` runs them on a real agent. `build.rs` prepares both from the pages. [`page`] says how a page hides the
//! code around an example.

pub mod page;

/// Runs the examples of one page, as `build.rs` has prepared it.
macro_rules! examples_of {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!(env!("OUT_DIR"), "/", $path))]
            struct $name;
        )*
    };
}

examples_of! {
    Readme: "README.md",
    Running: "RUNNING.md",
    Testing: "TESTING.md",
    Adapter: "guides/ADAPTER.md",
    Blocking: "guides/BLOCKING.md",
    ByHand: "guides/BY-HAND.md",
    Fencing: "guides/FENCING.md",
    Leading: "guides/LEADING.md",
    Loss: "guides/LOSS.md",
    Ttl: "guides/TTL.md",
}
