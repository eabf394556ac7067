//! Keys below the prefix of a storage location (velero: pkg/persistence/object_store_layout.go).

use lifeboat_object::ObjectKey;

/// Folder of all backups.
pub const BACKUPS: &str = "backups/";
/// Folder of all restores.
pub const RESTORES: &str = "restores/";
/// The top-level folders that a storage location may hold.
pub const TOP_LEVEL: [&str; 6] = ["backups", "restores", "restic", "kopia", "metadata", "plugins"];
/// File name of the backup's own record; its existence defines "backup exists".
pub const METADATA: &str = "velero-backup.json";
/// File name of the manifest (ours).
pub const MANIFEST: &str = "lifeboat-manifest.json";
/// File name of the claim (ours).
pub const CLAIM: &str = "lifeboat-claim.json";

/// The key of an object that is put to find out how a store treats conditions, and removed (ours). It lies where Velero
/// keeps a file of its own. Each probe has an ID.
#[must_use]
pub fn probe_key(id: &str) -> String {
    format!("metadata/lifeboat-probe-{id}.json")
}

/// The key of the list of snapshots that were perhaps not deleted with a backup (docs/formats/unproven.md). It lies
/// where Velero keeps a file of its own, and outlives the backup. The UID tells backups of one name apart.
#[must_use]
pub fn unproven_key(backup: &str, uid: &str) -> String {
    format!("metadata/lifeboat-unproven/{backup}-{uid}.json")
}

/// The key of the claim of one attempt, from the second on. The run that puts it has that number.
#[must_use]
pub fn attempt_key(name: &str, attempt: u32) -> String {
    format!("{BACKUPS}{name}/lifeboat-claim-{attempt}.json")
}

/// The prefix of the keys of a backup's notes whose names begin with `prefix`.
#[must_use]
pub fn notes_prefix(name: &str, prefix: &str) -> String {
    format!("{BACKUPS}{name}/lifeboat-{prefix}")
}

/// The key of a note beside the claim of a backup.
#[must_use]
pub fn note_key(name: &str, note: &str) -> String {
    format!("{}{NOTE}", notes_prefix(name, note))
}

/// The name of a note by its key; `None` when that is the key of another file.
#[must_use]
pub fn note_of<'a>(name: &str, key: &'a str) -> Option<&'a str> {
    key.strip_prefix(&*notes_prefix(name, ""))?.strip_suffix(NOTE)
}

/// The suffix of the file names of notes.
const NOTE: &str = ".json";

/// The folder of the lists of snapshots in repositories whose backups were deleted.
pub const REPOSITORY_SNAPSHOTS: &str = "metadata/lifeboat-repository-snapshots/";

/// The key of the list of snapshots in repositories that outlive their backup (docs/formats/repository-snapshots.md). It is none of the
/// backup's files, and below a folder that Velero takes for one of a storage location.
#[must_use]
pub fn repository_snapshots_key(backup: &str, uid: &str) -> String {
    format!("{REPOSITORY_SNAPSHOTS}{backup}-{uid}.json")
}

/// The UID of the backup in the key of such a list, whose backup has this name; `None` when it is none.
#[must_use]
pub fn uid_of_repository_snapshots<'a>(key: &'a str, backup: &str) -> Option<&'a str> {
    let uid = key.strip_prefix(REPOSITORY_SNAPSHOTS)?.strip_prefix(backup)?.strip_prefix('-')?.strip_suffix(".json")?;
    Some(uid).filter(|uid| !uid.is_empty())
}

/// A file of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackupFile {
    /// `velero-backup.json`.
    Metadata,
    /// The archive.
    Tarball,
    /// The log.
    Logs,
    /// Errors and warnings.
    Results,
    /// The pod volume backups.
    PodVolumeBackups,
    /// The native snapshots.
    VolumeSnapshots,
    /// The CSI snapshots; written by old versions of Velero only.
    CsiVolumeSnapshots,
    /// The contents of the CSI snapshots; written by old versions of Velero only.
    CsiVolumeSnapshotContents,
    /// The asynchronous operations of items.
    ItemOperations,
    /// Names of the objects by type.
    ResourceList,
    /// The result for each volume.
    VolumeInfo,
    /// Where each object stands in the archive (ours).
    Index,
    /// Sizes and hashes of all files (ours).
    Manifest,
    /// The claim of the run that writes the backup (ours).
    Claim,
}

impl BackupFile {
    /// The key of this file of backup `name`.
    #[must_use]
    pub fn key(self, name: &str) -> String {
        format!("{BACKUPS}{name}/{}", self.file_name(name))
    }

    /// The file name alone.
    #[must_use]
    pub fn file_name(self, name: &str) -> String {
        match self {
            Self::Metadata => METADATA.to_owned(),
            Self::Manifest => MANIFEST.to_owned(),
            Self::Claim => CLAIM.to_owned(),
            Self::Tarball => format!("{name}.tar.gz"),
            Self::Logs => format!("{name}-logs.gz"),
            Self::Results => format!("{name}-results.gz"),
            Self::PodVolumeBackups => format!("{name}-podvolumebackups.json.gz"),
            Self::VolumeSnapshots => format!("{name}-volumesnapshots.json.gz"),
            Self::CsiVolumeSnapshots => format!("{name}-csi-volumesnapshots.json.gz"),
            Self::CsiVolumeSnapshotContents => format!("{name}-csi-volumesnapshotcontents.json.gz"),
            Self::ItemOperations => format!("{name}-itemoperations.json.gz"),
            Self::ResourceList => format!("{name}-resource-list.json.gz"),
            Self::VolumeInfo => format!("{name}-volumeinfo.json.gz"),
            Self::Index => format!("{name}-index.json.gz"),
        }
    }

    /// The media type to store it under.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Metadata | Self::Manifest | Self::Claim => "application/json",
            _ => "application/gzip",
        }
    }
}

/// A file of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreFile {
    /// The log.
    Logs,
    /// Errors and warnings.
    Results,
    /// Names of the objects by type, with what was done.
    ResourceList,
    /// The asynchronous operations of items.
    ItemOperations,
    /// The result for each volume.
    VolumeInfo,
    /// The plan that a restore was pinned to (docs/formats/plan.md); an addition of Lifeboat.
    Plan,
}

impl RestoreFile {
    /// The key of this file of restore `name`.
    #[must_use]
    pub fn key(self, name: &str) -> String {
        let file = match self {
            Self::Logs => format!("restore-{name}-logs.gz"),
            Self::Results => format!("restore-{name}-results.gz"),
            Self::ResourceList => format!("restore-{name}-resource-list.json.gz"),
            Self::ItemOperations => format!("restore-{name}-itemoperations.json.gz"),
            // compat: no `restore-` prefix here, tools look for this name.
            Self::VolumeInfo => format!("{name}-volumeinfo.json.gz"),
            Self::Plan => format!("restore-{name}-plan.jsonl.gz"),
        };
        format!("{RESTORES}{name}/{file}")
    }
}

/// The folder of the files of restore `name`.
#[must_use]
pub fn restore_folder(name: &str) -> String {
    format!("{RESTORES}{name}/")
}

/// The key of the claim of restore `name` (ours).
#[must_use]
pub fn restore_claim_key(name: &str) -> String {
    format!("{RESTORES}{name}/{CLAIM}")
}

/// The prefix of the keys of objects that restore `name` has deleted.
#[must_use]
pub fn replaced_prefix(name: &str) -> String {
    format!("{RESTORES}{name}/replaced/")
}

/// The key of an object that restore `name` has deleted to make it anew (docs/formats/replaced.md). Its UID tells it from others
/// of its name.
#[must_use]
pub fn replaced_key(name: &str, object: &ObjectKey, uid: &str) -> String {
    let place = match &object.namespace {
        Some(namespace) => format!("namespaces/{namespace}"),
        None => "cluster".to_owned(),
    };
    format!("{}{}/{place}/{}/{uid}.json.gz", replaced_prefix(name), object.resource, object.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::GroupResource;

    #[test]
    fn keys_are_veleros() {
        assert_eq!(BackupFile::Metadata.key("b"), "backups/b/velero-backup.json");
        assert_eq!(BackupFile::Tarball.key("b"), "backups/b/b.tar.gz");
        assert_eq!(BackupFile::Results.key("b"), "backups/b/b-results.gz");
        assert_eq!(BackupFile::CsiVolumeSnapshots.key("b"), "backups/b/b-csi-volumesnapshots.json.gz");
        let contents = "backups/b/b-csi-volumesnapshotcontents.json.gz";
        assert_eq!(BackupFile::CsiVolumeSnapshotContents.key("b"), contents);
        assert_eq!(RestoreFile::Results.key("r"), "restores/r/restore-r-results.gz");
        assert_eq!(RestoreFile::VolumeInfo.key("r"), "restores/r/r-volumeinfo.json.gz");
        let role = ObjectKey::new(GroupResource::new("rbac.authorization.k8s.io", "roles"), Some("n"), "a:b");
        let key = "restores/r/replaced/roles.rbac.authorization.k8s.io/namespaces/n/a:b/u-1.json.gz";
        assert_eq!(replaced_key("r", &role, "u-1"), key);
        let namespace = ObjectKey::new(GroupResource::namespaces(), None, "n");
        assert_eq!(note_key("b", "snapshot-1"), "backups/b/lifeboat-snapshot-1.json");
        let note = |key| note_of("b", key);
        assert_eq!(note("backups/b/lifeboat-snapshot-1.json"), Some("snapshot-1"));
        assert_eq!((note("backups/b/b.tar.gz"), note("backups/c/lifeboat-snapshot-1.json")), (None, None));
        assert_eq!(replaced_key("r", &namespace, "u"), "restores/r/replaced/namespaces/cluster/n/u.json.gz");
    }
}
