//! Objects of the cluster that are within a restore's filters and that the backup lacks: the policy `exact` finds them, and `prune`
//! removes those that a pinned plan names.

use crate::env::Env;
use crate::mapping::Mapping;
use crate::pin::Pin;
use crate::planned::{Planned, PreviewItem};
use crate::policy::is_never_removed;
use crate::read::namespaces_in;
use lifeboat_api::well_known;
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_object::{ApiResource, GroupResource, Head, ObjectKey, Place, chain};
use lifeboat_select::RestoredFacts;
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The group of backups and restores themselves.
const GROUP: &str = "velero.io";
/// What a type must allow.
const VERBS: [&str; 2] = ["list", "delete"];

/// The objects of a backup as those of the cluster that they become, and where others are looked for.
pub(crate) struct Extras<'a> {
    mapping: &'a Mapping,
    env: &'a Env,
    /// Every object of the backup, whether it is restored or not.
    in_backup: HashSet<[u8; 16]>,
    /// Types of which something is restored.
    types: BTreeSet<Arc<GroupResource>>,
    /// Namespaces of the backup that hold what is restored.
    namespaces: BTreeSet<String>,
}

impl<'a> Extras<'a> {
    pub(crate) fn new(mapping: &'a Mapping, env: &'a Env) -> Self {
        let (mut in_backup, mut types) = (HashSet::new(), BTreeSet::new());
        for row in mapping.chosen.rows().iter().filter_map(|number| mapping.archive.row(*number)) {
            let key = row.key();
            in_backup.insert(mapping.target_of(&key).digest());
            if !types.contains(&row.resource)
                && is_included(mapping, &key.resource, key.namespace.as_deref(), &key.name)
            {
                types.insert(Arc::clone(&row.resource));
            }
        }
        types.retain(|resource| !is_never_removed(resource) && resource.group != GROUP);
        Self { mapping, env, in_backup, types, namespaces: namespaces_in(&mapping.archive) }
    }

    /// Sends an item for each of them, by type and namespace. A list that fails is an error in the results, and the others are
    /// read. Ends early when the receiver is dropped.
    pub(crate) async fn send(&self, planned: &Planned, out: &mpsc::Sender<PreviewItem>) {
        for resource in &self.types {
            let Some(api) = self.mapping.catalog.find(resource) else { continue };
            if !VERBS.iter().all(|verb| api.can(verb)) {
                continue;
            }
            let places: Vec<Option<&str>> = match api.namespaced {
                true => self.namespaces.iter().map(|name| Some(name.as_str())).collect(),
                false => vec![None],
            };
            let mut seen = BTreeSet::new();
            for source in places {
                let target = source.map(|name| self.mapping.namespace(name));
                // Two namespaces may become one.
                if self.env.operation.cancel.is_cancelled() || !seen.insert(target) {
                    continue;
                }
                match self.list(api, source, target, planned, out).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(e) => {
                        let text = format!("what the backup lacks of {resource} cannot be seen: {}", chain(&e));
                        self.env.operation.journal.error(&Place::of(target), text);
                    }
                }
            }
        }
    }

    /// Gives whether anybody still wants to know.
    async fn list(
        &self,
        api: &Arc<ApiResource>,
        source: Option<&str>,
        target: Option<&str>,
        planned: &Planned,
        out: &mpsc::Sender<PreviewItem>,
    ) -> Result<bool, ClusterError> {
        let request = ListRequest {
            resource: Arc::clone(api),
            namespace: target.map(str::to_owned),
            selector: String::new(),
            metadata_only: true,
        };
        let mut list = self.env.cluster.list(request);
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                let Ok(head) = Head::parse(&body) else { continue };
                let key = ObjectKey::new(api.group_resource(), head.namespace.as_deref(), &*head.name);
                if self.in_backup.contains(&key.digest()) || !self.is_in_scope(&key, source, &head) {
                    continue;
                }
                if is_kept_by_others(&key, &head, &body) {
                    continue;
                }
                let item = PreviewItem { pin: Pin::of_extra(&head.uid), ..PreviewItem::of(key, planned.clone()) };
                if out.send(item).await.is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether the restore would take it, if the backup had it.
    fn is_in_scope(&self, key: &ObjectKey, source: Option<&str>, head: &Head) -> bool {
        let facts = RestoredFacts {
            resource: &key.resource,
            kind: None,
            namespace: source,
            name: &key.name,
            labels: Some(&head.labels),
        };
        self.mapping.filter.includes_item(facts).is_ok()
    }
}

fn is_included(mapping: &Mapping, resource: &GroupResource, namespace: Option<&str>, name: &str) -> bool {
    mapping.filter.includes_item(RestoredFacts { resource, kind: None, namespace, name, labels: None }).is_ok()
}

/// Whether something else than a user keeps the object: an owner with which it goes, the cluster itself, or somebody who does not
/// want it in backups, so that its lack in one says nothing.
fn is_kept_by_others(key: &ObjectKey, head: &Head, body: &[u8]) -> bool {
    let label = |name: &str| head.labels.get(name).map(String::as_str);
    let is_of_cluster = match (&*key.resource.group, &*key.resource.resource) {
        ("", "configmaps") => key.name == "kube-root-ca.crt",
        ("", "serviceaccounts") => key.name == "default",
        ("", "events" | "endpoints" | "nodes") | ("events.k8s.io", "events") => true,
        ("discovery.k8s.io", "endpointslices") | ("coordination.k8s.io", "leases") => true,
        ("", "secrets") => {
            // Tokens belong to their accounts.
            let object: Value = serde_json::from_slice(body).unwrap_or_default();
            object["metadata"]["annotations"]["kubernetes.io/service-account.name"].is_string()
        }
        _ => false,
    };
    head.deleting
        || !head.owner_uids.is_empty()
        || is_of_cluster
        || label("kubernetes.io/bootstrapping").is_some()
        || label(well_known::LABEL_EXCLUDE_FROM_BACKUP) == Some("true")
}

/// Removes an object that the backup lacks, after it was stored beside the restore (docs/formats/replaced.md): it, and what it
/// owns. Gives whether it was there.
///
/// # Errors
/// Why it stays, for people.
pub(crate) async fn remove(
    restore: &str,
    (key, pin): &(ObjectKey, Pin),
    resource: &ApiResource,
    env: &Env,
) -> Result<bool, String> {
    let namespace = key.namespace.as_deref();
    let found = env.cluster.get(resource, namespace, &key.name).await.map_err(|e| chain(&e))?;
    let Some(body) = found else { return Ok(false) };
    let head = Head::parse(&body).map_err(|e| chain(&e))?;
    if Pin::of_extra(&head.uid) != *pin {
        return Err("it is another object than in the plan that the restore is pinned to".to_owned());
    }
    let stored = env.store.put_replaced(restore, key, &head.uid, &body).await;
    let place = stored.map_err(|e| format!("it cannot be stored before: {}", chain(&e)))?;
    let removed = env.cluster.delete_exactly(resource, namespace, &key.name, &head.uid).await;
    let removed = removed.map_err(|e| chain(&e))?;
    let fields = [("object", key.to_string()), ("manifest", place)];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    env.operation.journal.info("Removed an object that the backup lacks", &fields);
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_others_keep_is_no_extra() {
        let kept = |resource: &str, object: Value| {
            let body = object.to_string();
            let head = Head::parse(body.as_bytes()).unwrap();
            let key = ObjectKey::new(resource.parse().unwrap(), Some("shop"), &*head.name);
            is_kept_by_others(&key, &head, body.as_bytes())
        };
        let object = |name: &str, rest: Value| {
            let mut metadata = json!({"name": name});
            metadata.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap_or_default());
            json!({"metadata": metadata})
        };
        for (resource, object, expected) in [
            ("configmaps", object("a", json!({})), false),
            ("configmaps", object("kube-root-ca.crt", json!({})), true),
            ("serviceaccounts", object("default", json!({})), true),
            ("serviceaccounts", object("web", json!({})), false),
            ("secrets", object("a", json!({"annotations": {"kubernetes.io/service-account.name": "web"}})), true),
            ("secrets", object("a", json!({"annotations": {"a": "b"}})), false),
            ("endpointslices.discovery.k8s.io", object("a", json!({})), true),
            ("pods", object("a", json!({"ownerReferences": [{"uid": "u"}]})), true),
            ("pods", object("a", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})), true),
            (
                "clusterroles.rbac.authorization.k8s.io",
                object("a", json!({"labels": {"kubernetes.io/bootstrapping": "x"}})),
                true,
            ),
            ("configmaps", object("a", json!({"labels": {"velero.io/exclude-from-backup": "true"}})), true),
            ("configmaps", object("a", json!({"labels": {"velero.io/exclude-from-backup": "false"}})), false),
        ] {
            assert_eq!(kept(resource, object.clone()), expected, "{resource} {object}");
        }
    }
}
