//! The verbs of the API: one function for each.

pub(crate) mod call;
pub(crate) mod delete;
pub(crate) mod read;
pub(crate) mod review;
pub(crate) mod watch;
pub(crate) mod write;
