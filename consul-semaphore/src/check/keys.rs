//! Whether every release accepts the prefix as a key.

use transport_ureq::Prefix;

use super::{Finding, KEY};

pub(super) fn check(prefix: &Prefix) -> Finding {
    const ABOUT: &str = "keys";
    let is_taken = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    if prefix.as_str().chars().all(is_taken) && !prefix.as_str().contains("..") {
        Finding::good(ABOUT, format!("every release takes {prefix}"))
    } else {
        Finding::bad(
            ABOUT,
            KEY,
            format!("some releases refuse {prefix:?}, such as 1.21.5"),
            "use letters, digits, / - _ and . only",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_some_releases_take_is_told() {
        for (prefix, exit) in [
            ("service/db-1_a.b", None),
            ("service/däb", Some(KEY)),
            ("a b", Some(KEY)),
        ] {
            let prefix = Prefix::new(prefix).unwrap();
            assert_eq!(check(&prefix).exit(), exit, "{prefix}");
        }
    }
}
