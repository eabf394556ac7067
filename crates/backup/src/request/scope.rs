//! State that the stages of one backup share and never change: the catalog, the filter, the backup itself.

use crate::collect::parse;
use crate::collect::terminating::TerminatingObjects;
use crate::env::Env;
use crate::error::BackupError;
use crate::hook::Commands;
use crate::request::lane::Lane;
use crate::volumes::outcomes::VolumeRules;
use lifeboat_api::Backup;
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_hook::BackupHooks;
use lifeboat_object::{ApiResource, Catalog, GroupResource, Item, ResultScope};
use lifeboat_select::{BackupFilter, NamespaceFacts, ObjectFacts, is_kept_out};
use lifeboat_volume::csi::{is_group_of_backup, is_snapshot_of_backup};
use lifeboat_volume::fs_backup::FileBackups;
use lifeboat_volume::native::NativeSnapshots;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The scope of one backup.
pub(crate) struct Scope {
    pub(crate) backup: Backup,
    pub(crate) catalog: Catalog,
    pub(crate) filter: BackupFilter,
    /// All namespaces of the cluster, or those that we may read.
    pub(crate) namespaces: Vec<Namespace>,
    /// The lane of objects that actions look at.
    pub(crate) lane: Lane,
    pub(crate) volumes: VolumeScope,
    pub(crate) hooks: HookScope,
    /// Objects that are not in it because they were being deleted.
    pub(crate) terminating: TerminatingObjects,
}

/// The rules for volumes, and the savers of their data. That of CSI snapshots is in the lane, whose actions name them.
#[derive(Default)]
pub(crate) struct VolumeScope {
    /// The rules that decide about volumes.
    pub(crate) rules: VolumeRules,
    /// Takes native snapshots; `None` where none are taken.
    pub(crate) native: Option<NativeSnapshots>,
    /// Saves the files of volumes; `None` where no node agent is there, or nothing is saved.
    pub(crate) files: Option<FileBackups>,
}

/// The commands around the backup of pods.
#[derive(Default)]
pub(crate) struct HookScope {
    /// The commands that are due in a pod.
    pub(crate) rules: BackupHooks,
    /// Runs these; `None` when they are not to be run, as in a preview.
    pub(crate) commands: Option<Commands>,
}

/// A namespace, with the facts that filters ask for.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    pub(crate) facts: NamespaceFacts,
    /// `None` for one that is named in the backup and that we may not read.
    pub(crate) item: Option<Item>,
}

impl Scope {
    /// Namespaces that their label keeps out, without those that the user excludes anyway.
    pub(crate) fn kept_out(&self) -> Vec<String> {
        let names = self.namespaces.iter().filter(|n| is_kept_out(&n.facts.labels)).map(|n| n.facts.name.clone());
        names.filter(|name| !self.backup.spec.excluded_namespaces.contains(name)).collect()
    }

    /// Checks that an object from a list is one of those that were asked for; the error says why not.
    pub(crate) fn includes_listed(&self, item: &Item) -> Result<(), &'static str> {
        self.filter.includes_listed(facts(item))
    }

    /// Checks that an object goes into the backup; the error says why not. An object that an action must have goes in
    /// whatever the filters say, unless it is being deleted (velero: pkg/backup/item_backupper.go) or is there only
    /// because of this backup.
    pub(crate) fn includes(&self, item: &Item, must_include: bool) -> Result<(), &'static str> {
        let (head, uid) = (&item.head, &self.backup.metadata.uid);
        // An attempt before has left them. A VolumeSnapshot comes with the claim whose data it has, as it is then.
        if is_group_of_backup(uid, item) || (!must_include && is_snapshot_of_backup(uid, item)) {
            return Err("taken for this backup");
        }
        if must_include && !head.deleting {
            return Ok(());
        }
        let included = self.filter.includes_item(facts(item), head.deleting);
        if included.is_err() && head.deleting && self.filter.includes_item(facts(item), false).is_ok() {
            self.terminating.note(item);
        }
        included
    }

    /// Returns true if an object of this type and place can go into the backup at all, so that it is worth reading.
    pub(crate) fn can_include(&self, resource: &ApiResource, namespace: Option<&str>) -> bool {
        !self.filter.excludes_additional(resource)
            && self
                .filter
                .includes_item(ObjectFacts { resource, namespace, name: None, labels: &BTreeMap::new() }, false)
                .is_ok()
    }

    pub(crate) fn find(&self, group: &str, resource: &str) -> Option<&Arc<ApiResource>> {
        self.catalog.find(&GroupResource::new(group, resource))
    }
}

/// The facts about an object that the filter reads.
fn facts(item: &Item) -> ObjectFacts<'_> {
    let head = &item.head;
    let (namespace, name) = (head.namespace.as_deref(), Some(head.name.as_str()));
    ObjectFacts { resource: &item.resource, namespace, name, labels: &head.labels }
}

/// Reads the namespaces of the cluster. A user who may not list them can still back up those that the backup names.
pub(crate) async fn read_namespaces(
    backup: &Backup,
    catalog: &Catalog,
    env: &Env,
) -> Result<Vec<Namespace>, BackupError> {
    let resource = catalog
        .find(&GroupResource::namespaces())
        .ok_or_else(|| BackupError::NoNamespaces(env.cluster.url().to_owned()))?;
    match list(resource, env).await {
        Ok(namespaces) => Ok(namespaces),
        Err(e) if e.is_denied() => {
            let names = &backup.spec.included_namespaces;
            if names.is_empty() || names.iter().any(|n| lifeboat_select::has_wildcard(n)) {
                return Err(e.into());
            }
            let mut out = Vec::new();
            for name in names {
                out.extend(read_namespace(resource, name, env).await?);
            }
            Ok(out)
        }
        Err(e) => Err(e.into()),
    }
}

/// Reads one namespace; `None` when there is none of the name.
async fn read_namespace(resource: &Arc<ApiResource>, name: &str, env: &Env) -> Result<Option<Namespace>, BackupError> {
    match env.cluster.get(resource, None, name).await {
        Ok(body) => {
            let found = parse::items(resource, body.into_iter().collect(), &env.operation.journal);
            Ok(found.into_iter().next().map(namespace))
        }
        Err(e) if e.is_denied() => {
            let message = format!(
                "the Namespace {name} itself is not in the backup, only what is in it: {e}; a restore makes it without its \
                 labels and annotations"
            );
            env.operation.journal.warn(&ResultScope::Namespace(name.to_owned()), message);
            let facts = NamespaceFacts { name: name.to_owned(), labels: BTreeMap::new(), active: true };
            Ok(Some(Namespace { facts, item: None }))
        }
        Err(e) => Err(e.into()),
    }
}

async fn list(resource: &Arc<ApiResource>, env: &Env) -> Result<Vec<Namespace>, ClusterError> {
    let mut list = env.cluster.list(ListRequest::all(Arc::clone(resource)));
    let mut out: Vec<Namespace> = Vec::new();
    while let Some(bodies) = list.next().await? {
        out.extend(parse::items(resource, bodies, &env.operation.journal).into_iter().map(namespace));
    }
    // A list that was interrupted may bring one twice.
    out.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
    out.dedup_by(|a, b| a.facts.name == b.facts.name);
    Ok(out)
}

fn namespace(item: Item) -> Namespace {
    let value: Value = serde_json::from_slice(&item.body).unwrap_or_default();
    let active = value["status"]["phase"].as_str().is_none_or(|p| p == "Active");
    let facts = NamespaceFacts { name: item.head.name.clone(), labels: item.head.labels.clone(), active };
    Namespace { facts, item: Some(item) }
}

/// A cluster of one namespace, which serves these types too.
#[cfg(test)]
pub(crate) fn test_scope(more: Vec<ApiResource>, actions: &lifeboat_action::Actions) -> Arc<Scope> {
    let resource = Arc::new(ApiResource::namespaces());
    let item = Item::parse(Arc::clone(&resource), r#"{"metadata":{"name":"a"}}"#.into()).unwrap();
    let facts = NamespaceFacts { name: "a".into(), labels: BTreeMap::new(), active: true };
    let served = std::iter::once(resource).chain(more.into_iter().map(Arc::new)).collect();
    let (backup, catalog) = (Backup::default(), Catalog::new(served, Vec::new()));
    let filter = BackupFilter::new(&backup.spec, None, &catalog, std::slice::from_ref(&facts)).unwrap();
    let lane = Lane::new(&catalog, actions, None).unwrap();
    Arc::new(Scope {
        backup,
        catalog,
        filter,
        namespaces: vec![Namespace { facts, item: Some(item) }],
        lane,
        volumes: VolumeScope::default(),
        hooks: HookScope::default(),
        terminating: TerminatingObjects::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_of_an_attempt_before_is_saved_only_where_an_action_names_it() {
        let snapshots = ApiResource::new("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot");
        let mut scope = test_scope(vec![snapshots.clone()], &lifeboat_action::Actions::default());
        Arc::get_mut(&mut scope).unwrap().backup.metadata.uid = "u".to_owned();
        let of = |uid: &str| {
            let body =
                format!(r#"{{"metadata":{{"name":"s","namespace":"a","labels":{{"velero.io/backup-uid":"{uid}"}}}}}}"#);
            Item::parse(Arc::new(snapshots.clone()), body.into()).unwrap()
        };
        assert_eq!(scope.includes(&of("u"), false), Err("taken for this backup"));
        assert_eq!(scope.includes(&of("u"), true), Ok(()));
        assert_eq!(scope.includes(&of("v"), false), Ok(()));
    }
}
