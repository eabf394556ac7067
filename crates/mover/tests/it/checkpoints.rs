//! Snapshots that are cut off, and those that come after them.

use crate::tree::rows;
use crate::written::{Written, problems};
use lifeboat_kopia::format::directory::EntryType;
use lifeboat_kopia::snapshot::{EntryState, Snapshot, TreeEntry, entries};
use lifeboat_mover::Progress;
use lifeboat_mover::snapshot::{CheckpointTimes, SnapshotOptions};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Checkpoints follow each other at once.
const ALWAYS: CheckpointTimes = CheckpointTimes { first: Duration::ZERO, longest: Duration::ZERO };
const DIRECTORIES: u64 = 12;
const FILES: u64 = 15;

fn make(tree: &Path) {
    for directory in 0..DIRECTORIES {
        let directory = tree.join(format!("d{directory}/e"));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..FILES {
            let bytes = directory.join(file.to_string()).to_str().unwrap().repeat(20_000 * (file == 7) as usize + 1);
            fs::write(directory.join(format!("f{file}")), bytes).unwrap();
        }
    }
}

/// Ends a snapshot when so many files are done; `None` where it was done before.
async fn cut_off(ground: &Written, after: u64) -> Option<()> {
    let repository = ground.open().await;
    let progress = Arc::new(Progress::default());
    let options = SnapshotOptions { checkpoints: ALWAYS, files_at_once: Some(1), ..ground.options() };
    let tree = ground.tree();
    let mut taking = Box::pin(ground.try_take(&repository, &tree, options, &progress));
    loop {
        // Whatever happens wakes this, and the time besides.
        match tokio::time::timeout(Duration::from_millis(1), &mut taking).await {
            Ok(report) => {
                report.unwrap();
                return None;
            }
            Err(_) if progress.totals().files >= after => return Some(()),
            Err(_) => {}
        }
    }
}

/// Counts the whole files of a tree in the repository.
async fn count_files(repository: &lifeboat_kopia::Repository, snapshot: &Snapshot) -> u64 {
    use futures::TryStreamExt;
    let root = snapshot.document.as_ref().unwrap().root.as_ref().unwrap().object.unwrap();
    let (mut waiting, mut count) = (vec![root], 0);
    while let Some(object) = waiting.pop() {
        let children: Vec<TreeEntry> = entries(repository.contents(), &object).try_collect().await.unwrap();
        for TreeEntry { entry, state } in children {
            match (entry.entry_type, state) {
                (EntryType::Directory, _) => waiting.push(entry.object.unwrap()),
                (_, EntryState::Whole) => count += 1,
                (_, state) => assert!(matches!(state, EntryState::CutShort { .. }), "{state:?}"),
            }
        }
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_was_cut_off_reads_no_finished_file_again() {
    let (mut cut, mut kept) = (0, 0);
    for after in [20, 60, 120, 150] {
        let ground = Written::new().await;
        make(&ground.tree());
        let Some(()) = cut_off(&ground, after).await else { continue };
        cut += 1;
        let repository = ground.open().await;
        assert_eq!(problems(&repository).await, Vec::<String>::new(), "{after}");
        let before = repository.snapshots().await.unwrap();
        let done = match before.as_slice() {
            [] => 0,
            [checkpoint] => {
                let document = checkpoint.document.as_ref().unwrap();
                assert_eq!(document.incomplete.as_deref(), Some("checkpoint"));
                assert_eq!((document.tags.len(), document.stats.file_count), (0, 0));
                count_files(&repository, checkpoint).await
            }
            several => panic!("each checkpoint replaces the one before: {several:?}"),
        };
        kept += done;
        let report = ground.take(&repository).await;
        assert!(report.is_whole());
        let stats = report.document.stats;
        let all = (DIRECTORIES * FILES) as i32;
        assert_eq!((stats.cached_files, stats.non_cached_files), (done as i32, all - done as i32), "{after}");
        let restored = ground.restored(&repository, report.document.root.as_ref().unwrap()).await;
        let wanted = rows(&ground.tree());
        assert_eq!(restored, wanted, "{after}");
    }
    assert!(cut > 1 && kept > 0, "{cut} {kept}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_file_is_kept_by_checkpoints_and_is_the_same() {
    let ground = Written::new().await;
    let file = ground.folder.path().join("file");
    fs::write(&file, (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    let repository = ground.open().await;
    let options = SnapshotOptions { checkpoints: ALWAYS, ..ground.options() };
    let report = ground.try_take(&repository, &file, options, &Arc::default()).await.unwrap();
    assert!(report.checkpoints > 0);
    repository.contents().refresh().await.unwrap();
    assert_eq!(repository.snapshots().await.unwrap().len(), 1);
    let again = ground.try_take(&repository, &file, ground.options(), &Arc::default()).await.unwrap();
    assert_eq!((again.document.root, again.checkpoints), (report.document.root, 0));
    assert_eq!(problems(&repository).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_with_checkpoints_leaves_none_and_is_the_same() {
    let ground = Written::new().await;
    make(&ground.tree());
    let repository = ground.open().await;
    let options = SnapshotOptions { checkpoints: ALWAYS, ..ground.options() };
    let report = ground.try_take(&repository, &ground.tree(), options, &Arc::default()).await.unwrap();
    assert!(report.checkpoints > 0);
    repository.contents().refresh().await.unwrap();
    assert_eq!(repository.snapshots().await.unwrap().len(), 1);
    let full = SnapshotOptions { incremental: false, ..ground.options() };
    let again = ground.try_take(&repository, &ground.tree(), full, &Arc::default()).await.unwrap();
    assert_eq!((again.document.root, again.checkpoints), (report.document.root, 0));
    assert_eq!(problems(&repository).await, Vec::<String>::new());
}
