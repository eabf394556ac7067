//! Reading of objects at random, and plans of reads.

use crate::fixture::{bucket, open, options, password};
use crate::tree::{Files, input, walk};
use crate::watched::Watched;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use lifeboat_bucket::ErrorKind;
use lifeboat_kopia::content::read_plan::{ReadLimits, Sink, Wanted, read};
use lifeboat_kopia::format::content_id::{ContentHash, ContentId};
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::object::reader::ObjectReader;
use lifeboat_kopia::object::{bytes, extents, extents_from};
use lifeboat_kopia::snapshot::entry_at;
use lifeboat_kopia::{KopiaError, OpenOptions, Repository};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The object at a path of the only snapshot.
async fn object_at(repository: &Repository, path: &str) -> ObjectId {
    let snapshot = repository.snapshots().await.unwrap().pop().unwrap();
    let root = snapshot.document.unwrap().root.unwrap();
    entry_at(repository.contents(), &root, path).await.unwrap().object.unwrap()
}

fn next(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 20) % bound
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_ranges_of_an_object_are_those_of_the_file() {
    for (name, tree, path) in [
        ("splitter-fixed-1m", "tree-b", "big.bin"),
        ("splitter-fixed-1m-v1", "tree-b", "big.bin"),
        ("splitter-dynamic-1m-buzhash", "tree-b", "big.bin"),
        ("concat", "tree-concat", "two-mib"),
        ("format-v1", "tree-a", "compressible.bin"),
        ("comp-zstd-fastest", "tree-a", "empty"),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = open(bucket(name).await, scratch.path()).await.unwrap();
        let file = input(&format!("{tree}/{path}"));
        let object = object_at(&repository, path).await;
        let reader = ObjectReader::open(repository.contents(), &object).await.unwrap();
        assert_eq!((reader.len(), reader.is_empty()), (file.len() as u64, file.is_empty()), "{name}");
        let mut state = 3;
        for _ in 0..60 {
            let offset = next(&mut state, reader.len() + 10);
            let length = usize::try_from(next(&mut state, 3 << 20)).unwrap();
            let start = usize::try_from(offset).unwrap().min(file.len());
            let wanted = &file[start..file.len().min(start + length)];
            assert!(reader.read_at(offset, length).await.unwrap() == wanted, "{name} {offset} {length}");
        }
        // Extents from an offset are the last ones of all.
        let all: Vec<_> = extents(repository.contents(), &object).try_collect().await.unwrap();
        for _ in 0..10 {
            let offset = next(&mut state, reader.len() + 1);
            let found: Vec<_> = extents_from(repository.contents(), &object, offset).try_collect().await.unwrap();
            let wanted: Vec<_> = match object.levels {
                0 => all.clone(),
                _ => all.iter().copied().filter(|extent| extent.start + extent.length > offset).collect(),
            };
            assert_eq!(found, wanted, "{name} {offset}");
        }
        let whole: Vec<_> = bytes(repository.contents(), &object).try_collect().await.unwrap();
        assert!(whole.concat() == file, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_many_contents_gives_its_entries_as_they_arrive() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(bucket("indirect-deep").await, scratch.path()).await.unwrap();
    let many = object_at(&repository, "many").await;
    assert_eq!(many.levels, 1);
    let mut entries = lifeboat_kopia::snapshot::entries(repository.contents(), &many);
    assert_eq!(&*entries.try_next().await.unwrap().unwrap().entry.name, "file-0000");
    assert_eq!(entries.count().await, 1499);
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_told_with_the_longest_part_that_does() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(bucket("comp-zstd-fastest").await, scratch.path()).await.unwrap();
    let root = repository.snapshots().await.unwrap().pop().unwrap().document.unwrap().root.unwrap();
    for (path, name) in
        [("", "tree-a"), ("/d//sub/", "sub"), ("d/sub/two", "two"), ("naïve-日本-😀.txt", "naïve-日本-😀.txt")]
    {
        assert_eq!(&*entry_at(repository.contents(), &root, path).await.unwrap().name, name);
    }
    for (path, why) in [
        ("x", "(the root is a directory without \"x\")"),
        ("d/sub/x/y", "(/d/sub is a directory without \"x\")"),
        ("d/one/x", "(/d/one is no directory that could hold \"x\")"),
    ] {
        let error = entry_at(repository.contents(), &root, path).await.unwrap_err().to_string();
        assert_eq!(error, format!("the path {path:?} of the snapshot {why} is missing in the repository"));
    }
}

/// All files of the tree as wanted contents.
async fn all_files(repository: &Repository) -> Vec<Wanted<(String, u64, u64)>> {
    let root = repository.snapshots().await.unwrap().pop().unwrap().document.unwrap().root.unwrap();
    let mut wanted = Vec::new();
    for (path, entry) in walk(repository, &root, &mut Vec::new()).await {
        if entry.entry.entry_type != lifeboat_kopia::format::directory::EntryType::Directory {
            let mut extents = extents(repository.contents(), &entry.entry.object.unwrap());
            while let Some(extent) = extents.try_next().await.unwrap() {
                wanted.push(extent.wanted((path.clone(), extent.start, extent.length)));
            }
        }
    }
    wanted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_files_of_a_pack_are_one_request_within_bounds() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Watched::new(bucket("splitter-fixed-1m").await);
    let repository = open(store.clone(), scratch.path()).await.unwrap();
    let big = input("tree-b/big.bin");
    let wanted = all_files(&repository).await;
    let unique = wanted.iter().map(|one| one.content).collect::<std::collections::HashSet<_>>().len();
    assert!(unique > 5 && unique < wanted.len());
    let plenty = ReadLimits::new(64 << 20, 2);
    for (limits, requests, at_once) in [
        (plenty, 1, 1),
        (ReadLimits { range: 1, ..plenty }, unique, unique),
        (ReadLimits { range: 1, requests: 2, ..plenty }, unique, 2),
        (ReadLimits { range: 1, memory: 1, ..plenty }, unique, 1),
        // Two of a MiB, and the short one at the end.
        (ReadLimits { range: 1, memory: 3 << 20, ..plenty }, unique, 3),
        (ReadLimits { window: 1, ..plenty }, wanted.len(), wanted.len()),
    ] {
        store.take_gets();
        store.most_at_once.store(0, Ordering::SeqCst);
        let files = Arc::new(Files::default());
        let stream = futures::stream::iter(wanted.clone().into_iter().map(Ok));
        read(repository.contents(), stream, limits, files.clone()).await.unwrap();
        let gets = store.take_gets().len();
        let most = store.most_at_once.load(Ordering::SeqCst);
        assert!(gets <= requests && most <= at_once, "{limits:?}: {gets} requests, {most} at once");
        assert!(files.bytes.lock().unwrap()["tree-b/big.bin"] == big, "{limits:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_content_wanted_twice_is_read_once_and_a_missing_one_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Watched::new(bucket("comp-zstd-fastest").await);
    let repository = open(store.clone(), scratch.path()).await.unwrap();
    let content = object_at(&repository, "hello.txt").await.content;
    let missing = ContentId::new(None, ContentHash::new(&[0xab; 16]).unwrap()).unwrap();
    let tag = |name: &str, offset| (name.to_owned(), offset, 12);
    let wanted = vec![
        Wanted::whole(content, tag("a", 0)),
        Wanted::whole(missing, tag("c", 0)),
        Wanted { length: 13, ..Wanted::whole(content, tag("d", 0)) },
        Wanted::whole(content, tag("a", 12)),
        Wanted::whole(content, tag("b", 0)),
    ];
    store.take_gets();
    let files = Arc::new(Files::default());
    let stream = futures::stream::iter(wanted.into_iter().map(Ok));
    read(repository.contents(), stream, repository.contents().limits(), files.clone()).await.unwrap();
    assert_eq!(store.take_gets().len(), 1);
    let hello = input("tree-a/hello.txt");
    let bytes = files.bytes.lock().unwrap();
    assert_eq!((bytes["a"].clone(), bytes["b"].clone(), bytes.len()), (hello.repeat(2), hello, 2));
    let mut errors = files.errors.lock().unwrap().clone();
    errors.sort();
    let needs = format!("content {content} is damaged: it has 12 bytes, the object that it is a part of needs 13");
    let expected = [("c", format!("content {missing} is missing in the repository")), ("d", needs)];
    assert_eq!(errors, expected.map(|(tag, error)| (tag.to_owned(), error)));
}

/// Fails at the first piece.
struct Refusing {
    taken: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

impl Sink<(String, u64, u64)> for Refusing {
    fn take(&self, _bytes: &Bytes, _tags: Vec<(String, u64, u64)>) -> Result<(), KopiaError> {
        self.taken.fetch_add(1, Ordering::SeqCst);
        Err(KopiaError::Cancelled)
    }
    fn fail(&self, error: KopiaError, _tags: Vec<(String, u64, u64)>) -> Result<(), KopiaError> {
        self.failed.lock().unwrap().push(error.to_string());
        Err(error)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_sink_ends_the_reading() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Watched::new(bucket("comp-zstd-fastest").await);
    let repository = open(store.clone(), scratch.path()).await.unwrap();
    let wanted = all_files(&repository).await;
    let sink = || Arc::new(Refusing { taken: AtomicUsize::new(0), failed: Mutex::default() });
    let limits = ReadLimits { requests: 1, threads: 1, range: 1, ..repository.contents().limits() };
    let stream = || futures::stream::iter(wanted.clone().into_iter().map(Ok));
    let refusing = sink();
    let error = read(repository.contents(), stream(), limits, refusing.clone()).await.unwrap_err();
    assert!(matches!(error, KopiaError::Cancelled) && refusing.taken.load(Ordering::SeqCst) == 1, "{error}");
    // Of the bucket each content hears; the sink says whether the rest is of use.
    *store.failing.lock().unwrap() = Some(("p".to_owned(), ErrorKind::Denied));
    let refusing = sink();
    let error = read(repository.contents(), stream(), limits, refusing.clone()).await.unwrap_err();
    assert!(matches!(&error, KopiaError::Bucket(e) if e.kind == ErrorKind::Denied), "{error}");
    assert_eq!(refusing.failed.lock().unwrap().len(), 1);
}

/// Maintenance has written the contents of a pack into another one, and deleted it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contents_that_maintenance_has_moved_are_found_where_they_are() {
    use lifeboat_bucket::BlobStore;
    let scratch = tempfile::tempdir().unwrap();
    let store = bucket("comp-zstd-fastest").await;
    let small = OpenOptions { memory: 4096, ..options(scratch.path()) };
    let repository = Repository::open(store.clone(), password(), small).await.unwrap();
    let wanted = all_files(&repository).await;
    let pack = crate::fixture::keys(&*store, "p").await.pop().unwrap();
    let bytes = crate::fixture::get(&*store, &pack).await;
    // An index blob that names the new pack, later than the old one.
    let new = "p00000000000000000000000000000000-s0000000000000000147";
    let mut entries: Vec<_> = repository.contents().scan(Some(0)).map(Result::unwrap).collect();
    for entry in &mut entries {
        entry.pack = new.to_owned();
        entry.timestamp += 1;
    }
    let plain = lifeboat_kopia::format::index::build(2, &entries).unwrap();
    let crypto = repository.crypto();
    let (hash, sealed) = crypto.seal_blob(&plain, [7; 12]).unwrap();
    let name = format!("xn0_{hash}-s0000000000000000147-c1");
    repository.blobs().put(&name, sealed.into()).await.unwrap();
    repository.blobs().put(new, bytes.into()).await.unwrap();
    store.delete(&[pack]).await.unwrap();
    let files = Arc::new(Files::default());
    let stream = futures::stream::iter(wanted.into_iter().map(Ok));
    read(repository.contents(), stream, repository.contents().limits(), files.clone()).await.unwrap();
    assert_eq!(*files.errors.lock().unwrap(), []);
    assert_eq!(files.bytes.lock().unwrap()["tree-a/hello.txt"], input("tree-a/hello.txt"));
}
