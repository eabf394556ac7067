//! A plugin as a process: started and called as servers do, by a small client and by Velero's own code.

#![allow(clippy::unwrap_used, reason = "these are tests, and helpers of tests")]

mod calls;
mod ends;
mod errors;
mod process;
mod starts;
mod uploads;
mod velero;
