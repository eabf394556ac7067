//! Lists the planned types, several at once, and hands the objects on as they arrive.

use crate::collect::plan::{ListPlan, PlannedList, PlannedPlace};
use crate::collect::spool::{Batch, Intake, LEAST, LISTING, RawPage, spool};
use crate::collect::tally::Tally;
use crate::env::Env;
use crate::stage_error::{ListError, StageError};
use bytes::Bytes;
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_object::{ApiResource, ObjectKey, ResultScope, Severity};
use lifeboat_store::{ReceiverGone, StreamReceiver, StreamSender, stream};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Lists in flight: more only make the API server slower.
const LISTS: usize = 4;

/// The objects that the lists bring.
pub(crate) struct CollectedLists {
    /// Objects that no action looks at.
    pub(crate) batches: StreamReceiver<Batch>,
    /// Objects that actions look at, as they arrived.
    pub(crate) looked_at: StreamReceiver<RawPage>,
    /// Bytes of memory for those while they wait for their turn.
    pub(crate) room: usize,
}

/// Answers on their way to the action lane, which takes them in at once.
const SHELVING: usize = 2;

/// Starts the lists as tasks of the operation. A stream ends when all its lists have ended; a list that fails is an
/// error in the journal and the others go on.
pub(crate) fn collect(
    plan: &ListPlan,
    memory_budget: usize,
    env: &Env,
    tally: &Arc<Tally>,
    tasks: &mut JoinSet<()>,
) -> CollectedLists {
    // A quarter of what reading can spare.
    let room = memory_budget.saturating_sub(LEAST) / 4;
    let (intake, spool, batches) = spool(memory_budget - room, env, tally);
    let (action_lane, looked_at) = stream(SHELVING, LISTING);
    tasks.spawn(spool.run());
    let ways = LaneRoutes { intake, action_lane };
    let (trace, listing) =
        (env.operation.trace().clone(), list_all(plan.lists.clone(), ways, env.clone(), Arc::clone(tally)));
    tasks.spawn(async move { trace.within("collect", listing).await });
    CollectedLists { batches, looked_at, room }
}

/// Says the ends only after all lists of a stream came to theirs. The types that actions look at come first.
async fn list_all(lists: Vec<PlannedList>, ways: LaneRoutes, env: Env, tally: Arc<Tally>) {
    let mut running: JoinSet<Result<(), StageError>> = JoinSet::new();
    let LaneRoutes { intake, action_lane } = ways;
    let mut action_lane = Some(action_lane);
    let mut lists = lists.into_iter().peekable();
    loop {
        if !lists.peek().is_some_and(|list| list.is_looked_at)
            && let Some(action_lane) = action_lane.take()
        {
            action_lane.end();
        }
        if running.len() < LISTS
            && let Some(list) = lists.next()
        {
            let to = match &action_lane {
                Some(action_lane) => LaneRoute::ActionLane(action_lane.another(LISTING)),
                None => LaneRoute::FastLane(Box::new(intake.another())),
            };
            let lister = Lister { env: env.clone(), to, tally: Arc::clone(&tally) };
            running.spawn(lister.run(list));
            continue;
        }
        match running.join_next().await {
            None => return intake.end(),
            Some(Ok(Ok(()))) => {}
            // The operation is over, or a list died: what was listed is not everything.
            Some(Ok(Err(_)) | Err(_)) => return,
        }
    }
}

/// The ways that objects can take.
struct LaneRoutes {
    intake: Intake,
    action_lane: StreamSender<RawPage>,
}

/// The way that the objects of one list take.
enum LaneRoute {
    /// The fast lane.
    FastLane(Box<Intake>),
    /// The action lane, for objects that wait for their turn.
    ActionLane(StreamSender<RawPage>),
}

impl LaneRoute {
    async fn take(&self, resource: &Arc<ApiResource>, bodies: Vec<Bytes>) -> Result<(), ReceiverGone> {
        match self {
            Self::FastLane(intake) => intake.take(resource, bodies).await,
            Self::ActionLane(action_lane) => action_lane.send(RawPage { resource: Arc::clone(resource), bodies }).await,
        }
    }

    fn end(self) {
        match self {
            Self::FastLane(intake) => intake.end(),
            Self::ActionLane(action_lane) => action_lane.end(),
        }
    }
}

struct Lister {
    env: Env,
    to: LaneRoute,
    tally: Arc<Tally>,
}

impl Lister {
    async fn run(self, list: PlannedList) -> Result<(), StageError> {
        for PlannedPlace { namespace, selectors } in &list.places {
            for selector in selectors {
                match self.one(&list.resource, namespace.as_deref(), selector).await {
                    Ok(()) => {}
                    Err(ListError::Stage(e)) => return Err(e),
                    Err(ListError::Cluster(e))
                        if e.is_denied() && namespace.is_none() && !list.when_denied.is_empty() =>
                    {
                        self.by_namespace(&list, selector, e).await?;
                    }
                    Err(ListError::Cluster(e)) => self.failed(&list.resource, namespace.as_deref(), &e),
                }
            }
        }
        self.to.end();
        Ok(())
    }

    /// Lists namespace by namespace, for users who may not list the whole cluster. Namespaces denied too are errors;
    /// when all are, the one error is that of the whole cluster.
    async fn by_namespace(&self, list: &PlannedList, selector: &str, whole: ClusterError) -> Result<(), StageError> {
        let mut denied = Vec::new();
        for namespace in list.when_denied.iter() {
            match self.one(&list.resource, Some(namespace), selector).await {
                Ok(()) => {}
                Err(ListError::Stage(e)) => return Err(e),
                Err(ListError::Cluster(e)) if e.is_denied() => denied.push((namespace, e)),
                Err(ListError::Cluster(e)) => self.failed(&list.resource, Some(namespace), &e),
            }
        }
        if denied.len() == list.when_denied.len() {
            self.failed(&list.resource, None, &whole);
        } else {
            denied.iter().for_each(|(namespace, e)| self.failed(&list.resource, Some(namespace), e));
        }
        Ok(())
    }

    /// Takes in one list. A list that broke off may have brought objects before.
    async fn one(&self, resource: &Arc<ApiResource>, namespace: Option<&str>, selector: &str) -> Result<(), ListError> {
        let mut list = self
            .env
            .cluster
            .list(ListRequest::all(Arc::clone(resource)).in_namespace(namespace.map(str::to_owned)).labelled(selector));
        loop {
            let bodies = tokio::select! {
                () = self.env.operation.cancel.cancelled() => return Err(StageError::OperationEnded.into()),
                bodies = list.next() => bodies,
            };
            match bodies {
                Ok(Some(bodies)) => {
                    self.tally.came(bodies.len());
                    self.to.take(resource, bodies).await?;
                }
                Ok(None) => break,
                Err(e) => return Err(ListError::Cluster(e)),
            }
        }
        if list.end().mixed_revisions {
            self.env.operation.journal.warn(
                &ResultScope::Velero,
                format!(
                    "{} were read at more than one revision of the cluster, because the list was interrupted: objects may not fit together",
                    resource.group_resource()
                ),
            );
        }
        Ok(())
    }

    fn failed(&self, resource: &ApiResource, namespace: Option<&str>, error: &ClusterError) {
        let key = ObjectKey::new(resource.group_resource(), namespace, "");
        self.env.operation.journal.item(Severity::Error, &key, "Error listing items", Some(&error.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::test_env;
    use lifeboat_store::Broken;

    #[tokio::test]
    async fn a_list_that_died_is_no_end_of_the_lists() {
        for is_looked_at in [false, true] {
            let env = test_env().await;
            let resource = Arc::new(ApiResource::new("", "v1", "configmaps", "ConfigMap"));
            let places = vec![PlannedPlace { namespace: None, selectors: vec![String::new()] }];
            let list = PlannedList { resource, places, when_denied: Arc::default(), is_looked_at };
            let (mut spooling, mut listing) = (JoinSet::new(), JoinSet::new());
            let (intake, spool, mut batches) = spool(0, &env, &Arc::default());
            spooling.spawn(spool.run());
            let (action_lane, mut looked_at) = stream(SHELVING, LISTING);
            listing.spawn(list_all(vec![list], LaneRoutes { intake, action_lane }, env, Arc::default()));
            // It asks a cluster that does not answer.
            tokio::task::yield_now().await;
            listing.shutdown().await;
            assert_eq!(batches.next().await.map(|b| b.is_none()), Err(Broken("listing objects")));
            // No list of the other way was begun: it has ended.
            let expected = if is_looked_at { Err(Broken("listing objects")) } else { Ok(true) };
            assert_eq!(looked_at.next().await.map(|b| b.is_none()), expected);
        }
    }
}
