//! The sink of a plan.

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
