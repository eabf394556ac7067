//! Lists the planned types, several at once, and hands the objects on as they arrive.

use crate::env::Env;
use crate::plan::{Plan, PlannedList};
use bytes::Bytes;
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_object::{ApiResource, Item, ObjectKey, Place, Severity};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

/// Lists in flight: more only make the API server slower.
const LISTS: usize = 4;
/// Batches waiting between listing and processing.
const WAITING: usize = 32;

/// Objects that arrived together, and their share of the memory budget; the share returns when they are written.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) items: Vec<Item>,
    pub(crate) budget: OwnedSemaphorePermit,
}

/// Starts the lists as tasks of the operation. The stream ends when all lists have ended; a list that fails is an
/// error in the journal and the others go on.
pub(crate) fn collect(plan: &Plan, memory_budget: usize, env: &Env, tasks: &mut JoinSet<()>) -> mpsc::Receiver<Batch> {
    let (sender, batches) = mpsc::channel(WAITING);
    let budget = Arc::new(Semaphore::new(memory_budget.clamp(1 << 20, Semaphore::MAX_PERMITS)));
    let size = memory_budget.max(1 << 20);
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
            let lister =
                Lister { env: env.clone(), sender: sender.clone(), budget: Arc::clone(&budget), budget_size: size };
            running.spawn(async move { lister.run(list).await });
        }
        drop(sender);
        while running.join_next().await.is_some() {}
    });
    batches
}

struct Lister {
    env: Env,
    sender: mpsc::Sender<Batch>,
    budget: Arc<Semaphore>,
    budget_size: usize,
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
            let batch = self.batch(&resource, bodies).await;
            if self.sender.send(batch).await.is_err() {
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

    async fn batch(&self, resource: &Arc<ApiResource>, bodies: Vec<Bytes>) -> Batch {
        let size = bodies.iter().map(Bytes::len).sum::<usize>().clamp(1, self.budget_size);
        let permits = u32::try_from(size).unwrap_or(u32::MAX);
        let budget = match Arc::clone(&self.budget).acquire_many_owned(permits).await {
            Ok(permit) => permit,
            // The semaphore is never closed.
            Err(_) => unreachable!("the memory budget is never closed"),
        };
        let mut items = Vec::with_capacity(bodies.len());
        for body in bodies {
            match Item::parse(Arc::clone(resource), body) {
                Ok(item) => items.push(item),
                Err(e) => {
                    let key = ObjectKey::new(resource.group_resource(), None, "?");
                    self.env.journal.item(
                        Severity::Error,
                        &key,
                        "The API server listed something that is no object",
                        Some(&e.to_string()),
                    );
                }
            }
        }
        self.env.progress.found(items.len() as u64);
        Batch { items, budget }
    }

    fn failed(&self, resource: &ApiResource, namespace: Option<&str>, error: &ClusterError) {
        let key = ObjectKey::new(resource.group_resource(), namespace, "");
        self.env.journal.item(Severity::Error, &key, "Error listing items", Some(&error.to_string()));
    }
}
