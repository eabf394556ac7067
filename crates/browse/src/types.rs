//! The types that a backup is served with.

use crate::rows::Rows;
use lifeboat_object::{ApiResource, GroupResource, chain};
use lifeboat_sandbox::{CustomType, ServedTypes};
use lifeboat_store::{ArchiveItem, StoreError};
use std::collections::HashMap;
use tokio::task::JoinSet;

/// The built-in types, those that definitions in the backup make, and of all others what the objects say. A type that the backup
/// holds is served in the version in which it is saved, and in no other.
///
/// # Errors
/// When the archive cannot be read, or is damaged.
pub(crate) async fn types(rows: &Rows) -> Result<ServedTypes, StoreError> {
    let mut custom = defined(rows).await?;
    let known = ServedTypes::with_custom(custom.clone());
    let mut versions = HashMap::new();
    let mut unknown = Vec::new();
    for (resource, row) in rows.types() {
        versions.insert(resource.clone(), row.version.to_string());
        if known.find(&resource.group, &row.version, &resource.resource).is_none() {
            unknown.extend(rows.of_type(resource).first());
        }
    }
    custom.extend(rows.read(&unknown).await?.into_iter().filter_map(|item| {
        let row = rows.archive().row(item.row)?;
        Some(of_object(&row.resource, &row.version, row.namespace().is_some(), &item))
    }));
    Ok(ServedTypes::with_custom(custom).in_versions(&versions).read_only())
}

/// The custom types that the CustomResourceDefinitions in the backup define.
async fn defined(rows: &Rows) -> Result<Vec<CustomType>, StoreError> {
    let definitions = rows.of_type(&GroupResource::definitions());
    let mut tasks = JoinSet::new();
    let mut contents = rows.archive().read(definitions.iter().map(|n| *n as usize).collect(), &mut tasks);
    let mut custom = Vec::new();
    // One at a time: schemas are large.
    while let Some(item) = contents.next().await? {
        match serde_json::from_slice(&item.body) {
            Ok(definition) => custom.extend(CustomType::of_definition(&definition)),
            Err(e) => {
                let name = &item.head.name;
                tracing::warn!(name, error = chain(&e), "the definition cannot be read: not used");
            }
        }
    }
    Ok(custom)
}

/// A type as one of its objects shows it.
fn of_object(resource: &GroupResource, version: &str, namespaced: bool, item: &ArchiveItem) -> CustomType {
    let kind = item.head.kind.clone().unwrap_or_else(|| resource.resource.clone());
    CustomType::of_objects(ApiResource {
        namespaced,
        verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
        ..ApiResource::new(&resource.group, version, &resource.resource, kind)
    })
}
