//! Verification: what is whole is whole, and what is not is named.

use crate::fixture::{bucket, flat_bucket, get, keys, open};
use crate::tree::inputs;
use crate::watched::Watched;
use lifeboat_bucket::{BlobStore, Memory, PutOptions};
use lifeboat_kopia::Repository;
use lifeboat_kopia::content::read_plan::ReadLimits;
use lifeboat_kopia::verify::{Problem, VerifyNotes, VerifyOptions, VerifyReport, VerifyState};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

fn options(files_percent: f64, seed: u64) -> VerifyOptions {
    VerifyOptions { snapshots: None, files_percent, seed, directories: 8, limits: ReadLimits::new(16 << 20, 2) }
}

/// The report, and path and error of each problem, ordered.
async fn verify(repository: &Repository, options: VerifyOptions) -> (VerifyReport, Vec<(String, String)>) {
    let problems: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let told = problems.clone();
    let tell = move |problem: Problem| {
        assert_eq!(problem.snapshot.len(), 32);
        told.lock().unwrap().push((problem.path, problem.error.to_string()));
    };
    let report = repository.verify(options, tell).await.unwrap();
    let mut problems = std::mem::take(&mut *problems.lock().unwrap());
    problems.sort();
    assert_eq!(report.problems, problems.len() as u64);
    (report, problems)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_repository_has_no_problems_and_everything_is_read_once() {
    for (name, tree) in [
        ("comp-zstd-fastest", "tree-a"),
        ("format-v1", "tree-a"),
        ("splitter-fixed-1m-v1", "tree-b"),
        ("concat", "tree-concat"),
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = open(bucket(name).await, scratch.path()).await.unwrap();
        let (report, problems) = verify(&repository, options(100.0, 0)).await;
        assert_eq!(problems, [], "{name}");
        let rows = inputs(tree);
        let files = rows.values().filter(|row| row.kind != 'd').map(|row| (&row.data, row.size));
        let files = files.collect::<BTreeSet<_>>().len() as u64;
        let directories = rows.values().filter(|row| row.kind == 'd').count() as u64;
        assert_eq!((report.snapshots, report.directories, report.files), (1, directories, files), "{name}");
        let data = repository.contents().scan(Some(0)).count() as u64;
        assert_eq!(report.contents, data, "{name}");
        let state = VerifyState::default();
        let counted = repository.verify_with(options(100.0, 0), state.clone(), |_| {}).await.unwrap();
        let totals = state.progress.totals();
        assert_eq!((counted, totals.files, totals.expected_snapshots), (report, report.files, 1), "{name}");
        assert!(totals.bytes > 0 && totals.expected_bytes > 0, "{name}: {totals:?}");
        let structure = repository.verify_structure(|problem| panic!("{}", problem.error)).await.unwrap();
        assert_eq!(structure, VerifyReport { contents: 0, bytes: 0, ..report }, "{name}");
    }
}

/// Files that were cut short have another size than their directory says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_upload_has_no_problems() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(bucket("crashed").await, scratch.path()).await.unwrap();
    let (report, problems) = verify(&repository, options(0.0, 0)).await;
    assert_eq!((report.snapshots, problems), (2, vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_of_the_files_is_read_and_the_seed_chooses_it() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(bucket("comp-none-meta-none").await, scratch.path()).await.unwrap();
    let mut counts = BTreeSet::new();
    for seed in 0..20 {
        let (report, _) = verify(&repository, options(50.0, seed)).await;
        let (again, _) = verify(&repository, options(50.0, seed)).await;
        assert_eq!(report, again);
        counts.insert(report.contents);
    }
    let all = repository.contents().scan(Some(0)).count() as u64;
    assert!(counts.len() > 2 && counts.iter().all(|count| *count < all), "{counts:?} of {all}");
}

async fn cut(store: &Memory, key: &str, length: usize) {
    let bytes = get(store, key).await;
    store.put(key, bytes[..length].to_vec().into(), PutOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packs_that_are_gone_or_too_short_are_found_without_reading_them() {
    let scratch = tempfile::tempdir().unwrap();
    let whole = flat_bucket("comp-zstd-fastest").await;
    let store = Watched::new(whole.clone());
    let repository = open(store.clone(), scratch.path()).await.unwrap();
    let pack = keys(&*whole, "p").await.pop().unwrap();
    cut(&whole, &pack, 100).await;
    store.take_gets();
    let (report, problems) = verify(&repository, options(0.0, 0)).await;
    assert!(!store.take_gets().contains(&pack));
    assert!(!problems.is_empty() && report.contents == 0, "{problems:?}");
    let short = |(_, error): &(String, String)| {
        error.starts_with(&format!("pack {pack} is damaged: it has 100 bytes, content "))
    };
    assert!(problems.iter().all(short), "{problems:?}");
    whole.delete(std::slice::from_ref(&pack)).await.unwrap();
    let (_, problems) = verify(&repository, options(0.0, 0)).await;
    let gone = |(_, error): &(String, String)| error.starts_with(&format!("pack {pack} with content "));
    assert!(problems.len() > 8 && problems.iter().all(gone), "{problems:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_bytes_are_damaged_is_named_when_it_is_read() {
    let scratch = tempfile::tempdir().unwrap();
    let store = flat_bucket("comp-zstd-fastest").await;
    let repository = open(store.clone(), scratch.path()).await.unwrap();
    let snapshot = repository.snapshots().await.unwrap().pop().unwrap();
    let root = snapshot.document.unwrap().root.unwrap();
    let entry = lifeboat_kopia::snapshot::entry_at(repository.contents(), &root, "random.bin").await.unwrap();
    let content = entry.object.unwrap().content;
    let place = repository.contents().find(&content).unwrap().unwrap();
    let mut bytes = get(&*store, &place.pack).await;
    bytes[place.offset as usize + 100] ^= 1;
    store.put(&place.pack, bytes.into(), PutOptions::default()).await.unwrap();
    assert_eq!(verify(&repository, options(0.0, 0)).await.1, []);
    let (_, problems) = verify(&repository, options(100.0, 0)).await;
    let [(path, error)] = problems.as_slice() else { panic!("{problems:?}") };
    assert_eq!(path, "/random.bin");
    assert!(error.starts_with(&format!("content {content} is damaged: ")), "{error}");
}

/// Nobody can tell a lost index from a writer that was cut off, where no snapshot refers to what the pack has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packs_that_no_index_names_are_counted() {
    let scratch = tempfile::tempdir().unwrap();
    let store = flat_bucket("comp-zstd-fastest").await;
    let repository = open(store.clone(), scratch.path()).await.unwrap();
    assert_eq!(verify(&repository, options(0.0, 0)).await.0.packs_without_index, 0);
    let pack = keys(&*store, "p").await.pop().unwrap();
    let copy = get(&*store, &pack).await;
    store.put("p00000000000000000000000000000001-s1", copy.into(), PutOptions::default()).await.unwrap();
    let (report, problems) = verify(&repository, options(0.0, 0)).await;
    assert_eq!((report.packs_without_index, problems), (1, vec![]));
}

/// Verifies with notes in a folder, and counts contents that were read now and before.
async fn verify_with_notes(repository: &Repository, folder: &Path, is_anew: bool) -> (u64, u64) {
    let options = one_by_one();
    let notes = VerifyNotes::open(folder, repository, &options, is_anew).unwrap();
    let state = VerifyState { notes: Some(Arc::new(notes)), ..VerifyState::default() };
    let report = repository.verify_with(options, state, |problem| panic!("{}", problem.error)).await.unwrap();
    assert_eq!(report.snapshots, 1);
    (report.contents, report.contents_before)
}

/// Reads each content by a request of its own, one after the other.
fn one_by_one() -> VerifyOptions {
    let limits = ReadLimits { requests: 1, range: 1, ..ReadLimits::new(16 << 20, 1) };
    VerifyOptions { limits, ..options(100.0, 0) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_that_is_cut_off_goes_on_where_it_was() {
    let (scratch, notes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = flat_bucket("comp-zstd-fastest").await;
    let repository = open(whole.clone(), scratch.path()).await.unwrap();
    let all = repository.contents().scan(Some(0)).count() as u64;
    assert!(all > 3, "{all} contents");
    for (cut, is_anew) in [(0, false), (1, false), (all - 1, false), (2, true)] {
        let store = Watched::new(whole.clone());
        *store.hanging.lock().unwrap() = Some(("p".to_owned(), usize::try_from(cut).unwrap()));
        let hanging = open(store.clone(), scratch.path()).await.unwrap();
        let cut_off = tokio::select! {
            read = verify_with_notes(&hanging, notes.path(), false) => panic!("{read:?} were read"),
            is_cut_off = store.hangs() => is_cut_off,
        };
        assert!(cut_off, "no read hangs");
        let expected = if is_anew { (all, 0) } else { (all - cut, cut) };
        assert_eq!(verify_with_notes(&repository, notes.path(), is_anew).await, expected, "cut off after {cut}");
        assert_eq!(std::fs::read_dir(notes.path()).unwrap().count(), 0, "the notes go when it has ended");
    }
    assert_eq!(verify_with_notes(&repository, notes.path(), false).await, (all, 0));
}

#[tokio::test]
async fn a_snapshot_that_is_not_there_is_no_success() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(flat_bucket("comp-zstd-fastest").await, scratch.path()).await.unwrap();
    let wrong = VerifyOptions { snapshots: Some(BTreeSet::from(["f00".to_owned()])), ..options(0.0, 0) };
    let error = repository.verify(wrong, |_| {}).await.unwrap_err().to_string();
    assert_eq!(error, "snapshot f00 is missing in the repository");
}
