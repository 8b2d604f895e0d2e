//! The files of a folder of certificate authorities.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use semaphore_core::BuildError;
use semaphore_core::adapter::read_authorities;

/// What `variable` names: a folder of PEM files, or one such file.
pub(crate) fn read(variable: &'static str, path: &Path) -> Result<Vec<u8>, BuildError> {
    read_authorities(variable, path, files_below, |path| fs::read(path))
}

fn files_below(path: &Path) -> io::Result<Vec<PathBuf>> {
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
            // A link to a folder could lead back. In what Kubernetes mounts it leads to where a file is found, too.
        }
    }
    Ok(files)
}
