//! `lifeboat repo cat`.

use super::{RepositoryArgs, SnapshotPath};
use anyhow::{Context, Result, bail};
use clap::Args;
use futures::TryStreamExt;
use lifeboat_mover::tree::EntryKind;
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
        match &entry.kind {
            EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => {}
            EntryKind::Directory => bail!("{path} of snapshot {snapshot} is a directory: name a file"),
            EntryKind::Unknown(word) => bail!("{path} of snapshot {snapshot} is of the type {word:?}"),
        }
        let object = entry.object.with_context(|| format!("{path} of snapshot {snapshot} has no bytes"))?;
        let mut bytes = opened.source.bytes(&object);
        let mut out = std::io::stdout().lock();
        while let Some(piece) = bytes.try_next().await? {
            out.write_all(&piece)?;
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}
