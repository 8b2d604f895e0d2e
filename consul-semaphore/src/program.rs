//! The command that is to run.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use crate::failure::Failure;

/// A program and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Whether it gets our standard input.
    pub(crate) reads_stdin: bool,
}

impl Program {
    /// Looks the program up. This is done at once, so that nobody waits an hour for a missing
    /// command.
    pub(crate) fn find(words: &[OsString], shell: bool) -> Result<Self, Failure> {
        let program = if shell {
            Self::of_shell(words)?
        } else {
            let Some((name, arguments)) = words.split_first() else {
                return Err(Failure::usage("there is no command to run"));
            };
            Self {
                name: name.clone(),
                arguments: arguments.to_vec(),
                reads_stdin: true,
            }
        };
        program.look()?;
        Ok(program)
    }

    /// The words as one line for the shell in `$SHELL`, or `/bin/sh`.
    fn of_shell(words: &[OsString]) -> Result<Self, Failure> {
        if words.is_empty() {
            return Err(Failure::usage("there is no command to run"));
        }
        let shell = env::var_os("SHELL").filter(|shell| !shell.is_empty());
        Ok(Self {
            name: shell.unwrap_or_else(|| OsString::from("/bin/sh")),
            arguments: vec![OsString::from("-c"), words.join(OsStr::new(" "))],
            reads_stdin: true,
        })
    }

    fn look(&self) -> Result<(), Failure> {
        let cannot = |why: io::Error| Failure::Program {
            program: self.name.to_string_lossy().into_owned(),
            source: why,
        };
        let path = Path::new(&self.name);
        let is_place = path.components().count() > 1 || path.is_absolute();
        let places: Vec<PathBuf> = if is_place {
            vec![path.to_path_buf()]
        } else {
            env::split_paths(&search_path())
                .map(|folder| folder.join(path))
                .collect()
        };
        let mut found = places.iter().filter(|place| place.is_file()).peekable();
        if found.peek().is_none() {
            return Err(cannot(match places.as_slice() {
                [place] if place.is_dir() => Errno::EISDIR.into(),
                [_] if is_place => Errno::ENOENT.into(),
                _ => io::Error::new(io::ErrorKind::NotFound, "no folder of PATH has it"),
            }));
        }
        if found.any(|place| access(place, AccessFlags::X_OK).is_ok()) {
            Ok(())
        } else {
            Err(cannot(Errno::EACCES.into()))
        }
    }
}

/// Where a program without a path is searched for. Without the variable the system's `execvp`
/// searches these folders.
fn search_path() -> OsString {
    #[cfg(target_env = "musl")]
    const WITHOUT: &str = "/usr/local/bin:/bin:/usr/bin";
    #[cfg(not(target_env = "musl"))]
    const WITHOUT: &str = "/bin:/usr/bin";
    env::var_os("PATH").unwrap_or_else(|| OsString::from(WITHOUT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn find(words: &[&str]) -> Result<Program, Exit> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Program::find(&words, false).map_err(|failure| failure.exit())
    }

    #[test]
    fn a_command_is_found_along_the_path_or_where_it_says() {
        assert_eq!(find(&["sh", "-c", "true"]).unwrap().arguments.len(), 2);
        assert_eq!(find(&["/bin/sh"]).unwrap().name, "/bin/sh");
    }

    #[test]
    fn one_that_is_missing_is_told_apart_from_one_that_can_not_be_run() {
        assert_eq!(find(&["no-such-command"]).unwrap_err(), Exit::NOT_FOUND);
        assert_eq!(find(&["/no/such/command"]).unwrap_err(), Exit::NOT_FOUND);
        assert_eq!(find(&["/etc/passwd"]).unwrap_err(), Exit::CANNOT_RUN);
        assert_eq!(find(&["/etc"]).unwrap_err(), Exit::CANNOT_RUN);
    }

    #[test]
    fn why_a_command_is_not_found_is_said_in_the_systems_words() {
        for (name, why) in [
            ("./nosuch", "No such file or directory"),
            ("/etc", "Is a directory"),
            ("/etc/passwd", "Permission denied"),
            ("nosuch", "no folder of PATH has it"),
        ] {
            let failure = Program::find(&[OsString::from(name)], false).unwrap_err();
            let said = failure.whole();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_shell_gets_the_words_as_one_line() {
        let words = [OsString::from("echo"), OsString::from("a b; exit 3")];
        let program = Program::find(&words, true).unwrap();
        assert_eq!(program.arguments, ["-c", "echo a b; exit 3"]);
    }
}
