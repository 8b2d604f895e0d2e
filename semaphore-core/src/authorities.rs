//! Reads a folder of certificate authorities without I/O: the caller provides the files.

use std::io;
use std::path::{Path, PathBuf};

use crate::build_error::BuildError;

/// The authorities in all files of a folder and its subfolders, in PEM. The `consul` command reads
/// `CONSUL_CAPATH` the same way.
///
/// `list` returns the paths of those files, and `read` a file's content. `variable` is the source
/// of the folder, for errors.
///
/// # Errors
/// [`BuildError::File`] if the folder or a file can't be read, a file has no certificate, or the
/// folder has no file.
pub fn read_authorities(
    variable: &'static str,
    folder: &Path,
    list: impl FnOnce(&Path) -> io::Result<Vec<PathBuf>>,
    read: impl Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Vec<u8>, BuildError> {
    let failed = |path: &Path, source| BuildError::File {
        variable,
        path: path.display().to_string(),
        source,
    };
    let mut files = list(folder).map_err(|error| failed(folder, error))?;
    if files.is_empty() {
        return Err(failed(folder, io::Error::other("there is no file in it")));
    }
    // The trusted authorities must not depend on the order in which the system lists files.
    files.sort_unstable();
    let mut pem = Vec::new();
    for file in &files {
        let content = read(file).map_err(|error| failed(file, error))?;
        if !content.windows(BEGIN.len()).any(|found| found == BEGIN) {
            let none = io::Error::other("there is no certificate in it");
            return Err(failed(file, none));
        }
        pem.extend(content);
        pem.push(b'\n');
    }
    Ok(pem)
}

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(of: &str) -> Vec<u8> {
        format!("-----BEGIN CERTIFICATE-----\n{of}\n-----END CERTIFICATE-----").into_bytes()
    }

    fn read(path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("ca/readme") => Ok(b"no certificate".to_vec()),
            Some("ca/secret") => Err(io::ErrorKind::PermissionDenied.into()),
            Some(path) => Ok(certificate(path)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn of(files: &[&str]) -> Result<Vec<u8>, String> {
        let files = files.iter().map(PathBuf::from).collect();
        let read = read_authorities("CONSUL_CAPATH", Path::new("ca"), |_| Ok(files), read);
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn all_files_of_the_folder_are_one_after_the_other() {
        let expected = [certificate("ca/a"), certificate("ca/b/c"), Vec::new()];
        assert_eq!(of(&["ca/b/c", "ca/a"]), Ok(expected.join(&b'\n')));
    }

    #[test]
    fn what_is_no_certificate_is_named() {
        for (files, named) in [
            (&["ca/a", "ca/readme"][..], "ca/readme"),
            (&["ca/secret"], "ca/secret"),
            (&[], "ca"),
        ] {
            let told = of(files).unwrap_err();
            let begin = format!("the file {named:?} of CONSUL_CAPATH can't be read: ");
            assert!(told.starts_with(&begin), "{told}");
        }
    }
}
