//! Values that are made from files, and made again when a file has changed, for example
//! certificates.

use core::fmt;
use core::time::Duration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::build_error::BuildError;

/// When a file was last changed, since 1970, and its length.
pub type Stamp = (Duration, u64);

/// Reads files. An adapter implements it.
pub trait Files: Send + Sync {
    /// Differs if the file's content has changed. `None` if there is no such file.
    fn stamp(&self, path: &Path) -> Option<Stamp>;

    /// The file's content.
    ///
    /// # Errors
    /// If it can't be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The files of a folder and its subfolders, or the path itself if it is a file.
    ///
    /// # Errors
    /// If it can't be read.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
}

/// A value made from files. It is made again when a file has changed, or when its last state was
/// [doubted](Self::doubt).
///
/// While the files can't be used, for example because they are being written, the last value stays
/// in use. That is logged. `Debug` does not show the content.
pub struct Reloaded<T> {
    files: Box<dyn Files>,
    make: Box<Make<T>>,
    known: Mutex<Known<T>>,
}

type Make<T> = dyn Fn(&Reading<'_>) -> Result<T, BuildError> + Send + Sync;

/// The paths that were read, with their state just before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    files: BTreeMap<PathBuf, Option<Stamp>>,
    folders: BTreeMap<PathBuf, Vec<PathBuf>>,
}

struct Known<T> {
    value: T,
    seen: Seen,
    is_doubted: bool,
    /// The state in which the files could not be used, if that was logged.
    unusable: Option<Seen>,
}

/// Reads files, and remembers which.
pub struct Reading<'a> {
    files: &'a dyn Files,
    seen: RefCell<Seen>,
}

impl Reading<'_> {
    /// The file's content.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Before the read, so that a change during it is seen the next time.
        let stamp = self.files.stamp(path);
        let mut seen = self.seen.borrow_mut();
        seen.files.insert(path.to_owned(), stamp);
        self.files.read(path)
    }

    /// The files of the folder and its subfolders, or the path itself if it is a file.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let found = listed(self.files, path)?;
        let mut seen = self.seen.borrow_mut();
        seen.folders.insert(path.to_owned(), found.clone());
        Ok(found)
    }
}

impl<T: Clone> Reloaded<T> {
    /// Makes the value for the first time. `make` reads the files that it needs. If it reads none,
    /// it is called only once.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn new(
        files: impl Files + 'static,
        make: impl Fn(&Reading<'_>) -> Result<T, BuildError> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        let (seen, result) = read(&files, &make);
        let known = Known {
            value: result?,
            seen,
            is_doubted: false,
            unusable: None,
        };
        Ok(Self {
            files: Box::new(files),
            make: Box::new(make),
            known: Mutex::new(known),
        })
    }

    /// The value for the present files. It checks the files, so call it where that may take a
    /// moment.
    pub fn current(&self) -> T {
        let mut known = self.known();
        if !known.is_doubted && known.seen.is_as_it_was(&*self.files) {
            return known.value.clone();
        }
        known.is_doubted = false;
        let (seen, result) = read(&*self.files, &*self.make);
        match result {
            Ok(value) => {
                if known.seen != seen {
                    tracing::info!(name: "files-replaced", files = ?seen.files.keys(), "what is in the files now is in use");
                }
                *known = Known {
                    value,
                    seen,
                    is_doubted: false,
                    unusable: None,
                };
            }
            // They are read again the next time: a file may change again within the resolution of
            // the file system's clock.
            Err(error) => {
                if known.unusable.as_ref() != Some(&seen) {
                    let error = causes(&error);
                    tracing::warn!(name: "files-unusable", files = ?seen.files.keys(), error, "what was in the files before stays in use");
                    known.unusable = Some(seen);
                }
            }
        }
        known.value.clone()
    }

    /// The value of the last check.
    pub fn last(&self) -> T {
        self.known().value.clone()
    }

    /// Reads the files again at the next check, even if they are unchanged: the last value did not
    /// work.
    pub fn doubt(&self) {
        let mut known = self.known();
        known.is_doubted = known.seen != Seen::default();
    }

    /// Whether it was made without files, and never changes.
    pub fn is_fixed(&self) -> bool {
        self.known().seen == Seen::default()
    }

    fn known(&self) -> MutexGuard<'_, Known<T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn is_as_it_was(&self, files: &dyn Files) -> bool {
        let is_same_file = |(path, stamp): (&PathBuf, &Option<Stamp>)| {
            stamp.is_some() && files.stamp(path) == *stamp
        };
        let is_same_folder = |(path, found): (&PathBuf, &Vec<PathBuf>)| {
            listed(files, path).is_ok_and(|it| it == *found)
        };
        self.files.iter().all(is_same_file) && self.folders.iter().all(is_same_folder)
    }
}

/// In an order that does not depend on the system.
fn listed(files: &dyn Files, path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = files.list(path)?;
    found.sort_unstable();
    Ok(found)
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded").finish_non_exhaustive()
    }
}

fn read<T>(files: &dyn Files, make: &Make<T>) -> (Seen, Result<T, BuildError>) {
    let reading = Reading {
        files,
        seen: RefCell::default(),
    };
    let result = make(&reading);
    (reading.seen.into_inner(), result)
}

/// An error and all its causes, in one line.
fn causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = text + ": " + &cause.to_string();
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Files in memory, each with the second of its last change. They count how often they are
    /// read.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<State>>);

    #[derive(Default)]
    struct State {
        files: BTreeMap<&'static str, (u64, &'static str)>,
        reads: usize,
    }

    impl Disk {
        fn write(&self, name: &'static str, at: u64, content: &'static str) {
            let mut state = self.0.lock().unwrap();
            state.files.insert(name, (at, content));
        }

        fn remove(&self, name: &str) {
            self.0.lock().unwrap().files.remove(name);
        }

        fn reads(&self) -> usize {
            core::mem::take(&mut self.0.lock().unwrap().reads)
        }

        /// A certificate and a key that must be equal.
        fn pair(&self) -> Result<Reloaded<String>, BuildError> {
            Reloaded::new(self.clone(), |reading| {
                let text = |name: &str| {
                    let content = reading.read(Path::new(name)).map_err(unreadable)?;
                    Ok(String::from_utf8(content).unwrap())
                };
                let (cert, key): (String, String) = (text("cert")?, text("key")?);
                if cert.is_empty() || cert != key {
                    return Err(BuildError::ClientCertificateIncomplete);
                }
                Ok(cert)
            })
        }
    }

    impl Files for Disk {
        fn stamp(&self, path: &Path) -> Option<Stamp> {
            let state = self.0.lock().unwrap();
            let (at, content) = state.files.get(path.to_str()?)?;
            Some((Duration::from_secs(*at), content.len() as u64))
        }

        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            let mut state = self.0.lock().unwrap();
            state.reads += 1;
            let file = state.files.get(path.to_str().unwrap());
            file.map(|(_, content)| content.as_bytes().to_vec())
                .ok_or(io::ErrorKind::NotFound.into())
        }

        /// The same list for every folder.
        fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
            let state = self.0.lock().unwrap();
            Ok(state.files.keys().map(PathBuf::from).collect())
        }
    }

    fn unreadable(source: io::Error) -> BuildError {
        BuildError::File {
            variable: "a test",
            path: String::new(),
            source,
        }
    }

    fn disk() -> Disk {
        let disk = Disk::default();
        disk.write("cert", 1, "first");
        disk.write("key", 1, "first");
        disk
    }

    #[test]
    fn files_are_read_again_when_one_has_changed_and_only_then() {
        let disk = disk();
        let pair = disk.pair().unwrap();
        assert_eq!(disk.reads(), 2);
        for _ in 0..10 {
            assert_eq!(pair.current(), "first");
        }
        assert_eq!(disk.reads(), 0);
        disk.write("cert", 2, "second");
        disk.write("key", 2, "second");
        for _ in 0..10 {
            assert_eq!(pair.current(), "second");
        }
        assert_eq!(disk.reads(), 2);
    }

    #[test]
    fn files_that_do_not_fit_together_leave_the_last_ones_in_use() {
        let disk = disk();
        let pair = disk.pair().unwrap();
        disk.write("cert", 2, "second");
        assert_eq!(pair.current(), "first");
        disk.write("key", 3, "");
        assert_eq!(pair.current(), "first");
        disk.remove("key");
        assert_eq!(pair.current(), "first");
        disk.write("key", 4, "second");
        assert_eq!(pair.current(), "second");
    }

    #[test]
    fn a_file_that_is_completed_within_a_tick_of_the_clock_is_used() {
        let disk = disk();
        let pair = disk.pair().unwrap();
        disk.write("key", 2, "second");
        disk.write("cert", 2, "secONd");
        assert_eq!(pair.current(), "first");
        disk.write("cert", 2, "second");
        assert_eq!(pair.current(), "second");
    }

    #[test]
    fn what_did_not_serve_is_read_again_whatever_the_stamps_say() {
        let disk = disk();
        let pair = disk.pair().unwrap();
        disk.write("cert", 1, "FIRST");
        disk.write("key", 1, "FIRST");
        assert_eq!(pair.current(), "first");
        pair.doubt();
        assert_eq!(pair.current(), "FIRST");
        disk.reads();
        assert_eq!(pair.current(), "FIRST");
        assert_eq!(disk.reads(), 0);
    }

    #[test]
    fn files_that_are_put_back_are_in_use_as_they_were() {
        let disk = disk();
        let pair = disk.pair().unwrap();
        disk.write("cert", 2, "second");
        assert_eq!(pair.current(), "first");
        disk.write("cert", 1, "first");
        disk.reads();
        assert_eq!(pair.current(), "first");
        assert_eq!(disk.reads(), 0);
    }

    #[test]
    fn a_file_that_comes_into_a_folder_or_goes_is_seen() {
        let disk = disk();
        let all = Reloaded::new(disk.clone(), |reading| {
            let found = reading.list(Path::new("folder")).map_err(unreadable)?;
            let read = found.iter().map(|path| reading.read(path));
            let contents = read.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
            Ok(contents.concat())
        });
        let all = all.unwrap();
        assert_eq!(all.current(), b"firstfirst");
        disk.write("another", 1, "!");
        assert_eq!(all.current(), b"!firstfirst");
        disk.remove("key");
        assert_eq!(all.current(), b"!first");
        disk.write("cert", 2, "second");
        assert_eq!(all.last(), b"!first", "not looked at");
        assert_eq!(all.current(), b"!second");
        disk.reads();
        assert_eq!(all.current(), b"!second");
        assert_eq!(disk.reads(), 0);
    }

    #[test]
    fn without_files_it_is_made_once() {
        let made = Reloaded::new(disk(), |_| Ok("fixed")).unwrap();
        assert!(made.is_fixed());
        made.doubt();
        assert_eq!(made.current(), "fixed");
        assert!(!disk().pair().unwrap().is_fixed());
    }

    #[test]
    fn what_can_t_be_used_to_begin_with_is_an_error() {
        let disk = disk();
        disk.write("key", 1, "other");
        assert!(disk.pair().is_err());
        disk.remove("cert");
        let error = disk.pair().unwrap_err();
        assert!(causes(&error).contains("entity not found"), "{error}");
    }

    #[test]
    fn debug_shows_nothing_of_it() {
        let shown = format!("{:?}", disk().pair().unwrap());
        assert_eq!(shown, "Reloaded { .. }");
    }
}
