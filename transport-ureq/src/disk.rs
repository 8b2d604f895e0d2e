//! Files, as the system has them.

use std::path::{Path, PathBuf};
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

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        if fs::metadata(path)?.is_file() {
            return Ok(vec![path.to_owned()]);
        }
        let mut files = Vec::new();
        let mut folders = vec![path.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let (kind, path) = entry.and_then(|it| Ok((it.file_type()?, it.path())))?;
                if kind.is_dir() {
                    folders.push(path);
                } else if !(kind.is_symlink() && path.is_dir()) {
                    files.push(path);
                }
                // Links to folders are skipped, since they could form a circle. Kubernetes links
                // each file of a mount, too, so it is found.
            }
        }
        Ok(files)
    }
}
