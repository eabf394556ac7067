//! `lifeboat repo cat`.

use super::{RepositoryArgs, SnapshotPath};
use anyhow::{Context, Result, bail};
use clap::Args;
use futures::TryStreamExt;
use lifeboat_kopia::Repository;
use lifeboat_kopia::format::directory::{DirectoryEntry, EntryType};
use lifeboat_kopia::object;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// `lifeboat repo cat SNAPSHOT:PATH`.
#[derive(Debug, Args)]
pub(crate) struct CatArgs {
    /// The snapshot, by its ID, the beginning of one, or latest; and the path of a file in it
    #[arg(value_name = "SNAPSHOT:PATH")]
    entry: SnapshotPath,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl CatArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let opened = self.repository.open(globals).await?;
        let (snapshot, entry) = self.entry.find(&opened.repository).await?;
        let path = if self.entry.path.is_empty() { "the root" } else { &self.entry.path };
        print_bytes(&opened.repository, &entry, &format!("{path} of snapshot {}", snapshot.id)).await
    }
}

/// Prints the bytes of a file, or the target of a symlink. `what` names it for people.
pub(crate) async fn print_bytes(repository: &Repository, entry: &DirectoryEntry, what: &str) -> Result<ExitCode> {
    match &entry.entry_type {
        EntryType::File | EntryType::Symlink => {}
        EntryType::Directory => bail!("{what} is a directory: name a file"),
        EntryType::Unknown(word) => bail!("{what} is of the type {word:?}"),
    }
    let object = entry.object.with_context(|| format!("{what} has no bytes"))?;
    let mut bytes = object::bytes(repository.contents(), &object);
    let mut out = std::io::stdout().lock();
    while let Some(piece) = bytes.try_next().await? {
        out.write_all(&piece)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
