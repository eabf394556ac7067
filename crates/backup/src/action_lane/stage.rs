//! The action lane: from the lists of its types to objects for the archive.

use crate::action_lane::block::{Blocks, Relations, blocks};
use crate::action_lane::gather::gather;
use crate::action_lane::index::{Index, RelationFacts};
use crate::action_lane::intake::ActionLaneIntake;
use crate::action_lane::lane_items::LaneItems;
use crate::action_lane::save::{ActionLaneResult, SaveContext, SavePass, Worker};
use crate::action_lane::save_report::SaveReport;
use crate::collect::spool::RawPage;
use crate::output::entry::Entries;
use crate::output::entry_sender::EntrySender;
use crate::request::ordered_resources::ordered_key;
use crate::request::scope::Scope;
use crate::stage_error::{ActionRefusal, StageError};
use crate::volumes::decisions::decide;
use crate::volumes::due_files::DueFiles;
use crate::volumes::snapshots::DueSnapshots;
use lifeboat_store::{Broken, StreamReceiver, StreamSender};
use lifeboat_volume::Priority;
use lifeboat_volume::native::NativeRefusal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;

/// Name of this lane in messages.
pub(crate) const ACTING: &str = "running the actions of objects";

/// Takes in all lists, fetches what belongs to their objects, makes blocks of them, and saves these, some at once.
pub(crate) async fn run_action_lane(
    mut intake: ActionLaneIntake,
    lists: StreamReceiver<RawPage>,
    sender: &StreamSender<Entries>,
) -> Result<ActionLaneResult, StageError> {
    intake.take_lists(lists).await?;
    gather(&mut intake).await?;
    let verdicts = Arc::new(decide(&mut intake).await?);
    let ActionLaneIntake { scope, env, tally, body_store, index, bindings, named, report, .. } = intake;
    let relations = Relations { index: &index, bindings: &bindings, named: &named };
    let blocks = blocks(&relations, &ordered(&scope, &index));
    let (workers, actions) = (scope.lane.workers, scope.lane.backup_item(Arc::new(bindings), Arc::clone(&verdicts)));
    let context = Arc::new(SaveContext {
        scope,
        env,
        tally,
        actions,
        items: LaneItems::new(index, body_store),
        verdicts,
        turn: SavePass::First,
    });
    let due = DueSnapshots::new(&context);
    let takes_snapshots = !due.is_empty();
    let files = DueFiles::new(&context);
    let next = AtomicUsize::new(blocks.unlisted().start);
    let (queue, out) = (Arc::new(Queue { blocks, due, files, next }), EntrySender::one(sender, ACTING));
    let acting = async {
        let mut report = report;
        // Nothing else begins before what is in an order has ended.
        if !queue.blocks.listed().is_empty() {
            let mut running = JoinSet::new();
            let worker = Worker::new(Arc::clone(&context), out.for_worker(workers, ACTING));
            running.spawn(take_listed(Arc::clone(&queue), worker));
            report = all_deeds(running, report).await?;
        }
        // What no hook quiesces waits for nobody.
        let unlisted = queue.blocks.unlisted().filter_map(|block| queue.blocks.get(block));
        unlisted.filter(|block| !may_have_hooks(block, &context.items.index)).for_each(|block| {
            queue.due.begin(block, Priority::Normal);
            queue.files.begin(block);
        });
        queue.files.begin_others();
        let mut running = JoinSet::new();
        for _ in 0..workers {
            let worker = Worker::new(Arc::clone(&context), out.for_worker(workers, ACTING));
            running.spawn(take_turns(Arc::clone(&queue), worker));
        }
        let report = all_deeds(running, report).await?;
        if let Some(native) = &context.scope.volumes.native {
            unless_cancelled(&context, native.all_ended()).await?;
        }
        queue.files.all_ended().await;
        Ok::<_, StageError>(report)
    };
    let report = match takes_snapshots {
        true => context.env.operation.trace().within("snapshots", acting).await?,
        false => acting.await?,
    };
    out.end().await?;
    Ok(ActionLaneResult { context, report })
}

/// The blocks that wait for a worker.
struct Queue {
    blocks: Blocks,
    due: DueSnapshots,
    files: DueFiles,
    next: AtomicUsize,
}

impl Queue {
    fn next(&self) -> Option<&[u32]> {
        self.blocks.get(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

async fn take_turns(queue: Arc<Queue>, mut worker: Worker) -> Result<SaveReport, StageError> {
    while let Some(block) = queue.next() {
        let quiesced = worker.quiesce(block).await?;
        // Without hooks it was begun before.
        queue.due.begin(block, Priority::Frozen);
        queue.files.begin(block);
        for number in block {
            worker.indexed(*number).await?;
        }
        if !quiesced.is_empty() {
            queue.files.ended(block).await;
        }
        if !quiesced.is_empty()
            && let Some(native) = &worker.context().scope.volumes.native
        {
            // What is frozen stays so until its snapshots are taken.
            unless_cancelled(worker.context(), native.ended(queue.due.volumes(block))).await?;
        }
        worker.thaw(quiesced).await;
    }
    Ok(worker.end().await?.report)
}

/// Saves the blocks of objects in an order, one after the other. In each, the snapshots of one object have ended before those of the next
/// begin.
async fn take_listed(queue: Arc<Queue>, mut worker: Worker) -> Result<SaveReport, StageError> {
    for block in queue.blocks.listed().filter_map(|block| queue.blocks.get(block)) {
        let quiesced = worker.quiesce(block).await?;
        for number in block {
            let one = std::slice::from_ref(number);
            queue.due.begin(one, Priority::Frozen);
            queue.files.begin(one);
            worker.indexed(*number).await?;
            queue.due.csi_ended(one).await;
            queue.files.ended(one).await;
            if let Some(native) = &worker.context().scope.volumes.native {
                unless_cancelled(worker.context(), native.ended(queue.due.volumes(one))).await?;
            }
        }
        worker.thaw(quiesced).await;
    }
    Ok(worker.end().await?.report)
}

/// Waits for native snapshots. If a snapshotter says that no call can succeed, the backup ends.
async fn unless_cancelled(
    context: &SaveContext,
    waiting: impl Future<Output = Result<(), NativeRefusal>>,
) -> Result<(), StageError> {
    let ended = tokio::select! {
        ended = waiting => ended,
        () = context.env.operation.cancel.cancelled() => return Err(StageError::OperationEnded),
    };
    ended.map_err(|NativeRefusal { snapshotter, volume, message }| {
        StageError::ActionRefused(Box::new(ActionRefusal { action: snapshotter, object: volume, message }))
    })
}

fn may_have_hooks(block: &[u32], index: &Index) -> bool {
    let may = |number: &u32| {
        index
            .record(*number)
            .is_some_and(|record| matches!(record.facts, RelationFacts::Pod { may_have_hooks: true, .. }))
    };
    block.iter().any(may)
}

/// Waits for all workers. A worker that died is an error: the outcome for its objects is not known.
async fn all_deeds(
    mut running: JoinSet<Result<SaveReport, StageError>>,
    mut report: SaveReport,
) -> Result<SaveReport, StageError> {
    while let Some(ended) = running.join_next().await {
        report.add(ended.map_err(|_| Broken(ACTING))??);
    }
    Ok(report)
}

/// The numbers of the objects in `orderedResources`, type by type, each in their order.
fn ordered(scope: &Scope, index: &Index) -> Vec<Vec<u32>> {
    let numbers = |names: &[String], resource: &_| {
        names.iter().filter_map(|name| index.number(&ordered_key(resource, name).digest())).collect()
    };
    let types = scope.catalog.preferred().filter(|resource| scope.lane.takes(resource));
    types.filter_map(|resource| Some(numbers(scope.filter.ordered(resource)?, resource))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_that_died_is_no_end_of_its_objects() {
        let mut running = JoinSet::new();
        running.spawn(async { Ok(SaveReport::default()) });
        running.spawn(async { panic!("in the middle") });
        let ended = all_deeds(running, SaveReport::default()).await.map(drop);
        assert_eq!(ended, Err(StageError::StageDied(Broken(ACTING))));
    }
}
