//! `lifeboat repo ls`.

use super::{RepositoryArgs, SnapshotPath};
use anyhow::Result;
use clap::{Args, ValueEnum};
use futures::TryStreamExt;
use lifeboat_kopia::Repository;
use lifeboat_kopia::format::directory::{DirectoryEntry, EntryType};
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::snapshot::{EntryState, MAX_DEPTH, TreeEntry, entries};
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
        let opened = self.repository.open(globals).await?;
        let (_, entry) = self.entry.find(&opened.repository).await?;
        self.listing.print(&opened.repository, entry).await
    }
}

impl ListingArgs {
    /// Returns true if each entry is a line of JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.output.is_some()
    }

    /// Prints what is in a directory, or the one entry.
    pub(crate) async fn print(&self, repository: &Repository, entry: DirectoryEntry) -> Result<ExitCode> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let mut all_readable = true;
        match (&entry.entry_type, entry.object) {
            (EntryType::Directory, Some(object)) => {
                all_readable = self.directory(repository, object, &mut out).await?;
            }
            _ => self.line(&mut out, "", &TreeEntry::new(entry))?,
        }
        out.flush()?;
        Ok(if all_readable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Prints a directory, and those below it where that is asked for: parents before children. Gives false where a
    /// directory below could not be read, which is told.
    async fn directory(&self, repository: &Repository, root: ObjectId, out: &mut impl Write) -> Result<bool> {
        let mut all_readable = true;
        let mut waiting = vec![(String::new(), root, 0)];
        while let Some((path, object, depth)) = waiting.pop() {
            let mut below = Vec::new();
            let mut children = entries(repository.contents(), &object);
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
                if let (true, EntryType::Directory, Some(object)) =
                    (self.recursive, &child.entry.entry_type, child.entry.object)
                {
                    if depth >= MAX_DEPTH {
                        all_readable = false;
                        out.flush()?;
                        let why = format!("it lies below {MAX_DEPTH} directories, and is not listed");
                        writeln!(
                            std::io::stderr(),
                            "error: {}{}: {why}",
                            printable(&path),
                            printable(&child.entry.name)
                        )?;
                        continue;
                    }
                    below.push((format!("{path}{}/", child.entry.name), object, depth + 1));
                }
            }
            // The first of them is next.
            waiting.extend(below.into_iter().rev());
        }
        Ok(all_readable)
    }

    fn line(&self, out: &mut impl Write, path: &str, child: &TreeEntry) -> Result<()> {
        let entry = &child.entry;
        let name = format!("{path}{}", entry.name);
        if self.output.is_some() {
            writeln!(out, "{}", value(&name, child))?;
            return Ok(());
        }
        let note = match &child.state {
            EntryState::Whole => String::new(),
            EntryState::CutShort { name } => format!("  (beginning of {name}: its upload was cut short)"),
            EntryState::Unreadable { why } => format!("  (cannot be restored: {why})"),
        };
        let slash = if entry.entry_type == EntryType::Directory { "/" } else { "" };
        let long = if self.long { long(entry) } else { String::new() };
        writeln!(out, "{}", printable(format!("{long}{name}{slash}{note}")))?;
        Ok(())
    }
}

/// Mode, owner, group, size and time.
fn long(entry: &DirectoryEntry) -> String {
    let letter = match entry.entry_type {
        EntryType::File => '-',
        EntryType::Directory => 'd',
        EntryType::Symlink => 'l',
        EntryType::Unknown(_) => '?',
    };
    let (mode, modified) = (entry.mode, entry.modified.to_string());
    format!("{letter}{mode:04o} {:>6} {:>6} {:>14} {modified:<30} ", entry.uid, entry.gid, entry.size)
}

/// The type of an entry in words.
pub(super) fn type_name(entry: &DirectoryEntry) -> &str {
    match &entry.entry_type {
        EntryType::File => "file",
        EntryType::Directory => "directory",
        EntryType::Symlink => "symlink",
        EntryType::Unknown(word) => word,
    }
}

/// The properties of an entry as JSON.
pub(crate) fn entry_document(entry: &DirectoryEntry) -> Value {
    json!({
        "type": type_name(entry),
        "mode": format!("{:04o}", entry.mode),
        "uid": entry.uid,
        "gid": entry.gid,
        "size": entry.size,
        "modified": entry.modified.to_string(),
        "object": entry.object.map(|object| object.to_string()),
    })
}

/// An entry of a listing as JSON.
fn value(path: &str, child: &TreeEntry) -> Value {
    let problem = match &child.state {
        EntryState::Whole => None,
        EntryState::CutShort { .. } => Some("its upload was cut short".to_owned()),
        EntryState::Unreadable { why } => Some(why.clone()),
    };
    let mut document = entry_document(&child.entry);
    document["path"] = path.into();
    document["problem"] = problem.into();
    document
}
