//! Holds as lines of text, by the clock that all processes of a machine share, so that holders in
//! several processes can be compared.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::gauge::Belief;

/// Relates this process's clock to the machine's.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    here: Instant,
    everywhere: Duration,
}

impl Clock {
    /// The present state of both.
    pub fn read() -> Self {
        Self {
            here: Instant::now(),
            everywhere: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    fn nanos(&self, moment: Instant) -> u128 {
        let later = moment.saturating_duration_since(self.here);
        let earlier = self.here.saturating_duration_since(moment);
        (self.everywhere + later).saturating_sub(earlier).as_nanos()
    }

    fn moment(&self, nanos: u64) -> Instant {
        let everywhere = Duration::from_nanos(nanos);
        let later = everywhere.saturating_sub(self.everywhere);
        let earlier = self.everywhere.saturating_sub(everywhere);
        let moment = self.here + later;
        moment.checked_sub(earlier).unwrap_or(moment)
    }
}

/// Appends a line for each: its beginning and its end, in nanoseconds since 1970.
///
/// # Errors
/// If the file can't be written.
pub fn append(file: &Path, beliefs: &[Belief], clock: &Clock) -> io::Result<()> {
    let lines = beliefs.iter().flat_map(|belief| {
        let [since, until] = [belief.since, belief.until].map(|moment| clock.nanos(moment));
        format!("{since} {until}\n").into_bytes()
    });
    let lines: Vec<_> = lines.collect();
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    // One write, so that the lines of other processes stay whole.
    file.write_all(&lines)
}

/// Reads the lines of all processes, each as a separate contender.
///
/// # Errors
/// For a line in another format.
pub fn parse(text: &str, clock: &Clock) -> io::Result<Vec<Belief>> {
    let belief = |(contender, line): (usize, &str)| {
        let (since, until) = line.split_once(' ')?;
        Some(Belief {
            contender,
            since: clock.moment(since.parse().ok()?),
            until: clock.moment(until.parse().ok()?),
        })
    };
    text.lines()
        .enumerate()
        .map(|numbered| {
            belief(numbered).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("not a hold: {:?}", numbered.1),
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::gauge::most_at_once;

    use super::*;

    #[test]
    fn what_processes_append_is_read_as_the_holds_of_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("holds");
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let belief = |contender, since, until| Belief {
            contender,
            since: at(since),
            until: at(until),
        };
        append(
            &file,
            &[belief(7, 100, 200), belief(8, 200, 300)],
            &Clock::read(),
        )
        .expect("a file");
        append(&file, &[belief(7, 150, 250)], &Clock::read()).expect("a file");

        let text = std::fs::read_to_string(&file).expect("text");
        let read = parse(&text, &Clock::read()).expect("holds");
        assert_eq!(read.len(), 3);
        assert_eq!(read[2].contender, 2);
        assert_eq!(most_at_once(&read), 2);
        let length = read[0].until - read[0].since;
        assert_eq!(length, Duration::from_millis(100));
    }

    #[test]
    fn a_line_that_is_no_hold_is_refused() {
        for line in ["", "7", "1 x", "1 2 3"] {
            let error = parse(&format!("1 2\n{line}\n"), &Clock::read()).expect_err("no hold");
            assert!(error.to_string().contains("not a hold"), "{error}");
        }
    }
}
