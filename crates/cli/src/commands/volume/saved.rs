//! The volume of a backup that a command reads, and its repository.

use crate::commands::repo::choice::SnapshotSourceArgs;
use crate::commands::repo::format::RepositoryFormat;
use crate::commands::repo::gaps::SnapshotGaps;
use crate::commands::repo::recovery::IndexArgs;
use crate::commands::repo::{
    FoundInKopia, OpenRepository, PasswordSource, RepositoryPassword, SnapshotPath, kopia_clock, of_velero, password,
};
use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_kopia::crypto::Password;
use lifeboat_mover::restore::{SavedDevice, saved_device};
use lifeboat_mover::tree::{Source, SourceEntry};
use lifeboat_repository::DEFAULT_PASSWORD;
use lifeboat_standalone::repository_copy::{VolumeName, VolumeRequest};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::scratch::{ScratchArgs, ScratchFolder};
use std::path::PathBuf;

/// The volume of a backup.
#[derive(Debug, Args)]
pub(crate) struct SavedVolumeArgs {
    /// The backup
    backup: String,
    /// The volume: NAMESPACE/CLAIM, or NAMESPACE/POD:VOLUME for a volume of a pod; without the namespace with --object-namespace
    #[arg(value_name = "VOLUME")]
    name: VolumeName,
    /// The namespace of the volume, where VOLUME names none
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) object_namespace: Option<String>,
    /// Where the backup lies: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…; otherwise the storage
    /// location of the backup in the cluster, with its credentials
    #[arg(long, value_name = "URL")]
    bucket: Option<String>,
    /// A file with the password of the repository; otherwise that of the Secret velero-repo-credentials in the cluster, or with
    /// --bucket the one that Velero sets
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    indexes: IndexArgs,
    #[command(flatten)]
    scratch: ScratchArgs,
}

/// An entry of a volume of a backup, in its open repository.
pub(crate) struct OpenVolume {
    pub(crate) source: Source,
    /// The ID of the snapshot.
    pub(crate) snapshot: String,
    pub(crate) entry: SourceEntry,
    /// The gaps of the snapshot below the entry.
    pub(crate) gaps: SnapshotGaps,
    /// The length of a volume that is a block device, which may be saved with more bytes: the entry is its bytes then. `None` for a volume
    /// with files.
    pub(crate) length: Option<u64>,
    /// The volume for people.
    pub(crate) described: String,
    _scratch: ScratchFolder,
}

impl SavedVolumeArgs {
    /// Opens the volume at a path in it; an empty path is its root.
    pub(crate) async fn open(&self, path: &str, globals: &Globals) -> Result<OpenVolume> {
        let namespace = self.namespace(globals.program.object_namespace_flag())?;
        let scratch = self.scratch.folder()?;
        let given = self.password_file.as_deref().map(password).transpose()?;
        let request = VolumeRequest {
            backup: &self.backup,
            namespace,
            of: &self.name.of,
            bucket: self.bucket.as_deref(),
            has_password: given.is_some(),
        };
        let found = request.find(globals, scratch.path()).await?;
        let described = format!("the volume {namespace}/{} of the backup {:?}", self.name.of, self.backup);
        let source = self.password_source();
        let password = given.or_else(|| found.password.map(Password::new));
        let password = password.unwrap_or_else(|| Password::new(DEFAULT_PASSWORD.to_owned()));
        let (blobs, _) = of_velero(found.bucket, &found.copy.namespace, Some(RepositoryFormat::Kopia)).await?;
        let password = RepositoryPassword { password, source };
        let opened = OpenRepository::open(blobs, password, self.indexes.source(), scratch, kopia_clock());
        let (source, _scratch) = opened.await?.into_source();
        let at = |path: &str| SnapshotPath { snapshot: found.copy.snapshot_id.clone(), path: path.to_owned() };
        let by_id = SnapshotSourceArgs::default();
        let Source::Kopia(repository) = &source else { bail!("{described} is in a repository of restic") };
        let found_root = at("").find(repository, &by_id).await;
        let FoundInKopia { snapshot, entry: root, gaps } = found_root.with_context(|| {
            format!(
                "read {described}, whose snapshot is {} in the repository of namespace {}",
                found.copy.snapshot_id, found.copy.namespace
            )
        })?;
        let root = SourceEntry::from(&root);
        let tags = snapshot.document.map(|document| document.tags).unwrap_or_default();
        let device = saved_device(&source, &root, &tags).await.with_context(|| format!("read {described}"))?;
        let length = device.as_ref().map(|device| device.length);
        if length.is_some() && !path.is_empty() {
            bail!("{described} is a block device: it has no files, and so no {path:?}; leave out the path");
        }
        let (entry, gaps) = match device {
            Some(SavedDevice { file, .. }) => (file, gaps),
            None if path.is_empty() => (root, gaps),
            None => {
                let found = at(path).find_in(&source, &by_id).await.with_context(|| format!("read {described}"))?;
                (found.entry, found.gaps)
            }
        };
        Ok(OpenVolume { source, snapshot: snapshot.id, entry, gaps, length, described, _scratch })
    }

    /// The namespace, from the name or from the flag, which may not disagree.
    fn namespace(&self, flag: &str) -> Result<&str> {
        match (self.name.namespace.as_deref(), self.object_namespace.as_deref()) {
            (Some(named), Some(given)) if named != given => {
                bail!("the volume is named as one of the namespace {named}, and {flag} says {given}: give one of them")
            }
            (Some(namespace), _) | (None, Some(namespace)) => Ok(namespace),
            (None, None) => {
                bail!("a volume is in a namespace: write NAMESPACE/{}, or say which by {flag}", self.name.of)
            }
        }
    }

    fn password_source(&self) -> PasswordSource {
        match (&self.password_file, &self.bucket) {
            (Some(file), _) => PasswordSource::File(file.clone()),
            (None, Some(_)) => PasswordSource::OfVelero,
            (None, None) => PasswordSource::Cluster,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        volume: SavedVolumeArgs,
    }

    #[test]
    fn the_namespace_of_a_volume_stands_before_its_name_or_in_the_flag() {
        let namespace = |words: &[&str]| {
            let line = Line::try_parse_from([&["ls", "nightly"], words].concat()).unwrap();
            line.volume.namespace("--object-namespace").map(str::to_owned).map_err(|e| e.to_string())
        };
        for words in
            [&["shop/data"][..], &["data", "--object-namespace", "shop"], &["shop/web:v", "--object-namespace=shop"]]
        {
            assert_eq!(namespace(words).as_deref(), Ok("shop"), "{words:?}");
        }
        assert!(namespace(&["web:v"]).unwrap_err().contains("write NAMESPACE/web:v"));
        assert!(namespace(&["shop/data", "--object-namespace", "other"]).unwrap_err().contains("give one of them"));
        assert!(
            Line::try_parse_from(["ls", "nightly", "a/b/c"]).unwrap_err().to_string().contains("NAMESPACE/POD:VOLUME")
        );
    }
}
