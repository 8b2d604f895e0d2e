//! Runs whose panics are not printed, while a failure is reduced.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// The last panic's message on this thread, while it is quiet.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Whether failures on this thread are not printed.
pub(crate) fn is_quiet() -> bool {
    SAID.with_borrow(Option::is_some)
}

/// While this exists, panics of this thread are not printed.
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

    /// The last panic's message.
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
