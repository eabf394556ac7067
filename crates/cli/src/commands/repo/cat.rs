//! `lifeboat repo cat`.

use super::{RepositoryArgs, SnapshotPath};
use anyhow::{Context, Result, bail};
use clap::Args;
use futures::TryStreamExt;
use lifeboat_mover::tree::{EntryKind, Source, SourceEntry};
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
        let opened = self.repository.open_source(globals).await?;
        let (snapshot, entry) = self.entry.find_in(&opened.source).await?;
        let path = if self.entry.path.is_empty() { "the root" } else { &self.entry.path };
        print_bytes(&opened.source, &entry, &format!("{path} of snapshot {snapshot}")).await
    }
}

/// Prints the bytes of a file, or the target of a symlink. `what` names it for people.
pub(crate) async fn print_bytes(source: &Source, entry: &SourceEntry, what: &str) -> Result<ExitCode> {
    match &entry.kind {
        EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => {}
        EntryKind::Directory => bail!("{what} is a directory: name a file"),
        EntryKind::Unknown(word) => bail!("{what} is of the type {word:?}"),
    }
    let object = entry.object.as_ref().with_context(|| format!("{what} has no bytes"))?;
    let mut bytes = source.bytes(object);
    let mut out = std::io::stdout().lock();
    while let Some(piece) = bytes.try_next().await? {
        out.write_all(&piece)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
