//! Numbers of a repository: what each snapshot has added, the space that is used, and what of it maintenance can give back.

use crate::format::time::{HOUR, UnixNanos};
use crate::maintenance::references::{ContentTotals, References};
use crate::progress::WalkProgress;
use crate::snapshot::Snapshot;
use crate::tasks::blocking;
use crate::{KopiaError, Repository};
use futures::TryStreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The age up to which what nothing refers to may be of a snapshot under way, in nanoseconds. Maintenance waits as long.
const DAY: i64 = 24 * HOUR;
/// The prefixes of the names of packs.
const PACKS: [&str; 2] = ["p", "q"];

/// Numbers of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryStatistics {
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotStatistics>,
    /// The contents that snapshots refer to, of directories and files.
    pub referenced: ContentTotals,
    /// The contents with manifests.
    pub manifests: ContentTotals,
    /// The contents that nothing refers to, those that are marked deleted among them.
    pub unreferenced: ContentTotals,
    /// The contents that are marked deleted and that nothing refers to.
    pub marked: ContentTotals,
    /// The packs.
    pub packs: PackTotals,
    /// The packs that no index refers to.
    pub unused_packs: PackTotals,
    /// The contents among those that nothing refers to which are younger than a day and not marked deleted: a snapshot that is
    /// being taken may be about to refer to them.
    pub young: ContentTotals,
    /// The packs among those that no index refers to which are younger than a day: their index may be about to be written.
    pub young_packs: PackTotals,
    /// The snapshots, directories and contents that could not be read. Where there are any, the other numbers are of what
    /// could be read, and nobody can say what is not needed.
    pub problems: Vec<String>,
}

/// Numbers of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotStatistics {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The contents that no earlier snapshot refers to; `None` where it was not reached.
    pub added: Option<ContentTotals>,
}

/// A number of packs and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PackTotals {
    /// The number.
    pub count: u64,
    /// The bytes.
    pub bytes: u64,
}

impl PackTotals {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl SnapshotStatistics {
    /// The bytes of all files of the snapshot, equal ones as often as they are in it; `None` where it does not say.
    pub fn logical(&self) -> Option<u64> {
        let root = self.snapshot.document.as_ref().ok()?.root.as_ref()?;
        Some(root.summary.as_ref().map_or(root.size, |summary| summary.size))
    }

    /// The number of files.
    pub fn files(&self) -> Option<u64> {
        let root = self.snapshot.document.as_ref().ok()?.root.as_ref()?;
        Some(root.summary.as_ref().map_or(1, |summary| summary.files))
    }
}

impl RepositoryStatistics {
    /// The bytes of all files of all snapshots, as far as these say.
    pub fn logical(&self) -> u64 {
        self.snapshots.iter().filter_map(SnapshotStatistics::logical).fold(0, u64::saturating_add)
    }

    /// The bytes of files for each byte of contents; `None` without contents.
    pub fn deduplication(&self) -> Option<f64> {
        ratio(self.logical(), self.referenced.plain)
    }

    /// The bytes of contents for each byte in packs; `None` without contents.
    pub fn compression(&self) -> Option<f64> {
        ratio(self.referenced.plain, self.referenced.stored)
    }

    /// The bytes that maintenance can give back in time, without those that may be of a snapshot under way; `None` where nobody can say what is needed.
    pub fn reclaimable(&self) -> Option<u64> {
        let contents = self.unreferenced.stored.saturating_sub(self.young.stored);
        let packs = self.unused_packs.bytes.saturating_sub(self.young_packs.bytes);
        let bytes = contents.saturating_add(packs);
        self.problems.is_empty().then_some(bytes)
    }
}

fn ratio(above: u64, below: u64) -> Option<f64> {
    (below > 0).then(|| above as f64 / below as f64)
}

impl Repository {
    /// Walks all snapshots and all entries of indexes. In memory are three bits for each content and a byte for each pack.
    /// `directories` are read at once.
    ///
    /// # Errors
    /// Errors of the bucket and of the scratch space; manifests that cannot be loaded.
    pub async fn statistics(&self, directories: usize) -> Result<RepositoryStatistics, KopiaError> {
        Box::pin(self.statistics_with_progress(directories, Arc::default())).await
    }

    /// Walks as [`Repository::statistics`] does, with counters that others may look at meanwhile.
    ///
    /// # Errors
    /// As [`Repository::statistics`].
    pub async fn statistics_with_progress(
        &self,
        directories: usize,
        progress: Arc<WalkProgress>,
    ) -> Result<RepositoryStatistics, KopiaError> {
        let snapshots = self.snapshots().await?;
        let references = self.references_with_progress(directories, progress).await?;
        let added: BTreeMap<&str, ContentTotals> =
            references.additions().iter().map(|one| (one.snapshot.as_str(), one.contents)).collect();
        let of_snapshot = |snapshot: Snapshot| {
            let added = added.get(snapshot.id.as_str()).copied();
            SnapshotStatistics { snapshot, added }
        };
        let mut statistics = RepositoryStatistics {
            snapshots: snapshots.into_iter().map(of_snapshot).collect(),
            referenced: ContentTotals::default(),
            manifests: ContentTotals::default(),
            unreferenced: ContentTotals::default(),
            marked: ContentTotals::default(),
            packs: PackTotals::default(),
            unused_packs: PackTotals::default(),
            young: ContentTotals::default(),
            young_packs: PackTotals::default(),
            problems: references.problems().to_vec(),
        };
        let set = references.set().clone();
        let young_since = UnixNanos(self.contents().now().0.saturating_sub(DAY));
        let (mut statistics, is_used) = blocking(move || {
            let is_used = count_entries(&references, &mut statistics, young_since)?;
            Ok((statistics, is_used))
        })
        .await?;
        for prefix in PACKS {
            let mut packs = self.blobs().list(prefix);
            while let Some(blob) = packs.try_next().await? {
                statistics.packs.add(blob.length);
                let number = set.pack_number(&blob.name).and_then(|number| is_used.get(number as usize));
                if !number.copied().unwrap_or(false) {
                    statistics.unused_packs.add(blob.length);
                    if blob.modified.is_some_and(|stored| stored > young_since) {
                        statistics.young_packs.add(blob.length);
                    }
                }
            }
        }
        Ok(statistics)
    }
}

/// Counts the entries that count; gives for each pack, by its number, whether one refers to it.
fn count_entries(
    references: &References,
    statistics: &mut RepositoryStatistics,
    young_since: UnixNanos,
) -> Result<Vec<bool>, KopiaError> {
    let set = references.set();
    let mut is_used = vec![false; set.packs()];
    let mut scan = set.scan(None);
    while let Some(found) = scan.next_location()? {
        let record = &found.record;
        if let Some(is_used) = is_used.get_mut(record.pack as usize) {
            *is_used = true;
        }
        if references.has(found.number) {
            statistics.referenced.add(&found);
        } else if record.id.prefix() == Some(crate::manifest::PREFIX) && !record.is_deleted {
            statistics.manifests.add(&found);
        } else {
            statistics.unreferenced.add(&found);
            if record.is_deleted {
                statistics.marked.add(&found);
            } else if i64::try_from(record.timestamp).unwrap_or(i64::MAX) > young_since.seconds() {
                statistics.young.add(&found);
            }
        }
    }
    Ok(is_used)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::RepositoryWriter;
    use crate::compression::Compression;
    use crate::format::directory::{Directory, DirectoryEntry, EntryType, Summary, write as write_directory};
    use crate::format::snapshot::{SnapshotDocument, Source, Stats};
    use crate::object::writer::ObjectOptions;
    use crate::testing::{BEGIN, Fixture, noise};
    use std::time::{Duration, UNIX_EPOCH};

    async fn object(writer: &RepositoryWriter, prefix: Option<u8>, bytes: Vec<u8>) -> DirectoryEntry {
        let compression = Some(Compression::ZstdFastest);
        let mut object =
            writer.object(ObjectOptions { prefix, compression, metadata_compression: compression, splitter: None });
        let size = bytes.len() as u64;
        object.write(bytes.into()).await.unwrap();
        let object = Some(object.finish().await.unwrap());
        let (name, entry_type) = ("x".into(), EntryType::File);
        DirectoryEntry {
            name,
            entry_type,
            mode: 0,
            size,
            modified: UnixNanos(0),
            uid: 0,
            gid: 0,
            object,
            summary: None,
        }
    }

    /// Saves a snapshot with these files, and gives the ID.
    async fn save(writer: &RepositoryWriter, at: i64, files: &[Vec<u8>]) -> String {
        let mut entries = Vec::new();
        for (number, bytes) in files.iter().enumerate() {
            let file = object(writer, None, bytes.clone()).await;
            entries.push(DirectoryEntry { name: number.to_string().as_str().into(), ..file });
        }
        let summary = Summary {
            size: entries.iter().map(|file| file.size).sum(),
            files: entries.len() as u64,
            ..Summary::default()
        };
        let document = write_directory(&Directory { entries, summary: None });
        let root = object(writer, Some(b'k'), document).await;
        let root = DirectoryEntry { entry_type: EntryType::Directory, size: 0, summary: Some(summary), ..root };
        let snapshot = SnapshotDocument {
            source: Source { host: "h".to_owned(), user: "u".to_owned(), path: "/".to_owned() },
            description: String::new(),
            start: UnixNanos(BEGIN + at),
            end: UnixNanos(BEGIN + at),
            stats: Stats::default(),
            incomplete: None,
            root: Some(root),
            tags: BTreeMap::new(),
            pins: Vec::new(),
        };
        let id = writer.save_snapshot(&snapshot).unwrap();
        writer.flush().await.unwrap();
        id
    }

    #[tokio::test]
    async fn each_snapshot_counts_only_what_none_before_it_refers_to() {
        let fixture = Fixture::usual();
        let repository = fixture.open(fixture.store().await).await.unwrap();
        let writer = repository.writer(fixture.write_options(1)).await.unwrap();
        let (first, second) = (noise(1, 50_000), vec![7; 80_000]);
        // The second one is older than the first.
        let later = save(&writer, 10, &[first.clone(), second.clone(), first.clone()]).await;
        let earlier = save(&writer, 5, std::slice::from_ref(&first)).await;
        writer.contents().write(None, noise(9, 5000).into(), None).await.unwrap();
        let unneeded = writer.contents().write(None, noise(8, 3000).into(), None).await.unwrap();
        writer.flush().await.unwrap();
        fixture.clock.advance(10);
        writer.contents().delete(&unneeded).await.unwrap();
        writer.flush().await.unwrap();
        repository.contents().refresh().await.unwrap();
        fixture.clock.advance(2 * 24 * 3600);
        let counts = Arc::new(WalkProgress::default());
        let statistics = repository.statistics_with_progress(2, counts.clone()).await.unwrap();
        let totals = counts.totals();
        assert_eq!((totals.snapshots, totals.expected_snapshots, totals.directories, totals.files), (2, 2, 2, 4));
        assert_eq!((totals.contents, totals.bytes), (statistics.referenced.count, statistics.referenced.plain));
        assert!(totals.expected_contents >= totals.contents, "{totals:?}");
        let of_snapshots: Vec<_> = statistics
            .snapshots
            .iter()
            .map(|one| (one.snapshot.id.as_str(), one.files(), one.logical(), one.added.map(|added| added.count)))
            .collect();
        // A file and a directory; then the other file and its directory.
        let expected =
            [(earlier.as_str(), Some(1), Some(50_000), Some(2)), (later.as_str(), Some(3), Some(180_000), Some(2))];
        assert_eq!(of_snapshots, expected);
        let added: Vec<_> = statistics.snapshots.iter().map(|one| one.added.unwrap()).collect();
        assert!((50_000..51_000).contains(&added[0].plain) && added[0].stored > 50_000, "{added:?}");
        assert!((80_000..81_000).contains(&added[1].plain) && added[1].stored < 2_000, "{added:?}");
        let mut sum = added[0];
        sum += added[1];
        assert_eq!((statistics.referenced, statistics.logical()), (sum, 230_000));
        let counts = [statistics.manifests.count, statistics.unreferenced.count, statistics.marked.count];
        assert_eq!(counts, [2, 2, 1]);
        assert_eq!((statistics.unreferenced.plain, statistics.marked.plain), (8000, 3000));
        assert_eq!((statistics.unused_packs, &statistics.problems), (PackTotals::default(), &Vec::new()));
        assert_eq!(statistics.reclaimable(), Some(statistics.unreferenced.stored));
        let stored = statistics.referenced.stored + statistics.manifests.stored + statistics.unreferenced.stored;
        assert!(statistics.packs.bytes > stored, "{statistics:?}");
        let (deduplication, compression) = (statistics.deduplication().unwrap(), statistics.compression().unwrap());
        assert!((1.7..1.8).contains(&deduplication) && (2.4..2.7).contains(&compression), "{statistics:?}");
    }

    #[tokio::test]
    async fn without_all_snapshots_nothing_is_said_to_be_reclaimable() {
        let fixture = Fixture::usual();
        let repository = fixture.open(fixture.store().await).await.unwrap();
        let writer = repository.writer(fixture.write_options(1)).await.unwrap();
        writer.contents().write(None, noise(9, 5000).into(), None).await.unwrap();
        writer.flush().await.unwrap();
        let whole = repository.statistics(2).await.unwrap();
        assert!(whole.reclaimable().is_some() && whole.deduplication().is_none());
        let unreadable = serde_json::value::RawValue::from_string("{\"stats\":7}".to_owned()).unwrap();
        writer.put_manifest(BTreeMap::from([("type".to_owned(), "snapshot".to_owned())]), unreadable).unwrap();
        writer.flush().await.unwrap();
        repository.contents().refresh().await.unwrap();
        let statistics = repository.statistics(2).await.unwrap();
        assert_eq!((statistics.problems.len(), statistics.reclaimable()), (1, None), "{statistics:?}");
        // A pack that no index knows.
        repository.blobs().put("p00000000000000000000000000000001-s1", vec![0; 77].into()).await.unwrap();
        let unused = repository.statistics(2).await.unwrap().unused_packs;
        assert_eq!(unused, PackTotals { count: 1, bytes: 77 });
    }

    #[tokio::test]
    async fn a_snapshot_under_way_is_not_reclaimable() {
        let fixture = Fixture::usual();
        let store = fixture.store().await;
        let repository = fixture.open(store.clone()).await.unwrap();
        let writer = repository.writer(fixture.write_options(1)).await.unwrap();
        writer.contents().write(None, noise(9, 5000).into(), None).await.unwrap();
        writer.flush().await.unwrap();
        let pack = "p00000000000000000000000000000001-s1";
        repository.blobs().put(pack, vec![0; 77].into()).await.unwrap();
        let stored = Duration::from_nanos((fixture.clock.clock())().0.unsigned_abs());
        store.set_modified(pack, UNIX_EPOCH + stored);
        repository.contents().refresh().await.unwrap();
        let fresh = repository.statistics(2).await.unwrap();
        assert_eq!((fresh.unreferenced.count, fresh.unused_packs.count, fresh.reclaimable()), (1, 1, Some(0)));
        assert_eq!((fresh.young, fresh.young_packs), (fresh.unreferenced, fresh.unused_packs));
        fixture.clock.advance(24 * 3600 + 1);
        let old = repository.statistics(2).await.unwrap();
        assert_eq!((old.young, old.young_packs), (ContentTotals::default(), PackTotals::default()));
        assert_eq!(old.reclaimable(), Some(fresh.unreferenced.stored + 77));
    }
}
