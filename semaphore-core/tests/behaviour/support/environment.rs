//! Settings of longer runs from the environment.

/// The number in the variable `name`, or `default`.
#[expect(clippy::disallowed_methods, reason = "a test may, the core may not")]
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
