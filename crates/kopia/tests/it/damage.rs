//! Damage of any kind: an error that names it, and never a wrong byte.

use crate::fixture::{bucket, get, keys, open, options, password};
use crate::tree::{inputs, read_tree};
use lifeboat_bucket::{BlobStore, Memory, PutOptions};
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::{KopiaError, OpenOptions, Repository};
use std::path::Path;

/// Numbers without pattern, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound as u64).unwrap()
    }
}

async fn put(store: &Memory, key: &str, bytes: Vec<u8>) {
    store.put(key, bytes.into(), PutOptions::default()).await.unwrap();
}

/// Keeps nothing that was read, so that everything is read again.
fn forgetful(scratch: &Path) -> OpenOptions {
    OpenOptions { memory: 4096, ..options(scratch) }
}

/// Reads everything. What comes is what went in; gives the errors.
async fn errors(repository: &Repository) -> Vec<String> {
    let snapshots = match repository.snapshots().await {
        Ok(snapshots) => snapshots,
        Err(e) => return vec![e.to_string()],
    };
    assert_eq!(snapshots.len(), 1);
    let root = snapshots[0].document.as_ref().unwrap().root.as_ref().unwrap();
    let (rows, errors) = read_tree(repository, root).await;
    let wanted = inputs("tree-a");
    for (path, row) in &rows {
        assert_eq!(Some(row), wanted.get(path), "{path}");
    }
    if errors.is_empty() {
        assert_eq!(rows, wanted);
    }
    errors.into_iter().map(|(path, error)| format!("{path}: {error}")).collect()
}

/// A bit of a pack, anywhere: of a content, of the index, of what is between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_a_pack_never_gives_wrong_bytes() {
    let mut numbers = Numbers(7);
    for name in ["comp-zstd-fastest", "enc-chacha20-blake3-256", "comp-s2-default", "format-v1", "ecc-2-v3"] {
        let scratch = tempfile::tempdir().unwrap();
        let store = bucket(name).await;
        let repository = Repository::open(store.clone(), password(), forgetful(scratch.path())).await.unwrap();
        assert_eq!(errors(&repository).await, [""; 0], "{name}");
        let mut packs = keys(&*store, "p").await;
        packs.extend(keys(&*store, "q").await);
        let mut damaged = 0;
        for _ in 0..60 {
            let key = &packs[numbers.below(packs.len())];
            let whole = get(&*store, key).await;
            let (at, bit) = (numbers.below(whole.len()), numbers.below(8));
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            put(&store, key, flipped).await;
            let found = errors(&repository).await;
            damaged += usize::from(!found.is_empty());
            for error in found {
                assert!(error.contains("is damaged"), "{name} {key} {at}: {error}");
            }
            put(&store, key, whole).await;
        }
        // Error correction mends one bit wherever it is.
        let mends = name.starts_with("ecc");
        assert_eq!(damaged > 0, !mends, "{name}: {damaged}");
    }
}

/// The indexes at the ends of packs are damaged as often as what is before them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_never_gives_wrong_bytes_where_indexes_come_from_packs() {
    let mut numbers = Numbers(19);
    let store = bucket("comp-zstd-fastest").await;
    store.delete(&keys(&*store, "x").await).await.unwrap();
    let mut packs = keys(&*store, "p").await;
    packs.extend(keys(&*store, "q").await);
    let wanted = inputs("tree-a");
    let mut damaged = 0;
    for n in 0..14 {
        let scratch = tempfile::tempdir().unwrap();
        let key = &packs[n % packs.len()];
        let whole = get(&*store, key).await;
        let last = if n % 4 < 2 { 400.min(whole.len()) } else { whole.len() };
        let (at, bit) = (whole.len() - 1 - numbers.below(last), numbers.below(8));
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        put(&store, key, flipped).await;
        let from_packs = OpenOptions { indexes: IndexSource::Packs, ..forgetful(scratch.path()) };
        let repository = match Repository::open(store.clone(), password(), from_packs).await {
            Ok(repository) => repository,
            Err(error) => panic!("{key} {at}: the other packs can be read: {error}"),
        };
        damaged += repository.contents().index_set().damaged_packs();
        // Manifests whose pack has no index are not there; those that cannot be read are an error.
        let snapshots = repository.snapshots().await.unwrap_or_default();
        assert!(snapshots.len() <= 1);
        for snapshot in snapshots {
            let root = snapshot.document.unwrap().root.unwrap();
            let (rows, _) = read_tree(&repository, &root).await;
            for (path, row) in &rows {
                assert_eq!(Some(row), wanted.get(path), "{key} {at}: {path}");
            }
        }
        put(&store, key, whole).await;
    }
    assert!(damaged > 0, "no index was damaged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_in_an_index_is_an_error_that_names_the_blob() {
    let mut numbers = Numbers(11);
    for (name, prefix) in [("comp-zstd-fastest", "x/n"), ("format-v1-compacted", "m"), ("format-v1", "n")] {
        let store = bucket(name).await;
        let indexes = keys(&*store, prefix).await;
        for _ in 0..6 {
            let scratch = tempfile::tempdir().unwrap();
            let key = &indexes[numbers.below(indexes.len())];
            let whole = get(&*store, key).await;
            let (at, bit) = (numbers.below(whole.len()), numbers.below(8));
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            put(&store, key, flipped).await;
            let error = open(store.clone(), scratch.path()).await.unwrap_err();
            assert!(matches!(error, KopiaError::DamagedIndex { .. }), "{name} {at}: {error}");
            let error = error.to_string();
            let blob = key.strip_suffix(".f").unwrap().replace('/', "");
            assert!(error.starts_with(&format!("blob {blob} is damaged: ")), "{name} {at}: {error}");
            put(&store, key, whole).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_that_was_cut_off_is_an_error_for_what_is_missing_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let store = bucket("comp-zstd-fastest").await;
    let repository = Repository::open(store.clone(), password(), forgetful(scratch.path())).await.unwrap();
    let packs = keys(&*store, "p").await;
    let [key] = packs.as_slice() else { panic!("{packs:?}") };
    let whole = get(&*store, key).await;
    let files = inputs("tree-a").values().filter(|row| row.kind != 'd').count();
    let mut counts = Vec::new();
    for length in [0, 31, 110, 21_000, 24_000, whole.len()] {
        put(&store, key, whole[..length.min(whole.len())].to_vec()).await;
        let found = errors(&repository).await;
        assert!(found.iter().all(|error| error.contains("is damaged")), "{found:?}");
        counts.push(found.len());
    }
    assert_eq!((counts[0], counts[1], counts[5]), (files, files, 0));
    assert!(counts.is_sorted_by(|a, b| a >= b) && counts[2] < files, "{counts:?}");
    store.delete(std::slice::from_ref(key)).await.unwrap();
    let found = errors(&repository).await;
    assert_eq!(found.len(), files);
    let pack = key.strip_suffix(".f").unwrap().replace('/', "");
    let names_it =
        |error: &String| error.contains(&format!("pack {pack}")) && error.ends_with("is missing in the repository");
    assert!(found.iter().all(names_it), "{found:?}");
    // Nobody takes manifests for absent that cannot be read.
    for key in keys(&*store, "q").await {
        store.delete(&[key]).await.unwrap();
    }
    assert!(repository.snapshots().await.unwrap_err().to_string().ends_with("is missing in the repository"));
}

#[tokio::test]
async fn an_index_blob_that_was_cut_off_is_damaged() {
    let store = bucket("layout-flat").await;
    let key = keys(&*store, "xn").await.pop().unwrap();
    let whole = get(&*store, &key).await;
    for length in [0, 1, whole.len() - 1] {
        let scratch = tempfile::tempdir().unwrap();
        put(&store, &key, whole[..length].to_vec()).await;
        let error = open(store.clone(), scratch.path()).await.unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{error}");
    }
}
