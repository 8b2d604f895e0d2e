//! The code of README and guides, compiled and run as tests.
//!
//! The examples run as documentation tests. Those that need an agent are marked `no_run`: they are only compiled there.
//! `build.rs` makes a test of each of them, and `tests/on_an_agent.rs` runs it on a real agent.

/// Runs the examples of one file.
macro_rules! examples_of {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!($path)]
            struct $name;
        )*
    };
}

examples_of! {
    Readme: "../../README.md",
    Running: "../RUNNING.md",
    Testing: "../TESTING.md",
    Adapter: "../guides/ADAPTER.md",
    Blocking: "../guides/BLOCKING.md",
    ByHand: "../guides/BY-HAND.md",
    Fencing: "../guides/FENCING.md",
    Leading: "../guides/LEADING.md",
    Loss: "../guides/LOSS.md",
    Ttl: "../guides/TTL.md",
}
