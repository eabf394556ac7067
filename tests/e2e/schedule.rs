//! Schedules, expiry and retention.

mod retention;
mod schedules;
