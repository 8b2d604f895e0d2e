//! Files, as the system has them.

use std::path::Path;
use std::time::UNIX_EPOCH;
use std::{fs, io};

use semaphore_core::adapter::{Files, Stamp};

/// The system's own files.
pub(crate) struct Disk;

impl Files for Disk {
    fn stamp(&self, path: &Path) -> Option<Stamp> {
        let metadata = fs::metadata(path).ok()?;
        let changed = metadata.modified().ok()?;
        Some((changed.duration_since(UNIX_EPOCH).ok()?, metadata.len()))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }
}
