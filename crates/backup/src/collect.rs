//! Lists the planned types, several at once, and hands the objects on as they arrive.

use crate::env::Env;
use crate::plan::{Plan, PlannedList};
use crate::spool::{Batch, Intake, spool};
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_object::{ApiResource, ObjectKey, Place, Severity};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Lists in flight: more only make the API server slower.
const LISTS: usize = 4;

/// Starts the lists as tasks of the operation. The stream ends when all lists have ended; a list that fails is an
/// error in the journal and the others go on.
pub(crate) fn collect(plan: &Plan, memory_budget: usize, env: &Env, tasks: &mut JoinSet<()>) -> mpsc::Receiver<Batch> {
    let (intake, spool, batches) = spool(memory_budget, env);
    tasks.spawn(spool.run());
    let lists: Vec<PlannedList> = plan.lists.clone();
    let env = env.clone();
    tasks.spawn(async move {
        let mut running: JoinSet<()> = JoinSet::new();
        for list in lists {
            if running.len() >= LISTS {
                running.join_next().await;
            }
            if env.cancel.is_cancelled() {
                break;
            }
            let lister = Lister { env: env.clone(), intake: intake.clone() };
            running.spawn(async move { lister.run(list).await });
        }
        drop(intake);
        while running.join_next().await.is_some() {}
    });
    batches
}

struct Lister {
    env: Env,
    intake: Intake,
}

impl Lister {
    async fn run(&self, list: PlannedList) {
        for scope in &list.places {
            for selector in &list.selectors {
                let request = ListRequest {
                    resource: Arc::clone(&list.resource),
                    namespace: scope.clone(),
                    selector: selector.clone(),
                    metadata_only: false,
                };
                tokio::select! {
                    () = self.env.cancel.cancelled() => return,
                    done = self.one(request) => if let Err(e) = done {
                        self.failed(&list.resource, scope.as_deref(), &e);
                    },
                }
            }
        }
    }

    async fn one(&self, request: ListRequest) -> Result<(), ClusterError> {
        let resource = Arc::clone(&request.resource);
        let mut list = self.env.cluster.list(request);
        while let Some(bodies) = list.next().await? {
            if self.intake.take(&resource, bodies).await.is_err() {
                // The operation is over.
                return Ok(());
            }
        }
        if list.end().mixed_revisions {
            self.env.journal.warn(
                &Place::Velero,
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
        self.env.journal.item(Severity::Error, &key, "Error listing items", Some(&error.to_string()));
    }
}
