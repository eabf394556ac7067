//! The blob by which Velero sees that a repository is finished (velero: pkg/repository/udmrepo/kopialib/repo_init.go).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::blobs::Blobs;
use serde::{Deserialize, Serialize};

/// The name of the blob.
pub(crate) const MARKER: &str = "udmrepo.Repository";
/// The most bytes of it.
const MAX_MARKER: u64 = 64 << 10;

/// The marker of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    /// None: the repository was not finished, or is of a Velero that knew no marker.
    Missing,
    /// That of this repository.
    Own,
    /// That of another one.
    Foreign,
}

#[derive(Serialize, Deserialize)]
struct Document {
    #[serde(rename = "uniqueID")]
    unique_id: String,
}

/// Reads the marker beside the repository of this ID.
pub(crate) async fn read_marker(blobs: &Blobs, unique_id: &[u8]) -> Result<Marker, KopiaError> {
    let Some(stored) = blobs.read_if_there(MARKER, MAX_MARKER).await? else { return Ok(Marker::Missing) };
    let document: Document = serde_json::from_slice(&stored)
        .map_err(|e| KopiaError::Damaged { what: format!("blob {MARKER}"), why: e.to_string() })?;
    Ok(if document.unique_id == STANDARD.encode(unique_id) { Marker::Own } else { Marker::Foreign })
}

/// Puts the marker of the repository of this ID.
pub(crate) async fn put_marker(blobs: &Blobs, unique_id: &[u8]) -> Result<(), KopiaError> {
    let document = Document { unique_id: STANDARD.encode(unique_id) };
    let text = serde_json::to_vec(&document)
        .map_err(|e| KopiaError::Refused { attempt: format!("write blob {MARKER}"), why: e.to_string() })?;
    blobs.put(MARKER, text.into()).await
}
