//! Which keys a release accepts, and how it refuses the others.

use percent_encoding::percent_decode;

use super::profile::KeyRule;

/// What is wrong with a key, in the agent's words after `invalid key name, `.
pub(super) fn fault(rule: KeyRule, key: &[u8]) -> Option<&'static str> {
    const SPACES: &str = "leading/trailing spaces are not allowed";
    const TRAVERSAL: &str = "path traversal is not allowed";
    if rule == KeyRule::Any {
        return None;
    }
    let decoded: Vec<u8> = percent_decode(key).collect();
    let is_coded = decoded != key;
    if key.trim_ascii() != key || is_coded && decoded.contains(&b' ') {
        return Some(SPACES);
    }
    let climbs = |key: &[u8]| key.split(|byte| *byte == b'/').any(|it| it == b"..");
    if climbs(key) || is_coded && decoded.windows(2).any(|pair| pair == b"..") {
        return Some(TRAVERSAL);
    }
    (rule == KeyRule::TidyAndRelative && key.starts_with(b"/")).then_some("must not begin with '/'")
}

/// The key without empty segments, `.` and `..`, each as far as a segment precedes it. Leading and
/// trailing slashes stay.
pub(super) fn cleaned(key: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in key.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." if segments.last().is_some_and(|last| *last != b"..") => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let mut clean = segments.join(&b'/');
    if key.starts_with(b"/") {
        clean.insert(0, b'/');
    }
    if key.ends_with(b"/") && !clean.is_empty() && clean != b"/" {
        clean.push(b'/');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_refused_for_spaces_climbing_and_a_slash_before_it() {
        let fault = |key: &str| fault(KeyRule::TidyAndRelative, key.as_bytes());
        for key in ["a", "a/b/", "a b", "a..b", "a%41", "ä", "..."] {
            assert_eq!(fault(key), None, "{key}");
        }
        for key in [" a", "a ", "a%20b"] {
            assert!(
                fault(key).is_some_and(|text| text.contains("spaces")),
                "{key}"
            );
        }
        for key in ["..", "a/../b", "../a", "%2e%2e/a"] {
            assert!(
                fault(key).is_some_and(|text| text.contains("traversal")),
                "{key}"
            );
        }
        assert!(fault("/a").is_some_and(|text| text.contains("begin with")));
        assert_eq!(super::fault(KeyRule::Tidy, b"/a"), None);
        assert_eq!(super::fault(KeyRule::Any, b"../ "), None);
    }

    #[test]
    fn a_key_is_cleaned_as_far_as_it_reaches() {
        for (key, clean) in [
            ("a//b", "a/b"),
            ("a/./b", "a/b"),
            ("a/../b", "b"),
            ("../b", "../b"),
            ("a//", "a/"),
            ("//a", "/a"),
            ("a/", "a/"),
        ] {
            assert_eq!(cleaned(key.as_bytes()), clean.as_bytes(), "{key}");
        }
    }
}
