//! Decides about each object and gives it the form it has in the archive.
//!
//! Two lanes: an object whose type nothing looks into goes through as bytes; pods, claims, volumes, service accounts
//! and cluster role bindings are parsed, because other objects belong to them. What belongs to a saved object and did
//! not come with the lists is fetched by the stage `related` afterwards and goes through here again.

use crate::env::Env;
use crate::relate::{self, Claim};
use crate::related;
use crate::scope::Scope;
use crate::spool::Batch;
use crate::volumes::{VolumeFacts, Volumes};
use bytes::Bytes;
use lifeboat_object::{ApiResource, GroupResource, Item, ObjectKey, Severity, Spliced, splice_type};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;

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

/// Objects to be written together, and their share of the memory budget; related objects are few at a time and have
/// none.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) entries: Vec<Entry>,
    pub(crate) budget: Option<OwnedSemaphorePermit>,
}

/// Starts the stage as a task of the operation. When the stream of objects ends, the second receiver gives what was
/// learned of the objects.
pub(crate) fn process(
    mut batches: mpsc::Receiver<Batch>,
    scope: Arc<Scope>,
    env: &Env,
    tasks: &mut JoinSet<()>,
) -> (mpsc::Receiver<Entries>, oneshot::Receiver<Learned>) {
    let (sender, entries) = mpsc::channel(WAITING);
    let (learned_sender, learned) = oneshot::channel();
    let env = env.clone();
    tasks.spawn(async move {
        let mut processor = Processor::new(Arc::clone(&scope));
        while let Some(batch) = batches.recv().await {
            if env.cancel.is_cancelled() {
                return;
            }
            let entries = batch.items.into_iter().filter_map(|item| processor.take(item, &env)).collect();
            if sender.send(Entries { entries, budget: Some(batch.budget) }).await.is_err() {
                return;
            }
        }
        if related::fetch(&mut processor, &sender, &env).await.is_err() {
            return;
        }
        processor.check_ordered(&env);
        // The other side may be gone after a failed upload.
        let _ = learned_sender.send(Learned { volumes: processor.volumes, left_out: processor.left_out });
    });
    (entries, learned)
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
    /// Objects that belong to saved ones.
    pub(crate) wanted: BTreeSet<ObjectKey>,
    /// Service accounts that were saved, by namespace and name.
    pub(crate) accounts: HashSet<(String, String)>,
    /// Cluster role bindings that came with the lists; some may be of those accounts.
    pub(crate) bindings: Vec<Value>,
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
    fn new(scope: Arc<Scope>) -> Self {
        let roles = scope.find("rbac.authorization.k8s.io", "clusterroles");
        let lists_all_roles = roles.is_some_and(|r| scope.lists_all_of(r));
        Self {
            scope,
            seen: HashSet::new(),
            lists_all_roles,
            volumes: Volumes::default(),
            left_out: BTreeMap::new(),
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

    /// The entry to write for an object; `None` when it is out of scope or was saved before.
    pub(crate) fn take(&mut self, item: Item, env: &Env) -> Option<Entry> {
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
                env.journal.item(Severity::Error, &item.key(), "Error backing up item", Some(&e.to_string()));
                return None;
            }
        };
        let namespace = item.head.namespace.as_deref().unwrap_or_default();
        let name = item.head.name.as_str();
        match item.resource.resource.as_str() {
            "pods" => {
                for claim in relate::claims_of_pod(&object) {
                    self.volumes.mounted(namespace, claim, name);
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
                    return Some(self.with_type(item, object).into());
                }
            }
            "persistentvolumes" => self.volumes.volume(name, VolumeFacts::of(&object)),
            "serviceaccounts" => {
                self.accounts.insert((namespace.to_owned(), name.to_owned()));
            }
            _ if !self.lists_all_roles => self.bindings.push(object.clone()),
            _ => {}
        }
        Some(splice_type(item))
    }

    fn with_type(&self, item: &Item, mut object: Value) -> Bytes {
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), item.resource.api_version().into());
            map.insert("kind".to_owned(), item.resource.kind.clone().into());
        }
        object.to_string().into()
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
                    env.journal.item(
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
