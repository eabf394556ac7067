//! Blocks that are taken over from an earlier snapshot, while others delete it.

use crate::blocks::{Dice, Ground, write_image};
use crate::written::problems;
use async_trait::async_trait;
use lifeboat_bucket::faults::StoreDecorator;
use lifeboat_bucket::{BlobStore, Body, BucketError, Memory, PutOptions};
use lifeboat_kopia::format::FormatError;
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_mover::snapshot::{BlockChanges, CheckpointTimes, SnapshotOptions, snapshot};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

const BLOCK: u64 = 1 << 20;

/// A store that takes no pack of data until it is told to.
#[derive(Debug)]
struct Stalled {
    inner: Arc<Memory>,
    gate: Semaphore,
    begun: Notify,
}

#[async_trait]
impl StoreDecorator for Stalled {
    fn inner(&self) -> &dyn BlobStore {
        &*self.inner
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        if key.starts_with('p') {
            self.begun.notify_one();
            let _permit = self.gate.acquire().await;
        }
        self.inner.put(key, body, options).await
    }
}

/// The writer has memory for fewer blocks than are read before the one that is taken over: that waits for the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_is_deleted_while_others_are_read_is_read_as_well() {
    let ground = Ground::new().await;
    let mut device = vec![0; 90 << 20];
    Dice(9).fill(&mut device[89 << 20..]);
    write_image(&ground.image, &device);
    let first = ground.take(None).await;
    let lost = ground.extents(&ground.device(&first.document).await).await[89].content;
    Dice(10).fill(&mut device[..88 << 20]);
    write_image(&ground.image, &device);
    let store =
        Arc::new(Stalled { inner: ground.written.store.clone(), gate: Semaphore::new(0), begun: Notify::new() });
    let repository = ground.written.open_over(store.clone()).await.unwrap();
    let writer = ground.written.writer(&repository).await;
    let ranges = std::iter::once(0..88 * BLOCK).collect();
    let changes = BlockChanges { parent: first.id, ranges };
    let progress = Arc::default();
    let taking = snapshot(&writer, &ground.image, ground.options(Some(changes)), &progress);
    let deleting = async {
        store.begun.notified().await;
        writer.contents().delete(&lost).await.unwrap();
        store.gate.add_permits(1000);
    };
    let (report, ()) = tokio::join!(taking, deleting);
    let report = report.unwrap();
    let warning = "1 blocks of the earlier snapshot were deleted from the repository while this one was taken: they were \
                   read from the device";
    assert_eq!(report.warnings, [warning]);
    assert_eq!((report.totals.bytes_read, report.totals.bytes_unchanged), (89 * BLOCK, BLOCK));
    ground.repository.contents().refresh().await.unwrap();
    assert_eq!(problems(&ground.repository).await, Vec::<String>::new());
    assert!(ground.restored(&report.document).await == device);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_snapshot_with_a_deleted_block_gives_none() {
    let ground = Ground::new().await;
    let mut device = vec![0; 3 << 20];
    Dice(5).fill(&mut device);
    write_image(&ground.image, &device);
    let first = ground.take(None).await;
    let lost = ground.extents(&ground.device(&first.document).await).await[1].content;
    let writer = ground.written.writer(&ground.repository).await;
    writer.contents().delete(&lost).await.unwrap();
    writer.flush().await.unwrap();
    let report = ground.take(Some(BlockChanges { parent: first.id.clone(), ranges: Vec::new() })).await;
    let warning = format!(
        "no block is taken over from snapshot {}, and all of the device is read: it is not whole in the repository any \
         more: content {lost} is marked deleted",
        first.id
    );
    assert_eq!((report.warnings, report.totals.bytes_read), (vec![warning], 3 * BLOCK));
    ground.repository.contents().refresh().await.unwrap();
    assert!(ground.restored(&report.document).await == device);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_keep_the_earlier_snapshot_from_maintenance() {
    let ground = Ground::new().await;
    let mut device = vec![0; 41 << 20];
    Dice(5).fill(&mut device);
    write_image(&ground.image, &device);
    let first = ground.take(None).await;
    let kept = ground.device(&first.document).await;
    Dice(6).fill(&mut device[..40 << 20]);
    write_image(&ground.image, &device);
    let ranges = std::iter::once(0..40 * BLOCK).collect();
    let changes = BlockChanges { parent: first.id, ranges };
    let always = CheckpointTimes { first: Duration::ZERO, longest: Duration::ZERO };
    let options = SnapshotOptions { checkpoints: always, ..ground.options(Some(changes)) };
    assert!(ground.take_with(options).await.unwrap().checkpoints > 0);
    ground.repository.contents().refresh().await.unwrap();
    // The directories of checkpoints stay until maintenance deletes them.
    let mut unfinished = BTreeSet::new();
    for directory in ground.repository.contents().scan(Some(b'k')) {
        let bytes = ground.bytes(&ObjectId::direct(directory.unwrap().id)).await;
        lifeboat_kopia::format::directory::read(&*bytes, |entry| {
            if entry.name.starts_with(".checkpointed.shop-data.") {
                unfinished.insert(entry.object.unwrap().to_string());
            }
            Ok::<_, FormatError>(())
        })
        .unwrap();
    }
    assert!(unfinished.contains(&kept.to_string()), "{kept} {unfinished:?}");
}

/// The listing of so many blocks is cut into pieces of 128 KiB, the first after 1860 blocks or so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_are_taken_over_across_the_pieces_of_a_listing() {
    let ground = Ground::new().await;
    let image = File::create(&ground.image).unwrap();
    image.set_len(4 << 30).unwrap();
    let first = ground.take(None).await;
    let mut bytes = vec![0; 3 << 20];
    Dice(3).fill(&mut bytes);
    let mut changed = Vec::new();
    for block in [1022, 1858, 1864, 4090] {
        image.write_all_at(&bytes, block * BLOCK).unwrap();
        changed.push(block * BLOCK..(block + 3) * BLOCK);
    }
    let report = ground.take(Some(BlockChanges { parent: first.id, ranges: changed })).await;
    assert_eq!((report.warnings, report.parents), (Vec::new(), 1));
    assert_eq!((report.totals.bytes_read, report.totals.bytes_unchanged), (12 * BLOCK, (4096 - 12) * BLOCK));
    assert_eq!(report.document.root, ground.take(None).await.document.root);
}
