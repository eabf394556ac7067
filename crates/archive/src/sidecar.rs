//! The JSON files beside the archive: resource list, manifest, claim (velero: pkg/persistence/object_store.go).

use crate::gojson;
use crate::gzip;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Packs a JSON sidecar as Go would: compact, HTML characters escaped, a newline at the end, gzip.
///
/// # Errors
/// When the value cannot be JSON.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    gzip::pack_with(|mut out| {
        gojson::write(&mut out, value)?;
        out.write_all(b"\n").map_err(serde_json::Error::io)
    })
}

/// Unpacks a JSON sidecar of at most `limit` decompressed bytes (readers of Velero cap at 1 GiB).
///
/// # Errors
/// When the bytes are not gzip, too large, or not the JSON asked for.
pub fn decode<T: serde::de::DeserializeOwned>(gzipped: &[u8], limit: u64) -> Result<T, SidecarError> {
    Ok(serde_json::from_slice(&gzip::unpack(gzipped, limit)?)?)
}

/// The reason for which a sidecar cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// Not gzip, damaged, or too large.
    #[error("cannot be decompressed")]
    Gzip(#[from] std::io::Error),
    /// Not the expected JSON.
    #[error("is not valid JSON")]
    Json(#[from] serde_json::Error),
}

/// The empty list of native snapshots and pod volume backups, as Go writes a nil slice.
#[must_use]
pub fn encode_nil() -> Vec<u8> {
    gzip::pack(b"null\n")
}

/// Names of objects by `<apiVersion>/<Kind>`, sorted. In a restore's list each name is followed by
/// what was done, in parentheses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceList(pub BTreeMap<String, BTreeSet<Box<str>>>);

impl ResourceList {
    /// Adds an object.
    pub fn add(&mut self, api_version: &str, kind: &str, namespace: Option<&str>, name: &str) {
        let name: Box<str> = match namespace {
            Some(namespace) => format!("{namespace}/{name}").into(),
            None => name.into(),
        };
        let key = format!("{api_version}/{kind}");
        match self.0.get_mut(&key) {
            Some(names) => {
                names.insert(name);
            }
            None => {
                self.0.insert(key, BTreeSet::from([name]));
            }
        }
    }

    /// The number of objects that it names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// Returns true if it names no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Value of [`Manifest::format`].
pub const MANIFEST_FORMAT: &str = "lifeboat.io/manifest/v1";
/// Value of [`BackupClaim::format`].
pub const CLAIM_FORMAT: &str = "lifeboat.io/claim/v1";

/// `lifeboat-manifest.json`: every file of the backup but `velero-backup.json` and itself, so that a backup can be
/// proved complete. Hashes catch accidents; they do not stop an attacker who can write to the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// [`MANIFEST_FORMAT`].
    pub format: String,
    /// The tool and version that wrote it.
    pub tool: String,
    /// UID of the Backup.
    pub backup_uid: String,
    /// UID of the cluster's namespace `kube-system`; empty when it could not be read.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,
    /// Version of the cluster, such as `v1.34.4`.
    pub cluster_version: String,
    /// Objects per type.
    pub counts: BTreeMap<String, u64>,
    /// The files, by name.
    pub files: BTreeMap<String, FileDigest>,
    /// While the backup is being rewritten: the files that take, or have taken, the place of some of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextFiles>,
}

/// Files that take the place of others one by one, so that each of them may be the old one or the new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextFiles {
    /// Objects per type, once all files are replaced.
    pub counts: BTreeMap<String, u64>,
    /// The files that are replaced, by name.
    pub files: BTreeMap<String, FileDigest>,
}

impl Manifest {
    /// Returns true if a file may be this one: the one that was written, or the one that is taking its place.
    #[must_use]
    pub fn admits(&self, file: &str, found: &FileDigest) -> bool {
        let next = self.next.as_ref().and_then(|next| next.files.get(file));
        self.files.get(file) == Some(found) || next == Some(found)
    }

    /// Returns true if the archive may hold so many objects of each type.
    #[must_use]
    pub fn admits_counts(&self, found: &BTreeMap<String, u64>) -> bool {
        self.counts == *found || self.next.as_ref().is_some_and(|next| next.counts == *found)
    }
}

/// Size and hash of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest {
    /// Bytes.
    pub size: u64,
    /// SHA-256, lower-case hexadecimal.
    pub sha256: String,
}

/// `lifeboat-claim.json`: the run that writes this backup. It puts the claim before any other file, and only when there is
/// none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupClaim {
    /// [`CLAIM_FORMAT`].
    pub format: String,
    /// UID of the cluster's namespace `kube-system`; empty when it could not be read.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,
    /// UID of the Backup.
    #[serde(rename = "backupUID")]
    pub backup_uid: String,
    /// Namespace of the server that writes; empty when no server does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The time when the claim was put.
    pub claimed: Timestamp,
    /// The time when the run last showed that it is at work; absent until it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refreshed: Option<Timestamp>,
}

impl BackupClaim {
    /// Returns true if the server of this namespace of this cluster has put the claim. In an unknown cluster no server
    /// has, and a command, whose namespace is empty, is none.
    #[must_use]
    pub fn is_of_server(&self, cluster_uid: &str, namespace: &str) -> bool {
        let known = !cluster_uid.is_empty() && !namespace.is_empty();
        known && self.cluster_uid == cluster_uid && self.namespace == namespace
    }

    /// The time when the run that put the claim is last known to have been at work.
    #[must_use]
    pub fn last_sign(&self) -> Timestamp {
        self.refreshed.map_or(self.claimed, |refreshed| refreshed.max(self.claimed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecars_round_trip_and_are_capped() {
        let mut list = ResourceList::default();
        list.add("v1", "Pod", Some("b"), "x<");
        list.add("v1", "Pod", Some("a"), "y");
        list.add("v1", "Namespace", None, "a");
        let packed = encode(&list).unwrap();
        assert_eq!(
            gzip::unpack(&packed, 100).unwrap(),
            b"{\"v1/Namespace\":[\"a\"],\"v1/Pod\":[\"a/y\",\"b/x\\u003c\"]}\n"
        );
        assert_eq!(decode::<ResourceList>(&packed, 100).unwrap(), list);
        assert!(matches!(decode::<ResourceList>(&packed, 10), Err(SidecarError::Gzip(_))));
        assert_eq!(gzip::unpack(&encode_nil(), 10).unwrap(), b"null\n");
    }
}
