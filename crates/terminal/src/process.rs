//! The process: its name and environment, clock, random bytes, signals, scratch folders, traces.

pub mod clock;
pub mod program;
pub mod random;
pub mod scratch;
pub mod signals;
pub mod traces;
