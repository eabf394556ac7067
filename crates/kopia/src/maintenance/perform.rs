//! The steps of a plan, performed. Each can be done again; what deletes, marks or drops is looked at once more before.

use super::check::{self, SeenEntry, Violation};
use super::gather::{self, Data, facts};
use super::merge_indexes::merge;
use super::plan::Action;
use super::plan::collection::Verdict;
use crate::blobs::BlobInfo;
use crate::compression::Compression;
use crate::content::epochs;
use crate::content::index_set::{IndexSet, Location, Record};
use crate::content::writer::ContentWriter;
use crate::format::content_id::ContentId;
use crate::format::manifest::write;
use crate::format::time::UnixNanos;
use crate::manifest::{PREFIX, load_with_deletions};
use crate::tasks::blocking;
use crate::{KopiaError, Repository};
use futures::StreamExt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Blobs that are deleted with one call.
const AT_ONCE: usize = 500;
/// Contents that are copied at once.
const COPIES: usize = 16;
/// The bytes of a marker of an epoch.
const EPOCH_MARKER: &[u8] = b"epoch-marker";
/// The bytes of a watermark.
const WATERMARK: &[u8] = b"deletion-watermark";
/// The age up to which notes of deleted manifests are kept: a client with older indexes may write the manifest again. Their
/// times are those of who deleted, whose clock may be behind by days.
const NOTES: i64 = 7 * 24 * 3600 * 1_000_000_000;
/// The most bytes of merged manifests: what readers take, ours and kopia's, is more.
const MOST_MANIFEST_BYTES: usize = 256 << 20;
/// Entries that are looked at before others may do something.
const ENTRIES_AT_ONCE: usize = 10_000;
/// Contents that a step names when it could not copy them.
const NAMED: usize = 3;

impl From<Violation> for KopiaError {
    fn from(violation: Violation) -> Self {
        let why = format!(
            "the second look at it says that {violation}. The step went no further: run maintenance again, and report it when \
             that says the same"
        );
        Self::refused("perform a step of maintenance", why)
    }
}

/// The repository, and what was gathered of it.
pub(super) struct StepContext<'a> {
    pub(super) repository: &'a Repository,
    pub(super) contents: &'a ContentWriter,
    pub(super) data: Option<&'a Arc<Data>>,
    pub(super) now: UnixNanos,
    /// False before the collection of this run has ended.
    pub(super) has_collected: bool,
}

impl<'a> StepContext<'a> {
    /// Performs an action.
    ///
    /// # Errors
    /// A step that the second look refuses; those of the bucket and of contents that cannot be read.
    pub(super) async fn perform(&mut self, action: &Action) -> Result<(), KopiaError> {
        match action {
            Action::DeletePacks { packs, after_watermark } => {
                self.check_packs(packs, after_watermark.unwrap_or(0)).await?;
                self.delete(packs).await
            }
            Action::DeleteSessions { markers } => {
                self.check_ages(markers).await?;
                self.delete(markers).await
            }
            Action::DeleteLogs { logs } => {
                let other = logs.iter().find(|blob| !blob.name.starts_with(super::plan::logs::PREFIX));
                match other {
                    Some(blob) => Err(KopiaError::refused(format!("delete {}", blob.name), "it is no log")),
                    None => self.delete(logs).await,
                }
            }
            Action::DeleteIndexes { blobs } => {
                let listing = self.repository.blobs().list_all("x").await?;
                let margin = self.repository.format().epochs.cleanup_safety_margin;
                check::indexes(blobs, &listing, margin, self.now)?;
                self.delete(blobs).await
            }
            Action::DeleteMarkers { markers } => {
                let listing = self.repository.blobs().list_all("x").await?;
                check::markers(markers, &listing)?;
                self.delete(markers).await
            }
            Action::Collect { .. } => self.collect().await,
            Action::RaiseWatermark { seconds } => self.raise_watermark(*seconds).await,
            Action::MergeEpoch { epoch, blobs } => {
                let state = epochs::state(&self.repository.blobs().list_all("x").await?);
                // Another has done it: a part of the blobs may be gone.
                if state.single.contains_key(epoch) || !state.is_settled(*epoch) {
                    return Ok(());
                }
                merge(self.repository, self.contents, blobs, &format!("xs{epoch}_")).await
            }
            Action::AdvanceEpoch { to } => self.contents.put_blob(&format!("xe{to}"), EPOCH_MARKER.into()).await,
            Action::MergeEpochs { first, last, blobs } => {
                merge(self.repository, self.contents, blobs, &format!("xr{first}_{last}_")).await
            }
            Action::MergeManifests { .. } => self.merge_manifests().await,
            Action::Rewrite { packs, .. } => self.rewrite(packs).await,
        }
    }

    fn data(&self) -> Result<&'a Arc<Data>, KopiaError> {
        self.data.ok_or_else(|| KopiaError::refused("perform a step of maintenance", "references were not looked for"))
    }

    async fn delete(&self, blobs: &[BlobInfo]) -> Result<(), KopiaError> {
        for some in blobs.chunks(AT_ONCE) {
            let names: Vec<String> = some.iter().map(|blob| blob.name.clone()).collect();
            self.repository.blobs().delete(&names).await?;
        }
        Ok(())
    }

    async fn check_ages(&self, blobs: &[BlobInfo]) -> Result<(), KopiaError> {
        let mut problems = Vec::new();
        let markers = gather::markers(self.repository, &mut problems).await?;
        if let Some(problem) = problems.pop() {
            return Err(KopiaError::refused("delete packs", problem));
        }
        Ok(check::ages(blobs, &check::open_sessions(&markers, self.now), self.now)?)
    }

    /// Looks at packs with the entries of the plan and their references, and with those that the storage has now.
    async fn check_packs(&self, packs: &[BlobInfo], needed: u64) -> Result<(), KopiaError> {
        self.check_ages(packs).await?;
        let data = self.data()?;
        self.repository.contents().refresh().await?;
        let fresh = self.repository.contents().index_set();
        let watermark = fresh.watermark();
        if watermark < needed {
            return Err(KopiaError::refused("delete packs", "the deletions in them were not dropped"));
        }
        let data = data.clone();
        let names: Vec<(u32, String)> =
            packs.iter().filter_map(|blob| Some((fresh.pack_number(&blob.name)?, blob.name.clone()))).collect();
        blocking(move || {
            let numbers: HashMap<u32, &str> = names.iter().map(|(number, name)| (*number, name.as_str())).collect();
            let has = |found: &Location| data.references.has(found.number);
            check::packs(&numbers, entries(data.references.set(), |found| seen(&found.record, has(found))), watermark)?;
            check::packs(&numbers, entries(&fresh, |found| seen(&found.record, false)), watermark)
        })
        .await
    }

    /// Marks contents deleted and takes back such marks.
    async fn collect(&mut self) -> Result<(), KopiaError> {
        let data = self.data()?;
        let contents = self.contents;
        let set = data.references.set().clone();
        let mut scan = set.scan(None);
        let mut uncopied = Uncopied::default();
        let mut count = 0_usize;
        while let Some(found) = scan.next_location()? {
            count += 1;
            if count.is_multiple_of(ENTRIES_AT_ONCE) {
                tokio::task::yield_now().await;
            }
            let id = found.record.id;
            match data.survey.verdict(&facts(&found, &data.references)) {
                Verdict::Delete => {
                    let seen = seen(&found.record, data.references.has(found.number));
                    check::deletion(&id, &seen, data.survey.stored(found.record.pack), self.now)?;
                    if self.is_unchanged(&id, &found, &set)? {
                        contents.delete(&id).await?;
                    }
                }
                Verdict::Undelete => uncopied.note(&id, contents.undelete(&id).await)?,
                Verdict::Needed | Verdict::Deleted | Verdict::Young => {}
            }
        }
        contents.flush().await?;
        // A collection that has not taken back all marks is none: nothing is dropped after it.
        uncopied.result()?;
        self.has_collected = true;
        Ok(())
    }

    /// True where nobody has written a later entry of a content since the plan was made.
    fn is_unchanged(&self, id: &ContentId, planned: &Location, set: &IndexSet) -> Result<bool, KopiaError> {
        let now = self.contents.find(id)?;
        let record = &planned.record;
        Ok(now.is_some_and(|now| now.timestamp == record.timestamp && now.pack == set.pack_name(record.pack)))
    }

    async fn raise_watermark(&self, seconds: u64) -> Result<(), KopiaError> {
        if !self.has_collected {
            return Err(KopiaError::refused("drop deleted contents", "the collection of this run has not succeeded"));
        }
        let data = self.data()?;
        self.repository.contents().refresh().await?;
        let fresh = self.repository.contents().index_set();
        let (data, at) = (data.clone(), self.now);
        blocking(move || {
            let references = &data.references;
            let now = entries(references.set(), |found| (found.record, references.has(found.number)));
            // Only what is referenced matters, as it is now.
            let now = now.filter_map(|entry| match entry {
                Ok((_, false)) => None,
                Ok((record, true)) => Some(fresh.locate(&record.id).and_then(|found| {
                    let found = found.ok_or_else(|| crate::content::missing(&record.id))?;
                    Ok(seen(&found.record, true))
                })),
                Err(error) => Some(Err(error)),
            });
            check::watermark(seconds, now, at)
        })
        .await?;
        self.contents.put_blob(&format!("xw{seconds}"), WATERMARK.into()).await?;
        self.repository.contents().refresh().await
    }

    /// Writes all manifests into one content. The notes of recent deletions are among them: a client that has not seen one
    /// cannot bring the manifest back.
    async fn merge_manifests(&self) -> Result<(), KopiaError> {
        self.repository.contents().refresh().await?;
        let set = self.repository.contents().index_set();
        let manifests = load_with_deletions(self.repository.contents()).await?;
        if !Arc::ptr_eq(&set, &self.repository.contents().index_set()) {
            return Err(KopiaError::refused("merge manifests", "others were written meanwhile: the next run does it"));
        }
        let before: Result<Vec<ContentId>, KopiaError> = set
            .scan(Some(PREFIX))
            .filter(|entry| entry.as_ref().map_or(true, |entry| !entry.is_deleted))
            .map(|entry| Ok(entry?.id))
            .collect();
        let oldest = self.now.0.saturating_sub(NOTES);
        let mut manifests = manifests.into_entries();
        manifests.retain(|entry| !entry.is_deleted || entry.modified.0 > oldest);
        let written = write(&manifests);
        if written.len() > MOST_MANIFEST_BYTES {
            let why = format!("they have {} bytes, and readers take no such content", written.len());
            return Err(KopiaError::refused("merge manifests", why));
        }
        let merged = self.contents.write(Some(PREFIX), written.into(), Some(Compression::ZstdFastest)).await?;
        for id in before?.iter().filter(|id| **id != merged) {
            self.contents.delete(id).await?;
        }
        self.contents.flush().await.map(drop)
    }

    /// Copies the live contents of packs.
    async fn rewrite(&self, packs: &[u32]) -> Result<(), KopiaError> {
        self.repository.contents().refresh().await?;
        let set = self.repository.contents().index_set();
        let chosen: HashSet<u32> = packs.iter().copied().collect();
        let mut records: Vec<(u32, u32, ContentId)> = Vec::new();
        let mut uncopied = Uncopied::default();
        let mut count = 0_usize;
        for record in entries(&set, |found| found.record) {
            let record = record?;
            count += 1;
            if count.is_multiple_of(ENTRIES_AT_ONCE) {
                tokio::task::yield_now().await;
            }
            if chosen.contains(&record.pack) && !record.is_deleted {
                records.push((record.pack, record.offset, record.id));
            }
            if records.len() >= 100_000 {
                copy(self.contents, std::mem::take(&mut records), &mut uncopied).await?;
            }
        }
        copy(self.contents, records, &mut uncopied).await?;
        self.contents.flush().await?;
        uncopied.result()
    }
}

/// Contents that cannot be copied, because they cannot be read. They keep no others from it.
#[derive(Debug, Default)]
struct Uncopied {
    count: u64,
    named: Vec<String>,
}

impl Uncopied {
    /// Notes an error of one content; one that concerns all is given back.
    fn note(&mut self, id: &ContentId, result: Result<(), KopiaError>) -> Result<(), KopiaError> {
        match result {
            Err(error) if error.concerns_one() => {
                self.count += 1;
                if self.named.len() < NAMED {
                    self.named.push(format!("{id}: {error}"));
                }
                Ok(())
            }
            result => result,
        }
    }

    fn result(self) -> Result<(), KopiaError> {
        match self.count {
            0 => Ok(()),
            count => {
                let why = format!("all others were copied; the first ones: {}", self.named.join("; "));
                let contents = if count == 1 { "content" } else { "contents" };
                Err(KopiaError::refused(format!("copy {count} {contents} that cannot be read"), why))
            }
        }
    }
}

/// Copies contents, those of a pack after each other.
async fn copy(
    contents: &ContentWriter,
    mut records: Vec<(u32, u32, ContentId)>,
    uncopied: &mut Uncopied,
) -> Result<(), KopiaError> {
    records.sort_unstable();
    let copies = futures::stream::iter(records).map(|(_, _, id)| async move { (id, contents.rewrite(&id).await) });
    let mut copies = std::pin::pin!(copies.buffer_unordered(COPIES));
    while let Some((id, result)) = copies.next().await {
        uncopied.note(&id, result)?;
    }
    Ok(())
}

fn seen(record: &Record, is_referenced: bool) -> SeenEntry {
    SeenEntry { pack: record.pack, timestamp: record.timestamp, is_deleted: record.is_deleted, is_referenced }
}

/// The entries of a set that count.
fn entries<T>(set: &Arc<IndexSet>, view: impl Fn(&Location) -> T) -> impl Iterator<Item = Result<T, KopiaError>> {
    let mut scan = set.scan(None);
    std::iter::from_fn(move || scan.next_location().transpose().map(|found| found.map(|found| view(&found))))
}
