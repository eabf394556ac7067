//! The claims of generic ephemeral volumes. A pod may use such a claim only when it controls it, by its UID, and no restored claim has the
//! UID of a restored pod: so the claim is given to the pod as soon as that is there. Until then Kubernetes lets the pod wait.
//!
//! compat: Velero leaves such a claim without an owner, and its pod waits for ever.

use crate::object::existing::is_made_since;
use crate::object::owner_references::{Merged, merge};
use crate::state::terminating::TerminatingObject;
use crate::walk::context::RestoreContext;
use bytes::Bytes;
use lifeboat_api::Time;
use lifeboat_cluster::MergePatch;
use lifeboat_object::{ApiResource, GroupResource, ObjectKey};
use lifeboat_volume::facts::{claim_of_volume, is_ephemeral};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Gives a pod of the cluster, by its key there, the claims of its ephemeral volumes that this restore has made. Nothing is done about
/// other objects. Doing it again does no harm.
pub(crate) async fn give_to_pod(context: &RestoreContext, target: &ObjectKey, in_cluster: &Value) {
    if target.resource != GroupResource::new("", "pods") {
        return;
    }
    let name = in_cluster["metadata"]["name"].as_str().unwrap_or(&target.name);
    let volumes = in_cluster["spec"]["volumes"].as_array().into_iter().flatten().filter(|volume| is_ephemeral(volume));
    let claims: Vec<Cow<'_, str>> = volumes.filter_map(|volume| claim_of_volume(name, volume)).collect();
    for claim in claims {
        let pod = OwningPod { namespace: target.namespace.as_deref(), name, in_cluster };
        if let Err(why) = pod.take_ownership(&claim, context).await {
            let next =
                "make the pod its controller (metadata.ownerReferences), or delete both and make another Restore";
            let text = format!("{target} may not start: its claim {claim} could not be given to it: {why}; {next}");
            context.state.messages.warning(target, &text);
        }
    }
}

/// A pod that is to own claims.
#[derive(Clone, Copy)]
struct OwningPod<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
    in_cluster: &'a Value,
}

impl OwningPod<'_> {
    /// Makes the pod the controller of a claim that this restore has made.
    ///
    /// # Errors
    /// The reason for people, also of a claim that was there before.
    async fn take_ownership(self, claim: &str, context: &RestoreContext) -> Result<(), String> {
        let claims = ApiResource::persistent_volume_claims();
        let found = context.writes.get(&claims, self.namespace, claim).await.map_err(|e| e.to_string())?;
        // Where there is none, Kubernetes makes it for the pod.
        let Some(body) = found else { return Ok(()) };
        let found: Value = serde_json::from_slice(&body).unwrap_or_default();
        let uid = &self.in_cluster["metadata"]["uid"];
        let mut owners = found["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let is_owned = owners.any(|one| one["uid"] == *uid && one["controller"] == true);
        if is_owned || TerminatingObject::of(&found).is_some() {
            return Ok(());
        }
        let began = context.scope.restore.metadata.creation_timestamp.map(Time::timestamp);
        if !context.scope.has_labels(&found) || !is_made_since(&found, began) {
            return Err("it was in the cluster before this restore".to_owned());
        }
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": uid, "controller": true,
            "blockOwnerDeletion": true});
        let Merged { references, left_out } = merge(&found, vec![owner]);
        if !left_out.is_empty() {
            return Err(left_out.join("; "));
        }
        let Some(references) = references else { return Ok(()) };
        let patch = json!({"metadata": {"uid": found["metadata"]["uid"], "ownerReferences": references}});
        let patch = MergePatch::of(Bytes::from(patch.to_string()));
        context.writes.patch(&claims, self.namespace, claim, patch).await.map(drop).map_err(|e| e.to_string())
    }
}
