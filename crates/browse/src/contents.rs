//! The contents of a backup, by type.

use crate::rows::Rows;
use lifeboat_object::GroupResource;
use std::collections::BTreeMap;

/// The objects of one type in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeContents {
    /// The type.
    pub resource: GroupResource,
    /// The versions in which its objects are saved, the preferred one first.
    pub versions: Vec<String>,
    /// Objects, each counted once.
    pub objects: usize,
    /// Bytes of their JSON, in the preferred version.
    pub bytes: u64,
}

/// By type, in order.
pub(crate) fn contents(rows: &Rows) -> Vec<TypeContents> {
    let mut found: BTreeMap<GroupResource, TypeContents> = BTreeMap::new();
    for row in rows.archive().rows() {
        let of_type = found.entry((*row.resource).clone()).or_insert_with(|| TypeContents {
            resource: (*row.resource).clone(),
            versions: Vec::new(),
            objects: 0,
            bytes: 0,
        });
        let version = &*row.version;
        if row.preferred {
            of_type.objects += 1;
            of_type.bytes += u64::from(row.length);
            if of_type.versions.first().is_none_or(|first| first != version) {
                of_type.versions.retain(|other| other != version);
                of_type.versions.insert(0, version.to_owned());
            }
        } else if !of_type.versions.iter().any(|other| other == version) {
            of_type.versions.push(version.to_owned());
        }
    }
    found.into_values().collect()
}
