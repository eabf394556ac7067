//! Verification: what is whole is whole, and what is not is named.

use crate::fixture::{bucket, flat_bucket, get, keys, open};
use crate::tree::inputs;
use crate::watched::Watched;
use lifeboat_bucket::{BlobStore, Memory, PutOptions};
use lifeboat_kopia::Repository;
use lifeboat_kopia::content::read_plan::ReadLimits;
use lifeboat_kopia::verify::{Problem, VerifyNotes, VerifyOptions, VerifyReport, VerifyRun};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

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
        let run = VerifyRun::default();
        let counted = repository.verify_resumably(options(100.0, 0), run.clone(), |_| {}).await.unwrap();
        let totals = run.progress.totals();
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
async fn verify_with_notes(repository: &Repository, folder: &Path, from_start: bool) -> (u64, u64) {
    let (report, problems) = verify_resumably(repository, folder, from_start).await;
    assert_eq!((report.snapshots, problems), (1, vec![]));
    (report.contents, report.contents_before)
}

/// Opens notes, as soon as what was cut off has let them go.
async fn open_notes(folder: &Path, repository: &Repository, options: &VerifyOptions, from_start: bool) -> VerifyNotes {
    for _ in 0..60_000 {
        match VerifyNotes::open(folder, repository, options, from_start) {
            Ok(notes) => return notes,
            Err(error) => assert!(error.to_string().contains("the same verification runs already"), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the notes of a verification that was cut off stay locked");
}

/// Verifies with notes in a folder, and gives the errors.
async fn verify_resumably(repository: &Repository, folder: &Path, from_start: bool) -> (VerifyReport, Vec<String>) {
    let options = one_by_one();
    let notes = open_notes(folder, repository, &options, from_start).await;
    let run = VerifyRun { notes: Some(Arc::new(notes)), ..VerifyRun::default() };
    let problems: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = problems.clone();
    let tell = move |problem: Problem| told.lock().unwrap().push(problem.error.to_string());
    let report = repository.verify_resumably(options, run, tell).await.unwrap();
    let problems = std::mem::take(&mut *problems.lock().unwrap());
    (report, problems)
}

/// Gives all packs a time, as buckets do.
async fn set_times(store: &Memory, seconds: u64) {
    for pack in keys(store, "p").await {
        store.set_modified(&pack, UNIX_EPOCH + Duration::from_secs(seconds));
    }
}

/// Cuts a verification off after so many contents, and leaves its notes.
async fn cut_verification(whole: &Arc<Memory>, scratch: &Path, notes: &Path, after: u64) {
    let store = Watched::new(whole.clone());
    *store.hanging.lock().unwrap() = Some(("p".to_owned(), usize::try_from(after).unwrap()));
    let hanging = open(store.clone(), scratch).await.unwrap();
    let cut_off = tokio::select! {
        read = verify_with_notes(&hanging, notes, false) => panic!("{read:?} were read"),
        is_cut_off = store.hangs() => is_cut_off,
    };
    assert!(cut_off, "no read hangs");
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
    set_times(&whole, 1).await;
    let repository = open(Watched::new(whole.clone()), scratch.path()).await.unwrap();
    let all = repository.contents().scan(Some(0)).count() as u64;
    assert!(all > 3, "{all} contents");
    for (cut, from_start) in [(0, false), (1, false), (all - 1, false), (2, true)] {
        cut_verification(&whole, scratch.path(), notes.path(), cut).await;
        let expected = if from_start { (all, 0) } else { (all - cut, cut) };
        assert_eq!(verify_with_notes(&repository, notes.path(), from_start).await, expected, "cut off after {cut}");
        assert_eq!(std::fs::read_dir(notes.path()).unwrap().count(), 0, "the notes go when it has ended");
    }
    assert_eq!(verify_with_notes(&repository, notes.path(), false).await, (all, 0));
}

/// The copy of a bucket that is put in its place has the names of all packs, and may be damaged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_before_the_bucket_was_copied_back_is_read_again() {
    let (scratch, notes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = flat_bucket("comp-zstd-fastest").await;
    set_times(&whole, 1).await;
    let all = open(whole.clone(), scratch.path()).await.unwrap().contents().scan(Some(0)).count() as u64;
    cut_verification(&whole, scratch.path(), notes.path(), all - 1).await;
    for (times, is_found) in [(None, true), (Some(2), true), (Some(1), false)] {
        let copy = flat_bucket("comp-zstd-fastest").await;
        for pack in keys(&*copy, "p").await {
            let mut bytes = get(&*copy, &pack).await;
            bytes.iter_mut().for_each(|byte| *byte ^= 1);
            copy.put(&pack, bytes.into(), PutOptions::default()).await.unwrap();
        }
        if let Some(seconds) = times {
            set_times(&copy, seconds).await;
        }
        // Each goes on with the notes of the first.
        let of_this = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(notes.path()).unwrap().map(Result::unwrap) {
            std::fs::copy(file.path(), of_this.path().join(file.file_name())).unwrap();
        }
        let repository = open(Watched::new(copy), scratch.path()).await.unwrap();
        let (report, problems) = verify_resumably(&repository, of_this.path(), false).await;
        let read = if is_found { (0, all) } else { (all - 1, 1) };
        assert_eq!((report.contents_before, problems.len() as u64), read, "{times:?}");
    }
}

#[tokio::test]
async fn a_snapshot_that_is_not_there_is_no_success() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(flat_bucket("comp-zstd-fastest").await, scratch.path()).await.unwrap();
    let wrong = VerifyOptions { snapshots: Some(BTreeSet::from(["f00".to_owned()])), ..options(0.0, 0) };
    let error = repository.verify(wrong, |_| {}).await.unwrap_err().to_string();
    assert_eq!(error, "snapshot f00 is missing in the repository");
}
