//! Refusal of a repository whose indexes are lost or damaged, which would look as if it had no snapshots.

use crate::KopiaError;
use crate::blobs::{BlobInfo, Blobs};
use crate::content::{Contents, IndexSource};
use crate::format::blob_name::session_of;
use futures::TryStreamExt;
use std::collections::BTreeMap;

/// The prefixes of the names of packs.
const PACKS: [&str; 2] = ["p", "q"];
/// The prefix of the names of markers of sessions.
const MARKERS: &str = "s";
/// The most sessions that are looked at.
const MOST_SESSIONS: usize = 1000;
/// The most packs of which the index is read.
const MOST_PACKS: usize = 64;

/// Loads the indexes of a repository that is being opened.
///
/// # Errors
/// An index blob that is damaged; packs whose indexes were written, and no index blob that counts; those of the bucket and
/// of the scratch space.
pub(crate) async fn load_indexes(contents: &Contents, blobs: &Blobs) -> Result<(), KopiaError> {
    if contents.source() == IndexSource::Packs {
        return contents.refresh().await;
    }
    contents.refresh().await.map_err(of_index)?;
    if contents.has_index_blobs().await {
        return Ok(());
    }
    let candidates = indexed_packs(blobs).await?;
    if candidates.is_empty() {
        return Ok(());
    }
    // An index may have been written since the indexes were listed.
    contents.refresh().await.map_err(of_index)?;
    if contents.has_index_blobs().await {
        return Ok(());
    }
    for pack in candidates.into_iter().take(MOST_PACKS) {
        // A writer of a repository that was here before may have left its pack.
        if contents.owns_pack(&pack).await? {
            return Err(KopiaError::LostIndexes { location: blobs.location(), pack: pack.name });
        }
    }
    Ok(())
}

fn of_index(error: KopiaError) -> KopiaError {
    match error {
        KopiaError::Damaged { what, why } => KopiaError::DamagedIndex { what, why },
        error => error,
    }
}

/// Finds packs whose indexes were written, one of each session. The marker of a session is there before its first pack, and goes after its
/// index was put: a pack without one has an index. Those of a first snapshot that goes on or was cut off have their marker.
async fn indexed_packs(blobs: &Blobs) -> Result<Vec<BlobInfo>, KopiaError> {
    let mut without_session = Vec::new();
    let mut sessions: BTreeMap<String, BlobInfo> = BTreeMap::new();
    for prefix in PACKS {
        let mut packs = blobs.list(prefix);
        while let Some(pack) = packs.try_next().await? {
            match session_of(&pack.name).map(str::to_owned) {
                Some(session) => drop(sessions.entry(session).or_insert(pack)),
                None => without_session.push(pack),
            }
            if sessions.len() + without_session.len() >= MOST_SESSIONS {
                break;
            }
        }
    }
    if !sessions.is_empty() {
        let mut markers = blobs.list(MARKERS);
        while let Some(marker) = markers.try_next().await? {
            if let Some(session) = session_of(&marker.name) {
                sessions.remove(session);
            }
        }
    }
    let mut packs: Vec<BlobInfo> = without_session.into_iter().chain(sessions.into_values()).collect();
    // Those of a repository that was here before are older.
    packs.sort_by_key(|pack| std::cmp::Reverse(pack.modified));
    Ok(packs)
}
