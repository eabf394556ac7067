//! Fills a claim: makes the Secret and the pod, follows the pod to its end, and removes both.

use super::objects::{MoverObjects, pods, secrets};
use super::settings::{ClaimToFill, MoverPodSettings};
use super::state::{MoverLimits, MoverStep, PodState, has_ended, next_step};
use super::sweep::{SweptMover, sweep};
use crate::facts::claim_of_volume;
use crate::method::child::child_name;
use jiff::Timestamp;
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

/// A claim that was not filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfilledClaim {
    /// The reason, for people.
    pub why: String,
    /// The state in which it is.
    pub state: UnfilledState,
}

/// The state of a claim that was not filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfilledState {
    /// Its mover has not begun.
    NotBegun,
    /// Its mover has failed or took too long, or there is none.
    Failed,
}

impl From<String> for UnfilledClaim {
    fn from(why: String) -> Self {
        Self { why, state: UnfilledState::Failed }
    }
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
    /// [`UnfilledClaim`].
    pub async fn fill(
        &self,
        claim: ClaimToFill<'_>,
        restore: &Restore,
        cluster: &Cluster,
    ) -> Result<FilledClaim, UnfilledClaim> {
        let _place = self.places.acquire().await.map_err(|e| e.to_string())?;
        let unswept = sweep(Some(claim.namespace), restore, claim.now, cluster).await.err().map(|e| {
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
            Err(UnfilledClaim { why, state }) => {
                let why = [why].into_iter().chain(left).collect::<Vec<_>>().join("; ");
                Err(UnfilledClaim { why, state })
            }
        }
    }

    /// Removes the pods and Secrets of movers in all namespaces that restores which were killed have left, and that nobody waits for.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn sweep(
        &self,
        restore: &Restore,
        now: Timestamp,
        cluster: &Cluster,
    ) -> Result<Vec<SweptMover>, ClusterError> {
        sweep(None, restore, now, cluster).await
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
    ) -> Result<FilledClaim, UnfilledClaim> {
        let own = name_of(claim, restore);
        if let Some(other) = other_user(claim, &own, cluster).await? {
            let why = format!(
                "the pod {}/{other} mounts it: scale its workload down, or delete the pod where it is the mover of another restore",
                claim.namespace
            );
            return Err(why.into());
        }
        let filled = self.follow(claim, restore, cluster).await?;
        match other_user(claim, &own, cluster).await? {
            Some(other) => Err(UnfilledClaim::from(format!(
                "the pod {}/{other} has begun to use it while it was filled: scale its workload down",
                claim.namespace
            ))),
            None => Ok(filled),
        }
    }

    async fn follow(
        &self,
        claim: &ClaimToFill<'_>,
        restore: &Restore,
        cluster: &Cluster,
    ) -> Result<FilledClaim, UnfilledClaim> {
        let name = name_of(claim, restore);
        let objects = MoverObjects { name: &name, claim, restore, settings: &self.settings };
        for number in 1.. {
            let uid = make(cluster, &objects.pod(), claim.uid).await?;
            // It belongs to the pod, which waits for it, and goes with it. That of an earlier run may have an old password.
            replace(cluster, &secrets(), &objects.secret(&uid)).await?;
            let attempt = Attempt { number, name: &name, uid: &uid, claim };
            match self.until_ended(attempt, cluster).await? {
                AttemptEnd::Filled(differences) => return Ok(FilledClaim { differences }),
                AttemptEnd::Killed => {}
                AttemptEnd::Gone { node } => {
                    if let Some(why) = silent(&node, cluster).await {
                        return Err(format!("its pod was deleted while it ran on the node {node}, {why}").into());
                    }
                }
            }
            gone(cluster, &pods(), claim.namespace, &name).await?;
        }
        Err("no attempt is left".to_owned().into())
    }

    /// Follows the pod of an attempt to its end.
    async fn until_ended(&self, attempt: Attempt<'_>, cluster: &Cluster) -> Result<AttemptEnd, UnfilledClaim> {
        let Attempt { number, name, uid, claim } = attempt;
        let limits = MoverLimits { start: self.settings.start_timeout, whole: claim.timeout };
        let (began, [mut pause, longest]) = (Instant::now(), PAUSES);
        let mut node = String::new();
        loop {
            let mut is_there = true;
            let step = match cluster.get(&pods(), Some(claim.namespace), name).await {
                Ok(found) => {
                    let pod = found.map(|body| serde_json::from_slice::<Value>(&body).unwrap_or_default());
                    let own = pod.as_ref().filter(|pod| pod["metadata"]["uid"] == uid);
                    is_there = own.is_some();
                    if let Some(on) = own.and_then(|pod| pod["spec"]["nodeName"].as_str()) {
                        on.clone_into(&mut node);
                    }
                    next_step(PodState::of(own, uid), number, began.elapsed(), limits)
                }
                Err(e) if e.can_pass() && began.elapsed() < limits.whole => MoverStep::Wait,
                Err(e) => MoverStep::Fail(format!("look at its pod: {e}")),
            };
            match step {
                MoverStep::Done(differences) => return Ok(AttemptEnd::Filled(differences)),
                MoverStep::Fail(why) => return Err(why.into()),
                MoverStep::NotBegun(why) => return Err(UnfilledClaim { why, state: UnfilledState::NotBegun }),
                MoverStep::Again if is_there => return Ok(AttemptEnd::Killed),
                MoverStep::Again => return Ok(AttemptEnd::Gone { node }),
                MoverStep::Wait => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}

/// The pod of one attempt to fill a claim.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    /// Counted from 1.
    number: usize,
    name: &'a str,
    uid: &'a str,
    claim: &'a ClaimToFill<'a>,
}

/// The end of an attempt after which there may be another one.
enum AttemptEnd {
    /// The volume is filled. The text has its differences from what was saved.
    Filled(String),
    /// The kubelet, or the cluster, says that it was ended.
    Killed,
    /// Its pod is gone; the node on which it was seen last, empty for none.
    Gone { node: String },
}

/// The reason why the mover of a pod that is gone may still write; `None` where its node is heard of, and so has ended it, or is gone too.
async fn silent(node: &str, cluster: &Cluster) -> Option<String> {
    if node.is_empty() {
        return None;
    }
    let nodes = ApiResource::new("", "v1", "nodes", "Node");
    // Who may not see nodes goes on, as when there were no such check.
    let found = cluster.get(&nodes, None, node).await.ok().flatten()?;
    let found: Value = serde_json::from_slice(&found).unwrap_or_default();
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().find(|one| one["type"] == "Ready")?;
    (ready["status"] != "True").then(|| {
        let why = ready["message"].as_str().unwrap_or_default();
        format!(
            "of which nothing is heard ({why}): it may still write there; run the same command again when the node is back, or is shut down and \
             deleted from the cluster"
        )
    })
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
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    !has_ended(pod) && volumes.any(|volume| claim_of_volume(name, volume).as_deref() == Some(claim))
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
        let ephemeral =
            json!({"metadata": {"name": "web"}, "spec": {"volumes": [{"name": "scratch", "ephemeral": {}}]}});
        for (pod, expected) in [
            (pod("data", "Running"), true),
            // It begins as soon as the claim has a volume.
            (pod("data", "Pending"), true),
            (pod("data", ""), true),
            (pod("data", "Succeeded"), false),
            (pod("data", "Failed"), false),
            (pod("other", "Running"), false),
            (ephemeral.clone(), false),
            (json!({"metadata": {"name": "da"}, "spec": {"volumes": [{"name": "ta", "ephemeral": {}}]}}), false),
            (json!({}), false),
        ] {
            assert_eq!(mounts(&pod, "data"), expected, "{pod}");
        }
        assert!(mounts(&ephemeral, "web-scratch"));
    }
}
