//! Decides about each object and gives it the form it has in the archive.
//!
//! Two lanes: an object whose type no action looks at goes through as bytes (`fast_lane`). The others wait in the body
//! store until all of them are known, and then have their turn (`action_lane`). Neither waits for the other. What belongs
//! to saved objects and is known only at the end comes last (`related_items`).

use crate::action_lane::intake::ActionLaneIntake;
use crate::action_lane::related_items::{FETCHING, RelatedItems};
use crate::action_lane::save::{ActionLaneResult, SaveContext, Worker};
use crate::action_lane::save_report::SaveReport;
use crate::action_lane::stage::{ACTING, run_action_lane};
use crate::collect::lists::CollectedLists;
use crate::collect::tally::Tally;
use crate::env::Env;
use crate::fast_lane::{FastLane, LeftOut};
use crate::output::entry::Entries;
use crate::output::entry_sender::EntrySender;
use crate::request::ordered_resources::ordered_key;
use crate::request::scope::Scope;
use crate::stage_error::{ActionRefusal, StageError, say_end};
use crate::volumes::outcomes::{VolumeSavers, Volumes};
use lifeboat_api::Time;
use lifeboat_archive::operations::BackupOperation;
use lifeboat_hook::HookTally;
use lifeboat_object::{ObjectKey, Severity};
use lifeboat_store::{Broken, StreamReceiver, StreamSender, stream};
use lifeboat_volume::csi::CsiSnapshots;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Batches waiting between processing and writing.
const WAITING: usize = 8;
/// Name of the fast lane in messages.
const PASSING: &str = "processing objects";

/// The stages between the lists and the archive, running.
pub(crate) struct ProcessingStages {
    pub(crate) entries: StreamReceiver<Entries>,
    /// Gives the facts about the objects when their stream ends.
    pub(crate) learned: oneshot::Receiver<ProcessedFacts>,
    /// Gives the error of an action that ends the operation.
    pub(crate) refusal: oneshot::Receiver<ActionRefusal>,
}

/// Facts that are known when all objects went through.
#[derive(Debug)]
pub(crate) struct ProcessedFacts {
    pub(crate) volumes: Volumes,
    /// The number of objects of each type that were found and left out, by reason.
    pub(crate) left_out: LeftOut,
    /// Operations that actions have begun.
    pub(crate) operations: Vec<BackupOperation>,
    /// Commands that were due in pods.
    pub(crate) hooks: HookTally,
}

/// Starts the stages as tasks of the operation.
pub(crate) fn process(
    collected: CollectedLists,
    scope: Arc<Scope>,
    env: &Env,
    tally: &Arc<Tally>,
    tasks: &mut JoinSet<()>,
) -> ProcessingStages {
    let (sender, entries) = stream(WAITING, PASSING);
    let CollectedLists { batches, looked_at, room } = collected;
    let pass = FastLane::new(Arc::clone(&scope), env.operation.clone(), Arc::clone(tally));
    let intake = ActionLaneIntake::new(room, scope, env, Arc::clone(tally));

    let (passed_sender, passed) = oneshot::channel();
    let to_archive = sender.another(PASSING);
    tasks.spawn(async move {
        let result = pass.run(batches, &to_archive).await;
        // The task that waits for it may be gone already.
        let _ = passed_sender.send(say_end(result, to_archive));
    });
    let (acted_sender, acted) = oneshot::channel();
    let to_archive = sender.another(ACTING);
    tasks.spawn(async move {
        let result = run_action_lane(intake, looked_at, &to_archive).await;
        let _ = acted_sender.send(say_end(result, to_archive));
    });
    let (learned_sender, learned) = oneshot::channel();
    let (refusal_sender, refusal) = oneshot::channel();
    let trace = env.operation.trace().clone();
    tasks.spawn(async move {
        // The receiver gets what was learned before the stream ends. After a failed upload it may be gone.
        let result = match trace.within("process", Box::pin(bring_together(passed, acted, &sender))).await {
            Ok(learned) => {
                let _ = learned_sender.send(learned);
                Ok(())
            }
            Err(StageError::ActionRefused(refusal)) => {
                let _ = refusal_sender.send(*refusal);
                Err(StageError::OperationEnded)
            }
            Err(stopped) => Err(stopped),
        };
        let _ = say_end(result, sender);
    });
    ProcessingStages { entries, learned, refusal }
}

/// Waits for both lanes, and brings in the objects that are known only then.
async fn bring_together(
    passed: oneshot::Receiver<Result<FastLane, StageError>>,
    acted: oneshot::Receiver<Result<ActionLaneResult, StageError>>,
    sender: &StreamSender<Entries>,
) -> Result<ProcessedFacts, StageError> {
    let (pass, acted) = tokio::try_join!(end_of(passed, PASSING), end_of(acted, ACTING))?;
    let out = EntrySender::one(sender, FETCHING);
    let mut late = RelatedItems::new(pass, Worker::taking_over(acted, out));
    late.run().await?;
    let RelatedItems { pass, worker, .. } = late;
    let ActionLaneResult { context, mut report } = worker.end().await?;
    tell_missing(&pass, &context);
    report.add_left_out(pass.left_out);
    report.operations.sort_by(|a, b| order(a).cmp(&order(b)));
    let SaveReport { volumes, left_out, operations, hooks, .. } = report;
    let verdicts = Arc::clone(&context.verdicts);
    context.scope.terminating.tell(&context.env.operation.journal);
    let (csi, native) = (context.scope.lane.csi.clone(), context.scope.volumes.native.clone());
    let files = context.scope.volumes.files.clone();
    // The last one has it: it is not copied.
    drop(context);
    csi.iter().for_each(CsiSnapshots::tell_unkept_groups);
    let volumes = Volumes::new(
        Arc::unwrap_or_clone(verdicts),
        volumes,
        VolumeSavers { csi: csi.as_ref(), native: native.as_ref(), files: files.as_ref() },
    );
    Ok(ProcessedFacts { volumes, left_out, operations, hooks })
}

fn order(operation: &BackupOperation) -> (Option<Time>, ObjectKey, &str) {
    let spec = &operation.spec;
    (operation.status.created, (&spec.resource_identifier).into(), &spec.operation_id)
}

/// Waits for the result of a lane, or for the news that it died.
async fn end_of<T>(lane: oneshot::Receiver<Result<T, StageError>>, what: &'static str) -> Result<T, StageError> {
    lane.await.unwrap_or(Err(StageError::StageDied(Broken(what))))
}

/// Tells of objects named in `orderedResources` that are not in the backup.
fn tell_missing(pass: &FastLane, context: &SaveContext) {
    let scope = &context.scope;
    for resource in scope.catalog.preferred() {
        for name in scope.filter.ordered(resource).unwrap_or_default() {
            let key = ordered_key(resource, name);
            if scope.filter.collects(resource).is_ok() && !pass.has_seen(&key) && !context.items.has_seen(&key) {
                let message = "an object named in the ordered resources is not in the backup";
                context.env.operation.journal.item(Severity::Warning, &key, message, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::spool::{Batch, RawPage};
    use crate::env::test_env;
    use crate::request::scope::test_scope;
    use lifeboat_action::Actions;
    use lifeboat_object::{ApiResource, Item, ResultScope, Results};
    use std::task::Poll;

    fn collected() -> (CollectedLists, StreamSender<Batch>, StreamSender<RawPage>) {
        let (fast, batches) = stream(4, "listing objects");
        let (lane, looked_at) = stream(4, "listing objects");
        (CollectedLists { batches, looked_at, room: 0 }, fast, lane)
    }

    #[tokio::test]
    async fn a_stage_that_died_before_it_is_named() {
        for dies_first in [true, false] {
            let env = test_env().await;
            let (collected, fast, lane) = collected();
            let mut tasks = JoinSet::new();
            let scope = test_scope(Vec::new(), &Actions::default());
            let mut processed = process(collected, scope, &env, &Arc::default(), &mut tasks);
            if dies_first {
                lane.end();
                drop(fast);
            } else {
                fast.end();
                drop(lane);
            }
            assert_eq!(processed.entries.next().await.map(|e| e.is_none()), Err(Broken("listing objects")));
            assert!(processed.learned.await.is_err() && processed.refusal.await.is_err());
        }
    }

    #[tokio::test]
    async fn a_lane_that_died_is_no_end_of_the_objects() {
        let env = test_env().await;
        let (collected, _fast, _lane) = collected();
        let mut tasks = JoinSet::new();
        let scope = test_scope(Vec::new(), &Actions::default());
        let mut processed = process(collected, scope, &env, &Arc::default(), &mut tasks);
        tasks.shutdown().await;
        assert!(processed.entries.next().await.is_err());
        assert!(processed.learned.await.is_err());

        for (dies, expected) in [(true, PASSING), (false, ACTING)] {
            let (passed_sender, passed) = oneshot::channel();
            let (acted_sender, acted) = oneshot::channel();
            let (sender, _entries) = stream(4, PASSING);
            if dies {
                drop(passed_sender);
                drop(acted_sender);
            } else {
                let scope = test_scope(Vec::new(), &Actions::default());
                let pass = FastLane::new(scope, env.operation.clone(), Arc::default());
                assert!(passed_sender.send(Ok(pass)).is_ok());
                drop(acted_sender);
            }
            let stopped = bring_together(passed, acted, &sender).await.map(drop);
            assert_eq!(stopped, Err(StageError::StageDied(Broken(expected))));
        }
    }

    #[tokio::test]
    async fn the_fetching_of_related_objects_that_died_is_no_end_of_the_objects() {
        let env = test_env().await;
        for dies in [true, false] {
            let (sender, mut entries) = stream(1, PASSING);
            let (lanes, _) = lanes_at_their_end(&env, &sender).await;
            // There is no room for the namespace, so it stops there.
            sender.send(Entries { entries: Vec::new(), budget: None }).await.unwrap();
            let mut run = Box::pin(bring_together(lanes.0, lanes.1, &sender));
            assert!(matches!(futures::poll!(&mut run), Poll::Pending));
            assert_eq!(entries.next().await.map(|e| e.map(|e| e.entries.len())), Ok(Some(0)));
            if !dies {
                run.await.unwrap();
                assert_eq!(entries.next().await.map(|e| e.map(|e| e.entries.len())), Ok(Some(1)));
            } else {
                drop(run);
            }
            sender.end();
            let expected = if dies { Err(Broken(FETCHING)) } else { Ok(true) };
            assert_eq!(entries.next().await.map(|e| e.is_none()), expected);
        }
    }

    type Lanes =
        (oneshot::Receiver<Result<FastLane, StageError>>, oneshot::Receiver<Result<ActionLaneResult, StageError>>);

    async fn lanes_at_their_end(env: &Env, sender: &StreamSender<Entries>) -> (Lanes, Arc<Tally>) {
        let (scope, tally) = (test_scope(Vec::new(), &Actions::default()), Arc::new(Tally::default()));
        let (passed_sender, passed) = oneshot::channel();
        let (acted_sender, acted) = oneshot::channel();
        let pass = FastLane::new(Arc::clone(&scope), env.operation.clone(), Arc::clone(&tally));
        let (lists, looked_at) = stream(1, "listing objects");
        lists.end();
        let acts = run_action_lane(ActionLaneIntake::new(0, scope, env, Arc::clone(&tally)), looked_at, sender).await;
        assert!(passed_sender.send(Ok(pass)).is_ok() && acted_sender.send(acts).is_ok());
        ((passed, acted), tally)
    }

    #[tokio::test]
    async fn what_is_nested_too_deeply_is_saved_and_told() {
        let env = test_env().await;
        let types = [("configmaps", "ConfigMap"), ("pods", "Pod")].map(|(r, k)| ApiResource::new("", "v1", r, k));
        let scope = test_scope(types.to_vec(), &Actions::default());
        let (collected, fast, lane) = collected();
        let mut tasks = JoinSet::new();
        let mut processed = process(collected, scope, &env, &Arc::default(), &mut tasks);
        let mut expected = (Results::default(), std::collections::BTreeMap::new());
        let budget = Arc::new(tokio::sync::Semaphore::new(3));
        for (resource, levels) in [(&types[0], 127), (&types[0], 128), (&types[1], 128)] {
            let name = format!("{}-{levels}", resource.resource);
            // The object itself is a level.
            let deep = format!("{}1{}", "[".repeat(levels - 1), "]".repeat(levels - 1));
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"{}","metadata":{{"name":"{name}","namespace":"a"}},"data":{deep}}}"#,
                resource.kind
            );
            let resource = Arc::new(resource.clone());
            if resource.resource == "pods" {
                lane.send(RawPage { resource: Arc::clone(&resource), bodies: vec![body.clone().into()] })
                    .await
                    .unwrap();
            } else {
                let items = vec![Item::parse(Arc::clone(&resource), body.clone().into()).unwrap()];
                let budget = Arc::clone(&budget).acquire_owned().await.unwrap();
                fast.send(Batch { items, budget }).await.unwrap();
            }
            if levels > 127 {
                let text = format!(
                    " resource: /{} name: /{name} message: /Error backing up item error: /it is saved, but it cannot be \
                     restored: it is nested deeper than 127 levels",
                    resource.resource
                );
                expected.0.add(Severity::Error, &ResultScope::of(Some("a")), text);
            }
            expected.1.insert(name, body);
        }
        fast.end();
        lane.end();
        let mut came = std::collections::BTreeMap::new();
        while let Some(batch) = processed.entries.next().await.unwrap() {
            let text = |body: bytes::Bytes| String::from_utf8(body.to_vec()).unwrap();
            came.extend(batch.entries.into_iter().map(|e| (e.name, text(e.body.to_bytes()))));
        }
        came.remove("a");
        let mut results = env.operation.journal.close().results;
        for all in [&mut results, &mut expected.0] {
            all.errors.namespaces.values_mut().for_each(|messages| messages.sort());
        }
        assert_eq!((results, came), expected);
    }
}
