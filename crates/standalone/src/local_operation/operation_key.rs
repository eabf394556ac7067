//! Key of the state of a local operation, made of the properties that identify the operation.

use lifeboat_archive::tarball::entry_hash;
use lifeboat_cluster::{Cluster, ClusterError};
use std::path::{Path, PathBuf};

/// The longest readable part of a file's name. A name in Kubernetes has up to 253 characters, and so has the name of a file, with what
/// is put before and behind it here.
const LONGEST: usize = 80;

/// The key of an operation: one of the same name is another one in another bucket or for another cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationKey {
    /// The kind of operation, such as `restore`.
    pub kind: &'static str,
    /// Where the backups lie.
    pub bucket: String,
    /// The cluster, from [`identity`].
    pub cluster: String,
    /// The name of the Backup or Restore, or of what else is done.
    pub name: String,
}

/// The UID of a cluster; its address where the client may not read that.
///
/// # Errors
/// [`ClusterError`].
pub async fn identity(cluster: &Cluster) -> Result<String, ClusterError> {
    let uid = cluster.uid().await?;
    Ok(if uid.is_empty() { cluster.url().to_owned() } else { uid })
}

impl OperationKey {
    /// The file of the state, in the folder of its kind. The readable part is for people; the hash makes the name
    /// unique.
    pub(super) fn path_in(&self, folder: &Path) -> PathBuf {
        let all = [&self.bucket, &self.cluster, &self.name].map(|part| format!("{}:{part}", part.len())).concat();
        folder.join(format!("{}-{}.json", hex::encode(entry_hash(all.as_bytes())), self.readable()))
    }

    /// The file in which older versions kept the state, whose key did not include the cluster.
    pub(super) fn old_path_in(&self, folder: &Path) -> PathBuf {
        let hash = hex::encode(entry_hash(self.bucket.as_bytes()));
        folder.join(format!("{}-{}.json", hash.get(..12).unwrap_or_default(), self.name))
    }

    fn readable(&self) -> String {
        let plain = |char: char| if char.is_ascii_alphanumeric() || "-_.".contains(char) { char } else { '_' };
        self.name.chars().take(LONGEST).map(plain).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn key(bucket: &str, cluster: &str, name: &str) -> OperationKey {
        OperationKey { kind: "restore", bucket: bucket.into(), cluster: cluster.into(), name: name.into() }
    }

    #[test]
    fn another_bucket_cluster_or_name_is_another_operation() {
        let long = "n".repeat(250);
        let keys = [
            key("/a", "c", "back"),
            key("/b", "c", "back"),
            key("/a", "d", "back"),
            key("/a", "c", "there"),
            key("/a", "cb", "ack"),
            key("/a", "c", &format!("{long}-1")),
            key("/a", "c", &format!("{long}-2")),
        ];
        let paths: BTreeSet<PathBuf> = keys.iter().map(|key| key.path_in(Path::new("/s"))).collect();
        assert_eq!(paths.len(), keys.len(), "{paths:?}");
    }

    #[test]
    fn no_name_makes_a_file_that_a_disk_does_not_take() {
        for name in ["n".repeat(253), "é".repeat(253), "CORP\\alice/..".to_owned()] {
            let path = key("/a", "c", &name).path_in(Path::new("/s"));
            let file = path.file_name().unwrap().to_str().unwrap();
            // With what temporary files and folders of notes add.
            assert!(file.len() + "..".len() + ".records".len() <= 255, "{file}");
            assert_eq!(path.parent(), Some(Path::new("/s")), "{file}");
        }
    }
}
