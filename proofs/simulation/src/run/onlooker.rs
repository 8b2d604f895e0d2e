//! An observer of a host's contest. It records the notices about holds.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use semaphore_core::FencingToken;
use semaphore_core::observe::{Notice, Observer, Subject};
use semaphore_core::sans_io::CommandId;

use super::book::Book;
use crate::history::{Happening, Noticed};

pub(super) struct Onlooker {
    host: usize,
    prefix: usize,
    book: Book,
    tokens: Mutex<BTreeMap<CommandId, FencingToken>>,
}

impl Onlooker {
    pub(super) fn new(host: usize, prefix: usize, book: &Book) -> Self {
        Self {
            host,
            prefix,
            book: book.clone(),
            tokens: Mutex::default(),
        }
    }

    fn note(&self, token: FencingToken, what: Noticed) {
        self.book.happened(Happening::Noticed {
            host: self.host,
            prefix: self.prefix,
            token,
            what,
        });
    }
}

impl Observer for Onlooker {
    fn notice(&self, _: &Subject, notice: &Notice) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::Granted { command, token, .. } => {
                tokens.insert(*command, *token);
                self.note(*token, Noticed::Granted);
            }
            Notice::Lost {
                command, reason, ..
            } => {
                if let Some(token) = tokens.remove(command) {
                    self.note(token, Noticed::lost(reason));
                }
            }
            Notice::Released { command, .. } => {
                if let Some(token) = tokens.remove(command) {
                    self.note(token, Noticed::Released);
                }
            }
            _ => {}
        }
    }
}
