//! A claim that has the label of a group.

use crate::facts::{Claim, PersistentVolume};

/// A claim with the label of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    /// The claim.
    pub(crate) claim: &'a Claim,
    /// Its volume, as far as it is known.
    pub(crate) volume: Option<&'a PersistentVolume>,
}
