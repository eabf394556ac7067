//! The process: its name and environment, clock, signals, scratch folders, traces.

pub mod clock;
pub mod program;
pub mod scratch;
pub mod signals;
pub mod traces;
