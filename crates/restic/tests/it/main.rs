//! The room as a whole, with repositories that restic wrote.
#![allow(clippy::unwrap_used, reason = "tests")]

mod damage;
mod fixture;
mod reading;
