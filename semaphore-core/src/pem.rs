//! The sources of certificates and keys.

use core::fmt;
use std::path::{Path, PathBuf};

use crate::authorities::read_authorities;
use crate::build_error::BuildError;
use crate::reloaded::Reading;

/// Certificates or a key in PEM, or the file or folder that has them.
///
/// `Debug` shows the path, never a key.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The document.
    Given(Vec<u8>),
    /// A file, which may be replaced.
    File {
        /// The variable or option that names it, for errors.
        named_by: &'static str,
        /// Its path.
        path: PathBuf,
    },
    /// All files of a folder and its subfolders. They may be replaced.
    Folder {
        /// The variable or option that names it, for errors.
        named_by: &'static str,
        /// Its path.
        path: PathBuf,
    },
}

impl Pem {
    /// The present document.
    ///
    /// # Errors
    /// [`BuildError::File`] if the file, or one of the folder, can't be read; see
    /// [`read_authorities`].
    pub fn read(&self, reading: &Reading<'_>) -> Result<Vec<u8>, BuildError> {
        match self {
            Self::Given(document) => Ok(document.clone()),
            Self::File { named_by, path } => {
                reading.read(path).map_err(|source| BuildError::File {
                    variable: named_by,
                    path: path.display().to_string(),
                    source,
                })
            }
            Self::Folder { named_by, path } => {
                let list = |path: &Path| reading.list(path);
                read_authorities(named_by, path, list, |path| reading.read(path))
            }
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given(hidden)"),
            Self::File { path, .. } => f.debug_tuple("File").field(path).finish(),
            Self::Folder { path, .. } => f.debug_tuple("Folder").field(path).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_path_and_no_key() {
        let given = Pem::Given(b"secret".to_vec());
        assert_eq!(format!("{given:?}"), "Given(hidden)");
        let file = Pem::File {
            named_by: "a test",
            path: "key.pem".into(),
        };
        assert_eq!(format!("{file:?}"), r#"File("key.pem")"#);
    }
}
