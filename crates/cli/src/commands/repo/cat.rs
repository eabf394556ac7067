//! `lifeboat repo cat`.

use super::choice::SnapshotSourceArgs;
use super::restore::in_blocks;
use super::source::FoundEntry;
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
    snapshot_source: SnapshotSourceArgs,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl CatArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let opened = self.repository.open_source(globals).await?;
        let found = self.entry.find_in(&opened.source, &self.snapshot_source).await?;
        let FoundEntry { snapshot, tags, entry, gaps } = found;
        gaps.warn(&snapshot);
        // The root of a device in blocks is a directory, which cat names as such.
        let (entry, length) = match entry.kind {
            EntryKind::File => in_blocks(&opened.source, entry, &tags).await?,
            _ => (entry, None),
        };
        let path = if self.entry.path.is_empty() { "the root" } else { &self.entry.path };
        let printed = PrintedBytes { entry: &entry, length };
        print_bytes(&opened.source, printed, &format!("{path} of snapshot {snapshot}")).await
    }
}

/// The bytes of an entry.
#[derive(Clone, Copy)]
pub(crate) struct PrintedBytes<'a> {
    pub(crate) entry: &'a SourceEntry,
    /// The first of them that are printed; `None` for all.
    pub(crate) length: Option<u64>,
}

/// Prints the bytes of a file, or the target of a symlink. `what` names it for people.
pub(crate) async fn print_bytes(source: &Source, printed: PrintedBytes<'_>, what: &str) -> Result<ExitCode> {
    let PrintedBytes { entry, length } = printed;
    match &entry.kind {
        EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => {}
        EntryKind::Directory => bail!("{what} is a directory: name a file"),
        EntryKind::Unknown(word) => bail!("{what} is of the type {word:?}"),
    }
    let object = entry.object.as_ref().with_context(|| format!("{what} has no bytes"))?;
    let mut bytes = source.bytes(object);
    let mut out = std::io::stdout().lock();
    let mut left = length.unwrap_or(u64::MAX);
    while left > 0
        && let Some(piece) = bytes.try_next().await?
    {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        out.write_all(piece.get(..taken).unwrap_or_default())?;
        left -= taken as u64;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
