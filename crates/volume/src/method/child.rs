//! Resources that a restore makes in the namespace of its Restore: their names, labels and owner.
//!
//! A name follows from what the resource is for. So a run again finds what an earlier run has made, and makes nothing twice.
//!
//! compat: Velero lets the API server make the names up.

use lifeboat_api::well_known::{LABEL_RESTORE_NAME, LABEL_RESTORE_UID};
use lifeboat_api::{ObjectMeta, OwnerReference, Resource, Restore, label_value};
use lifeboat_object::ApiResource;
use sha2::{Digest, Sha256};

/// The most characters of the name of the Restore in the name of a resource. Pods and labels are called like the resource, and
/// both have 63 at most.
const HEAD: usize = 46;
/// Bytes of the hash.
const HASH: usize = 8;

/// The name of the resource that a restore makes for this.
pub(crate) fn child_name(restore: &Restore, purpose: &[&str]) -> String {
    let head: String = restore.metadata.name.chars().take(HEAD).collect();
    let head = head.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let hash = Sha256::digest([&[restore.metadata.uid.as_str()], purpose].concat().join("\0"));
    format!("{head}-{}", hex::encode(&hash[..HASH]))
}

/// The metadata of a resource of this name, which goes with the Restore.
pub(crate) fn child_metadata(restore: &Restore, name: &str) -> ObjectMeta {
    let Restore { metadata, .. } = restore;
    let owner = OwnerReference {
        api_version: Restore::api_version(),
        kind: Restore::KIND.to_owned(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let labels = [(LABEL_RESTORE_NAME, label_value(&metadata.name)), (LABEL_RESTORE_UID, metadata.uid.clone())];
    ObjectMeta {
        name: name.to_owned(),
        namespace: metadata.namespace.clone(),
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        owner_references: vec![owner],
        ..ObjectMeta::default()
    }
}

/// The settings of the uploader that a restore asks for.
pub(crate) fn uploader_settings(restore: &Restore) -> std::collections::BTreeMap<String, String> {
    let Some(config) = &restore.spec.uploader_config else { return std::collections::BTreeMap::new() };
    let sparse = config.write_sparse_files == Some(true);
    let parallel = config.parallel_files_download;
    let parallel = (parallel > 0).then(|| ("ParallelFilesDownload".to_owned(), parallel.to_string()));
    [("WriteSparseFiles".to_owned(), sparse.to_string())].into_iter().chain(parallel).collect()
}

/// The type of a resource of Velero's.
pub(crate) fn resource_type<R: Resource>() -> ApiResource {
    ApiResource::new(lifeboat_api::GROUP, R::VERSION, R::PLURAL, R::KIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restore(name: &str) -> Restore {
        let mut restore = Restore::default();
        restore.metadata.name = name.to_owned();
        restore.metadata.uid = "u".to_owned();
        restore
    }

    #[test]
    fn a_name_follows_from_its_purpose_and_fits_a_label() {
        let short = restore("nightly");
        let name = child_name(&short, &["shop", "web", "data"]);
        assert_eq!(name, child_name(&short, &["shop", "web", "data"]));
        assert!(name.starts_with("nightly-") && name.len() == "nightly-".len() + 16, "{name}");
        for other in [&["shop", "web", "cache"][..], &["shop", "webd", "ata"], &["shop", "web"]] {
            assert_ne!(name, child_name(&short, other), "{other:?}");
        }
        let long = child_name(&restore(&format!("{}.{}", "r".repeat(45), "x".repeat(200))), &["a"]);
        assert_eq!((long.len(), label_value(&long)), (62, long.clone()));
        assert!(!long.contains(".-"), "{long}");
    }
}
