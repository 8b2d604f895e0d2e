//! The paths of a run's files.

use std::path::{Path, PathBuf};

/// Where the files of a run are.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// What was decided before.
    pub fn run(&self) -> PathBuf {
        self.0.join("run.json")
    }

    /// What was found at the end.
    pub fn end(&self) -> PathBuf {
        self.0.join("end.json")
    }

    /// The folder of the clients' beliefs.
    pub fn clients(&self) -> PathBuf {
        self.0.join("clients")
    }

    /// The beliefs of one incarnation of a client.
    pub fn client(&self, number: usize, incarnation: u32) -> PathBuf {
        self.clients().join(format!("{number}-{incarnation}.jsonl"))
    }

    /// What the holders of `consul lock` wrote.
    pub fn locks(&self) -> PathBuf {
        self.0.join("locks.jsonl")
    }

    /// What was done.
    pub fn deeds(&self) -> PathBuf {
        self.0.join("deeds.jsonl")
    }

    /// What was seen.
    pub fn sightings(&self) -> PathBuf {
        self.0.join("sightings.jsonl")
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}
