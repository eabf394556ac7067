//! Fetches what belongs to saved objects and did not come with the lists (backup.md 1.10, 1.11, 1.13).
//!
//! The number of requests does not grow with the objects: a few related objects are read one by one, many by a list.

use crate::env::Env;
use crate::parse;
use crate::process::{Entries, Processor};
use crate::relate;
use futures::StreamExt;
use lifeboat_cluster::ListRequest;
use lifeboat_object::{ApiResource, GroupResource, Item, ObjectKey, Severity};
use lifeboat_store::{ReceiverGone, StreamSender};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Up to this many objects of a type and namespace are read one by one.
const ONE_BY_ONE: usize = 32;
/// Reads in flight.
const AT_ONCE: usize = 8;
/// Rounds in which related objects bring further ones; Velero's relations are four deep.
const ROUNDS: usize = 16;

/// Objects that go out together.
struct Output<'a> {
    sender: &'a StreamSender<Entries>,
    env: &'a Env,
}

impl Output<'_> {
    async fn take(&self, processor: &mut Processor, items: Vec<Item>) -> Result<(), ReceiverGone> {
        self.env.progress.found(items.len() as u64);
        processor.tally.came(items.len());
        let entries = items.into_iter().filter_map(|item| processor.take(item, self.env)).collect();
        self.sender.send(Entries { entries, budget: None }).await
    }
}

/// Runs after the lists have ended.
pub(crate) async fn fetch(
    processor: &mut Processor,
    sender: &StreamSender<Entries>,
    env: &Env,
) -> Result<(), ReceiverGone> {
    let out = Output { sender, env };
    for _ in 0..ROUNDS {
        if env.cancel.is_cancelled() {
            return Ok(());
        }
        bindings(processor, &out).await?;
        neighbours(processor, &out).await?;
        let wanted: Vec<ObjectKey> =
            std::mem::take(&mut processor.wanted).into_iter().filter(|key| !processor.has_seen(key)).collect();
        if wanted.is_empty() {
            break;
        }
        objects(wanted, processor, &out).await?;
    }
    definitions(processor, &out).await?;
    namespaces(processor, &out).await
}

/// Cluster role bindings of the saved service accounts, when that type was not listed as a whole.
async fn bindings(processor: &mut Processor, out: &Output<'_>) -> Result<(), ReceiverGone> {
    let scope = Arc::clone(&processor.scope);
    let Some(resource) = scope.find("rbac.authorization.k8s.io", "clusterrolebindings") else { return Ok(()) };
    let accounts = std::mem::take(&mut processor.accounts);
    if accounts.is_empty() {
        return Ok(());
    }
    for binding in &processor.bindings {
        if relate::binds(binding, |ns, name| accounts.contains(&(ns.to_owned(), name.to_owned()))) {
            processor.wanted.extend(relate::of_binding(binding));
        }
    }
    if scope.lists_all_of(resource) || scope.filter.excludes_additional(resource) {
        return Ok(());
    }
    let mut roles = Vec::new();
    let is_ours = |item: &Item| {
        let value = looked_into(item, out.env);
        let ours = relate::binds(&value, |ns, name| accounts.contains(&(ns.to_owned(), name.to_owned())));
        if ours {
            roles.extend(relate::of_binding(&value));
        }
        ours
    };
    let found = pick(resource, None, is_ours, out.env).await.items;
    processor.wanted.extend(roles);
    out.take(processor, found).await
}

/// Running pods that mount a saved claim, and claims of the same group: only with label selectors can the lists have
/// missed them.
async fn neighbours(processor: &mut Processor, out: &Output<'_>) -> Result<(), ReceiverGone> {
    let scope = Arc::clone(&processor.scope);
    let claims = std::mem::take(&mut processor.claims);
    if scope.filter.queries() == [""] || claims.is_empty() {
        return Ok(());
    }
    let mut by_namespace: BTreeMap<String, Vec<relate::Claim>> = BTreeMap::new();
    for claim in claims.into_iter().filter(|c| c.volume.is_some()) {
        by_namespace.entry(claim.namespace.clone()).or_default().push(claim);
    }
    for (namespace, claims) in by_namespace {
        let names: BTreeSet<&str> = claims.iter().map(|c| c.name.as_str()).collect();
        let groups: BTreeSet<&str> = claims.iter().filter_map(|c| c.group.as_deref()).collect();
        if let Some(pods) = scope.find("", "pods").filter(|r| scope.filter.collects(r).is_ok()) {
            let mounts = |item: &Item| {
                let pod = looked_into(item, out.env);
                relate::is_running(&pod) && relate::claims_of_pod(&pod).iter().any(|c| names.contains(c))
            };
            let found = pick(pods, Some(&namespace), mounts, out.env).await.items;
            out.take(processor, found).await?;
        }
        if let Some(resource) = scope.find("", "persistentvolumeclaims").filter(|_| !groups.is_empty()) {
            let label = scope.backup.spec.volume_group_snapshot_label_key.as_str();
            let grouped = |item: &Item| item.head.labels.get(label).is_some_and(|v| groups.contains(v.as_str()));
            let found = pick(resource, Some(&namespace), grouped, out.env).await.items;
            out.take(processor, found).await?;
        }
    }
    Ok(())
}

/// Named objects.
async fn objects(wanted: Vec<ObjectKey>, processor: &mut Processor, out: &Output<'_>) -> Result<(), ReceiverGone> {
    let scope = Arc::clone(&processor.scope);
    let mut places: BTreeMap<(GroupResource, Option<String>), BTreeSet<String>> = BTreeMap::new();
    for key in wanted {
        places.entry((key.resource, key.namespace)).or_default().insert(key.name);
    }
    for ((group_resource, namespace), names) in places {
        let Some(resource) = scope.catalog.find(&group_resource) else { continue };
        if scope.filter.excludes_additional(resource) {
            continue;
        }
        let found = if names.len() > ONE_BY_ONE {
            let found = pick(resource, namespace.as_deref(), |item| names.contains(&item.head.name), out.env).await;
            let got: BTreeSet<&str> = found.items.iter().map(|i| i.head.name.as_str()).collect();
            for missing in names.iter().filter(|n| found.is_whole && !got.contains(n.as_str())) {
                not_found(&ObjectKey::new(group_resource.clone(), namespace.as_deref(), missing.as_str()), out.env);
            }
            found.items
        } else {
            get_all(resource, namespace.as_deref(), &names, out.env).await
        };
        out.take(processor, found).await?;
    }
    Ok(())
}

/// The definitions of the custom resources that were saved (backup.md 1.13).
async fn definitions(processor: &mut Processor, out: &Output<'_>) -> Result<(), ReceiverGone> {
    let scope = Arc::clone(&processor.scope);
    let Some(resource) = scope.find("apiextensions.k8s.io", "customresourcedefinitions") else { return Ok(()) };
    if scope.lists_all_of(resource) || scope.filter.excludes_additional(resource) {
        return Ok(());
    }
    let types = std::mem::take(&mut processor.used_types);
    // Definitions of built-in types do not exist; a name without a dot is one.
    if !types.iter().any(|t| t.contains('.')) {
        return Ok(());
    }
    let found = pick(resource, None, |item| types.contains(&item.head.name), out.env).await.items;
    out.take(processor, found).await
}

/// The namespaces themselves, known since before the lists.
async fn namespaces(processor: &mut Processor, out: &Output<'_>) -> Result<(), ReceiverGone> {
    let scope = Arc::clone(&processor.scope);
    let Some(resource) = scope.find("", "namespaces") else { return Ok(()) };
    if scope.filter.collects(resource).is_err() {
        return Ok(());
    }
    let tracked: Vec<Item> = scope
        .namespaces
        .iter()
        .filter(|n| scope.filter.tracks_namespace(&n.facts, processor.used_namespaces.contains(&n.facts.name)))
        .filter_map(|n| n.item.clone())
        .collect();
    out.take(processor, tracked).await
}

/// What came of a list.
struct Picked {
    items: Vec<Item>,
    /// Whether the list came to its end.
    is_whole: bool,
}

/// Lists a type and keeps what is wanted. A list that fails is an error in the journal.
async fn pick(
    resource: &Arc<ApiResource>,
    namespace: Option<&str>,
    mut wanted: impl FnMut(&Item) -> bool,
    env: &Env,
) -> Picked {
    let request = ListRequest {
        resource: Arc::clone(resource),
        namespace: namespace.map(str::to_owned),
        selector: String::new(),
        metadata_only: false,
    };
    let mut list = env.cluster.list(request);
    let mut items = Vec::new();
    loop {
        match list.next().await {
            Ok(Some(bodies)) => {
                items.extend(parse::items(resource, bodies, &env.journal).into_iter().filter(&mut wanted));
            }
            Ok(None) => return Picked { items, is_whole: true },
            Err(e) => {
                failed(&ObjectKey::new(resource.group_resource(), namespace, ""), &e, env);
                return Picked { items, is_whole: false };
            }
        }
    }
}

/// The object, or an error in the journal: then it is not known whether it belongs to a saved one.
fn looked_into(item: &Item, env: &Env) -> Value {
    serde_json::from_slice(&item.body).inspect_err(|e| failed(&item.key(), e, env)).unwrap_or_default()
}

async fn get_all(
    resource: &Arc<ApiResource>,
    namespace: Option<&str>,
    names: &BTreeSet<String>,
    env: &Env,
) -> Vec<Item> {
    let get = |name: &String| {
        let name = name.clone();
        async move {
            let key = ObjectKey::new(resource.group_resource(), namespace, name.as_str());
            match env.cluster.get(resource, namespace, &name).await {
                Ok(Some(body)) => Item::parse(Arc::clone(resource), body).inspect_err(|e| failed(&key, e, env)).ok(),
                Ok(None) => {
                    not_found(&key, env);
                    None
                }
                Err(e) => {
                    failed(&key, &e, env);
                    None
                }
            }
        }
    };
    futures::stream::iter(names.iter().map(get)).buffer_unordered(AT_ONCE).filter_map(|i| async { i }).collect().await
}

fn not_found(key: &ObjectKey, env: &Env) {
    env.journal.item(Severity::Warning, key, "an object that another one needs was not found", None);
}

fn failed(key: &ObjectKey, error: &dyn std::error::Error, env: &Env) {
    env.journal.item(Severity::Error, key, "Error getting related items", Some(&error.to_string()));
}
