//! When something was held, by the clock that all processes of a machine share.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::say;
use serde::{Serialize, Serializer};

/// A moment, written in seconds since 1970 with three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(Duration);

/// When one hold began and ended. `None` if it did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// After the permit was handed out.
    #[serde(rename = "granted_at")]
    pub granted: Option<WallTime>,
    /// When it was given back or its loss was noticed.
    #[serde(rename = "not_held_any_more_at")]
    pub ended: Option<WallTime>,
}

/// Reports when a hold begins and ends, and remembers it.
#[derive(Debug)]
pub struct Wall {
    prints: bool,
    hold: Mutex<Hold>,
}

impl WallTime {
    /// Now.
    pub fn now() -> Self {
        // A clock before 1970 can't be compared with anything.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self(since.unwrap_or_default())
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0.as_secs(), self.0.subsec_millis())
    }
}

impl Serialize for WallTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.as_secs_f64())
    }
}

impl Wall {
    /// `prints` says whether it also prints lines on stdout.
    pub fn new(prints: bool) -> Self {
        Self {
            prints,
            hold: Mutex::default(),
        }
    }

    /// It is held from now on.
    pub fn granted(&self) {
        let now = WallTime::now();
        self.set(|hold| hold.granted = Some(now));
        self.print(format_args!("granted at {now}"));
    }

    /// It isn't held any more.
    pub fn ended(&self) {
        let now = WallTime::now();
        self.set(|hold| hold.ended = Some(now));
        self.print(format_args!("not held any more at {now}"));
    }

    /// The last hold.
    pub fn hold(&self) -> Hold {
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut Hold)) {
        change(&mut self.hold.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        if self.prints {
            say!("{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_seconds_with_milliseconds() {
        let moment = WallTime(Duration::from_micros(1_763_858_429_007_900));
        assert_eq!(moment.to_string(), "1763858429.007");
    }

    #[test]
    fn what_is_told_is_kept_in_mind() {
        let wall = Wall::new(false);
        assert_eq!(wall.hold(), Hold::default());
        wall.granted();
        wall.ended();
        let Hold { granted, ended } = wall.hold();
        assert!(granted.is_some() && granted <= ended);
    }
}
