//! Lists of the planned types, and the objects as they arrive.

pub(crate) mod lists;
pub(crate) mod parse;
pub(crate) mod plan;
pub(crate) mod scratch;
pub(crate) mod spool;
pub(crate) mod tally;
pub(crate) mod terminating;
