//! Runs that may fail without a word, while a failure is made smaller.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// What the last panic of this thread said, while it is quiet.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Whether nothing is printed of what fails on this thread.
pub(crate) fn is_quiet() -> bool {
    SAID.with_borrow(Option::is_some)
}

/// As long as it lives, panics of this thread are kept to themselves.
pub(super) struct Quiet(());

impl Quiet {
    pub(super) fn begin() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if is_quiet() {
                    SAID.set(Some(info.to_string()));
                } else {
                    before(info);
                }
            }));
        });
        SAID.set(Some(String::new()));
        Self(())
    }

    /// What the last panic said.
    pub(super) fn said(&self) -> String {
        let Self(()) = self;
        SAID.with_borrow(|said| said.clone().unwrap_or_default())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        SAID.set(None);
    }
}
