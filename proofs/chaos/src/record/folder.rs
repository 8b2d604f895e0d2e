//! The paths of a run's files.

use std::path::{Path, PathBuf};

/// The folder of a run's files.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// The decisions before the run.
    pub fn run(&self) -> PathBuf {
        self.0.join("run.json")
    }

    /// The state at the end.
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

    /// The log of the children of `consul lock`.
    pub fn locks(&self) -> PathBuf {
        self.0.join("locks.jsonl")
    }

    /// The log of the nemesis.
    pub fn deeds(&self) -> PathBuf {
        self.0.join("deeds.jsonl")
    }

    /// The log of the witnesses.
    pub fn sightings(&self) -> PathBuf {
        self.0.join("sightings.jsonl")
    }

    /// The log of those who stand in the queues.
    pub fn queues(&self) -> PathBuf {
        self.0.join("queues.jsonl")
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}
