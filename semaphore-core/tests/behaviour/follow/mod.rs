//! Leaders as others see them.

mod by_hand;
mod changes;
mod discovery;
mod ends;
mod indexes;
mod many_keys;
mod shared;
