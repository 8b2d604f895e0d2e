//! Files with one JSON object per line, each with its time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::moment::Moment;

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line<E> {
    /// When.
    pub at: Moment,
    /// What.
    #[serde(flatten)]
    pub event: E,
}

/// A file in which one process or thread logs its events. Each line goes to the system at once. So
/// the lines of a killed process are there up to its end.
#[derive(Debug)]
pub(crate) struct Diary<E> {
    file: File,
    events: PhantomData<fn(E)>,
}

impl<E: Serialize> Diary<E> {
    /// Opens a new file, or continues an old one.
    ///
    /// # Errors
    /// If the file can't be opened.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self {
            file,
            events: PhantomData,
        })
    }

    /// Writes one line.
    ///
    /// # Errors
    /// If it can't be written.
    pub(crate) fn write(&self, at: Moment, event: E) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { at, event })?;
        line.push(b'\n');
        // Each line is one call, so the lines of several threads and processes don't mix.
        (&self.file).write_all(&line)
    }
}

/// All lines of a file. The last line of a killed process may be cut short, and is left out.
///
/// # Errors
/// If the file can't be read, or a whole line is not what was expected.
pub(crate) fn read<E: DeserializeOwned>(path: &Path) -> io::Result<Vec<Line<E>>> {
    let text = fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).map_err(io::Error::from))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(tag = "event", rename_all = "snake_case")]
    enum Event {
        Fell { from: u32 },
    }

    #[test]
    fn what_is_written_is_read_but_for_a_line_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let diary = Diary::open(&path).unwrap();
        diary.write(Moment(7), Event::Fell { from: 3 }).unwrap();
        diary.write(Moment(8), Event::Fell { from: 4 }).unwrap();
        let mut text = fs::read_to_string(&path).unwrap();
        text.truncate(text.len() - 5);
        fs::write(&path, text).unwrap();
        let expected = Line {
            at: Moment(7),
            event: Event::Fell { from: 3 },
        };
        assert_eq!(read::<Event>(&path).unwrap(), [expected]);
    }
}
