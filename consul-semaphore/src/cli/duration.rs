//! Durations as operators write them.

use std::time::Duration;

use jiff::SignedDuration;

/// `90`, `1.5s`, `3h`, `1h15m`. A number alone means seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "not a duration, such as 500ms, 90s, 15m or 1h30m";
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let signed: SignedDuration = text.parse().map_err(|_| EXPECTED.to_owned())?;
    Duration::try_from(signed).map_err(|_| "a duration can't be negative".to_owned())
}

/// Similar to Go's format: `35s`, `2m05s`, `3h10m`.
pub(crate) fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_takes_for_a_duration_is_one() {
        for (text, millis) in [
            ("0", 0),
            ("5", 5_000),
            ("500ms", 500),
            ("1.5s", 1_500),
            ("3h", 10_800_000),
            ("1h15m30.5s", 4_530_500),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "soon", "-1s", "5 parsecs"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn they_are_shown_shortly() {
        for (seconds, text) in [(35, "35s"), (125, "2m05s"), (11_400, "3h10m")] {
            assert_eq!(shown(Duration::from_secs(seconds)), text);
        }
    }
}
