//! The consumer of a plan of reads.

use crate::RepositoryError;
use bytes::Bytes;

/// A consumer of what a plan of reads gives, whatever the format.
pub(crate) trait Reader<T>: Send + Sync + 'static {
    /// Takes the bytes of an extent for all that wanted it. False ends the reading.
    fn take(&self, bytes: &Bytes, tags: Vec<T>) -> bool;

    /// Takes note that the bytes cannot be had. False ends the reading.
    fn fail(&self, error: &RepositoryError, tags: Vec<T>) -> bool;
}
