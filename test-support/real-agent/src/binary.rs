//! The Consul binary and what depends on its version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::error::StartError;

/// A Consul binary that has been run and works.
#[derive(Clone, Debug)]
pub(crate) struct Binary {
    pub(crate) path: PathBuf,
    /// Major and minor version.
    pub(crate) version: (u32, u32),
}

impl Binary {
    /// Runs `scripts/consul`, once per process for each release.
    pub(crate) fn find(release: Option<(u32, u32)>) -> Result<Self, StartError> {
        type Found = BTreeMap<Option<(u32, u32)>, Result<Binary, String>>;
        static FOUND: Mutex<Found> = Mutex::new(BTreeMap::new());
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        let binary = found.entry(release).or_insert_with(|| ask_script(release));
        binary.clone().map_err(StartError::NoBinary)
    }
}

fn ask_script(release: Option<(u32, u32)>) -> Result<Binary, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/consul");
    let mut command = Command::new(&script);
    command.args(release.map(|(major, minor)| format!("{major}.{minor}")));
    let answer = run(command)?;
    let path = PathBuf::from(answer.trim_end());
    let mut command = Command::new(&path);
    command.arg("version");
    let version = parse_version(&run(command)?).ok_or("its version can't be read")?;
    Ok(Binary { path, version })
}

fn run(mut command: Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("Consul v")?.split('.');
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn the_version_is_read_from_the_first_line() {
        assert_eq!(parse_version("Consul v1.8.7\nProtocol 2"), Some((1, 8)));
        assert_eq!(parse_version("Consul v1.21.0-dev\n"), Some((1, 21)));
        assert_eq!(parse_version("consul: not found"), None);
    }
}
