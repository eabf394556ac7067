//! What would be done with objects.

use crate::env::Env;
use crate::mapping::Mapping;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_patch::Difference;

/// What would be done with one object.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviewItem {
    /// Its key in the cluster; a mapped namespace is the target.
    pub key: ObjectKey,
    /// What would be done.
    pub planned: Planned,
    /// Actions that decide about the object only when it is restored: the rest is what holds without them.
    pub unasked: Vec<String>,
}

/// What would be done with an object. Differences lead from the cluster (left) to the backup (right); values of Secrets
/// stand in them.
#[derive(Clone, Debug, PartialEq)]
pub enum Planned {
    /// It would be made.
    Create,
    /// It is there and would be changed.
    Update(Vec<Difference>),
    /// It is there and has what the backup has.
    Unchanged,
    /// It would not be restored, for this reason.
    Skip(String),
    /// It is there, differs, and would stay as it is.
    Conflict(Vec<Difference>),
    /// It could not be restored, for this reason.
    Refused(String),
}

/// What would be done with a target namespace.
pub(crate) async fn namespace(name: &str, mapping: &Mapping, env: &Env) -> PreviewItem {
    let key = ObjectKey::new(GroupResource::new("", "namespaces"), None, name);
    let found = match mapping.catalog.find(&key.resource) {
        Some(resource) => env.cluster.get(resource, None, name).await,
        None => Ok(None),
    };
    let planned = match found {
        Ok(None) => Planned::Create,
        Ok(Some(_)) => Planned::Unchanged,
        Err(e) => Planned::Refused(e.to_string()),
    };
    PreviewItem { key, planned, unasked: Vec::new() }
}
