//! Manifests of a repository: which of them count (kopia: repo/manifest).

use crate::KopiaError;
use crate::format::manifest::ManifestEntry;
use std::collections::BTreeMap;

/// All manifests that are not deleted, each as its latest form. Documents of snapshots are kept as text; a repository of
/// 100,000 snapshots takes about 100 MB here.
#[derive(Debug)]
pub struct Manifests {}

impl Manifests {
    /// Gives the manifests whose labels hold all of `labels`, oldest first.
    pub fn find(&self, labels: &BTreeMap<String, String>) -> Vec<&ManifestEntry> {
        todo!()
    }
    /// Gives the manifest with this ID.
    pub fn get(&self, id: &str) -> Option<&ManifestEntry> {
        todo!()
    }
}

/// Loads the manifests of all contents with prefix `m`.
///
/// # Errors
/// A content that is missing or damaged: nobody may take a manifest for absent because it could not be read.
pub async fn load(contents: &crate::content::Contents) -> Result<Manifests, KopiaError> {
    todo!()
}
