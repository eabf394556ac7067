//! The walk over the archive: reading it, levels and their order, existence checks, attempts in flight.

pub(crate) mod context;
pub(crate) mod deferred;
pub(crate) mod execute;
pub(crate) mod existence;
pub(crate) mod levels;
pub(crate) mod made_anew;
pub(crate) mod prefetch;
pub(crate) mod preparation;
pub(crate) mod read;
pub(crate) mod run;
pub(crate) mod running;
pub(crate) mod same_target;
pub(crate) mod scope;
pub(crate) mod source;
pub(crate) mod versions;
