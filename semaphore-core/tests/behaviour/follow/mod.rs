//! Leaders as others see them.

mod discovery;
