//! Lists the planned types, several at once, and hands the objects on as they arrive.

use crate::env::Env;
use crate::plan::{Plan, PlannedList};
use crate::spool::{Batch, Intake, spool};
use crate::stopped::Stopped;
use crate::tally::Tally;
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_object::{ApiResource, ObjectKey, Place, Severity};
use lifeboat_store::StreamReceiver;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Lists in flight: more only make the API server slower.
const LISTS: usize = 4;

/// Starts the lists as tasks of the operation. The stream ends when all lists have ended; a list that fails is an
/// error in the journal and the others go on.
pub(crate) fn collect(
    plan: &Plan,
    memory_budget: usize,
    env: &Env,
    tally: &Arc<Tally>,
    tasks: &mut JoinSet<()>,
) -> StreamReceiver<Batch> {
    let (intake, spool, batches) = spool(memory_budget, env, tally);
    tasks.spawn(spool.run());
    tasks.spawn(list_all(plan.lists.clone(), intake, env.clone(), Arc::clone(tally)));
    batches
}

/// Says the end only after all lists came to theirs.
async fn list_all(lists: Vec<PlannedList>, intake: Intake, env: Env, tally: Arc<Tally>) {
    let mut running: JoinSet<Result<(), Stopped>> = JoinSet::new();
    let mut lists = lists.into_iter();
    loop {
        if running.len() < LISTS
            && let Some(list) = lists.next()
        {
            let lister = Lister { env: env.clone(), intake: intake.another(), tally: Arc::clone(&tally) };
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

struct Lister {
    env: Env,
    intake: Intake,
    tally: Arc<Tally>,
}

impl Lister {
    async fn run(self, list: PlannedList) -> Result<(), Stopped> {
        for place in &list.places {
            for selector in &list.selectors {
                match self.one(&list.resource, place.as_deref(), selector).await? {
                    Ok(()) => {}
                    Err(e) if e.is_denied() && place.is_none() && !list.when_denied.is_empty() => {
                        self.by_namespace(&list, selector, e).await?;
                    }
                    Err(e) => self.failed(&list.resource, place.as_deref(), &e),
                }
            }
        }
        self.intake.end();
        Ok(())
    }

    /// Lists namespace by namespace, for who may not list the whole cluster. Namespaces that are denied too are errors;
    /// when all are, the one error is that of the whole cluster.
    async fn by_namespace(&self, list: &PlannedList, selector: &str, whole: ClusterError) -> Result<(), Stopped> {
        let mut denied = Vec::new();
        for namespace in list.when_denied.iter() {
            match self.one(&list.resource, Some(namespace), selector).await? {
                Ok(()) => {}
                Err(e) if e.is_denied() => denied.push((namespace, e)),
                Err(e) => self.failed(&list.resource, Some(namespace), &e),
            }
        }
        if denied.len() == list.when_denied.len() {
            self.failed(&list.resource, None, &whole);
        } else {
            denied.iter().for_each(|(namespace, e)| self.failed(&list.resource, Some(namespace), e));
        }
        Ok(())
    }

    /// Takes in one list; the error is that of the list, which may have brought objects before.
    async fn one(
        &self,
        resource: &Arc<ApiResource>,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Result<(), ClusterError>, Stopped> {
        let mut list = self.env.cluster.list(ListRequest {
            resource: Arc::clone(resource),
            namespace: namespace.map(str::to_owned),
            selector: selector.to_owned(),
            metadata_only: false,
        });
        loop {
            let bodies = tokio::select! {
                () = self.env.operation.cancel.cancelled() => return Err(Stopped::Over),
                bodies = list.next() => bodies,
            };
            match bodies {
                Ok(Some(bodies)) => {
                    self.tally.came(bodies.len());
                    self.intake.take(resource, bodies).await?;
                }
                Ok(None) => break,
                Err(e) => return Ok(Err(e)),
            }
        }
        if list.end().mixed_revisions {
            self.env.operation.journal.warn(
                &Place::Velero,
                format!(
                    "{} were read at more than one revision of the cluster, because the list was interrupted: objects may not fit together",
                    resource.group_resource()
                ),
            );
        }
        Ok(Ok(()))
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
        let env = test_env().await;
        let tally = Arc::default();
        let (intake, spool, mut batches) = spool(0, &env, &tally);
        let (mut spooling, mut listing) = (JoinSet::new(), JoinSet::new());
        spooling.spawn(spool.run());
        let resource = Arc::new(ApiResource::new("", "v1", "configmaps", "ConfigMap"));
        let list =
            PlannedList { resource, places: vec![None], when_denied: Arc::default(), selectors: vec![String::new()] };
        listing.spawn(list_all(vec![list], intake, env, tally));
        // It asks a cluster that does not answer.
        tokio::task::yield_now().await;
        listing.shutdown().await;
        assert_eq!(batches.next().await.map(|b| b.is_none()), Err(Broken("listing objects")));
    }
}
