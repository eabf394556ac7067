//! A second look at each deletion, mark and watermark before it is performed, by code that shares nothing with the plan: nothing that is referenced,
//! nothing that is younger than the delays.

use crate::blobs::BlobInfo;
use crate::format::blob_name::{self, BlobKind};
use crate::format::time::{HOUR, UnixNanos};
use std::collections::{HashMap, HashSet};

/// A reason for which a step is not performed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must not go: {why}")]
pub struct Violation {
    /// The blob or content.
    pub what: String,
    /// The reason.
    pub why: String,
}

fn refuse<T>(what: impl Into<String>, why: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { what: what.into(), why: why.into() })
}

/// An entry of the index set, as the storage has it now.
#[derive(Debug, Clone, Copy)]
pub struct SeenEntry {
    /// The number of the pack.
    pub pack: u32,
    /// The Unix second.
    pub timestamp: u64,
    /// True where it is marked deleted.
    pub is_deleted: bool,
    /// True where a snapshot reaches it.
    pub is_referenced: bool,
}

/// Looks at packs that are to be deleted: no entry refers to them that is live, reached, or deleted after the watermark.
///
/// # Errors
/// The first that must not go; those of the entries.
pub fn packs<E: From<Violation>>(
    packs: &HashMap<u32, &str>,
    entries: impl Iterator<Item = Result<SeenEntry, E>>,
    watermark: u64,
) -> Result<(), E> {
    for entry in entries {
        let entry = entry?;
        let Some(name) = packs.get(&entry.pack) else { continue };
        let why = match entry {
            SeenEntry { is_referenced: true, .. } => "a snapshot needs a content in it",
            SeenEntry { is_deleted: false, .. } => "a content in it is live",
            SeenEntry { timestamp, .. } if timestamp > watermark => "a content in it may be asked for still",
            _ => continue,
        };
        return refuse(format!("pack {name}"), why).map_err(E::from);
    }
    Ok(())
}

/// Looks at the ages of blobs with data: a day and more, by the clock of the storage, and no session that goes on.
///
/// # Errors
/// The first that must not go.
pub fn ages(blobs: &[BlobInfo], sessions: &HashSet<String>, now: UnixNanos) -> Result<(), Violation> {
    for blob in blobs {
        let is_data =
            matches!(blob_name::parse(&blob.name), BlobKind::DataPack | BlobKind::MetadataPack | BlobKind::Session);
        if !is_data {
            return refuse(format!("blob {}", blob.name), "it is neither a pack nor the marker of a session");
        }
        match blob.modified {
            Some(stored) if now.since(stored) >= 24 * HOUR - HOUR / 60 => {}
            _ => return refuse(format!("blob {}", blob.name), "it is not known to be older than a day"),
        }
        // Each part of the name that may be its session.
        if let Some(session) = blob.name.split('-').skip(1).find(|part| sessions.contains(*part)) {
            return refuse(format!("blob {}", blob.name), format!("session {session} may go on"));
        }
    }
    Ok(())
}

/// Gives the sessions that may go on: the marker or the time in it is younger than four days.
pub fn open_sessions(markers: &[(BlobInfo, UnixNanos)], now: UnixNanos) -> HashSet<String> {
    let is_open =
        |seen: Option<UnixNanos>| seen.is_none_or(|seen| seen.0 > now.0.saturating_sub(96 * HOUR - HOUR / 60));
    let open = markers.iter().filter(|(marker, written)| is_open(marker.modified) || is_open(Some(*written)));
    open.filter_map(|(marker, _)| Some(marker.name.split_once('-')?.1.to_owned())).collect()
}

/// Looks at a content that is to be marked deleted.
///
/// # Errors
/// It must not go.
pub fn deletion(
    id: &dyn std::fmt::Display,
    entry: &SeenEntry,
    stored: Option<UnixNanos>,
    now: UnixNanos,
) -> Result<(), Violation> {
    let day_ago = now.0.saturating_sub(24 * HOUR - HOUR / 60);
    let written = UnixNanos::of_seconds(entry.timestamp).0;
    // A time in the future is that of a wrong clock.
    let is_young = (day_ago..=now.0).contains(&written) || stored.is_some_and(|stored| stored.0 > day_ago);
    match entry {
        SeenEntry { is_referenced: true, .. } => refuse(format!("content {id}"), "a snapshot needs it"),
        SeenEntry { is_deleted: true, .. } => {
            refuse(format!("content {id}"), "it is marked deleted, and a new mark would renew its time")
        }
        _ if is_young => refuse(format!("content {id}"), "it is younger than a day"),
        _ => Ok(()),
    }
}

/// Looks at a watermark before it is raised: it is hours in the past, and drops nothing that a snapshot needs.
///
/// # Errors
/// It must not be raised so far; those of the entries.
pub fn watermark<E: From<Violation>>(
    seconds: u64,
    entries: impl Iterator<Item = Result<SeenEntry, E>>,
    now: UnixNanos,
) -> Result<(), E> {
    let latest = now.before(5 * HOUR - HOUR / 60).seconds();
    if i64::try_from(seconds).is_ok_and(|seconds| seconds > latest) || i64::try_from(seconds).is_err() {
        return refuse(format!("what was deleted until {seconds}"), "it is less than five hours ago").map_err(E::from);
    }
    for entry in entries {
        let entry = entry?;
        if entry.is_referenced && entry.is_deleted && entry.timestamp <= seconds {
            let why = "a snapshot needs a content among it";
            return refuse(format!("what was deleted until {seconds}"), why).map_err(E::from);
        }
    }
    Ok(())
}

/// Looks at index blobs that are to be deleted, by a listing of all blobs with prefix `x` that was made now: each belongs to
/// an epoch that is two behind the current one and has a complete set that is older than `margin`.
///
/// # Errors
/// The first that must not go.
pub fn indexes(blobs: &[BlobInfo], listing: &[BlobInfo], margin: i64, now: UnixNanos) -> Result<(), Violation> {
    let mut current = 0;
    // Members by epoch and set, and how many there have to be.
    let mut members: HashMap<(u64, String), (u32, u32)> = HashMap::new();
    for blob in listing {
        match blob_name::parse(&blob.name) {
            BlobKind::EpochMarker { epoch } => current = epoch.max(current),
            BlobKind::SingleEpochIndex { epoch } => {
                let is_old = blob.modified.is_some_and(|stored| now.since(stored) >= margin.max(HOUR));
                let (set, count) = blob_name::set_of(&blob.name).unwrap_or((&blob.name, 1));
                let entry = members.entry((epoch, set.to_owned())).or_insert((0, count));
                entry.0 += u32::from(is_old);
            }
            _ => {}
        }
    }
    for blob in blobs {
        let BlobKind::Index { epoch } = blob_name::parse(&blob.name) else {
            return refuse(format!("blob {}", blob.name), "it is no index of an epoch");
        };
        if epoch.saturating_add(2) > current {
            return refuse(format!("blob {}", blob.name), "its epoch is not settled");
        }
        let is_replaced = members.iter().any(|((of, _), (old, count))| *of == epoch && old >= count);
        if !is_replaced {
            return refuse(format!("blob {}", blob.name), "nothing old enough has replaced it");
        }
    }
    Ok(())
}

/// Looks at markers of epochs and watermarks that are to be deleted, by a listing of all blobs with prefix `x` that was made
/// now: later ones say more.
///
/// # Errors
/// The first that must not go.
pub fn markers(markers: &[BlobInfo], listing: &[BlobInfo]) -> Result<(), Violation> {
    let (mut epochs, mut watermarks) = (Vec::new(), Vec::new());
    for blob in listing {
        match blob_name::parse(&blob.name) {
            BlobKind::EpochMarker { epoch } => epochs.push(epoch),
            BlobKind::Watermark { seconds } => watermarks.push(seconds),
            _ => {}
        }
    }
    for marker in markers {
        let is_replaced = match blob_name::parse(&marker.name) {
            BlobKind::EpochMarker { epoch } => epochs.iter().any(|later| *later >= epoch.saturating_add(2)),
            BlobKind::Watermark { seconds } => watermarks.iter().any(|later| *later > seconds),
            _ => false,
        };
        if !is_replaced {
            return refuse(format!("blob {}", marker.name), "nothing later has replaced it");
        }
    }
    Ok(())
}
