//! Fetches what belongs to saved objects and did not come with the lists (backup.md 1.10, 1.11, 1.13).
//!
//! The number of requests does not grow with the objects: a few related objects are read one by one, many by a list.

use crate::env::Env;
use crate::parse;
use crate::process::{Entries, Processor};
use crate::relate::{self, Binding};
use crate::spool::cost;
use futures::StreamExt;
use lifeboat_cluster::ListRequest;
use lifeboat_object::{ApiResource, GroupResource, Item, ObjectKey, Severity};
use lifeboat_store::{ReceiverGone, StreamSender};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Up to this many objects of a type and namespace are read one by one.
const ONE_BY_ONE: usize = 32;
/// Reads in flight.
const AT_ONCE: usize = 8;
/// Rounds in which related objects bring further ones; Velero's relations are four deep.
const ROUNDS: usize = 16;

/// Bytes of related objects between reading and upload. They have this reserve of their own, so that they never wait for
/// what came with the lists.
const RESERVE: usize = 8 << 20;

/// Sends related objects on as they are read, in batches for which the reserve has room.
struct Output<'a> {
    sender: &'a StreamSender<Entries>,
    env: &'a Env,
    reserve: Arc<Semaphore>,
    /// The largest share of the reserve. As in the spool, there is room for the next objects while a member of the
    /// archive is not full.
    most: usize,
    batch: Vec<Item>,
    /// The memory that the batch takes.
    size: usize,
}

impl<'a> Output<'a> {
    fn new(reserve: usize, sender: &'a StreamSender<Entries>, env: &'a Env) -> Self {
        let most = reserve / 4;
        Self { sender, env, reserve: Arc::new(Semaphore::new(reserve)), most, batch: Vec::new(), size: 0 }
    }

    /// Takes one object; it is sent with others, or by the next [`Output::flush`].
    async fn take(&mut self, processor: &mut Processor, item: Item) -> Result<(), ReceiverGone> {
        let size = cost(item.body.len());
        if self.size + size > self.most {
            self.flush(processor).await?;
        }
        self.size += size;
        self.batch.push(item);
        Ok(())
    }

    /// Sends what was taken, as soon as the reserve has room for it. An object that is larger than the largest share
    /// counts as that.
    async fn flush(&mut self, processor: &mut Processor) -> Result<(), ReceiverGone> {
        let (items, size) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.size));
        if items.is_empty() {
            return Ok(());
        }
        let share = u32::try_from(size.clamp(1, self.most.max(1))).unwrap_or(u32::MAX);
        let budget = Arc::clone(&self.reserve).acquire_many_owned(share).await.map_err(|_| ReceiverGone)?;
        self.env.operation.progress.found(items.len() as u64);
        processor.tally.came(items.len());
        let entries = items.into_iter().filter_map(|item| processor.take(item, self.env)).collect();
        self.sender.send(Entries { entries, budget: Some(budget) }).await
    }
}

/// Runs after the lists have ended.
pub(crate) async fn fetch(
    processor: &mut Processor,
    sender: &StreamSender<Entries>,
    env: &Env,
) -> Result<(), ReceiverGone> {
    let mut out = Output::new(RESERVE, sender, env);
    for _ in 0..ROUNDS {
        if env.operation.cancel.is_cancelled() {
            return Ok(());
        }
        bindings(processor, &mut out).await?;
        neighbours(processor, &mut out).await?;
        let wanted: Vec<ObjectKey> =
            std::mem::take(&mut processor.wanted).into_iter().filter(|key| !processor.has_seen(key)).collect();
        if wanted.is_empty() {
            break;
        }
        objects(wanted, processor, &mut out).await?;
    }
    definitions(processor, &mut out).await?;
    namespaces(processor, &mut out).await
}

/// Cluster role bindings of the saved service accounts, when that type was not listed as a whole.
async fn bindings(processor: &mut Processor, out: &mut Output<'_>) -> Result<(), ReceiverGone> {
    let scope = Arc::clone(&processor.scope);
    let Some(resource) = scope.find("rbac.authorization.k8s.io", "clusterrolebindings") else { return Ok(()) };
    let accounts = std::mem::take(&mut processor.accounts);
    if accounts.is_empty() {
        return Ok(());
    }
    let ours = processor.bindings.extract_if(.., |binding| binding.binds(&accounts));
    processor.wanted.extend(ours.filter_map(|binding| binding.role()));
    if scope.lists_all_of(resource) || scope.filter.excludes_additional(resource) {
        return Ok(());
    }
    let mut roles = BTreeSet::new();
    let env = out.env;
    let is_ours = |item: &Item| {
        let binding = Binding::of(&looked_into(item, env)).filter(|binding| binding.binds(&accounts));
        roles.extend(binding.as_ref().and_then(Binding::role));
        binding.is_some()
    };
    pick(resource, None, is_ours, processor, out).await?;
    processor.wanted.extend(roles);
    Ok(())
}

/// Running pods that mount a saved claim, and claims of the same group: only with label selectors can the lists have
/// missed them.
async fn neighbours(processor: &mut Processor, out: &mut Output<'_>) -> Result<(), ReceiverGone> {
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
            let env = out.env;
            let mounts = |item: &Item| {
                let pod = looked_into(item, env);
                relate::is_running(&pod) && relate::claims_of_pod(&pod).iter().any(|c| names.contains(c))
            };
            pick(pods, Some(&namespace), mounts, processor, out).await?;
        }
        if let Some(resource) = scope.find("", "persistentvolumeclaims").filter(|_| !groups.is_empty()) {
            let label = scope.backup.spec.volume_group_snapshot_label_key.as_str();
            let grouped = |item: &Item| item.head.labels.get(label).is_some_and(|v| groups.contains(v.as_str()));
            pick(resource, Some(&namespace), grouped, processor, out).await?;
        }
    }
    Ok(())
}

/// Named objects.
async fn objects(wanted: Vec<ObjectKey>, processor: &mut Processor, out: &mut Output<'_>) -> Result<(), ReceiverGone> {
    let scope = Arc::clone(&processor.scope);
    let mut places: BTreeMap<(GroupResource, Option<String>), BTreeSet<String>> = BTreeMap::new();
    for key in wanted {
        places.entry((key.resource, key.namespace)).or_default().insert(key.name);
    }
    for ((group_resource, namespace), mut names) in places {
        let Some(resource) = scope.catalog.find(&group_resource) else { continue };
        if scope.filter.excludes_additional(resource) {
            continue;
        }
        let namespace = namespace.as_deref();
        if names.len() > ONE_BY_ONE {
            // A list that was interrupted may bring one twice: the second is none of those that are missing.
            let is_named = |item: &Item| names.remove(&item.head.name);
            let is_whole = pick(resource, namespace, is_named, processor, out).await?;
            for missing in names.iter().filter(|_| is_whole) {
                not_found(&ObjectKey::new(group_resource.clone(), namespace, missing.as_str()), out.env);
            }
        } else {
            get_all(resource, namespace, &names, processor, out).await?;
        }
    }
    Ok(())
}

/// The definitions of the custom resources that were saved (backup.md 1.13).
async fn definitions(processor: &mut Processor, out: &mut Output<'_>) -> Result<(), ReceiverGone> {
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
    pick(resource, None, |item| types.contains(&item.head.name), processor, out).await.map(drop)
}

/// The namespaces themselves, known since before the lists.
async fn namespaces(processor: &mut Processor, out: &mut Output<'_>) -> Result<(), ReceiverGone> {
    let scope = Arc::clone(&processor.scope);
    let Some(resource) = scope.find("", "namespaces") else { return Ok(()) };
    if scope.filter.collects(resource).is_err() {
        return Ok(());
    }
    // Which of them hold something is known by now: a namespace itself changes nothing about it.
    let used = std::mem::take(&mut processor.used_namespaces);
    let tracked =
        scope.namespaces.iter().filter(|n| scope.filter.tracks_namespace(&n.facts, used.contains(&n.facts.name)));
    for item in tracked.filter_map(|n| n.item.clone()) {
        out.take(processor, item).await?;
    }
    out.flush(processor).await
}

/// Lists a type and sends on what is wanted, as it arrives. A list that fails is an error in the journal. Says whether the
/// list came to its end.
async fn pick(
    resource: &Arc<ApiResource>,
    namespace: Option<&str>,
    mut wanted: impl FnMut(&Item) -> bool,
    processor: &mut Processor,
    out: &mut Output<'_>,
) -> Result<bool, ReceiverGone> {
    let request = ListRequest {
        resource: Arc::clone(resource),
        namespace: namespace.map(str::to_owned),
        selector: String::new(),
        metadata_only: false,
    };
    let env = out.env;
    let mut list = env.cluster.list(request);
    let is_whole = loop {
        match list.next().await {
            Ok(Some(bodies)) => {
                for item in parse::items(resource, bodies, &env.operation.journal).into_iter().filter(&mut wanted) {
                    out.take(processor, item).await?;
                }
            }
            Ok(None) => break true,
            Err(e) => {
                failed(&ObjectKey::new(resource.group_resource(), namespace, ""), &e, env);
                break false;
            }
        }
    };
    out.flush(processor).await?;
    Ok(is_whole)
}

/// The object, or an error in the journal: then it is not known whether it belongs to a saved one.
fn looked_into(item: &Item, env: &Env) -> Value {
    serde_json::from_slice(&item.body).inspect_err(|e| failed(&item.key(), e, env)).unwrap_or_default()
}

/// Reads objects one by one, some at once, and sends them on as they arrive.
async fn get_all(
    resource: &Arc<ApiResource>,
    namespace: Option<&str>,
    names: &BTreeSet<String>,
    processor: &mut Processor,
    out: &mut Output<'_>,
) -> Result<(), ReceiverGone> {
    let env = out.env;
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
    let mut found = futures::stream::iter(names.iter().map(get)).buffer_unordered(AT_ONCE);
    while let Some(item) = found.next().await {
        if let Some(item) = item {
            out.take(processor, item).await?;
        }
    }
    out.flush(processor).await
}

fn not_found(key: &ObjectKey, env: &Env) {
    env.operation.journal.item(Severity::Warning, key, "an object that another one needs was not found", None);
}

fn failed(key: &ObjectKey, error: &dyn std::error::Error, env: &Env) {
    env.operation.journal.item(Severity::Error, key, "Error getting related items", Some(&error.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::test_env;
    use crate::process::test_scope;
    use crate::tally::Tally;
    use lifeboat_store::stream;
    use std::task::Poll;
    use tokio::task::unconstrained;

    const LITTLE: usize = 64 << 10;

    fn binding(number: usize, size: usize) -> Item {
        let resource = ApiResource::new("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding");
        let body = format!(
            r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{{"name":"b{number}","annotations":{{"a":"{}"}}}},"roleRef":{{"name":"r"}},"subjects":[{{"kind":"ServiceAccount","namespace":"a","name":"s{number}"}}]}}"#,
            "x".repeat(size)
        );
        Item::parse(Arc::new(resource), body.into()).unwrap()
    }

    #[tokio::test]
    async fn related_objects_take_no_more_memory_than_their_reserve() {
        let env = test_env().await;
        let tally = Arc::new(Tally::default());
        let mut processor = Processor::new(test_scope(), Arc::clone(&tally));
        // The stream alone would hold all of them.
        let (sender, mut entries) = stream(10_000, "fetching related objects");
        let sizes = (0..1000).map(|n| if n % 100 == 0 { 2 * LITTLE } else { 100 + n });
        let send = unconstrained(async {
            let mut out = Output::new(LITTLE, &sender, &env);
            for (number, size) in sizes.clone().enumerate() {
                out.take(&mut processor, binding(number, size)).await.unwrap();
            }
            out.flush(&mut processor).await.unwrap();
        });
        let mut send = Box::pin(send);
        let (mut held, mut shares, mut came, mut waited) = (Vec::new(), 0, 0, 0);
        loop {
            let is_over = matches!(futures::poll!(&mut send), Poll::Ready(()));
            while let Poll::Ready(batch) = futures::poll!(Box::pin(unconstrained(entries.next()))) {
                let Entries { entries: batch, budget } = batch.unwrap().unwrap();
                let budget = budget.unwrap();
                let bytes: usize = batch.iter().map(|entry| entry.body.len()).sum();
                assert!(bytes <= LITTLE / 4 || batch.len() == 1, "{bytes} bytes in one batch");
                shares += budget.num_permits();
                came += batch.len();
                held.push(budget);
            }
            assert!(shares <= LITTLE, "{shares} of {LITTLE} bytes are on their way");
            if is_over {
                break;
            }
            waited += 1;
            // They are written.
            held.clear();
            shares = 0;
        }
        drop(send);
        assert_eq!(came, 1000);
        assert!(waited > 10, "it went on without waiting for the upload");
        assert_eq!(processor.bindings.len(), 1000);
    }
}
