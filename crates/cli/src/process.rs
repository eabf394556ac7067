//! The process: its name and environment, clock, signals, scratch folders, traces.

pub(crate) mod clock;
pub(crate) mod helper;
pub(crate) mod program;
pub(crate) mod scratch;
pub(crate) mod signals;
pub(crate) mod traces;
