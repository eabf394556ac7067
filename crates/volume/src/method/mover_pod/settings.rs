//! Settings of the movers of a restore, and the claims that they fill.

use super::placement::MoverPlacement;
use crate::restore_plan::RepositoryCopy;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::time::Duration;

/// Files of a Secret, by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretFiles(pub BTreeMap<String, Vec<u8>>);

/// Without their contents.
impl Debug for SecretFiles {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Settings of the movers of one restore.
#[derive(Clone, Debug, Default)]
pub struct MoverPodSettings {
    /// The image of the program.
    pub image: String,
    /// The URL of the bucket, as the pods reach it.
    pub bucket: String,
    /// The files that the pods need to open the bucket and its repositories: `password`, and those that the URL names.
    pub files: SecretFiles,
    /// Longest time until a pod runs.
    pub start_timeout: Duration,
}

/// A claim that is to be filled.
#[derive(Clone, Copy, Debug)]
pub struct ClaimToFill<'a> {
    /// Its namespace in the cluster.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID in the cluster.
    pub uid: &'a str,
    /// True for a raw block device.
    pub is_block: bool,
    /// Its data.
    pub copy: &'a RepositoryCopy,
    /// Longest time until it is full.
    pub timeout: Duration,
    /// The nodes for its volume.
    pub placement: &'a MoverPlacement,
    /// The time.
    pub now: Timestamp,
}
