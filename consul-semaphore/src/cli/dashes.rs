//! Flags in Go's spelling: `-http-addr` is `--http-addr`.

use std::ffi::OsString;

/// Consul's own flags, which users write with one dash.
const OF_CONSUL: &[&str] = &[
    "http-addr",
    "token",
    "token-file",
    "ca-file",
    "ca-path",
    "client-cert",
    "client-key",
    "tls-server-name",
    "datacenter",
    "namespace",
    "partition",
    "stale",
];

/// The arguments with two dashes before each of Consul's flags. What follows `--` belongs to the
/// command.
pub(crate) fn doubled(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut is_ours = true;
    arguments
        .map(|argument| {
            is_ours &= argument != "--";
            match argument.to_str().and_then(flag) {
                Some(flag) if is_ours && OF_CONSUL.contains(&name(flag)) => {
                    OsString::from(format!("--{flag}"))
                }
                _ => argument,
            }
        })
        .collect()
}

/// The text after one dash.
pub(crate) fn flag(argument: &str) -> Option<&str> {
    let flag = argument.strip_prefix('-')?;
    (!flag.is_empty() && !flag.starts_with('-')).then_some(flag)
}

/// The flag without its value.
pub(crate) fn name(flag: &str) -> &str {
    flag.split_once('=').map_or(flag, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubled_words(words: &str) -> Vec<OsString> {
        doubled(words.split(' ').map(OsString::from))
    }

    #[test]
    fn consuls_flags_get_their_second_dash_and_no_others() {
        assert_eq!(
            doubled_words("run -http-addr=a -n 3 -token-file f --ca-file c p"),
            [
                "run",
                "--http-addr=a",
                "-n",
                "3",
                "--token-file",
                "f",
                "--ca-file",
                "c",
                "p"
            ]
        );
    }

    #[test]
    fn the_commands_own_arguments_stay_as_they_are() {
        assert_eq!(
            doubled_words("run p -- ssh -stale -http-addr"),
            ["run", "p", "--", "ssh", "-stale", "-http-addr"]
        );
    }
}
