//! `lifeboat repo ls`.

use super::choice::SnapshotSourceArgs;
use super::{RepositoryArgs, SnapshotPath};
use anyhow::Result;
use clap::{Args, ValueEnum};
use futures::TryStreamExt;
use lifeboat_kopia::snapshot::{EntryState, MAX_DEPTH};
use lifeboat_mover::tree::{EntryKind, Object, Source, SourceEntry, SpecialFile};
use lifeboat_object::printable;
use lifeboat_terminal::flags::globals::Globals;
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// `lifeboat repo ls SNAPSHOT[:PATH]`.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// The snapshot, by its ID, the beginning of one, or latest; and a path in it
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    entry: SnapshotPath,
    #[command(flatten)]
    snapshot_source: SnapshotSourceArgs,
    #[command(flatten)]
    listing: ListingArgs,
    #[command(flatten)]
    repository: RepositoryArgs,
}

/// Form of a listing.
#[derive(Debug, Args)]
pub(crate) struct ListingArgs {
    /// List what is in directories below, too
    #[arg(long, short)]
    recursive: bool,
    /// Print mode, owner, group, size and time of each entry
    #[arg(long, short)]
    long: bool,
    /// Print each entry as a line of json
    #[arg(long, short, value_enum, conflicts_with = "long")]
    output: Option<Lines>,
}

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lines {
    /// A JSON object in each line
    Json,
}

impl LsArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let opened = self.repository.open_source(globals).await?;
        let found = self.entry.find_in(&opened.source, &self.snapshot_source).await?;
        found.gaps.warn(&found.snapshot);
        self.listing.print(&opened.source, &found.entry).await
    }
}

impl ListingArgs {
    /// Returns true if each entry is a line of JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.output.is_some()
    }

    /// Prints what is in a directory, or the one entry.
    pub(crate) async fn print(&self, source: &Source, entry: &SourceEntry) -> Result<ExitCode> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let mut all_readable = true;
        match (&entry.kind, &entry.object) {
            (EntryKind::Directory, Some(object)) => {
                all_readable = self.directory(source, object.clone(), &mut out).await?;
            }
            _ => self.line(&mut out, "", entry)?,
        }
        out.flush()?;
        Ok(if all_readable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Prints a directory, and those below it where that is asked for: parents before children. Gives false where a
    /// directory below could not be read, which is told.
    async fn directory(&self, source: &Source, root: Object, out: &mut impl Write) -> Result<bool> {
        let mut all_readable = true;
        let mut waiting = vec![(String::new(), root, 0)];
        while let Some((path, object, depth)) = waiting.pop() {
            let mut below = Vec::new();
            let mut children = source.entries(&object);
            loop {
                let child = match children.try_next().await {
                    Ok(Some(child)) => child,
                    Ok(None) => break,
                    Err(error) if path.is_empty() => return Err(error.into()),
                    Err(error) => {
                        all_readable = false;
                        out.flush()?;
                        writeln!(std::io::stderr(), "error: {}: {}", printable(&path), printable(&error))?;
                        break;
                    }
                };
                self.line(out, &path, &child)?;
                if let (true, EntryKind::Directory, Some(object)) = (self.recursive, &child.kind, &child.object) {
                    if depth >= MAX_DEPTH {
                        all_readable = false;
                        out.flush()?;
                        let why = format!("it lies below {MAX_DEPTH} directories, and is not listed");
                        writeln!(
                            std::io::stderr(),
                            "error: {}{}: {why}",
                            printable(&path),
                            printable(child.name.to_string_lossy())
                        )?;
                        continue;
                    }
                    below.push((format!("{path}{}/", child.name.to_string_lossy()), object.clone(), depth + 1));
                }
            }
            // The first of them is next.
            waiting.extend(below.into_iter().rev());
        }
        Ok(all_readable)
    }

    fn line(&self, out: &mut impl Write, path: &str, entry: &SourceEntry) -> Result<()> {
        let name = format!("{path}{}", entry.name.to_string_lossy());
        if self.output.is_some() {
            writeln!(out, "{}", value(&name, entry))?;
            return Ok(());
        }
        let note = match &entry.state {
            EntryState::Whole => String::new(),
            EntryState::CutShort { name } => format!("  (beginning of {name}: its upload was cut short)"),
            EntryState::Unreadable { why } => format!("  (cannot be restored: {why})"),
        };
        let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
        let long = if self.long { long(entry) } else { String::new() };
        writeln!(out, "{}", printable(format!("{long}{name}{slash}{note}")))?;
        Ok(())
    }
}

/// Mode, owner, group, size and time.
fn long(entry: &SourceEntry) -> String {
    let letter = match &entry.kind {
        EntryKind::File => '-',
        EntryKind::Directory => 'd',
        EntryKind::Symlink => 'l',
        EntryKind::Special(SpecialFile::Pipe) => 'p',
        EntryKind::Special(SpecialFile::Socket) => 's',
        EntryKind::Special(SpecialFile::CharacterDevice(_)) => 'c',
        EntryKind::Special(SpecialFile::BlockDevice(_)) => 'b',
        EntryKind::Unknown(_) => '?',
    };
    let Some(attributes) = &entry.attributes else { return format!("{letter}???? ") };
    let (mode, uid, gid) = (attributes.mode, attributes.uid, attributes.gid);
    format!("{letter}{mode:04o} {uid:>6} {gid:>6} {:>14} {:<30} ", entry.size, attributes.modified.to_string())
}

/// The type of an entry in words.
pub(super) fn type_name(entry: &SourceEntry) -> &str {
    match &entry.kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Special(SpecialFile::Pipe) => "pipe",
        EntryKind::Special(SpecialFile::Socket) => "socket",
        EntryKind::Special(SpecialFile::CharacterDevice(_)) => "character device",
        EntryKind::Special(SpecialFile::BlockDevice(_)) => "block device",
        EntryKind::Unknown(word) => word,
    }
}

/// The properties of an entry as JSON.
pub(crate) fn entry_document(entry: &SourceEntry) -> Value {
    let attributes = entry.attributes.as_ref();
    let object = entry.object.as_ref().and_then(|object| match object {
        Object::Kopia(object) => Some(object.to_string()),
        Object::Tree(tree) => Some(tree.to_string()),
        // A file of restic is a list of pieces, and the target of a symlink is no object.
        Object::Pieces(_) | Object::Target(_) => None,
    });
    json!({
        "type": type_name(entry),
        "mode": attributes.map(|attributes| format!("{:04o}", attributes.mode)),
        "uid": attributes.map(|attributes| attributes.uid),
        "gid": attributes.map(|attributes| attributes.gid),
        "size": entry.size,
        "modified": attributes.map(|attributes| attributes.modified.to_string()),
        "object": object,
    })
}

/// An entry of a listing as JSON.
fn value(path: &str, entry: &SourceEntry) -> Value {
    let problem = match &entry.state {
        EntryState::Whole => None,
        EntryState::CutShort { .. } => Some("its upload was cut short".to_owned()),
        EntryState::Unreadable { why } => Some(why.clone()),
    };
    let mut document = entry_document(entry);
    document["path"] = path.into();
    document["problem"] = problem.into();
    document
}
