//! Claims of generic ephemeral volumes whose pods the restore does not make: nothing deletes such a claim together with a pod, and
//! Kubernetes starts no pod of that name beside it, since the pod does not own it.

use crate::object::job_pods::JobPods;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_volume::facts::{claim_of_volume, is_ephemeral};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The pods of claims that stay without them, both by their keys in the backup.
pub(crate) type OrphanedClaims = BTreeMap<ObjectKey, ObjectKey>;

/// Claims and pods that were read of a backup and are restored.
#[derive(Debug, Default)]
pub(crate) struct SeenEphemeral {
    /// The pods that own claims.
    owners: BTreeMap<ObjectKey, ObjectKey>,
    /// Pods with ephemeral volumes.
    pods: BTreeSet<ObjectKey>,
}

impl SeenEphemeral {
    /// Notes a claim.
    pub(crate) fn note_claim(&mut self, key: &ObjectKey, claim: &Value) {
        let owners = claim["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let mut pods =
            owners.filter(|one| one["controller"] == true && one["kind"] == "Pod" && one["apiVersion"] == "v1");
        if let Some(pod) = pods.next().and_then(|pod| pod["name"].as_str()) {
            self.owners
                .insert(key.clone(), ObjectKey::new(GroupResource::new("", "pods"), key.namespace.as_deref(), pod));
        }
    }

    /// Notes a pod that is started.
    pub(crate) fn note_pod(&mut self, key: &ObjectKey, pod: &Value) {
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        if volumes.filter(|volume| is_ephemeral(volume)).any(|volume| claim_of_volume(&key.name, volume).is_some()) {
            self.pods.insert(key.clone());
        }
    }

    /// The claims whose pods are not made. Jobs make the pods `left_to_jobs` anew, under other names.
    pub(crate) fn orphans(self, left_to_jobs: &JobPods) -> OrphanedClaims {
        let Self { mut owners, pods } = self;
        owners.retain(|_, pod| !pods.contains(pod) || left_to_jobs.contains_key(pod));
        owners
    }
}

/// The warning about such a claim, by its key in the cluster.
pub(crate) fn warning(claim: &ObjectKey, pod: &ObjectKey) -> String {
    format!(
        "{claim} is the claim of a generic ephemeral volume of the pod {pod}, which this restore does not create. The claim has no owner, so \
         it is not deleted with a pod, and Kubernetes does not start a new pod named {pod} while it exists. Copy what you need from it, then \
         delete it",
        pod = pod.name
    )
}
