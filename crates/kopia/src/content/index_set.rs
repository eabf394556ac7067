//! The union of the indexes that count, sorted on scratch.
//!
//! Loading writes the decrypted indexes to scratch, merges them with a cursor for each, and keeps one sorted file of
//! fixed-size records with a table of pack names. A look-up halves by page; pages are kept up to the memory given.

use crate::KopiaError;
use crate::format::index::Entry;

/// A walk over entries in the order of IDs.
#[derive(Debug)]
pub struct Scan<'a> {
    set: std::marker::PhantomData<&'a ()>,
}

impl Iterator for Scan<'_> {
    type Item = Result<Entry, KopiaError>;
    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}
