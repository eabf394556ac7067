//! Reads planned by packs: many blobs with few requests.
//!
//! A window of what is wanted is sorted by pack and offset; neighbours become one ranged request, many are in flight, each
//! blob is decrypted and verified on a thread and handed to the sink, in no order.

mod plan;
mod run;

pub use plan::{ReadLimits, Wanted};
pub use run::read;

use crate::ResticError;
use bytes::Bytes;

/// The sink of a plan. Called from several threads, in no order; an error ends the reading.
pub trait Sink<T>: Send + Sync + 'static {
    /// Takes the plain bytes of a blob for all tags that asked for it.
    ///
    /// # Errors
    /// Errors of the sink, which end the plan.
    fn take(&self, bytes: &Bytes, tags: Vec<T>) -> Result<(), ResticError>;

    /// Takes note that a blob cannot be had. `Ok` goes on with the rest.
    ///
    /// # Errors
    /// Where the rest is of no use.
    fn fail(&self, error: ResticError, tags: Vec<T>) -> Result<(), ResticError>;
}
