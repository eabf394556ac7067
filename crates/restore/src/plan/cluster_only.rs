//! Objects of the cluster that are within a restore's filters and that the backup lacks: the policy `exact` finds them, and `prune`
//! removes those that a pinned plan names.

use crate::object::recreate::{Dependents, NotDeleted, ObjectToDelete, advice};
use crate::plan::guard::PlanGuard;
use crate::plan::owned_claims::OwnedClaims;
use crate::plan::planned::{Planned, PreviewItem};
use crate::request::existing_policies::is_never_removed;
use crate::state::env::Env;
use crate::walk::read::namespaces_in;
use crate::walk::scope::RestoreScope;
use lifeboat_api::Backup;
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_object::{ApiResource, Catalog, GroupResource, Head, ObjectKey, ResultScope, chain};
use lifeboat_patch::restored::{kept_up_by_cluster, written_by_cluster};
use lifeboat_select::{BackupScope, Doubt, NamespaceFacts, RestoredFacts, is_kept_out};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The group of backups and restores themselves.
const GROUP: &str = "velero.io";
/// Verbs that a type must allow.
const VERBS: [&str; 2] = ["list", "delete"];
/// Most reads of an object that changes all the time, before it is given up.
const LOOKS: usize = 5;

/// The objects of a backup as those of the cluster that they become, and where others are looked for.
pub(crate) struct ClusterOnly<'a> {
    scope: &'a RestoreScope,
    env: &'a Env,
    /// Every object of the backup, whether it is restored or not.
    in_backup: HashSet<[u8; 16]>,
    /// Types of which something is restored.
    types: BTreeSet<Arc<GroupResource>>,
    /// Namespaces of the backup that hold objects to restore.
    namespaces: BTreeSet<String>,
    /// The scope of the backup: the types and namespaces that it selected.
    backup: BackupScope,
}

/// A namespace of the cluster and those of the backup that become it; none for objects of the cluster as a whole.
#[derive(Clone, Copy)]
struct MappedNamespace<'a> {
    sources: &'a [&'a str],
    target: Option<&'a str>,
}

/// Results of the lists.
#[derive(Default)]
struct ListResults {
    extras: Vec<ClusterOnlyObject>,
    /// UIDs of the owners of objects that the backup has.
    owners: HashSet<String>,
}

/// An object that the backup lacks.
struct ClusterOnlyObject {
    key: ObjectKey,
    uid: String,
    /// The reason why it is not to be removed.
    stays: Option<String>,
}

impl<'a> ClusterOnly<'a> {
    /// # Errors
    /// Returns, for people, the reason why the scope of the backup is not known: an object that the backup
    /// filtered out is no reason to remove anything.
    pub(crate) fn new(scope: &'a RestoreScope, backup: &Backup, env: &'a Env) -> Result<Self, String> {
        let namespaces = namespaces_in(&scope.archive);
        let backup_scope = scope_of(backup, &namespaces, &scope.catalog).map_err(|why| {
            format!("it is not known what the backup {} lacks, so nothing is removed: {why}", backup.metadata.name)
        })?;
        let (mut in_backup, mut types) = (HashSet::new(), BTreeSet::new());
        for row in scope.rows.chosen.rows().iter().filter_map(|number| scope.archive.row(*number)) {
            let key = row.key();
            in_backup.insert(scope.target_of(&key).digest());
            if !types.contains(&row.resource) && is_included(scope, &key.resource, key.namespace.as_deref(), &key.name)
            {
                types.insert(Arc::clone(&row.resource));
            }
        }
        types.retain(|resource| !is_never_removed(resource) && resource.group != GROUP);
        Ok(Self { scope, env, in_backup, types, namespaces, backup: backup_scope })
    }

    /// Sends an item for each of them, by type and namespace. One that must not be removed, because more would go with it, stays in any
    /// case, and its item says why. A list that fails is an error in the results, and the others are read. Ends early when the
    /// receiver is dropped.
    pub(crate) async fn send(&self, planned: &Planned, out: &mpsc::Sender<PreviewItem>) {
        let mut targets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for source in &self.namespaces {
            // Two namespaces may become one.
            targets.entry(self.scope.namespace(source)).or_default().push(source);
        }
        // The server that restores is never in its own way.
        targets.remove(self.scope.restore.metadata.namespace.as_str());
        let mut found = ListResults::default();
        for resource in &self.types {
            let Some(api) = self.scope.catalog.find(resource) else { continue };
            if !VERBS.iter().all(|verb| api.can(verb)) || self.backup.collects(api).is_err() {
                continue;
            }
            let places: Vec<MappedNamespace<'_>> = match api.namespaced {
                true => {
                    targets.iter().map(|(target, sources)| MappedNamespace { sources, target: Some(target) }).collect()
                }
                false => vec![MappedNamespace { sources: &[], target: None }],
            };
            for place in places {
                if self.env.operation.cancel.is_cancelled() {
                    return;
                }
                if let Err(e) = self.list(api, place, &mut found).await {
                    let text = format!("what the backup lacks of {resource} cannot be seen: {}", chain(&e));
                    self.env.operation.journal.error(&ResultScope::of(place.target), text);
                }
            }
        }
        let is_of_cluster = found.extras.iter().any(|extra| extra.key.namespace.is_none());
        let namespaces: Vec<Option<&str>> = match (is_of_cluster, found.extras.is_empty()) {
            (_, true) => Vec::new(),
            (true, _) => vec![None],
            (false, _) => targets.keys().map(|target| Some(*target)).collect(),
        };
        let claims = OwnedClaims::look(&namespaces, &self.scope.catalog, self.env).await;
        for ClusterOnlyObject { key, uid, mut stays } in found.extras {
            if found.owners.contains(&uid) {
                stays.get_or_insert("it owns objects that the backup has".to_owned());
            }
            stays = stays.or_else(|| claims.refusal(&key, &uid));
            let planned = if stays.is_some() { Planned::Extra } else { planned.clone() };
            let item = PreviewItem {
                pin: PlanGuard::of_extra(&uid),
                warnings: stays.map(|why| format!("it is not removed: {why}")).into_iter().collect(),
                ..PreviewItem::of(key, planned)
            };
            if out.send(item).await.is_err() {
                return;
            }
        }
    }

    async fn list(
        &self,
        api: &Arc<ApiResource>,
        place: MappedNamespace<'_>,
        found: &mut ListResults,
    ) -> Result<(), ClusterError> {
        let request = ListRequest::all(Arc::clone(api)).in_namespace(place.target.map(str::to_owned)).metadata_only();
        let mut list = self.env.cluster.list(request);
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                let Ok(head) = Head::parse(&body) else { continue };
                let key = ObjectKey::new(api.group_resource(), head.namespace.as_deref(), &*head.name);
                if self.in_backup.contains(&key.digest()) {
                    found.owners.extend(head.owner_uids);
                    continue;
                }
                if !self.is_in_scope(&key, place, &head) || is_kept_by_others(api, &key, &head, &body) {
                    continue;
                }
                let stays = self.refusal(api, &key, &body).await?;
                found.extras.push(ClusterOnlyObject { key, uid: head.uid, stays });
            }
        }
        Ok(())
    }

    /// Returns the reason why an object must not be removed; the same rules as for deleting it to make it anew.
    async fn refusal(&self, api: &ApiResource, key: &ObjectKey, body: &[u8]) -> Result<Option<String>, ClusterError> {
        let mut object: Value = serde_json::from_slice(body).unwrap_or_default();
        // Whether its claims go with it stands in its spec.
        if key.resource == GroupResource::new("apps", "statefulsets")
            && let Some(whole) = self.env.cluster.get(api, key.namespace.as_deref(), &key.name).await?
        {
            object = serde_json::from_slice(&whole).unwrap_or_default();
        }
        Ok(self.scope.existing.refusal(api, &object))
    }

    /// Returns true if the backup would have the object, had it been there, and the restore would take it then, from
    /// each namespace from which it takes anything.
    fn is_in_scope(&self, key: &ObjectKey, place: MappedNamespace<'_>, head: &Head) -> bool {
        if place.target.is_none() {
            return self.takes(key, None, head);
        }
        let includes = |source: &&&str| is_included(self.scope, &key.resource, Some(source), &key.name);
        let mut included = place.sources.iter().filter(includes).peekable();
        included.peek().is_some() && included.all(|source| self.takes(key, Some(source), head))
    }

    fn takes(&self, key: &ObjectKey, source: Option<&str>, head: &Head) -> bool {
        if !self.backup.takes(source, &head.labels) {
            return false;
        }
        let facts = RestoredFacts {
            resource: &key.resource,
            kind: None,
            namespace: source,
            name: &key.name,
            labels: Some(&head.labels),
        };
        self.scope.filter.includes_item(facts).is_ok()
    }
}

/// Computes the scope of a backup.
///
/// # Errors
/// Returns, for people, the reason why the backup may lack more than the objects that did not exist.
fn scope_of(backup: &Backup, namespaces: &BTreeSet<String>, catalog: &Catalog) -> Result<BackupScope, String> {
    let namespaces: Vec<NamespaceFacts> = namespaces.iter().map(NamespaceFacts::named).collect();
    let scope = BackupScope::of(backup, catalog, &namespaces).map_err(|e| e.to_string())?;
    match scope.doubt() {
        Some(Doubt::Policies) => Err("its resource policies may have left objects out".to_owned()),
        Some(Doubt::Phase(_)) => Err("it has objects that it could not save".to_owned()),
        None => Ok(scope),
    }
}

fn is_included(scope: &RestoreScope, resource: &GroupResource, namespace: Option<&str>, name: &str) -> bool {
    scope.filter.includes_item(RestoredFacts { resource, kind: None, namespace, name, labels: None }).is_ok()
}

/// Returns true if the object is kept by something other than a user: an owner with which it goes, the cluster itself,
/// or a label that excludes it from backups, so that its absence from one says nothing.
fn is_kept_by_others(api: &ApiResource, key: &ObjectKey, head: &Head, body: &[u8]) -> bool {
    let label = |name: &str| head.labels.get(name).map(String::as_str);
    let mut object: Value = serde_json::from_slice(body).unwrap_or_default();
    if let Some(map) = object.as_object_mut() {
        // A list of metadata calls all objects the same.
        map.insert("apiVersion".to_owned(), api.api_version().into());
        map.insert("kind".to_owned(), api.kind.clone().into());
    }
    let is_of_cluster = match (&*key.resource.group, &*key.resource.resource) {
        ("", "serviceaccounts") => key.name == "default",
        ("", "events" | "endpoints" | "nodes") | ("events.k8s.io", "events") => true,
        ("discovery.k8s.io", "endpointslices") | ("coordination.k8s.io", "leases") => true,
        // The allocator's record of a Service's address.
        ("networking.k8s.io", "ipaddresses") => true,
        // Tokens belong to their accounts.
        ("", "secrets") => object["metadata"]["annotations"]["kubernetes.io/service-account.name"].is_string(),
        _ => written_by_cluster(&object).or_else(|| kept_up_by_cluster(&object)).is_some(),
    };
    head.deleting
        || !head.owner_uids.is_empty()
        || is_of_cluster
        || label("kubernetes.io/bootstrapping").is_some()
        || is_kept_out(&head.labels)
}

/// Removes an object that the backup lacks, and the objects that it owns, after it was stored beside the restore
/// (docs/formats/replaced.md). An object that is gone already is no error.
///
/// # Errors
/// Returns, for people, the reason why it stays.
pub(crate) async fn remove(
    scope: &RestoreScope,
    (key, pin): &(ObjectKey, PlanGuard),
    env: &Env,
) -> Result<Arc<ApiResource>, String> {
    let api = scope.catalog.find(&key.resource).ok_or("the cluster does not serve its type any more")?;
    let namespace = key.namespace.as_deref();
    for _ in 0..LOOKS {
        let found = env.cluster.get(api, namespace, &key.name).await.map_err(|e| chain(&e))?;
        let Some(body) = found else { return Ok(Arc::clone(api)) };
        let head = Head::parse(&body).map_err(|e| chain(&e))?;
        if PlanGuard::of_extra(&head.uid) != *pin {
            return Err("it is another object than in the plan that the restore is pinned to".to_owned());
        }
        if is_kept_by_others(api, key, &head, &body) {
            return Err("since the plan something else keeps it: an owner, a label, or its deletion".to_owned());
        }
        let object: Value = serde_json::from_slice(&body).unwrap_or_default();
        if let Some(why) = scope.existing.refusal(api, &object) {
            return Err(why);
        }
        // Claims may have come since the plan.
        if let Some(why) = OwnedClaims::look(&[namespace], &scope.catalog, env).await.refusal(key, &head.uid) {
            return Err(why);
        }
        let doomed = ObjectToDelete {
            restore: &scope.restore.metadata.name,
            key,
            resource: api,
            uid: &head.uid,
            resource_version: &head.resource_version,
            body: &body,
        };
        let place = match doomed.delete(Dependents::Go, env).await {
            Ok(place) => place,
            // It is looked at again.
            Err(NotDeleted::Changed) => continue,
            Err(NotDeleted::Unknown { place, why }) => {
                return Err(format!("no answer says whether it was ({}); {}", why.failure, advice(&place)));
            }
            Err(why) => return Err(why.told()),
        };
        let fields = [("object", key.to_string()), ("manifest", place)];
        let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
        env.operation.journal.info("Removed an object that the backup lacks", &fields);
        return Ok(Arc::clone(api));
    }
    Err("it changes all the time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::preview::preview;
    use crate::request::settings::prepare_preview;
    use crate::stub::{RestoreFixture, Scripted, object};
    use crate::walk::preparation::PreparedRestore;
    use lifeboat_action::RestoreItemOutput;
    use lifeboat_api::ExistingResourcePolicy;
    use serde_json::json;

    #[test]
    fn what_a_backup_left_out_is_not_taken_for_what_it_lacks() {
        let types = [("pods", "Pod"), ("serviceaccounts", "ServiceAccount")]
            .map(|(name, kind)| Arc::new(ApiResource { namespaced: true, ..ApiResource::new("", "v1", name, kind) }));
        let catalog = Catalog::new(types.to_vec(), vec![]);
        let scope = |phase: &str, annotations: Value, spec: Value| {
            let metadata = json!({"name": "b", "annotations": annotations});
            let backup = json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "spec": spec,
                "status": {"phase": phase}});
            let namespaces = ["shop", "lab"].map(str::to_owned).into();
            scope_of(&serde_json::from_value(backup).unwrap(), &namespaces, &catalog)
        };
        // Types, a namespace, and labels that it takes.
        let taken = |spec: Value| {
            let scope = scope("Completed", json!({}), spec).unwrap_or_else(|why| panic!("{why}"));
            let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
            let collected = types.each_ref().map(|api| scope.collects(api).is_ok());
            (collected, scope.takes(Some("shop"), &labels), scope.takes(Some("lab"), &BTreeMap::new()))
        };
        assert_eq!(taken(json!({})), ([true, true], true, true));
        assert_eq!(taken(json!({"includedResources": ["pods"]})), ([true, false], true, true));
        assert_eq!(taken(json!({"includedNamespaces": ["sh*"]})), ([true, true], true, false));
        assert_eq!(taken(json!({"labelSelector": {"matchLabels": {"app": "web"}}})), ([true, true], true, false));
        assert_eq!(taken(json!({"orLabelSelectors": [{"matchLabels": {"app": "db"}}]})), ([true, true], false, false));
        let refused = |phase: &str, annotations: Value, spec: Value| scope(phase, annotations, spec).err();
        let (none, policies) = (json!({}), "its resource policies may have left objects out".to_owned());
        let failed = refused("PartiallyFailed", none.clone(), none.clone());
        assert_eq!(failed, Some("it has objects that it could not save".to_owned()));
        let policy = json!({"resourcePolicy": {"kind": "configmap", "name": "p"}});
        assert_eq!(refused("Completed", none.clone(), policy), Some(policies.clone()));
        assert_eq!(refused("Completed", json!({"lifeboat.io/resource-policies": "file"}), none), Some(policies));
    }

    #[test]
    fn what_others_keep_is_no_extra() {
        let kept = |resource: &str, object: Value| {
            let body = object.to_string();
            let head = Head::parse(body.as_bytes()).unwrap();
            let key = ObjectKey::new(resource.parse().unwrap(), Some("shop"), &*head.name);
            let kind = match &*key.resource.resource {
                "configmaps" => "ConfigMap",
                "services" => "Service",
                "apiservices" => "APIService",
                _ => "Other",
            };
            let api = ApiResource::new(&*key.resource.group, "v1", &*key.resource.resource, kind);
            is_kept_by_others(&api, &key, &head, body.as_bytes())
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
            ("ipaddresses.networking.k8s.io", object("10.0.0.1", json!({})), true),
            ("servicecidrs.networking.k8s.io", object("a", json!({})), false),
            (
                "apiservices.apiregistration.k8s.io",
                object("v1.apps", json!({"labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"}})),
                true,
            ),
            ("apiservices.apiregistration.k8s.io", object("v1.example.com", json!({})), false),
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

    #[tokio::test]
    async fn indirect_owners_of_claims_are_planned_to_stay_and_kept_by_older_plans() {
        let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
        let owned = |kind: &str, name: &str, (api_version, owner, uid): (&str, &str, &str)| {
            let owners = json!([{"apiVersion": api_version, "kind": owner, "name": "x", "uid": uid}]);
            object("v1", kind, name, &json!({"metadata": {"ownerReferences": owners}}))
        };
        let job = |name: &str| object("batch/v1", "Job", name, &json!({}));
        let uid_of = |name: &str| format!("uid-of--apis-batch-v1-namespaces-shop-jobs-{name}");
        let mut ground = RestoreFixture::new(&[job("j")], &action).await;
        ground.put(job("owner"));
        ground.put(job("idle"));
        ground.put(owned("Pod", "p", ("batch/v1", "Job", &uid_of("owner"))));
        ground.put(owned("PersistentVolumeClaim", "c", ("v1", "Pod", "uid-of--api-v1-namespaces-shop-pods-p")));
        let spec = &mut ground.request.restore.spec;
        (spec.existing_resource_policy, spec.prune) = (ExistingResourcePolicy::Exact, true);
        let (sender, mut items) = mpsc::channel(16);
        preview(&ground.request, &ground.env, sender).await.unwrap();
        let mut planned = BTreeMap::new();
        while let Some(item) = items.recv().await {
            planned.insert(item.key.name, (item.planned.word().as_str(), item.warnings));
        }
        let why = "it owns claims, perhaps through others";
        assert_eq!(planned.remove("owner"), Some(("extra", vec![format!("it is not removed: {why}")])));
        assert_eq!(planned.remove("idle"), Some(("remove", vec![])));

        let (request, env) = (&ground.request, &ground.env);
        let prepared = PreparedRestore::begin(request, &prepare_preview(request).unwrap(), env).await.unwrap();
        let scope = prepared.scope;
        let mut removed = Vec::new();
        for name in ["owner", "idle"] {
            let key = ObjectKey::new("jobs.batch".parse().unwrap(), Some("shop"), name);
            removed.push(
                remove(&scope, &(key, PlanGuard::of_extra(&uid_of(name))), env).await.map(|api| api.kind.clone()),
            );
        }
        assert_eq!(removed, [Err(why.to_owned()), Ok("Job".to_owned())]);
        let left = ["owner", "idle"].map(|name| ground.at(&format!("/apis/batch/v1/namespaces/shop/jobs/{name}")));
        assert_eq!(left.map(|object| object.is_some()), [true, false]);
    }
}
