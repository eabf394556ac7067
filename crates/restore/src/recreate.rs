//! Deletes an object of the cluster so that the one of the backup takes its place. Nothing brings it back when that goes wrong:
//! the object as it was is stored beside the restore before it is deleted (docs/formats/replaced.md).

use crate::env::Env;
use crate::leaving::Leaving;
use crate::wait::{Waited, poll};
use bytes::Bytes;
use lifeboat_cluster::{ClusterError, Preconditions};
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, chain};
use lifeboat_store::StoreError;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::Instant;

/// How often an object that changes all the time is looked at again before it is given up.
pub(crate) const LOOKS: usize = 5;

/// An object of the cluster that is to be deleted, at one revision.
#[derive(Clone, Copy)]
pub(crate) struct Doomed<'a> {
    /// The name of the restore.
    pub(crate) restore: &'a str,
    pub(crate) key: &'a ObjectKey,
    pub(crate) resource: &'a ApiResource,
    pub(crate) uid: &'a str,
    pub(crate) resource_version: &'a str,
    /// As it is.
    pub(crate) body: &'a [u8],
}

/// What becomes of what a deleted object owns.
#[derive(Clone, Copy)]
pub(crate) enum Dependents {
    /// It stays, without an owner.
    Stay,
    /// It goes too.
    Go,
}

/// Why an object was neither deleted nor had changed.
pub(crate) enum Undeleted {
    /// It could not be stored before.
    Unstored(StoreError),
    /// The API server refuses to delete it.
    Refused(ClusterError),
}

impl Doomed<'_> {
    /// Stores the object beside the restore (docs/formats/replaced.md), and deletes it if it is still that very object and revision.
    /// Gives the key in the bucket where it is, and whether it was deleted: it was not when it has changed meanwhile, or is gone.
    ///
    /// # Errors
    /// [`Undeleted`].
    pub(crate) async fn delete(self, dependents: Dependents, env: &Env) -> Result<(String, bool), Undeleted> {
        let Self { restore, key, resource, uid, resource_version, body } = self;
        let place = env.store.put_replaced(restore, key, uid, body).await.map_err(Undeleted::Unstored)?;
        let (namespace, preconditions) = (key.namespace.as_deref(), Preconditions { uid, resource_version });
        let deleted = match dependents {
            Dependents::Stay => env.cluster.delete_and_orphan(resource, namespace, &key.name, preconditions).await,
            Dependents::Go => env.cluster.delete_with_dependents(resource, namespace, &key.name, preconditions).await,
        };
        Ok((place, deleted.map_err(Undeleted::Refused)?))
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

/// Why an object was not deleted.
#[derive(Debug)]
pub(crate) enum NotRemoved {
    /// The API server refuses something.
    Refused(ClusterError),
    /// For people.
    Because(String),
    /// Something else deletes it already.
    Leaving(Leaving),
}

impl Replacement<'_> {
    /// Deletes the object of the cluster and waits until it is gone; its dependents stay. Before that the API server has said
    /// that it would take the new one, and the old one is stored. Gives the key in the bucket where that is.
    ///
    /// # Errors
    /// [`NotRemoved`]: nothing was deleted, unless the message says so.
    pub(crate) async fn remove(self, timeout: Duration, env: &Env) -> Result<String, NotRemoved> {
        let Self { key, resource, .. } = self;
        let namespace = key.namespace.as_deref();
        let (name, probe) = probe(key, self.desired);
        let tried = env.cluster.dry_run_create(resource, namespace, &name, Bytes::from(probe.to_string())).await;
        tried.map_err(NotRemoved::Refused)?;
        let mut in_cluster = self.in_cluster.clone();
        for _ in 0..LOOKS {
            let text = |field: &str| in_cluster["metadata"][field].as_str().unwrap_or_default();
            let (uid, resource_version, json) = (text("uid"), text("resourceVersion"), in_cluster.to_string());
            let doomed = Doomed { restore: self.restore, key, resource, uid, resource_version, body: json.as_bytes() };
            let (place, is_deleted) = doomed.delete(Dependents::Stay, env).await.map_err(|e| match e {
                Undeleted::Refused(e) => NotRemoved::Refused(e),
                Undeleted::Unstored(e) => {
                    let why = format!("what it was cannot be stored: {}", chain(&e));
                    NotRemoved::Because(format!("it was left as it is, because {why}"))
                }
            })?;
            if is_deleted {
                return self.gone(uid, &place, timeout, env).await.map(|()| place);
            }
            let Some(body) = env.cluster.get(resource, namespace, &key.name).await.map_err(NotRemoved::Refused)? else {
                return Ok(place);
            };
            in_cluster = serde_json::from_slice(&body).unwrap_or_default();
            if let Some(leaving) = Leaving::of(&in_cluster) {
                return Err(NotRemoved::Leaving(leaving));
            }
        }
        Err(NotRemoved::Because("it was left as it is, because it changes all the time".to_owned()))
    }

    /// Waits until the object of this UID is gone.
    async fn gone(self, uid: &str, place: &str, timeout: Duration, env: &Env) -> Result<(), NotRemoved> {
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
            Waited::Done(()) => return Ok(()),
            Waited::Failed(e) => format!("it cannot be seen whether it is gone: {}", e.failure),
            Waited::TimedOut => format!("it was still there after {} s", timeout.as_secs()),
            Waited::Cancelled => "the restore was cancelled".to_owned(),
        };
        Err(NotRemoved::Because(format!("it was deleted and not made anew, because {why}; {}", advice(place))))
    }
}

/// Where the old object is, for people.
pub(crate) fn advice(place: &str) -> String {
    format!("the one that was there is in the bucket at {place}")
}

fn is_another(body: &[u8], uid: &str) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|object| object["metadata"]["uid"] != uid)
}

/// The object under another name, without what only one object at a time can have, to ask whether the API server would take it.
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
    fn the_api_server_is_asked_about_an_object_that_can_stand_beside_the_one_there_is() {
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
}
