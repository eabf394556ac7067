//! Reads the whole archive once before anything is changed: every object is checked, and what planning needs is kept.

use crate::env::Env;
use crate::volumes::{Recorded, Verdict, decide};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_select::RestoreFilter;
use lifeboat_store::{Archive, StoreError};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use tokio::task::JoinSet;

/// What the archive holds for this restore.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Objects to restore.
    pub(crate) facts: Vec<Facts>,
    /// Volumes that are provisioned anew, whether the restore selects their objects or not: a claim must not wait for
    /// a volume that never comes.
    pub(crate) provisioned: BTreeSet<String>,
    /// Data that cannot be restored, in words for the user.
    pub(crate) lost: Vec<String>,
}

/// What planning needs of one object; the rest is read again when its turn comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its number among the archive's rows.
    pub(crate) row: usize,
    /// Whether it asks for an address or port that another one could be given first.
    pub(crate) early: bool,
}

/// Reads these rows. A damaged or hostile archive is refused here.
pub(crate) async fn scan(
    archive: &Archive,
    rows: Vec<usize>,
    filter: &RestoreFilter,
    recorded: &Recorded,
    env: &Env,
) -> Result<Contents, StoreError> {
    let mut tasks = JoinSet::new();
    let mut items = archive.read(rows, &mut tasks);
    let mut out = Contents::default();
    let services = GroupResource::new("", "services");
    let volumes = GroupResource::new("", "persistentvolumes");
    while let Some(item) = items.recv().await {
        let item = item?;
        if env.cancel.is_cancelled() {
            break;
        }
        let Some(key) = archive.row(item.row).map(lifeboat_archive::index::Row::key) else { continue };
        let parsed = || serde_json::from_slice::<Value>(&item.body).unwrap_or_default();
        let included = filter.includes_item(&key.resource, filter_namespace(&key), &item.head.labels).is_ok();
        if key.resource == volumes
            && let Verdict::Provision { lost } = decide(&key.name, &parsed(), recorded)
        {
            out.lost.extend(lost.filter(|_| included));
            out.provisioned.insert(key.name.clone());
        }
        if included {
            let early = key.resource == services && has_fixed_port(&parsed());
            out.facts.push(Facts { row: item.row, early });
        }
    }
    Ok(out)
}

fn has_fixed_port(service: &Value) -> bool {
    let node_port = |p: &Value| p["nodePort"].as_u64().is_some_and(|n| n > 0);
    service["spec"]["ports"].as_array().is_some_and(|ports| ports.iter().any(node_port))
}

/// The namespace that filters test: a Namespace object belongs to the namespace it names.
pub(crate) fn filter_namespace(key: &ObjectKey) -> Option<&str> {
    if key.resource == GroupResource::new("", "namespaces") { Some(&key.name) } else { key.namespace.as_deref() }
}

/// Namespaces that hold objects in the archive.
pub(crate) fn namespaces_in(archive: &Archive) -> BTreeSet<String> {
    // A name is copied once, not once for each of its objects.
    let names: BTreeSet<&str> = archive.rows().filter_map(|row| row.namespace()).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Rows by digest of the key, so that an object that another one needs can be found.
pub(crate) fn by_key(archive: &Archive, rows: &[usize]) -> HashMap<[u8; 16], usize> {
    rows.iter().filter_map(|n| Some((archive.row(*n)?.key().digest(), *n))).collect()
}
