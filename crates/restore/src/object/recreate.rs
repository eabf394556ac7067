//! Deletes an object of the cluster so that the one of the backup takes its place. Nothing brings it back when that goes wrong:
//! the object as it was is stored beside the restore before it is deleted (docs/formats/replaced.md).

use crate::request::existing_policies::ExistingPolicies;
use crate::state::env::Env;
use crate::state::retry::may_be_done;
use crate::state::terminating::TerminatingObject;
use crate::state::wait::{Waited, poll};
use bytes::Bytes;
use lifeboat_archive::layout::replaced_key;
use lifeboat_cluster::{ClusterError, Preconditions};
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, chain};
use lifeboat_store::StoreError;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;

/// An object of the cluster that is to be deleted, at one revision.
#[derive(Clone, Copy)]
pub(crate) struct ObjectToDelete<'a> {
    /// The name of the restore.
    pub(crate) restore: &'a str,
    pub(crate) key: &'a ObjectKey,
    pub(crate) resource: &'a ApiResource,
    pub(crate) uid: &'a str,
    pub(crate) resource_version: &'a str,
    /// As it is.
    pub(crate) body: &'a [u8],
}

/// Treatment of the objects that a deleted object owns.
#[derive(Clone, Copy)]
pub(crate) enum Dependents {
    /// It stays, without an owner.
    Stay,
    /// It goes too.
    Go,
}

/// The reason why an object was not deleted, or cannot be made anew at once. The object may be gone only in the
/// last two cases.
#[derive(Debug)]
pub(crate) enum NotDeleted {
    /// It could not be stored before.
    Unstored(StoreError),
    /// The API server refuses to delete it, or to take the one that is to come in its place.
    Refused(ClusterError),
    /// It has changed since it was read, or another one has its name.
    Changed,
    /// Something else deletes it already.
    Leaving(TerminatingObject),
    /// It is stored at this key of the bucket, and no answer says whether it was deleted.
    Unknown { place: String, why: ClusterError },
    /// It is stored at this key of the bucket and was deleted, and is not known to be gone, for this reason.
    Deleted { place: String, why: String },
}

impl NotDeleted {
    /// Describes, for people, the state of the object and the reason.
    pub(crate) fn told(&self) -> String {
        let stays = "it was left as it is, because";
        match self {
            Self::Unstored(e) => format!("{stays} what it was cannot be stored: {}", chain(e)),
            Self::Refused(e) if e.status().is_none() => {
                format!("{stays} it is not known whether it may be replaced: {e}")
            }
            Self::Refused(e) => format!("{stays} the API server refuses to {}: {}", e.verb, e.failure),
            Self::Changed => format!("{stays} it changes all the time"),
            Self::Leaving(terminating) => format!("the one in the cluster {terminating}"),
            Self::Unknown { place, why } => {
                format!("it may have been deleted, because no answer to that came ({}); {}", why.failure, advice(place))
            }
            Self::Deleted { place, why } => {
                format!("it was deleted and not made anew, because {why}; {}", advice(place))
            }
        }
    }
}

impl ObjectToDelete<'_> {
    /// Stores the object beside the restore (docs/formats/replaced.md), and deletes it if it is still that very object and revision.
    /// Gives the key in the bucket where it is.
    ///
    /// # Errors
    /// [`NotDeleted`]; one that is gone has [`NotDeleted::Changed`] too.
    pub(crate) async fn delete(self, dependents: Dependents, env: &Env) -> Result<String, NotDeleted> {
        let Self { restore, key, resource, uid, resource_version, body } = self;
        let place = env.store.put_replaced(restore, key, uid, body).await.map_err(NotDeleted::Unstored)?;
        let (namespace, preconditions) = (key.namespace.as_deref(), Preconditions { uid, resource_version });
        let deleted = match dependents {
            Dependents::Stay => env.cluster.delete_and_orphan(resource, namespace, &key.name, preconditions).await,
            Dependents::Go => env.cluster.delete_with_dependents(resource, namespace, &key.name, preconditions).await,
        };
        match deleted {
            Ok(true) => Ok(place),
            Ok(false) => Err(NotDeleted::Changed),
            Err(why) if may_be_done(&why) => Err(NotDeleted::Unknown { place, why }),
            Err(e) => Err(NotDeleted::Refused(e)),
        }
    }
}

/// An object of the cluster, and the one that is to take its place.
#[derive(Clone, Copy)]
pub(crate) struct Replacement<'a> {
    /// The name of the restore.
    pub(crate) restore: &'a str,
    pub(crate) key: &'a ObjectKey,
    pub(crate) resource: &'a ApiResource,
    /// As it is in the cluster.
    pub(crate) in_cluster: &'a Value,
    /// As it would be created.
    pub(crate) desired: &'a Value,
}

impl Replacement<'_> {
    /// Deletes the object of the cluster and waits until it is gone; its dependents stay. Before that, a dry run shows
    /// that the API server would take the new one, and the old one is stored. Returns its key in the bucket.
    ///
    /// # Errors
    /// [`NotDeleted`].
    pub(crate) async fn remove(self, timeout: Duration, env: &Env) -> Result<String, NotDeleted> {
        let Self { restore, key, resource, in_cluster, .. } = self;
        let namespace = key.namespace.as_deref();
        let (name, probe) = probe(key, self.desired);
        let tried = env.cluster.dry_run_create(resource, namespace, &name, Bytes::from(probe.to_string())).await;
        tried.map_err(NotDeleted::Refused)?;
        let text = |field: &str| in_cluster["metadata"][field].as_str().unwrap_or_default();
        let (uid, resource_version, json) = (text("uid"), text("resourceVersion"), in_cluster.to_string());
        let doomed = ObjectToDelete { restore, key, resource, uid, resource_version, body: json.as_bytes() };
        match doomed.delete(Dependents::Stay, env).await {
            Ok(place) => self.gone(uid, place, timeout, env).await,
            Err(NotDeleted::Changed) => self.meanwhile(uid, env).await,
            Err(e) => Err(e),
        }
    }

    /// Looks again at an object that has changed since it was read. When it is gone, it was perhaps deleted here and
    /// the answer was lost: returns the key at which its original is stored.
    async fn meanwhile(self, uid: &str, env: &Env) -> Result<String, NotDeleted> {
        let Self { restore, key, resource, .. } = self;
        let place = replaced_key(restore, key, uid);
        let body = match env.cluster.get(resource, key.namespace.as_deref(), &key.name).await {
            Ok(Some(body)) => body,
            Ok(None) => return Ok(place),
            Err(why) => return Err(NotDeleted::Unknown { place, why }),
        };
        let now: Value = serde_json::from_slice(&body).unwrap_or_default();
        Err(TerminatingObject::of(&now).map_or(NotDeleted::Changed, NotDeleted::Leaving))
    }

    /// Waits until the object of this UID is gone.
    async fn gone(self, uid: &str, place: String, timeout: Duration, env: &Env) -> Result<String, NotDeleted> {
        let Self { key, resource, .. } = self;
        let until = Instant::now() + timeout;
        let waited = poll(
            || until,
            &env.operation.cancel,
            || async {
                let body = env.cluster.get(resource, key.namespace.as_deref(), &key.name).await?;
                Ok(body.is_none_or(|body| is_another(&body, uid)).then_some(()))
            },
        );
        let why = match waited.await {
            Waited::Done(()) => return Ok(place),
            Waited::Failed(e) => format!("it cannot be seen whether it is gone: {}", e.failure),
            Waited::TimedOut => format!("it was still there after {} s", timeout.as_secs()),
            Waited::Cancelled => "the restore was cancelled".to_owned(),
        };
        Err(NotDeleted::Deleted { place, why })
    }
}

/// Returns the reason why an object of the cluster must not be deleted to be made anew like this; `None` when it
/// may.
pub(crate) fn refusal(
    existing: &ExistingPolicies,
    resource: &ApiResource,
    in_cluster: &Value,
    desired: &Value,
) -> Option<String> {
    existing.refusal(resource, in_cluster).or_else(|| {
        let why = why_none_stands_beside(&resource.group_resource(), in_cluster, desired)?;
        let next = "delete it yourself, and run the restore again";
        Some(format!("the API server cannot be asked before whether it would take the new one, because {why}; {next}"))
    })
}

/// Returns the reason why the API server refuses the object under another name, beside the existing one, although
/// it may accept it as a replacement: its dry run is no evidence then.
fn why_none_stands_beside(resource: &GroupResource, in_cluster: &Value, desired: &Value) -> Option<&'static str> {
    let is_default = |object: &Value| object["globalDefault"] == true;
    let is_named = |begin: &str| desired["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(begin));
    match (&*resource.group, &*resource.resource) {
        ("apiregistration.k8s.io", "apiservices") => Some("its name is that of the API which it serves"),
        ("networking.k8s.io", "ipaddresses") => Some("its name is the address"),
        ("certificates.k8s.io", "clustertrustbundles") if desired["spec"]["signerName"].is_string() => {
            Some("its name begins with that of its signer")
        }
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") if desired["spec"]["type"] == "Exempt" => {
            Some("only one is exempt, by its name")
        }
        ("scheduling.k8s.io", "priorityclasses") if is_named("system-") => {
            Some("its name is one of the cluster itself")
        }
        ("scheduling.k8s.io", "priorityclasses") if is_default(in_cluster) && is_default(desired) => {
            Some("only one PriorityClass may be the globalDefault")
        }
        _ => None,
    }
}

/// Tells people where the old object is stored.
pub(crate) fn advice(place: &str) -> String {
    format!("the one that was there is in the bucket at {place}")
}

fn is_another(body: &[u8], uid: &str) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|object| object["metadata"]["uid"] != uid)
}

/// Returns a copy of the object under another name, without the fields that must be unique, for a dry run that shows
/// that the API server would take it.
pub(crate) fn probe(key: &ObjectKey, desired: &Value) -> (String, Value) {
    let name = format!("lifeboat-dry-run-{}", &hex::encode(key.digest())[..8]);
    let mut probe = desired.clone();
    if let Some(metadata) = probe.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), name.as_str().into());
    }
    if key.resource == GroupResource::new("", "services")
        && let Some(spec) = probe.get_mut("spec").and_then(Value::as_object_mut)
    {
        free_addresses(spec);
    }
    (name, probe)
}

/// Takes the addresses and ports out of a service that the one in the cluster has still.
fn free_addresses(spec: &mut Map<String, Value>) {
    spec.remove("healthCheckNodePort");
    if spec.get("clusterIP").is_some_and(|ip| ip != "None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_dry_run_checks_a_replacement_that_can_exist_beside_the_original() {
        let service = |ip: &str, port: Value| json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"clusterIP": ip, "clusterIPs": [ip], "healthCheckNodePort": 30009, "ports": [port]}});
        let key = ObjectKey::new(GroupResource::new("", "services"), Some("shop"), "web");
        let (name, probe) = probe(&key, &service("10.0.0.9", json!({"port": 80, "nodePort": 30001})));
        assert!(name.len() == 25 && name.starts_with("lifeboat-dry-run-"), "{name}");
        assert_eq!(probe, json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"ports": [{"port": 80}]}}));
        let headless = super::probe(&key, &service("None", json!({"port": 80}))).1;
        assert_eq!(headless["spec"], json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]}));
        let key = ObjectKey::new(GroupResource::new("e.com", "services"), Some("shop"), "web");
        let other = super::probe(&key, &service("10.0.0.9", json!({"nodePort": 1}))).1;
        assert_eq!(other["spec"], service("10.0.0.9", json!({"nodePort": 1}))["spec"], "a custom resource is as it is");
    }

    #[test]
    fn what_cannot_stand_beside_the_one_there_is_is_not_deleted_unasked() {
        let class = |name: &str, is_default: bool| json!({"metadata": {"name": name}, "globalDefault": is_default});
        let spec = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let classes = "priorityclasses.scheduling.k8s.io";
        for (resource, in_cluster, desired, expected) in [
            ("apiservices.apiregistration.k8s.io", json!({}), json!({}), true),
            ("ipaddresses.networking.k8s.io", json!({}), json!({}), true),
            (classes, class("a", true), class("a", true), true),
            (classes, class("a", false), class("a", true), false),
            (classes, class("a", true), class("a", false), false),
            (classes, class("system-a", false), class("system-a", false), true),
            (
                "clustertrustbundles.certificates.k8s.io",
                json!({}),
                spec("e.com:s:a", json!({"signerName": "e.com/s"})),
                true,
            ),
            ("clustertrustbundles.certificates.k8s.io", json!({}), spec("a", json!({})), false),
            (
                "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
                json!({}),
                spec("exempt", json!({"type": "Exempt"})),
                true,
            ),
            (
                "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
                json!({}),
                spec("a", json!({"type": "Limited"})),
                false,
            ),
            ("configmaps", class("system-a", true), class("system-a", true), false),
        ] {
            let why = why_none_stands_beside(&resource.parse().unwrap(), &in_cluster, &desired);
            assert_eq!(why.is_some(), expected, "{resource} {desired}");
        }
    }
}
