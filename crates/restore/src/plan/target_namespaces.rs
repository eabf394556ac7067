//! The target namespaces of a preview, as they are in the cluster. Each is read once.

use crate::plan::planned::{Planned, PreviewItem};
use crate::state::env::Env;
use crate::state::lock::lock;
use crate::state::terminating::TerminatingObject;
use crate::walk::scope::RestoreScope;
use lifeboat_object::{GroupResource, ObjectKey};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::OnceCell;

/// The target namespaces of a preview.
pub(crate) struct TargetNamespaces {
    scope: Arc<RestoreScope>,
    env: Env,
    /// By name.
    known: Mutex<HashMap<String, Arc<OnceCell<TargetNamespace>>>>,
}

/// State of a namespace in the cluster.
enum TargetNamespace {
    /// It is not there.
    Absent,
    /// It is there, and stays.
    There,
    /// It is there, and goes with all that is in it.
    Leaving(TerminatingObject),
    /// It could not be read, for this reason.
    Unknown(String),
}

impl TargetNamespaces {
    pub(crate) fn new(scope: Arc<RestoreScope>, env: Env) -> Self {
        Self { scope, env, known: Mutex::default() }
    }

    /// Returns the plan for the namespace: one that is being deleted is made when it is gone.
    pub(crate) async fn item(&self, name: &str) -> PreviewItem {
        let (planned, waits) = match self.found(name).await.get() {
            Some(TargetNamespace::There) => (Planned::Unchanged, None),
            Some(TargetNamespace::Leaving(terminating)) => (Planned::Create, Some(terminating.awaited_condition())),
            Some(TargetNamespace::Unknown(why)) => (Planned::Refused(why.clone()), None),
            Some(TargetNamespace::Absent) | None => (Planned::Create, None),
        };
        PreviewItem { waits, ..PreviewItem::of(key(name), planned) }
    }

    /// Returns true if an object of the cluster will be gone before the restore writes it, because its namespace is
    /// being deleted.
    pub(crate) async fn takes_along(&self, object: &ObjectKey) -> bool {
        let Some(namespace) = &object.namespace else { return false };
        matches!(self.found(namespace).await.get(), Some(TargetNamespace::Leaving(_)))
    }

    /// The namespace of this name, which has been read.
    async fn found(&self, name: &str) -> Arc<OnceCell<TargetNamespace>> {
        let cell = Arc::clone(lock(&self.known).entry(name.to_owned()).or_default());
        cell.get_or_init(|| self.read(name)).await;
        cell
    }

    async fn read(&self, name: &str) -> TargetNamespace {
        let Some(resource) = self.scope.catalog.find(&key(name).resource) else { return TargetNamespace::Absent };
        match self.env.cluster.get(resource, None, name).await {
            Ok(None) => TargetNamespace::Absent,
            Ok(Some(body)) => {
                let namespace = serde_json::from_slice(&body).unwrap_or_default();
                TerminatingObject::of_namespace(&namespace).map_or(TargetNamespace::There, TargetNamespace::Leaving)
            }
            Err(e) => TargetNamespace::Unknown(e.to_string()),
        }
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::namespaces(), None, name)
}
