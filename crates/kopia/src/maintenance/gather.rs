//! The state of a repository, gathered for a plan.

use super::delays::Delays;
use super::plan::collection::watermark;
use super::plan::survey::{EntryFacts, Survey, SurveyRules, Surveying};
use super::plan::{COLLECTION, logs};
use super::references::References;
use crate::blobs::BlobInfo;
use crate::content::index_set::{IndexSet, Location, Record, Scan};
use crate::format::blob_name::{self, BlobKind};
use crate::format::maintenance::Schedule;
use crate::format::session::SessionMarker;
use crate::format::time::UnixNanos;
use crate::{KopiaError, Repository};
use futures::TryStreamExt;
use std::sync::Arc;

/// Directories that are read at once.
const DIRECTORIES: usize = 16;
/// The most bytes of the marker of a session.
const MAX_MARKER: u64 = 1 << 20;

/// The state of a repository.
#[derive(Debug)]
pub(super) struct State {
    /// The blobs with prefix `x`.
    pub(super) indexes: Vec<BlobInfo>,
    /// The logs.
    pub(super) logs: Vec<BlobInfo>,
    /// The contents and packs; `None` for quick maintenance.
    pub(super) data: Option<Arc<Data>>,
    /// The nanoseconds for which blobs are kept from deletion; of no matter for quick maintenance.
    pub(super) retention: Option<i64>,
    /// The reasons for which they cannot be judged.
    pub(super) problems: Vec<String>,
}

/// The contents and packs.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) references: References,
    pub(super) survey: Survey,
    /// The entries that readers may still have; `None` where they are the present ones.
    pub(super) earlier: Option<Arc<IndexSet>>,
}

/// The entry at a location as rules see it.
pub(super) fn facts(found: &Location, references: &References) -> EntryFacts {
    facts_of(&found.record, references.has(found.number))
}

fn facts_of(record: &Record, is_referenced: bool) -> EntryFacts {
    EntryFacts {
        timestamp: record.timestamp,
        is_deleted: record.is_deleted,
        is_referenced,
        prefix: record.id.prefix(),
        pack: record.pack,
        length: record.packed_length,
    }
}

/// Lists indexes and logs, for quick maintenance, too.
///
/// # Errors
/// Errors of the bucket.
pub(super) async fn lists(repository: &Repository) -> Result<State, KopiaError> {
    let indexes = repository.blobs().list_all("x").await?;
    let logs = repository.blobs().list_all(logs::PREFIX).await?;
    Ok(State { indexes, logs, data: None, retention: None, problems: Vec::new() })
}

/// Gathers everything. `now` is the time of the storage; the indexes are loaded after it.
///
/// # Errors
/// Errors of the bucket and of the scratch space; manifests that cannot be loaded.
pub(super) async fn everything(
    repository: &Repository,
    schedule: &Schedule,
    delays: Delays,
    now: UnixNanos,
) -> Result<State, KopiaError> {
    repository.contents().refresh().await?;
    let references = repository.references(DIRECTORIES).await?;
    let mut state = lists(repository).await?;
    state.retention = repository.retention().await?.map(|retention| retention.period);
    state.problems = references.problems().to_vec();
    let markers = markers(repository, &mut state.problems).await?;
    let set = references.set().clone();
    // Before packs are looked up: it may name some that the present entries do not.
    let earlier = now.before(delays.after_rewrite);
    let earlier = repository.contents().load_as_of(earlier).await?.map(Arc::new);
    if let Some(damaged) = earlier.as_ref().map(|set| set.damaged_entries()).filter(|damaged| *damaged > 0) {
        state.problems.push(format!("{damaged} entries of indexes that readers may still have cannot be read"));
    }
    let runs = schedule.runs.get(COLLECTION).map(Vec::as_slice).unwrap_or_default();
    let rules = SurveyRules { now, delays, watermark: set.watermark(), next_watermark: watermark(runs, &delays, now) };
    let mut surveying = Surveying::new(rules, set.packs());
    for prefix in ["p", "q"] {
        let mut packs = repository.blobs().list(prefix);
        while let Some(blob) = packs.try_next().await? {
            surveying.pack(&blob, set.pack_number(&blob.name));
        }
    }
    let data = crate::tasks::blocking(move || {
        look_through(&mut surveying, &references, earlier.as_ref())?;
        let survey = surveying.finish(|pack| set.pack_name(pack), &markers);
        Ok(Data { references, survey, earlier })
    })
    .await?;
    state.data = Some(Arc::new(data));
    Ok(state)
}

/// Adds all entries that count, and those that counted earlier where they are others.
fn look_through(
    surveying: &mut Surveying,
    references: &References,
    earlier: Option<&Arc<IndexSet>>,
) -> Result<(), KopiaError> {
    let mut present = references.set().scan(None);
    let mut earlier = earlier.map(|set| set.scan(None));
    let mut next_earlier = || earlier.as_mut().map_or(Ok(None), Scan::next_location);
    let mut before = next_earlier()?;
    while let Some(found) = present.next_location()? {
        // Both walks go in the order of IDs.
        while let Some(old) = before.filter(|old| old.record.id <= found.record.id) {
            if old.record != found.record {
                let is_referenced = old.record.id == found.record.id && references.has(found.number);
                surveying.earlier(&facts_of(&old.record, is_referenced));
            }
            before = next_earlier()?;
        }
        surveying.entry(&facts(&found, references));
    }
    while let Some(old) = before {
        surveying.earlier(&facts_of(&old.record, false));
        before = next_earlier()?;
    }
    Ok(())
}

/// Reads the markers of sessions. One that cannot be read is a problem: nobody knows which packs it keeps.
///
/// # Errors
/// Errors of the bucket.
pub(super) async fn markers(
    repository: &Repository,
    problems: &mut Vec<String>,
) -> Result<Vec<(BlobInfo, UnixNanos)>, KopiaError> {
    let mut markers = Vec::new();
    for blob in repository.blobs().list_all("s").await? {
        if blob_name::parse(&blob.name) != BlobKind::Session {
            continue;
        }
        let stored = match repository.blobs().read(&blob.name, MAX_MARKER).await {
            // Its writer has ended it.
            Err(error) if crate::blobs::is_not_found(&error) => continue,
            stored => stored?,
        };
        let plain = repository.crypto().open_blob(&blob.name, &stored);
        match plain.and_then(|plain| SessionMarker::parse(&plain)) {
            Ok(marker) => markers.push((blob, marker.start.max(marker.checkpoint))),
            Err(why) => problems.push(format!("the marker of a session, blob {}: {why}", blob.name)),
        }
    }
    Ok(markers)
}
