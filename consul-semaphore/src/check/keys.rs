//! Whether every release accepts the name as a key.

use super::{Finding, KEY};

pub(super) fn check(name: &str) -> Finding {
    const ABOUT: &str = "keys";
    let is_taken = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    if name.chars().all(is_taken) && !name.contains("..") {
        Finding::good(ABOUT, format!("every release takes {name}"))
    } else {
        Finding::bad(
            ABOUT,
            KEY,
            format!("some releases refuse {name:?}, such as 1.21.5"),
            "use letters, digits, / - _ and . only",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_some_releases_take_is_told() {
        for (name, exit) in [
            ("service/db-1_a.b", None),
            ("service/däb", Some(KEY)),
            ("a b", Some(KEY)),
        ] {
            assert_eq!(check(name).exit(), exit, "{name}");
        }
    }
}
