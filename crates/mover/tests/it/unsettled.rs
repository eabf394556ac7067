//! Files that may have been written again in the tick of the clock in which an earlier snapshot has read them.

use crate::tree::rows;
use crate::written::Written;
use lifeboat_kopia::format::snapshot::SnapshotDocument;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_mover::snapshot::SnapshotOptions;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// The beginning of the earlier snapshot, near the clock of the repository.
const START: u64 = 4_102_444_800;

/// Writes files of one length, each with its seconds before or after the earlier snapshot.
fn write(tree: &Path, byte: u8, files: &[(&str, i64)]) {
    fs::create_dir_all(tree.join("d")).unwrap();
    for (name, seconds) in files {
        fs::write(tree.join(name), [byte; 100]).unwrap();
        let time = UNIX_EPOCH + Duration::from_secs(START.checked_add_signed(*seconds).unwrap());
        File::options().write(true).open(tree.join(name)).unwrap().set_modified(time).unwrap();
    }
}

fn options(ground: &Written, after: u64) -> SnapshotOptions {
    let now = UnixNanos(i64::try_from((START + after) * 1_000_000_000).unwrap());
    SnapshotOptions { clock: Arc::new(move || now), ..ground.options() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_as_young_as_the_earlier_snapshot_is_read_again() {
    let files = [("fresh", 0), ("d/fresh", -2), ("d/later", 1), ("settled", -3)];
    for is_resumed in [false, true] {
        let ground = Written::new().await;
        let (tree, repository) = (ground.tree(), ground.open().await);
        write(&tree, 1, &files);
        let first = ground.try_take(&repository, &tree, options(&ground, 0), &Arc::default()).await.unwrap();
        if is_resumed {
            // The same as a checkpoint of a run that was cut off.
            let writer = ground.writer(&repository).await;
            let incomplete = Some("checkpoint".to_owned());
            writer.save_snapshot(&SnapshotDocument { incomplete, ..first.document }).unwrap();
            writer.delete_manifest(&first.id).unwrap();
            writer.flush().await.unwrap();
        }
        repository.contents().refresh().await.unwrap();
        // Other bytes of the same length, within the same tick.
        write(&tree, 2, &files);
        let second = ground.try_take(&repository, &tree, options(&ground, 10), &Arc::default()).await.unwrap();
        let stats = second.document.stats;
        assert_eq!((second.parents, stats.cached_files, stats.non_cached_files), (1, 1, 3), "{is_resumed}");
        repository.contents().refresh().await.unwrap();
        let restored = ground.restored(&repository, second.document.root.as_ref().unwrap()).await;
        // Nothing tells of the change of one whose time is long gone.
        write(&tree, 1, &[("settled", -3)]);
        assert_eq!(restored, rows(&tree), "{is_resumed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_the_future_are_counted() {
    let ground = Written::new().await;
    let (tree, repository) = (ground.tree(), ground.open().await);
    write(&tree, 1, &[("past", -3), ("now", 2), ("future", 3), ("d/future", 3600)]);
    let report = ground.try_take(&repository, &tree, options(&ground, 0), &Arc::default()).await.unwrap();
    let warning =
        "2 files have a time in the future: each snapshot reads them until then, as they may be changed within it";
    assert_eq!(report.warnings, [warning]);
}
