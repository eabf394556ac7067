//! Fills a claim: makes the Secret and the pod, follows the pod to its end, and removes both.

use super::objects::{MoverObjects, pods, secrets};
use super::settings::{ClaimToFill, MoverPodSettings};
use super::state::{MoverLimits, MoverStep, PodState, next_step};
use super::sweep::sweep;
use crate::method::child::child_name;
use lifeboat_api::Restore;
use lifeboat_api::well_known::LABEL_MOVER_OF_RESTORE;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::fmt::Display;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

/// The most claims that are filled at once.
const AT_ONCE: usize = 8;
/// The pauses between two looks at a pod: the first, which doubles, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];
/// Longest wait for an object of an earlier attempt to go.
const REPLACING: Duration = Duration::from_secs(120);

/// The words of the API server for a namespace that has no default service account.
const NO_ACCOUNT: &str = "error looking up service account";

/// A claim that was filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilledClaim {
    /// The differences from the volume that was saved, for people; empty for none.
    pub differences: String,
}

/// The movers of one restore.
#[derive(Debug)]
pub struct MoverPods {
    settings: MoverPodSettings,
    places: Semaphore,
}

impl MoverPods {
    /// Movers with these settings.
    #[must_use]
    pub fn new(settings: MoverPodSettings) -> Self {
        Self { settings, places: Semaphore::new(AT_ONCE) }
    }

    /// Fills a claim, or goes on with a pod that an earlier run has started for it. The pod and its Secret are gone afterwards, or about
    /// to go; after a future that was dropped [`MoverPods::remove`] removes them.
    ///
    /// # Errors
    /// The reason for people.
    pub async fn fill(
        &self,
        claim: ClaimToFill<'_>,
        restore: &Restore,
        cluster: &Cluster,
    ) -> Result<FilledClaim, String> {
        let _place = self.places.acquire().await.map_err(|e| e.to_string())?;
        let unswept = sweep(claim.namespace, restore, cluster).await.err().map(|e| {
            format!(
                "pods and Secrets that an earlier restore of the name may have left cannot be looked for ({e}): they have the label \
                 {LABEL_MOVER_OF_RESTORE}"
            )
        });
        let filled = self.alone(&claim, restore, cluster).await;
        let left = [self.remove(claim, restore, cluster).await.err(), unswept].into_iter().flatten();
        match filled {
            Ok(FilledClaim { differences }) => {
                let told: Vec<String> =
                    Some(differences).filter(|text| !text.is_empty()).into_iter().chain(left).collect();
                Ok(FilledClaim { differences: told.join("; ") })
            }
            Err(why) => Err([why].into_iter().chain(left).collect::<Vec<_>>().join("; ")),
        }
    }

    /// Removes the pod and the Secret of a claim.
    ///
    /// # Errors
    /// The reason for people, with what stays.
    pub async fn remove(&self, claim: ClaimToFill<'_>, restore: &Restore, cluster: &Cluster) -> Result<(), String> {
        let name = name_of(&claim, restore);
        let mut left = Vec::new();
        for kind in [pods(), secrets()] {
            match cluster.delete(&kind, Some(claim.namespace), &name).await {
                Ok(_) => {}
                Err(e) => left.push(format!(
                    "the {} {}/{name} could not be deleted ({e}): delete it",
                    kind.kind, claim.namespace
                )),
            }
        }
        if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
    }

    /// Fills a claim that nothing else uses: two that write into one volume would mix their files.
    async fn alone(
        &self,
        claim: &ClaimToFill<'_>,
        restore: &Restore,
        cluster: &Cluster,
    ) -> Result<FilledClaim, String> {
        let own = name_of(claim, restore);
        if let Some(other) = other_user(claim, &own, cluster).await? {
            return Err(format!(
                "the pod {}/{other} mounts it: scale its workload down, or delete the pod where it is the mover of another restore",
                claim.namespace
            ));
        }
        let filled = self.follow(claim, restore, cluster).await?;
        match other_user(claim, &own, cluster).await? {
            Some(other) => Err(format!(
                "the pod {}/{other} has begun to use it while it was filled: scale its workload down",
                claim.namespace
            )),
            None => Ok(filled),
        }
    }

    async fn follow(
        &self,
        claim: &ClaimToFill<'_>,
        restore: &Restore,
        cluster: &Cluster,
    ) -> Result<FilledClaim, String> {
        let name = name_of(claim, restore);
        let objects = MoverObjects { name: &name, claim, restore, settings: &self.settings };
        let limits = MoverLimits { start: self.settings.start_timeout, whole: claim.timeout };
        // That of an earlier run may have an old password.
        replace(cluster, &secrets(), &objects.secret()).await?;
        for attempt in 1.. {
            let uid = make(cluster, &objects.pod(), claim.uid).await?;
            let (began, [mut pause, longest]) = (Instant::now(), PAUSES);
            loop {
                let found = cluster.get(&pods(), Some(claim.namespace), &name).await;
                let step = match found {
                    Ok(found) => {
                        let pod = found.map(|body| serde_json::from_slice::<Value>(&body).unwrap_or_default());
                        next_step(PodState::of(pod.as_ref(), &uid), attempt, began.elapsed(), limits)
                    }
                    Err(e) if e.can_pass() && began.elapsed() < limits.whole => MoverStep::Wait,
                    Err(e) => MoverStep::Fail(format!("look at its pod: {e}")),
                };
                match step {
                    MoverStep::Done(differences) => return Ok(FilledClaim { differences }),
                    MoverStep::Fail(why) => return Err(why),
                    MoverStep::Again => break,
                    MoverStep::Wait => {}
                }
                sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
            gone(cluster, &pods(), claim.namespace, &name).await?;
        }
        Err("no attempt is left".to_owned())
    }
}

/// A pod that mounts the claim and has not ended, other than the one of this name.
async fn other_user(claim: &ClaimToFill<'_>, own: &str, cluster: &Cluster) -> Result<Option<String>, String> {
    let failed = |e: ClusterError| format!("look for pods that mount it: {e}");
    let mut list = cluster.list(ListRequest::all(pods()).in_namespace(claim.namespace.to_owned()));
    while let Some(bodies) = list.next().await.map_err(failed)? {
        for body in bodies {
            let pod: Value = serde_json::from_slice(&body).unwrap_or_default();
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            if name != own && mounts(&pod, claim.name) {
                return Ok(Some(name.to_owned()));
            }
        }
    }
    Ok(None)
}

/// Returns true if a pod that has not ended mounts a claim of its namespace.
fn mounts(pod: &Value, claim: &str) -> bool {
    let has_ended = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase);
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    !has_ended && volumes.into_iter().any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}

/// The name of the pod and the Secret of a claim.
fn name_of(claim: &ClaimToFill<'_>, restore: &Restore) -> String {
    child_name(&restore.metadata, &["mover", claim.uid])
}

/// Makes the pod, or takes up that of an earlier run for the same claim. Gives its UID.
async fn make(cluster: &Cluster, pod: &Value, claim_uid: &str) -> Result<String, String> {
    let (namespace, name) = place_of(pod);
    let deadline = Instant::now() + REPLACING;
    loop {
        match cluster.create(&pods(), Some(namespace), name, WriteBody::of(pod.to_string().into())).await {
            Ok(made) => return Ok(uid_of(&made)),
            Err(e) if e.is_already_exists() => {}
            // That of a new namespace comes a moment later.
            Err(e) if e.to_string().contains(NO_ACCOUNT) && Instant::now() < deadline => {
                sleep(PAUSES[0]).await;
                continue;
            }
            Err(e) => return Err(format!("make its pod {namespace}/{name}: {e}")),
        }
        let found = cluster.get(&pods(), Some(namespace), name).await.map_err(|e| e.to_string())?;
        if let Some(body) = found {
            let found: Value = serde_json::from_slice(&body).unwrap_or_default();
            let is_ours = found["metadata"]["ownerReferences"][0]["uid"] == claim_uid;
            // One that has failed may have had the password of before.
            if is_ours && found["status"]["phase"] == "Failed" {
                gone(cluster, &pods(), namespace, name).await?;
                continue;
            }
            if is_ours && found["metadata"]["deletionTimestamp"].is_null() {
                return Ok(uid_of(&body));
            }
            if !is_ours {
                return Err(format!("there is another pod {namespace}/{name}: delete it"));
            }
        }
        if Instant::now() > deadline {
            return Err(format!("the pod {namespace}/{name} of an earlier attempt does not go away: look at its node"));
        }
        sleep(PAUSES[0]).await;
    }
}

/// Makes an object; another one of its name goes before.
async fn replace(cluster: &Cluster, kind: &ApiResource, object: &Value) -> Result<(), String> {
    let (namespace, name) = place_of(object);
    let failed = |e: &dyn Display| format!("make its {} {namespace}/{name}: {e}", kind.kind);
    let made = cluster.create(kind, Some(namespace), name, WriteBody::of(object.to_string().into())).await;
    match made {
        Ok(_) => return Ok(()),
        Err(e) if e.is_already_exists() => {}
        Err(e) => return Err(failed(&e)),
    }
    gone(cluster, kind, namespace, name).await?;
    let made = cluster.create(kind, Some(namespace), name, WriteBody::of(object.to_string().into())).await;
    made.map(drop).map_err(|e| failed(&e))
}

/// Deletes an object, and waits until it is gone.
async fn gone(cluster: &Cluster, kind: &ApiResource, namespace: &str, name: &str) -> Result<(), String> {
    let deadline = Instant::now() + REPLACING;
    loop {
        match cluster.delete(kind, Some(namespace), name).await {
            Ok(false) => return Ok(()),
            Err(e) if !e.can_pass() => return Err(format!("delete the {} {namespace}/{name}: {e}", kind.kind)),
            _ if Instant::now() > deadline => {
                return Err(format!("the {} {namespace}/{name} does not go away: look at its finalizers", kind.kind));
            }
            _ => sleep(PAUSES[0]).await,
        }
    }
}

fn place_of(object: &Value) -> (&str, &str) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

fn uid_of(object: &[u8]) -> String {
    let object: Value = serde_json::from_slice(object).unwrap_or_default();
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_uses_a_claim_until_it_has_ended() {
        let pod = |claim: &str, phase: &str| {
            json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": claim}}]},
                "status": {"phase": phase}})
        };
        for (pod, expected) in [
            (pod("data", "Running"), true),
            // It begins as soon as the claim has a volume.
            (pod("data", "Pending"), true),
            (pod("data", ""), true),
            (pod("data", "Succeeded"), false),
            (pod("data", "Failed"), false),
            (pod("other", "Running"), false),
            (json!({}), false),
        ] {
            assert_eq!(mounts(&pod, "data"), expected, "{pod}");
        }
    }
}
