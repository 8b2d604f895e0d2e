//! A turn, from `acquire` to `release`, and its handles.

mod acquire;
mod availability;
mod bad_input;
mod ends_of_work;
mod farewell;
mod fencing;
mod handles;
mod limit;
mod namespaces;
mod operations_without_namespace;
mod passing;
mod release;
mod rolling_limit;
mod scope;
mod several_permits;
mod timeout_and_cancel;
mod try_acquire;
mod wakers;
