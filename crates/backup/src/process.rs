//! Decides about each object and gives it the form it has in the archive.
//!
//! Two lanes: an object whose type nothing looks into goes through as bytes; pods, claims, volumes, service accounts
//! and cluster role bindings are parsed, because other objects belong to them. What belongs to a saved object and did
//! not come with the lists is fetched by the stage `related` afterwards and goes through here again.

use crate::env::Env;
use crate::relate::{self, Binding, Claim};
use crate::related;
use crate::scope::Scope;
use crate::spool::Batch;
use crate::stopped::Stopped;
use crate::tally::Tally;
use crate::volumes::{VolumeFacts, Volumes};
use bytes::Bytes;
use lifeboat_object::{
    ApiResource, GroupResource, Item, ObjectKey, RESTORABLE, Severity, Spliced, is_too_deep, splice_type,
};
use lifeboat_store::{StreamReceiver, StreamSender, stream};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinSet;

/// What the results say of an object that failed.
const FAILED: &str = "Error backing up item";
/// Batches waiting between processing and writing.
const WAITING: usize = 8;

/// An object in the form it is written in.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) body: Spliced,
}

/// Objects to be written together, and their share of the memory budget, or of the reserve for related objects.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) entries: Vec<Entry>,
    pub(crate) budget: Option<OwnedSemaphorePermit>,
}

/// Starts the stage as a task of the operation. When the stream of objects ends, the second receiver gives what was
/// learned of the objects.
pub(crate) fn process(
    batches: StreamReceiver<Batch>,
    scope: Arc<Scope>,
    env: &Env,
    tally: &Arc<Tally>,
    tasks: &mut JoinSet<()>,
) -> (StreamReceiver<Entries>, oneshot::Receiver<Learned>) {
    let (sender, entries) = stream(WAITING, "processing objects");
    let (learned_sender, learned) = oneshot::channel();
    let (env, processor) = (env.clone(), Processor::new(scope, Arc::clone(tally)));
    tasks.spawn(async move {
        match take_all(batches, processor, &sender, &env).await {
            Ok(learned) => {
                // The other side may be gone after a failed upload.
                let _ = learned_sender.send(learned);
                sender.end();
            }
            Err(Stopped::Broken(broken)) => sender.fail(broken),
            Err(Stopped::Over) => {}
        }
    });
    (entries, learned)
}

async fn take_all(
    mut batches: StreamReceiver<Batch>,
    mut processor: Processor,
    sender: &StreamSender<Entries>,
    env: &Env,
) -> Result<Learned, Stopped> {
    while let Some(batch) = batches.next().await? {
        if env.operation.cancel.is_cancelled() {
            return Err(Stopped::Over);
        }
        let entries = batch.items.into_iter().filter_map(|item| processor.take(item, env)).collect();
        sender.send(Entries { entries, budget: Some(batch.budget) }).await?;
    }
    let related = sender.another("fetching related objects");
    related::fetch(&mut processor, &related, env).await?;
    related.end();
    processor.check_ordered(env);
    Ok(Learned { volumes: processor.volumes, left_out: processor.left_out })
}

/// What is known when all objects went through.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) volumes: Volumes,
    /// How many objects of each type were listed and left out, by reason.
    pub(crate) left_out: BTreeMap<(GroupResource, &'static str), u64>,
}

/// The stage's memory: what was seen, and what still belongs to it.
pub(crate) struct Processor {
    pub(crate) scope: Arc<Scope>,
    /// Objects that went through, by digest: a list that was interrupted may bring one twice.
    seen: HashSet<[u8; 16]>,
    /// Then nobody has to look for the roles of bindings.
    lists_all_roles: bool,
    pub(crate) volumes: Volumes,
    left_out: BTreeMap<(GroupResource, &'static str), u64>,
    pub(crate) tally: Arc<Tally>,
    /// Objects that belong to saved ones.
    pub(crate) wanted: BTreeSet<ObjectKey>,
    /// Service accounts that were saved.
    pub(crate) accounts: HashSet<[u8; 16]>,
    /// Cluster role bindings that were saved and whose roles nobody asked for yet; some may be of those accounts.
    pub(crate) bindings: Vec<Binding>,
    /// Claims that were saved.
    pub(crate) claims: Vec<Claim>,
    /// Namespaces that hold a saved object.
    pub(crate) used_namespaces: HashSet<String>,
    /// Types of which something was saved.
    pub(crate) used_types: BTreeSet<String>,
    /// The type of the last object, which is in that set.
    last_type: Option<Arc<ApiResource>>,
}

impl Processor {
    pub(crate) fn new(scope: Arc<Scope>, tally: Arc<Tally>) -> Self {
        let roles = scope.find("rbac.authorization.k8s.io", "clusterroles");
        let lists_all_roles = roles.is_some_and(|r| scope.lists_all_of(r));
        Self {
            scope,
            seen: HashSet::new(),
            lists_all_roles,
            volumes: Volumes::default(),
            left_out: BTreeMap::new(),
            tally,
            wanted: BTreeSet::new(),
            accounts: HashSet::new(),
            bindings: Vec::new(),
            claims: Vec::new(),
            used_namespaces: HashSet::new(),
            used_types: BTreeSet::new(),
            last_type: None,
        }
    }

    /// Whether the object went through already.
    pub(crate) fn has_seen(&self, key: &ObjectKey) -> bool {
        self.seen.contains(&key.digest())
    }

    /// The entry to write for an object; `None` when it is out of scope, was saved before, or is an error in the journal.
    pub(crate) fn take(&mut self, item: Item, env: &Env) -> Option<Entry> {
        let entry = self.entry(item, env);
        if entry.is_none() {
            self.tally.settled(1);
        }
        entry
    }

    fn entry(&mut self, item: Item, env: &Env) -> Option<Entry> {
        let head = &item.head;
        let included =
            self.scope.filter.includes_item(&item.resource, head.namespace.as_deref(), &head.labels, head.deleting);
        if let Err(reason) = included {
            *self.left_out.entry((item.resource.group_resource(), reason)).or_default() += 1;
            return None;
        }
        if !self.seen.insert(item.digest()) {
            return None;
        }
        if let Some(namespace) = &head.namespace
            && !self.used_namespaces.contains(namespace)
        {
            self.used_namespaces.insert(namespace.clone());
        }
        if !self.last_type.as_ref().is_some_and(|last| Arc::ptr_eq(last, &item.resource)) {
            self.used_types.insert(item.resource.group_resource().to_string());
            self.last_type = Some(Arc::clone(&item.resource));
        }
        if is_too_deep(&item.body) {
            let error = format!("it is saved, but it cannot be restored: it is nested deeper than {RESTORABLE} levels");
            env.operation.journal.item(Severity::Error, &item.key(), FAILED, Some(&error));
            let body = splice_type(&item);
            return Some(Entry { resource: item.resource, namespace: item.head.namespace, name: item.head.name, body });
        }
        let body = match (item.resource.group.as_str(), item.resource.resource.as_str()) {
            ("", "pods" | "persistentvolumeclaims" | "persistentvolumes" | "serviceaccounts")
            | ("rbac.authorization.k8s.io", "clusterrolebindings") => self.action_lane(&item, env)?,
            _ => splice_type(&item),
        };
        Some(Entry { resource: item.resource, namespace: item.head.namespace, name: item.head.name, body })
    }

    /// The lane of types that are looked into. The bytes stay as they are unless something is changed.
    fn action_lane(&mut self, item: &Item, env: &Env) -> Option<Spliced> {
        let mut object: Value = match serde_json::from_slice(&item.body) {
            Ok(object) => object,
            Err(e) => {
                env.operation.journal.item(Severity::Error, &item.key(), FAILED, Some(&e.to_string()));
                return None;
            }
        };
        let namespace = item.head.namespace.as_deref().unwrap_or_default();
        let name = item.head.name.as_str();
        match item.resource.resource.as_str() {
            "pods" => {
                for (claim, asks) in relate::mounts_of_pod(&object) {
                    self.volumes.mounted(namespace, claim, name, asks);
                }
                self.wanted.extend(relate::of_pod(namespace, &object));
            }
            "persistentvolumeclaims" => {
                let label = &self.scope.backup.spec.volume_group_snapshot_label_key;
                let claim = relate::claim(namespace, name, &object, label);
                self.wanted.extend(relate::of_claim(&claim));
                self.volumes.claim(&claim);
                let bound = claim.volume.is_some();
                self.claims.push(claim);
                if bound {
                    relate::clean_claim(&mut object, &self.scope.backup.metadata.name);
                    return Some(with_type(item, object).into());
                }
            }
            "persistentvolumes" => self.volumes.volume(name, VolumeFacts::of(&object)),
            "serviceaccounts" => {
                self.accounts.insert(relate::account(namespace, name));
            }
            _ if !self.lists_all_roles => self.bindings.extend(Binding::of(&object)),
            _ => {}
        }
        Some(splice_type(item))
    }

    /// Objects named in `orderedResources` that are not there. Their order itself has no effect on an archive in which
    /// nothing reads an order.
    fn check_ordered(&self, env: &Env) {
        for resource in self.scope.catalog.preferred() {
            for name in self.scope.filter.ordered(resource).unwrap_or_default() {
                let (namespace, plain) = match name.split_once('/') {
                    Some((namespace, plain)) => (Some(namespace), plain),
                    None => (None, name.as_str()),
                };
                let key = ObjectKey::new(resource.group_resource(), namespace, plain);
                if self.scope.filter.collects(resource).is_ok() && !self.has_seen(&key) {
                    env.operation.journal.item(
                        Severity::Warning,
                        &key,
                        "an object named in the ordered resources is not in the backup",
                        None,
                    );
                }
            }
        }
    }
}

/// The bytes of an object that was changed, with its type.
fn with_type(item: &Item, mut object: Value) -> Bytes {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), item.resource.api_version().into());
        map.insert("kind".to_owned(), item.resource.kind.clone().into());
    }
    object.to_string().into()
}

/// A cluster of one namespace.
#[cfg(test)]
pub(crate) fn test_scope() -> Arc<Scope> {
    use crate::scope::Namespace;
    use lifeboat_api::Backup;
    use lifeboat_object::Catalog;
    use lifeboat_select::{BackupFilter, NamespaceFacts};
    let resource = Arc::new(ApiResource::new("", "v1", "namespaces", "Namespace"));
    let item = Item::parse(Arc::clone(&resource), r#"{"metadata":{"name":"a"}}"#.into()).unwrap();
    let facts = NamespaceFacts { name: "a".into(), labels: BTreeMap::new(), active: true };
    let (backup, catalog) = (Backup::default(), Catalog::new(vec![resource], Vec::new()));
    let filter = BackupFilter::new(&backup.spec, &catalog, std::slice::from_ref(&facts)).unwrap();
    Arc::new(Scope { backup, catalog, filter, namespaces: vec![Namespace { facts, item: Some(item) }] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::test_env;
    use lifeboat_object::{Place, Results};
    use lifeboat_store::Broken;
    use proptest::prelude::*;
    use std::task::Poll;

    #[tokio::test]
    async fn a_stage_that_died_before_it_is_named() {
        let env = test_env().await;
        let (sender, batches) = stream(4, "listing objects");
        let mut tasks = JoinSet::new();
        let (mut entries, learned) = process(batches, test_scope(), &env, &Arc::default(), &mut tasks);
        drop(sender);
        assert_eq!(entries.next().await.map(|e| e.is_none()), Err(Broken("listing objects")));
        assert!(learned.await.is_err());
    }

    #[tokio::test]
    async fn the_processing_that_died_is_no_end_of_the_objects() {
        let env = test_env().await;
        let (_sender, batches) = stream(4, "listing objects");
        let mut tasks = JoinSet::new();
        let (mut entries, learned) = process(batches, test_scope(), &env, &Arc::default(), &mut tasks);
        tasks.shutdown().await;
        assert_eq!(entries.next().await.map(|e| e.is_none()), Err(Broken("processing objects")));
        assert!(learned.await.is_err());
    }

    #[tokio::test]
    async fn the_fetching_of_related_objects_that_died_is_no_end_of_the_objects() {
        let env = test_env().await;
        for dies in [true, false] {
            let (lists, batches) = stream(4, "listing objects");
            lists.end();
            let (sender, mut entries) = stream(1, "processing objects");
            // There is no room for the namespace, so it stops there.
            sender.send(Entries { entries: Vec::new(), budget: None }).await.unwrap();
            let mut run = Box::pin(take_all(batches, Processor::new(test_scope(), Arc::default()), &sender, &env));
            assert!(matches!(futures::poll!(&mut run), Poll::Pending));
            assert_eq!(entries.next().await.map(|e| e.map(|e| e.entries.len())), Ok(Some(0)));
            if !dies {
                run.await.unwrap();
                assert_eq!(entries.next().await.map(|e| e.map(|e| e.entries.len())), Ok(Some(1)));
            } else {
                drop(run);
            }
            sender.end();
            let expected = if dies { Err(Broken("fetching related objects")) } else { Ok(true) };
            assert_eq!(entries.next().await.map(|e| e.is_none()), expected);
        }
    }

    #[tokio::test]
    async fn what_is_nested_too_deeply_is_saved_and_told() {
        let env = test_env().await;
        let mut processor = Processor::new(test_scope(), Arc::default());
        let mut expected = Results::default();
        for (resource, kind, levels) in
            [("configmaps", "ConfigMap", 127), ("configmaps", "ConfigMap", 128), ("pods", "Pod", 128)]
        {
            let name = format!("{resource}-{levels}");
            // The object itself is a level.
            let deep = format!("{}1{}", "[".repeat(levels - 1), "]".repeat(levels - 1));
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"{name}","namespace":"a"}},"data":{deep}}}"#
            );
            let item = Item::parse(Arc::new(ApiResource::new("", "v1", resource, kind)), body.clone().into()).unwrap();
            let entry = processor.take(item, &env).unwrap();
            assert_eq!((entry.name.as_str(), entry.body.to_bytes()), (name.as_str(), body.into()));
            if levels > 127 {
                let text = format!(
                    " resource: /{resource} name: /{name} message: /Error backing up item error: /it is saved, but it \
                     cannot be restored: it is nested deeper than 127 levels"
                );
                expected.add(Severity::Error, &Place::of(Some("a")), text);
            }
        }
        assert_eq!(env.operation.journal.close().results, expected);
    }

    /// Numbers in every notation that JSON has, as text.
    fn number() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<i64>().prop_map(|n| n.to_string()),
            any::<u64>().prop_map(|n| n.to_string()),
            "-?[1-9][0-9]{18,60}",
            "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,30}",
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?[eE][+-]?[0-9]{1,4}",
            Just("-0".to_owned()),
        ]
    }

    /// JSON as text, which says more of a number than a value does.
    fn json() -> impl Strategy<Value = String> {
        let text = any::<String>().prop_map(|text| Value::from(text).to_string());
        let leaf = prop_oneof![number(), text, Just("true".to_owned()), Just("null".to_owned())];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let members = proptest::collection::btree_map("[a-zA-Z./]{1,8}", inner.clone(), 0..6);
            prop_oneof![
                proptest::collection::vec(inner, 0..6).prop_map(|items| format!("[{}]", items.join(", "))),
                members.prop_map(|members| {
                    let members: Vec<String> =
                        members.iter().map(|(key, value)| format!("\"{key}\" : {value}")).collect();
                    format!("{{ {} }}", members.join(","))
                }),
            ]
        })
    }

    /// What the head of an object may have of its type.
    fn of_its_type() -> impl Strategy<Value = &'static str> {
        prop_oneof![
            Just(""),
            Just(r#""apiVersion":"v1","kind":"PersistentVolumeClaim","#),
            Just(r#""kind":"PersistentVolumeClaim","#),
            Just(r#""apiVersion":"","kind":"","#),
        ]
    }

    proptest! {
        #[test]
        fn both_lanes_give_the_same_json(of_its_type in of_its_type(), spec in json(), status in json()) {
            let body = format!(r#"{{{of_its_type}"metadata":{{"name":"a","namespace":"n"}},"spec":{spec},"status":{status}}}"#);
            let resource = ApiResource::new("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
            let item = Item::parse(Arc::new(resource), body.into()).unwrap();
            let parsed: Value = serde_json::from_slice(&item.body).unwrap();
            let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
            // Numbers are compared as they are written.
            prop_assert_eq!(read(&splice_type(&item).to_bytes()), read(&with_type(&item, parsed)));
        }
    }
}
