//! The machines without their driver.

mod by_hand;
mod operation_by_hand;
mod transactions_by_hand;
