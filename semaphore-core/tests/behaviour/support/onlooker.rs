//! Observes semaphores and elections, and keeps the notices.

use std::sync::{Arc, Mutex, PoisonError};

use semaphore_core::observe::{Notice, Observer, Subject};

/// Clones share the same notices.
#[derive(Clone, Default)]
pub(crate) struct Onlooker(Arc<Mutex<Vec<(String, Notice)>>>);

impl Observer for Onlooker {
    fn notice(&self, of: &Subject, notice: &Notice) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.push((of.name().to_owned(), notice.clone()));
    }
}

impl Onlooker {
    /// All notices since the last call, each with its subject.
    pub(crate) fn take(&self) -> Vec<(String, Notice)> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut told)
    }

    /// The notices as words, without the frequent ones: renewals, and failed requests.
    pub(crate) fn words(&self) -> Vec<String> {
        let told = self.take().into_iter();
        told.filter_map(|(_, notice)| word(&notice)).collect()
    }
}

fn word(notice: &Notice) -> Option<String> {
    Some(match notice {
        Notice::Queued { place, .. } => format!("queued at {place}"),
        Notice::Granted { waited, .. } => format!("granted after {} s", waited.as_secs()),
        Notice::NotAvailable { .. } => "not available".to_owned(),
        Notice::Failed { .. } => "failed".to_owned(),
        Notice::GivenUp { .. } => "given up".to_owned(),
        Notice::LosingSoon { .. } => "losing soon".to_owned(),
        Notice::Lost { .. } => "lost".to_owned(),
        Notice::Released { held, .. } => format!("released after {} s", held.as_secs()),
        Notice::Retrying { .. } => "retrying".to_owned(),
        Notice::Recovered { .. } => "recovered".to_owned(),
        Notice::Refused { .. } => "refused".to_owned(),
        Notice::Conflict { .. } => "conflict".to_owned(),
        Notice::Pruned { sessions } => format!("pruned {}", sessions.len()),
        Notice::Leader { session: Some(_) } => "a leader".to_owned(),
        Notice::Leader { session: None } => "no leader".to_owned(),
        _ => return None,
    })
}
