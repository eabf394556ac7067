//! Devices that are saved as blocks, the form of Velero's uploader of blocks, from images of them in files.

use crate::device::Loop;
use crate::fixture::{failures, options, run};
use crate::written::{Written, problems};
use futures::TryStreamExt;
use lifeboat_kopia::Repository;
use lifeboat_kopia::format::directory::{DirectoryEntry, DirectoryWriter, EntryType};
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::format::snapshot::{SnapshotDocument, Source as SnapshotSource};
use lifeboat_kopia::object::writer::ObjectOptions;
use lifeboat_kopia::object::{self, Extent};
use lifeboat_kopia::splitter::SplitterAlgorithm;
use lifeboat_mover::restore::{RestoreOptions, SavedDevice, saved_device};
use lifeboat_mover::snapshot::{BlockChanges, BlockForm, CheckpointTimes, SnapshotOptions, SnapshotReport};
use lifeboat_mover::tree::{Source, SourceEntry};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const BLOCK: u64 = 1 << 20;
/// The zero time of Go.
const NEVER: &str = "1754-08-30T22:43:41.128654848Z";

/// Numbers without pattern, the same for the same seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(4) {
            let next = self.next().to_le_bytes();
            chunk.copy_from_slice(&next[..chunk.len()]);
        }
    }

    /// A range of a device, mostly short, sometimes of some blocks.
    fn range(&mut self, size: u64) -> Range<u64> {
        let start = self.below(size);
        let most = [1, 5000, BLOCK, 3 * BLOCK][usize::try_from(self.below(4)).unwrap()];
        start..(start + 1 + self.below(most)).min(size)
    }
}

fn slice<'a>(bytes: &'a mut [u8], range: &Range<u64>) -> &'a mut [u8] {
    &mut bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]
}

/// Changes a device here and there, also into zeros, and gives ranges that tell of it, in no order and with more than that.
fn change(dice: &mut Dice, device: &mut [u8]) -> Vec<Range<u64>> {
    let size = device.len() as u64;
    let mut told = Vec::new();
    for _ in 0..dice.below(5) {
        let range = dice.range(size);
        match dice.below(3) {
            0 => slice(device, &range).fill(0),
            _ => dice.fill(slice(device, &range)),
        }
        let wider = range.start - dice.below(range.start + 1).min(dice.below(90_000))..range.end;
        if dice.below(2) == 0 {
            let middle = (wider.start + wider.end) / 2;
            told.extend([middle..wider.end, wider.start..middle]);
        } else {
            told.push(wider);
        }
    }
    if dice.below(3) == 0 {
        told.push(dice.range(size));
    }
    told
}

/// Writes a file with these bytes, and holes for pages of zeros.
pub(crate) fn write_image(path: &Path, bytes: &[u8]) {
    let file = File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (at, page) in bytes.chunks(4096).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, at as u64 * 4096).unwrap();
        }
    }
}

pub(crate) struct Ground {
    pub(crate) written: Written,
    pub(crate) image: PathBuf,
    pub(crate) repository: Arc<Repository>,
}

impl Ground {
    pub(crate) async fn new() -> Self {
        let written = Written::new().await;
        let image = written.folder.path().join("image");
        let repository = written.open().await;
        Self { written, image, repository }
    }

    pub(crate) fn options(&self, changes: Option<BlockChanges>) -> SnapshotOptions {
        let form = BlockForm { changes, ..BlockForm::of("shop/data") };
        SnapshotOptions { blocks: Some(form), ..self.written.options() }
    }

    pub(crate) async fn take_with(&self, options: SnapshotOptions) -> Result<SnapshotReport, String> {
        self.repository.contents().refresh().await.unwrap();
        let taken = self.written.try_take(&self.repository, &self.image, options, &Arc::default()).await;
        taken.map_err(|e| e.to_string())
    }

    pub(crate) async fn take(&self, changes: Option<BlockChanges>) -> SnapshotReport {
        self.take_with(self.options(changes)).await.unwrap()
    }

    /// The bytes of a snapshot, restored as those of a device.
    pub(crate) async fn restored(&self, document: &SnapshotDocument) -> Vec<u8> {
        let root = document.root.as_ref().unwrap();
        let source = Source::Kopia(self.repository.clone());
        let device = saved_device(&source, &SourceEntry::from(root), &document.tags).await.unwrap();
        let SavedDevice { length, may_have_files, .. } = device.unwrap();
        assert!(may_have_files);
        let target = self.written.folder.path().join("target");
        // What was there before has the same length and the same time, and is not left as it is.
        if !target.exists() {
            fs::write(&target, "").unwrap();
        }
        let options = RestoreOptions { length: Some(length), ..options(&target) };
        let report = run(&self.repository, root, &options).await.unwrap();
        assert_eq!(failures(&report), []);
        fs::read(&target).unwrap()
    }

    pub(crate) async fn bytes(&self, object: &ObjectId) -> Vec<u8> {
        let pieces: Vec<_> = object::bytes(self.repository.contents(), object).try_collect().await.unwrap();
        pieces.concat()
    }

    pub(crate) async fn extents(&self, object: &ObjectId) -> Vec<Extent> {
        object::extents(self.repository.contents(), object).try_collect().await.unwrap()
    }

    /// The object of the device in a snapshot.
    pub(crate) async fn device(&self, document: &SnapshotDocument) -> ObjectId {
        let root = document.root.as_ref().unwrap().object.unwrap();
        let mut found = None;
        let directory = self.bytes(&root).await;
        lifeboat_kopia::format::directory::read(&*directory, |entry| {
            found = entry.object;
            Ok::<_, lifeboat_kopia::format::FormatError>(())
        })
        .unwrap();
        found.unwrap()
    }
}

/// The bytes that are read of a device with these changes: whole blocks, and a last one that is not full.
fn read_of(size: u64, ranges: &[Range<u64>]) -> u64 {
    let changed = ranges.iter().filter(|range| !range.is_empty());
    let mut blocks: BTreeSet<u64> = changed.flat_map(|range| range.start / BLOCK..=(range.end - 1) / BLOCK).collect();
    if !size.is_multiple_of(BLOCK) {
        blocks.insert(size / BLOCK);
    }
    blocks.into_iter().map(|block| BLOCK.min(size - block * BLOCK)).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_blocks_and_old_ones_are_the_device_as_it_is_read_whole() {
    for seed in 1..=10 {
        let (ground, mut dice) = (Ground::new().await, Dice(seed));
        let size = match dice.below(3) {
            0 => (1 + dice.below(9)) * BLOCK,
            _ => 1 + dice.below(9 * BLOCK),
        };
        let mut device = vec![0; usize::try_from(size).unwrap()];
        for _ in 0..4 {
            let range = dice.range(size);
            dice.fill(slice(&mut device, &range));
        }
        write_image(&ground.image, &device);
        let mut last = ground.take(None).await;
        assert!(ground.restored(&last.document).await == device, "{seed}");
        for _ in 0..3 {
            let ranges = change(&mut dice, &mut device);
            write_image(&ground.image, &device);
            let read = read_of(size, &ranges);
            let changes = BlockChanges { parent: last.id.clone(), ranges };
            let report = ground.take(Some(changes.clone())).await;
            assert_eq!((report.warnings.clone(), report.parents), (Vec::<String>::new(), 1), "{seed}");
            let totals = report.totals;
            assert_eq!((totals.bytes_read, totals.bytes_unchanged), (read, size - read), "{seed} {changes:?}");
            let whole = ground.take(None).await;
            assert_eq!((whole.totals.bytes_read, whole.parents), (size, 0), "{seed}");
            assert_eq!(report.document.root, whole.document.root, "{seed} {changes:?}");
            assert!(ground.restored(&report.document).await == device, "{seed} {changes:?}");
            last = report;
        }
        assert_eq!(problems(&ground.repository).await, Vec::<String>::new(), "{seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_is_saved_to_the_byte_as_veleros_uploader_of_blocks_does() {
    let ground = Ground::new().await;
    let mut device = vec![0; 5 << 19];
    Dice(1).fill(&mut device[..1 << 20]);
    device[(5 << 19) - 1] = 7;
    write_image(&ground.image, &device);
    let source = SnapshotSource {
        host: "default".to_owned(),
        user: "default".to_owned(),
        path: "snapshot-data-upload-download/velero-block/shop/data".to_owned(),
    };
    let tags = [("snapshot-requester", "snapshot-data-upload-download"), ("velero.io/async-operation-id", "du-1")];
    let report = ground.take_with(SnapshotOptions {
        source,
        description: "Block Uploader".to_owned(),
        pins: vec!["velero-pin".to_owned()],
        tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..ground.options(None)
    });
    let document = report.await.unwrap().document;
    let root = document.root.as_ref().unwrap().object.unwrap();
    let found = ground.device(&document).await;
    let directory = format!(
        "{{\"stream\":\"kopia:directory\",\"entries\":[{{\"name\":\"shop-data\",\"type\":\"f\",\"mode\":\"0777\",\
         \"size\":3145728,\"mtime\":\"{NEVER}\",\"obj\":\"{found}\"}}],\"summary\":null}}\n"
    );
    assert_eq!(String::from_utf8(ground.bytes(&root).await).unwrap(), directory);
    let blocks = ground.extents(&found).await;
    let [first, zeros, last] = [0, 1, 2].map(|at: usize| blocks[at].content);
    let listing = format!(
        "{{\"stream\":\"kopia:indirect\",\"entries\":[{{\"l\":1048576,\"o\":\"{first}\"}},\
         {{\"s\":1048576,\"l\":1048576,\"o\":\"{zeros}\"}},{{\"s\":2097152,\"l\":1048576,\"o\":\"{last}\"}}]}}\n"
    );
    assert_eq!((found.levels, found.content.prefix()), (1, Some(b'x')));
    assert_eq!(String::from_utf8(ground.bytes(&found.listing().unwrap()).await).unwrap(), listing);
    device.resize(3 << 20, 0);
    assert!(ground.bytes(&found).await == device);
    let (start, end) = (document.start, document.end);
    let stats = "{\"totalSize\":3145728,\"excludedTotalSize\":0,\"fileCount\":0,\"cachedFiles\":0,\"nonCachedFiles\":0,\
                 \"dirCount\":0,\"excludedFileCount\":0,\"excludedDirCount\":0,\"ignoredErrorCount\":0,\"errorCount\":0}";
    let manifest = format!(
        "{{\"id\":\"\",\"source\":{{\"host\":\"default\",\"userName\":\"default\",\
         \"path\":\"snapshot-data-upload-download/velero-block/shop/data\"}},\"description\":\"Block Uploader\",\
         \"startTime\":\"{start}\",\"endTime\":\"{end}\",\"stats\":{stats},\
         \"rootEntry\":{{\"type\":\"d\",\"mode\":\"0777\",\"mtime\":\"{NEVER}\",\"obj\":\"{root}\",\
         \"summ\":{{\"size\":3145728,\"files\":0,\"symlinks\":0,\"dirs\":0,\"maxTime\":\"1970-01-01T00:00:00Z\",\
         \"numFailed\":0}}}},\"tags\":{{\"bdev-source-size\":\"2621440\",\
         \"snapshot-requester\":\"snapshot-data-upload-download\",\"snapshot-uploader\":\"velero-block\",\
         \"velero.io/async-operation-id\":\"du-1\"}},\"pins\":[\"velero-pin\"]}}"
    );
    assert_eq!(String::from_utf8(document.write()).unwrap(), manifest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sparse_image_of_gigabytes_is_one_block_and_a_listing_of_listings() {
    let ground = Ground::new().await;
    File::create(&ground.image).unwrap().set_len(4 << 30).unwrap();
    let report = ground.take(None).await;
    assert_eq!((report.totals.bytes_read, report.totals.expected_bytes), (4 << 30, 4 << 30));
    // The block, its listing in two pieces or more with theirs, the directory.
    assert!(report.written.new_contents < 10, "{:?}", report.written);
    let device = ground.device(&report.document).await;
    assert_eq!((device.levels, device.content.prefix()), (2, Some(b'x')));
    let listing = ground.extents(&device.listing().unwrap()).await;
    let (last, full) = listing.split_last().unwrap();
    assert!(full.iter().all(|piece| piece.length == 128 << 10) && last.length <= 128 << 10, "{listing:?}");
    let blocks = ground.extents(&device).await;
    assert!(blocks.len() == 4096 && blocks.iter().all(|block| block.content == blocks[0].content));
    // One block has a listing, too.
    File::create(&ground.image).unwrap().set_len(1).unwrap();
    let device = ground.device(&ground.take(None).await.document).await;
    assert_eq!((device.levels, ground.bytes(&device).await == vec![0; 1 << 20]), (1, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_blocks_and_changes_beyond_the_end_are_refused() {
    let ground = Ground::new().await;
    write_image(&ground.image, &[7; 3000]);
    let at = ground.image.canonicalize().unwrap();
    for (start, end) in [(2999, 3001), (3000, 3001), (9000, 9001), (5, 4)] {
        let changes = BlockChanges { parent: "none".to_owned(), ranges: vec![0..1, start..end] };
        let error = ground.take_with(ground.options(Some(changes))).await.unwrap_err();
        let expected = format!(
            "{}: the changed bytes from {start} to {end} are not inside of its 3000 bytes: they are those of another \
             device, or it has another length now; without changed ranges all of it is read",
            at.display()
        );
        assert_eq!(error, expected);
    }
    write_image(&ground.image, &[]);
    let error = ground.take_with(ground.options(None)).await.unwrap_err();
    assert_eq!(error, format!("{}: it has no bytes: there are no blocks to save", at.display()));
    fs::remove_file(&ground.image).unwrap();
    fs::create_dir(&ground.image).unwrap();
    let error = ground.take_with(ground.options(None)).await.unwrap_err();
    assert_eq!(error, format!("{}: it is no file or block device: it has no blocks", at.display()));
    ground.repository.contents().refresh().await.unwrap();
    assert_eq!(ground.repository.snapshots().await.unwrap(), []);
}

/// A snapshot with the tags of the form whose device is cut every so many bytes.
async fn cut_otherwise(ground: &Ground, like: &SnapshotDocument, length: u32, bytes: &[u8]) -> String {
    let writer = ground.written.writer(&ground.repository).await;
    let splitter = Some(SplitterAlgorithm::Fixed(length));
    let mut device = writer.object(ObjectOptions { splitter, ..ObjectOptions::default() });
    device.write(bytes.to_vec().into()).await.unwrap();
    let root = like.root.clone().unwrap();
    let device = Some(device.finish().await.unwrap());
    let mut directory = DirectoryWriter::begin();
    let entry_type = EntryType::File;
    let size = bytes.len() as u64;
    directory.push(&DirectoryEntry {
        name: "x".into(),
        entry_type,
        object: device,
        size,
        summary: None,
        ..root.clone()
    });
    let mut object = writer.object(ObjectOptions { prefix: Some(b'k'), ..ObjectOptions::default() });
    object.write(directory.end(None).into()).await.unwrap();
    let object = Some(object.finish().await.unwrap());
    let document = SnapshotDocument { root: Some(DirectoryEntry { object, ..root }), ..like.clone() };
    let id = writer.save_snapshot(&document).unwrap();
    writer.flush().await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_snapshot_that_does_not_fit_is_named_and_all_is_read() {
    let ground = Ground::new().await;
    let mut device = vec![0; 3 << 20];
    Dice(5).fill(&mut device);
    write_image(&ground.image, &device[..2 << 20]);
    let shorter = ground.take(None).await;
    write_image(&ground.image, &device);
    let elsewhere = SnapshotSource { path: "/other".to_owned(), ..ground.options(None).source };
    let other = ground.take_with(SnapshotOptions { source: elsewhere, ..ground.options(None) }).await.unwrap();
    let stream = ground.take_with(ground.written.options()).await.unwrap();
    let first = ground.take(None).await;
    let half = cut_otherwise(&ground, &first.document, 1 << 19, &device).await;
    let two_thirds = cut_otherwise(&ground, &first.document, 1 << 20, &device[..2 << 20]).await;
    let unfinished = SnapshotDocument { incomplete: Some("checkpoint".to_owned()), ..first.document.clone() };
    let unfinished = cut_otherwise(&ground, &unfinished, 1 << 20, &device).await;
    for (since, why) in [
        ("none", "it is not there"),
        (shorter.id.as_str(), "the device had 2097152 bytes then, and has 3145728 now"),
        (other.id.as_str(), "it is a snapshot of another source, /other"),
        (stream.id.as_str(), "it is not in the form of blocks"),
        (half.as_str(), "it has 524288 bytes at 0 as one, and not blocks of 1048576"),
        (two_thirds.as_str(), "it has 2 blocks for 3145728 bytes"),
        (unfinished.as_str(), "it was not finished"),
    ] {
        let changes = BlockChanges { parent: since.to_owned(), ranges: Vec::new() };
        let report = ground.take(Some(changes)).await;
        let warning = format!("no block is taken over from snapshot {since}, and all of the device is read: {why}");
        assert_eq!((report.warnings, report.parents), (vec![warning], 0));
        assert_eq!((report.totals.bytes_read, report.document.root), (3 << 20, first.document.root.clone()), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_of_a_device_in_blocks_leave_nothing_behind() {
    let ground = Ground::new().await;
    let mut device = vec![0; 40 << 20];
    Dice(5).fill(&mut device);
    write_image(&ground.image, &device);
    let always = CheckpointTimes { first: Duration::ZERO, longest: Duration::ZERO };
    let report = ground.take_with(SnapshotOptions { checkpoints: always, ..ground.options(None) }).await.unwrap();
    assert!(report.checkpoints > 0);
    ground.repository.contents().refresh().await.unwrap();
    assert_eq!(ground.repository.snapshots().await.unwrap().len(), 1);
    let again = ground.take(None).await;
    assert_eq!((again.document.root, again.checkpoints), (report.document.root, 0));
    assert_eq!(problems(&ground.repository).await, Vec::<String>::new());
    let tags = BTreeMap::from([("bdev-source-size", "41943040"), ("snapshot-uploader", "velero-block")]);
    let expected: BTreeMap<_, _> = tags.into_iter().map(|(key, tag)| (key.to_owned(), tag.to_owned())).collect();
    assert_eq!(again.document.tags, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_is_saved_in_blocks_and_goes_onto_another_one() {
    let ground = Ground::new().await;
    let length = (5 << 20) + 4096;
    let mut bytes = vec![0; length];
    let mut dice = Dice(3);
    for range in [0..70_000, 3 << 20..(3 << 20) + 9, (5 << 20) + 1..(5 << 20) + 4096] {
        dice.fill(slice(&mut bytes, &range));
    }
    write_image(&ground.image, &bytes);
    let backing = ground.written.folder.path().join("backing");
    fs::write(&backing, vec![7; length]).unwrap();
    let (Some(device), Some(target)) = (Loop::over(&ground.image), Loop::over(&backing)) else {
        println!("skipped: this process may not make block devices");
        return;
    };
    // The system has its bytes in memory; another node writes to the storage below.
    assert!(fs::read(&device.0).unwrap() == bytes);
    bytes[100_000] = 9;
    File::options().write(true).open(&ground.image).unwrap().write_all_at(&[9], 100_000).unwrap();
    let options = ground.options(None);
    let report = ground.written.try_take(&ground.repository, &device.0, options, &Arc::default()).await.unwrap();
    let of_image = ground.take(None).await;
    assert_eq!((report.totals.bytes_read, &report.document.root), (length as u64, &of_image.document.root));
    assert_eq!(report.document.tags["bdev-source-size"], length.to_string());
    bytes[200_000] = 8;
    File::options().write(true).open(&ground.image).unwrap().write_all_at(&[8], 200_000).unwrap();
    let options = ground.written.options();
    let stream = ground.written.try_take(&ground.repository, &device.0, options, &Arc::default()).await.unwrap();
    ground.repository.contents().refresh().await.unwrap();
    let stream = ground.bytes(&ground.device(&stream.document).await).await;
    assert!(stream == bytes, "a device that is saved as a stream is read from the storage, too");
    bytes[200_000] = 0;
    let options = RestoreOptions { length: Some(length as u64), ..crate::fixture::options(&target.0) };
    let restored = run(&ground.repository, report.document.root.as_ref().unwrap(), &options).await.unwrap();
    assert_eq!(failures(&restored), []);
    // Zeros were written over what was there.
    assert!(fs::read(&target.0).unwrap() == bytes);
}
