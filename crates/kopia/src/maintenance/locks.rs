//! Object locks, extended (kopia: repo/maintenance/extend_blob_retention.go).

use crate::blobs::BlobInfo;
use crate::content::writer::ContentWriter;
use crate::format::repository::Retention;
use crate::{KopiaError, Repository};
use futures::TryStreamExt;

/// Blobs that are extended at once.
const AT_ONCE: usize = 16;
/// The beginnings of the names of blobs that have locks.
const PREFIXES: [&str; 5] = ["kopia.", "p", "q", "n", "x"];

/// Keeps all blobs that have locks from deletion for as long as new ones are. One that goes meanwhile needs none.
///
/// # Errors
/// The first blob that cannot be kept; a repository without locks; those of the bucket.
pub(super) async fn extend(repository: &Repository, contents: &ContentWriter) -> Result<(), KopiaError> {
    let until = contents.kept_until();
    let until = until.ok_or_else(|| KopiaError::refused("extend object locks", "the repository has no retention"))?;
    for prefix in PREFIXES {
        let blobs = repository.blobs().list(prefix).try_filter(|blob| {
            let has_lock = Retention::covers(&blob.name);
            async move { has_lock }
        });
        let extend = |blob: BlobInfo| async move {
            match repository.blobs().retain(&blob.name, until).await {
                Err(error) if crate::blobs::is_not_found(&error) => Ok(()),
                kept => kept,
            }
        };
        let extended = blobs.map_ok(extend).try_buffer_unordered(AT_ONCE);
        extended.try_for_each(|()| async { Ok(()) }).await?;
    }
    Ok(())
}
