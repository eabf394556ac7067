//! Resources that a backup or a restore makes in its namespace: their names, labels and owner.
//!
//! A name follows from what the resource is for. So a run again finds what an earlier run has made, and makes nothing twice.
//!
//! compat: Velero lets the API server make the names up.

use bytes::Bytes;
use lifeboat_api::well_known::{LABEL_RESTORE_NAME, LABEL_RESTORE_UID};
use lifeboat_api::{Backup, ObjectMeta, OwnerReference, Resource, Restore, label_value};
use lifeboat_cluster::{Cluster, ClusterError, ListRequest, WriteBody};
use lifeboat_object::ApiResource;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The most characters of the name of the owner in the name of a resource. Pods and labels are called like the resource, and
/// both have 63 at most.
const HEAD: usize = 46;
/// Bytes of the hash.
const HASH: usize = 8;
/// The longest wait for a resource of an earlier attempt that is to go. A node agent first removes what it has made for it, and storage
/// takes its time to delete a volume and a snapshot: the agent waits for ten minutes itself.
const REPLACING: Duration = Duration::from_secs(660);
/// The pauses between two looks at it: the first, which doubles, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// The name of the resource that the owner with this metadata makes for this.
pub(crate) fn child_name(owner: &ObjectMeta, purpose: &[&str]) -> String {
    let head: String = owner.name.chars().take(HEAD).collect();
    let head = head.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let hash = Sha256::digest([&[owner.uid.as_str()], purpose].concat().join("\0"));
    format!("{head}-{}", hex::encode(&hash[..HASH]))
}

/// The metadata of a resource of this name, which goes with its owner. The labels with these two keys have the owner's name and UID.
pub(crate) fn child_metadata<R: Resource>(owner: &ObjectMeta, name: &str, labels: [&str; 2]) -> ObjectMeta {
    let reference = OwnerReference {
        api_version: R::api_version(),
        kind: R::KIND.to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let [of_name, of_uid] = labels.map(str::to_owned);
    ObjectMeta {
        name: name.to_owned(),
        namespace: owner.namespace.clone(),
        labels: [(of_name, label_value(&owner.name)), (of_uid, owner.uid.clone())].into(),
        owner_references: vec![reference],
        ..ObjectMeta::default()
    }
}

/// The metadata of a resource of this name, which goes with the Restore.
pub(crate) fn child_of_restore(restore: &Restore, name: &str) -> ObjectMeta {
    child_metadata::<Restore>(&restore.metadata, name, [LABEL_RESTORE_NAME, LABEL_RESTORE_UID])
}

/// The settings of the uploader that a backup asks for.
pub(crate) fn upload_settings(backup: &Backup) -> BTreeMap<String, String> {
    let parallel = backup.spec.uploader_config.as_ref().map_or(0, |config| config.parallel_files_upload);
    (parallel > 0).then(|| ("ParallelFilesUpload".to_owned(), parallel.to_string())).into_iter().collect()
}

/// The settings of the uploader that a restore asks for.
pub(crate) fn uploader_settings(restore: &Restore) -> BTreeMap<String, String> {
    let Some(config) = &restore.spec.uploader_config else { return BTreeMap::new() };
    let sparse = config.write_sparse_files == Some(true);
    let parallel = config.parallel_files_download;
    let parallel = (parallel > 0).then(|| ("ParallelFilesDownload".to_owned(), parallel.to_string()));
    [("WriteSparseFiles".to_owned(), sparse.to_string())].into_iter().chain(parallel).collect()
}

/// The type of a resource of Velero's.
pub(crate) fn resource_type<R: Resource>() -> ApiResource {
    ApiResource::new(lifeboat_api::GROUP, R::VERSION, R::PLURAL, R::KIND)
}

/// Makes a resource of this body, or takes up the one that an earlier attempt has made, where that is usable. Another one of the name is replaced.
///
/// # Errors
/// The reason for people.
pub(crate) async fn make_or_take_up<R: Resource + DeserializeOwned>(
    cluster: &Cluster,
    metadata: &ObjectMeta,
    body: Bytes,
    is_usable: impl Fn(&R) -> bool,
) -> Result<(), String> {
    let (namespace, name) = (metadata.namespace.as_str(), metadata.name.as_str());
    let kind = resource_type::<R>();
    let deadline = Instant::now() + REPLACING;
    let [mut pause, longest] = PAUSES;
    loop {
        match cluster.create(&kind, Some(namespace), name, WriteBody::of(body.clone())).await {
            Ok(_) => return Ok(()),
            Err(e) if e.is_already_exists() => {}
            Err(e) => return Err(e.to_string()),
        }
        let found = cluster.get(&kind, Some(namespace), name).await.map_err(|e| e.to_string())?;
        let unreadable = |e| format!("the {} {name} cannot be read: {e}", R::KIND);
        if let Some(found) = &found
            && is_usable(&serde_json::from_slice(found).map_err(unreadable)?)
        {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!(
                "the {} {name} of an earlier attempt does not go away: look at its finalizers",
                R::KIND
            ));
        }
        if let Some(found) = &found {
            let Described { metadata } = serde_json::from_slice(found).map_err(unreadable)?;
            if metadata.deletion_timestamp.is_none() {
                let deleted = cluster.delete_exactly(&kind, Some(namespace), name, &metadata.uid).await;
                deleted.map_err(|e| e.to_string())?;
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// The metadata of any resource.
#[derive(serde::Deserialize)]
struct Described {
    metadata: ObjectMeta,
}

/// Lists the resources of a namespace that a label selector matches. One that cannot be read is left out.
///
/// # Errors
/// [`ClusterError`].
pub(crate) async fn list<R: Resource + DeserializeOwned>(
    cluster: &Cluster,
    namespace: &str,
    selector: String,
) -> Result<Vec<R>, ClusterError> {
    let request = ListRequest::all(resource_type::<R>()).in_namespace(namespace.to_owned()).labelled(selector);
    let mut list = cluster.list(request);
    let mut found = Vec::new();
    while let Some(bodies) = list.next().await? {
        found.extend(bodies.iter().filter_map(|body| serde_json::from_slice::<R>(body).ok()));
    }
    Ok(found)
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
        let name = child_name(&short.metadata, &["shop", "web", "data"]);
        assert_eq!(name, child_name(&short.metadata, &["shop", "web", "data"]));
        assert!(name.starts_with("nightly-") && name.len() == "nightly-".len() + 16, "{name}");
        for other in [&["shop", "web", "cache"][..], &["shop", "webd", "ata"], &["shop", "web"]] {
            assert_ne!(name, child_name(&short.metadata, other), "{other:?}");
        }
        let long = child_name(&restore(&format!("{}.{}", "r".repeat(45), "x".repeat(200))).metadata, &["a"]);
        assert_eq!((long.len(), label_value(&long)), (62, long.clone()));
        assert!(!long.contains(".-"), "{long}");
    }
}
