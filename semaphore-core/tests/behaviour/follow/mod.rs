//! Who leads, seen from outside.

mod discovery;
