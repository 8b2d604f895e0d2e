//! The machines without their driver.

mod by_hand;
