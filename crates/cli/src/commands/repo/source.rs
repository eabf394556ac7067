//! The repository of a command that reads one of either format: kopia's, or restic's.

use super::choice::SnapshotSourceArgs;
use super::format::RepositoryFormat;
use super::gaps::SnapshotGaps;
use super::{FoundInKopia, MEMORY, OpenRepository, RepositoryArgs, SnapshotPath, kopia_clock, password, threads};
use anyhow::{Context, Result, bail};
use lifeboat_bucket::BlobStore;
use lifeboat_mover::tree::{Source, SourceEntry};
use lifeboat_restic::{OpenOptions, Repository, ResticError};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::warn;
use lifeboat_terminal::process::scratch::ScratchFolder;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An open repository of either format, and the folder in which its indexes may lie.
pub(crate) struct OpenSource {
    pub(crate) source: Source,
    _scratch: ScratchFolder,
}

impl OpenRepository {
    /// The same as a source of trees, and the folder in which its indexes may lie.
    pub(crate) fn into_source(self) -> (Source, ScratchFolder) {
        (Source::Kopia(Arc::new(self.repository)), self._scratch)
    }
}

impl RepositoryArgs {
    /// Opens the repository, of either format, for reading.
    pub(crate) async fn open_source(&self, globals: &Globals) -> Result<OpenSource> {
        let (store, format) = self.located(globals).await?;
        match format {
            RepositoryFormat::Kopia => {
                let (source, _scratch) = self.open_kopia(store, kopia_clock()).await?.into_source();
                Ok(OpenSource { source, _scratch })
            }
            RepositoryFormat::Restic => self.open_restic(store).await,
        }
    }

    async fn open_restic(&self, store: Arc<dyn BlobStore>) -> Result<OpenSource> {
        if self.indexes.are_recovered() {
            bail!(
                "--recover-indexes is for repositories of kopia: `restic repair index` writes the indexes of restic anew"
            );
        }
        let file = self.password_file()?;
        let password = password(file)?;
        let scratch = self.scratch.folder()?;
        let options = OpenOptions { scratch: scratch.path().to_owned(), memory: MEMORY, threads: threads() };
        let repository = Repository::open(store, password.as_bytes(), options).await.map_err(|error| match error {
            ResticError::WrongPassword { .. } => {
                anyhow::Error::new(error).context(format!("look at {}", file.display()))
            }
            error => error.into(),
        })?;
        warn_of_locks(&repository).await?;
        Ok(OpenSource { source: Source::Restic(repository), _scratch: scratch })
    }
}

/// Warns where a program has locked the repository to delete from it.
async fn warn_of_locks(repository: &Repository) -> Result<()> {
    for lock in repository.locks().await? {
        if let Ok(lock) = lock.document
            && lock.exclusive
        {
            let text = format!(
                "warning: {}@{} (process {}) has locked the repository since {}, as restic does to delete data that no snapshot \
                 needs: where something is missing run this again when it has ended",
                lock.username, lock.hostname, lock.pid, lock.time
            );
            warn(Some(&text));
        }
    }
    Ok(())
}

/// An entry that a command has found in a snapshot.
pub(crate) struct FoundEntry {
    /// The ID of the snapshot.
    pub(crate) snapshot: String,
    /// Its tags; none of a snapshot of restic.
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) entry: SourceEntry,
    /// The gaps below the entry.
    pub(crate) gaps: SnapshotGaps,
}

impl SnapshotPath {
    /// Finds the entry in a repository of either format; `latest` is of the named source.
    pub(crate) async fn find_in(&self, source: &Source, of: &SnapshotSourceArgs) -> Result<FoundEntry> {
        match source {
            Source::Kopia(repository) => {
                let FoundInKopia { snapshot, entry, gaps } = self.find(repository, of).await?;
                let tags = snapshot.document.map(|document| document.tags).unwrap_or_default();
                Ok(FoundEntry { snapshot: snapshot.id, tags, entry: SourceEntry::from(&entry), gaps })
            }
            Source::Restic(repository) => {
                let snapshot = of.choose_restic(&repository.snapshots().await?, &self.snapshot)?;
                let document = snapshot.document.as_ref();
                let document = document.map_err(|why| anyhow::anyhow!("{why}"));
                let document = document.with_context(|| format!("snapshot {} cannot be read", snapshot.id))?;
                let node = repository.node_at(&document.tree, &self.path).await?;
                let entry = node.map_or_else(|| SourceEntry::root_of_restic(document.tree), SourceEntry::from);
                let (snapshot, gaps) = (snapshot.id.to_string(), SnapshotGaps::default());
                Ok(FoundEntry { snapshot, tags: BTreeMap::new(), entry, gaps })
            }
        }
    }
}
