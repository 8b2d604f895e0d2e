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

/// Where one process or thread writes what happens to it. A line is handed to the system as it is
/// written, so the lines of a process that is killed are there up to its end.
#[derive(Debug)]
pub(crate) struct Diary<E> {
    file: File,
    events: PhantomData<fn(E)>,
}

impl<E: Serialize> Diary<E> {
    /// Opens a new one, or goes on with an old one.
    ///
    /// # Errors
    /// When the file can't be opened.
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
    /// When it can't be written.
    pub(crate) fn write(&self, at: Moment, event: E) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { at, event })?;
        line.push(b'\n');
        // Whole lines in one call: threads and processes that append don't mix theirs.
        (&self.file).write_all(&line)
    }
}

/// All lines of a file. The last one of a process that was killed may be cut short and is left out.
///
/// # Errors
/// When the file can't be read, or a whole line is not what was expected.
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
