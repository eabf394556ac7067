//! `lifeboat repo mount`.

use super::choice::SnapshotSourceArgs;
use super::source::FoundEntry;
use super::{RepositoryArgs, SnapshotPath};
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_mount::{Mount, MountOptions, Roots, Tree, TreeOptions};
use lifeboat_mover::tree::{EntryKind, Source, SourceEntry};
use lifeboat_object::printable;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::warn;
use lifeboat_terminal::process::signals::terminated;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The word for all snapshots.
const ALL: &str = "all";
/// The time for those who still read when the command is told to end.
const CLOSING: Duration = Duration::from_secs(10);

/// `lifeboat repo mount SNAPSHOT[:PATH] FOLDER`.
#[derive(Debug, Args)]
pub(crate) struct MountArgs {
    /// The snapshot, by its ID, the beginning of one, or latest, and a path in it; or all, for a folder of each snapshot
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    entry: SnapshotPath,
    /// The empty folder on which it is mounted
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Let other users of this machine look into it, as far as the permissions in the snapshot allow
    #[arg(long)]
    allow_other: bool,
    #[command(flatten)]
    snapshot_source: SnapshotSourceArgs,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl MountArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let opened = self.repository.open_source(globals).await?;
        let (what, roots) = self.roots(&opened.source).await?;
        let ended = terminated()?;
        let options = MountOptions {
            name: format!("lifeboat:{what}"),
            allows_others: self.allow_other,
            report: Arc::new(|text| warn(Some(&format!("error: {}", printable(&text))))),
        };
        let tree = Tree::new(opened.source.clone(), roots, TreeOptions::default());
        let mut mount = Mount::begin(tree, &self.folder, options)?;
        let folder = self.folder.display();
        writeln!(std::io::stderr(), "{what} is mounted on {folder}; Ctrl-C, or umount {folder}, ends it")?;
        tokio::select! {
            ended = mount.ended() => {
                ended?;
                return Ok(ExitCode::SUCCESS);
            }
            () = ended => mount.unmount()?,
        }
        if tokio::time::timeout(CLOSING, mount.ended()).await.is_err() {
            warn(Some(&format!(
                "warning: files below {folder} were still open after {} seconds: who reads them gets an error now",
                CLOSING.as_secs()
            )));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The name and the entries of what is mounted.
    async fn roots(&self, source: &Source) -> Result<(String, Roots)> {
        if self.entry.snapshot == ALL {
            if !self.entry.path.is_empty() {
                bail!("a path belongs to one snapshot: name that instead of {ALL}");
            }
            if self.snapshot_source.names_source() {
                bail!("--source chooses latest, and {ALL} are mounted: leave it out");
            }
            let entries = all_snapshots(source).await?;
            return Ok((format!("{} snapshots", entries.len()), Roots::Entries(entries)));
        }
        let found = self.entry.find_in(source, &self.snapshot_source).await?;
        let FoundEntry { snapshot, mut entry, gaps, .. } = found;
        gaps.warn(&snapshot);
        let what = format!("snapshot {snapshot}");
        if entry.kind == EntryKind::Directory {
            return Ok((what, Roots::Directory(Box::new(entry))));
        }
        // A snapshot of one file or device may have no name for it.
        if entry.name.is_empty() {
            entry.name = OsString::from(&snapshot);
        }
        Ok((what, Roots::Entries(vec![entry])))
    }
}

/// The roots of all snapshots, each with the time of its beginning and its ID as name, and `_incomplete` where it was not
/// finished. Those that cannot be read are told.
async fn all_snapshots(source: &Source) -> Result<Vec<SourceEntry>> {
    let mut entries = Vec::new();
    let mut add = |id: &str, root: Result<(&dyn Display, SourceEntry), &str>| match root {
        Ok((time, mut entry)) => {
            entry.name = OsString::from(format!("{time}_{id}"));
            entries.push(entry);
        }
        Err(why) => warn(Some(&format!("warning: snapshot {id} is left out, it cannot be read: {}", printable(why)))),
    };
    match source {
        Source::Kopia(repository) => {
            for snapshot in repository.snapshots().await? {
                let root = match &snapshot.document {
                    Ok(document) => match &document.root {
                        Some(root) => Ok((&document.start as &dyn Display, SourceEntry::from(root))),
                        None => Err("it has no root"),
                    },
                    Err(why) => Err(why.as_str()),
                };
                let is_incomplete = snapshot.document.as_ref().is_ok_and(|document| document.incomplete.is_some());
                let mark = if is_incomplete { "_incomplete" } else { "" };
                add(&format!("{}{mark}", snapshot.id), root);
            }
        }
        Source::Restic(repository) => {
            for snapshot in repository.snapshots().await? {
                let root = snapshot.document.as_ref().map_err(String::as_str);
                let root =
                    root.map(|document| (&document.time as &dyn Display, SourceEntry::root_of_restic(document.tree)));
                add(&snapshot.id.to_string(), root);
            }
        }
    }
    Ok(entries)
}
