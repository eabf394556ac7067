//! The BackupRepository of a namespace, which must be ready before anything is read from it
//! (velero: pkg/repository/ensurer.go).

use crate::method::child::{list, resource_type};
use crate::method::lock::lock;
use lifeboat_api::{BackupRepository, BackupRepositoryPhase, NamespacedName};
use lifeboat_cluster::{Cluster, ClusterError, WriteBody};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

/// The first pause between two looks; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A repository that is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NeededRepository<'a> {
    /// The namespace of the resource.
    pub(crate) namespace: &'a str,
    /// The namespace whose volumes it holds.
    pub(crate) volume_namespace: &'a str,
    /// The storage location that it lies in.
    pub(crate) location: &'a str,
}

impl NeededRepository<'_> {
    /// Makes sure that it is there and ready, within this time.
    ///
    /// # Errors
    /// The reason for people.
    pub(crate) async fn ensure(self, within: Duration, cluster: &Cluster) -> Result<(), String> {
        let (deadline, mut pause) = (Instant::now() + within, FIRST_PAUSE);
        loop {
            match self.find_or_make(cluster).await.map_err(|e| format!("error to ensure repository: {e}"))? {
                RepositoryState::Ready => return Ok(()),
                RepositoryState::Refused(why) => return Err(why),
                RepositoryState::NotYet(name) if Instant::now() + pause > deadline => {
                    return Err(format!(
                        "the BackupRepository {name} is not ready after {} s: the server makes it ready; its log says what it waits for",
                        within.as_secs()
                    ));
                }
                RepositoryState::NotYet(_) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Makes it when it is missing, and does not wait.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub(crate) async fn find_or_make(self, cluster: &Cluster) -> Result<RepositoryState, ClusterError> {
        let found = self.find(cluster).await?;
        if let Some(state) = state_of(&found) {
            return Ok(state);
        }
        let resource = self.resource();
        let name = resource.metadata.key();
        let body = serde_json::to_vec(&resource).unwrap_or_default();
        let kind = resource_type::<BackupRepository>();
        match cluster.create(&kind, Some(self.namespace), &name.name, WriteBody::of(body.into())).await {
            Ok(_) => Ok(RepositoryState::NotYet(name)),
            Err(e) if e.is_already_exists() => Ok(RepositoryState::NotYet(name)),
            Err(e) => Err(e),
        }
    }

    /// The resources with its labels, each once.
    async fn find(self, cluster: &Cluster) -> Result<BTreeMap<String, BackupRepository>, ClusterError> {
        let labels = BackupRepository::labels_for(self.volume_namespace, self.location);
        let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        // One that cannot be read is not ready either.
        let found = list(cluster, self.namespace, selector.join(",")).await?;
        Ok(found.into_iter().map(|one: BackupRepository| (one.metadata.name.clone(), one)).collect())
    }

    fn resource(self) -> BackupRepository {
        BackupRepository::for_volumes(self.namespace, self.volume_namespace, self.location)
    }
}

/// The readiness of a repository, once it is known.
type Readiness = Arc<OnceCell<Result<(), String>>>;

/// The repositories that an operation has asked for, each once for all its volumes.
#[derive(Debug, Default)]
pub(super) struct KnownRepositories {
    /// By the namespace of the volumes.
    ready: Mutex<HashMap<String, Readiness>>,
}

impl KnownRepositories {
    /// Makes sure of a repository as [`NeededRepository::ensure`] does, and gives the same answer from then on.
    ///
    /// # Errors
    /// The reason for people.
    pub(super) async fn ensure(
        &self,
        needed: NeededRepository<'_>,
        within: Duration,
        cluster: &Cluster,
    ) -> Result<(), String> {
        let ready = Arc::clone(lock(&self.ready).entry(needed.volume_namespace.to_owned()).or_default());
        ready.get_or_init(|| needed.ensure(within, cluster)).await.clone()
    }
}

/// The state of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RepositoryState {
    /// It can be used.
    Ready,
    /// The server has not yet made it ready.
    NotYet(NamespacedName),
    /// It cannot be used, for this reason.
    Refused(String),
}

/// The state of the repositories of one namespace and location; `None` when there is none.
fn state_of(found: &BTreeMap<String, BackupRepository>) -> Option<RepositoryState> {
    let mut all = found.values();
    let one = all.next()?;
    if all.next().is_some() {
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        let why = format!(
            "more than one BackupRepository is for the same volumes ({}): delete all but one",
            names.join(", ")
        );
        return Some(RepositoryState::Refused(why));
    }
    Some(match one.status.phase {
        Some(BackupRepositoryPhase::Ready) => RepositoryState::Ready,
        Some(BackupRepositoryPhase::NotReady) => {
            RepositoryState::Refused(format!("backup repository is not ready: {}", one.status.message))
        }
        _ => RepositoryState::NotYet(one.metadata.key()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_repository_is_named_and_labelled_as_velero_does() {
        let needed = NeededRepository { namespace: "velero", volume_namespace: "shop", location: "default" };
        let mut made = serde_json::to_value(needed.resource()).unwrap();
        made.as_object_mut().unwrap().remove("status");
        let expected = json!({
            "apiVersion": "velero.io/v1", "kind": "BackupRepository",
            "metadata": {"name": "shop-default-kopia", "namespace": "velero", "labels": {"velero.io/volume-namespace": "shop",
                "velero.io/storage-location": "default", "velero.io/repository-type": "kopia"}},
            "spec": {"volumeNamespace": "shop", "backupStorageLocation": "default", "repositoryType": "kopia", "maintenanceFrequency": "0s"},
        });
        assert_eq!(made, expected);
    }

    #[test]
    fn a_repository_is_ready_waited_for_or_refused_by_its_phase() {
        let found = |phases: &[Option<BackupRepositoryPhase>]| {
            let all = phases.iter().enumerate().map(|(n, phase)| {
                let mut one = BackupRepository::default();
                one.metadata.name = format!("r{n}");
                (one.status.phase, one.status.message) = (*phase, "no password".to_owned());
                (one.metadata.name.clone(), one)
            });
            state_of(&all.collect())
        };
        let waits = RepositoryState::NotYet(NamespacedName { namespace: String::new(), name: "r0".into() });
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[None]), Some(waits.clone()));
        assert_eq!(found(&[Some(BackupRepositoryPhase::New)]), Some(waits));
        assert_eq!(found(&[Some(BackupRepositoryPhase::Ready)]), Some(RepositoryState::Ready));
        let refused = |why: &str| Some(RepositoryState::Refused(why.to_owned()));
        let not_ready = refused("backup repository is not ready: no password");
        assert_eq!(found(&[Some(BackupRepositoryPhase::NotReady)]), not_ready);
        let two = refused("more than one BackupRepository is for the same volumes (r0, r1): delete all but one");
        assert_eq!(found(&[None, Some(BackupRepositoryPhase::Ready)]), two);
    }
}
