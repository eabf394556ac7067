//! `lifeboat repo diff`.

use super::choice::SnapshotSourceArgs;
use super::list::entry_document;
use super::{FoundInKopia, RepositoryArgs, SnapshotPath};
use anyhow::{Result, anyhow};
use clap::Args;
use lifeboat_kopia::format::directory::{DirectoryEntry, EntryType};
use lifeboat_kopia::snapshot::{ChangedProperty, DiffItem, EntryChange, TreeDiff};
use lifeboat_object::printable;
use lifeboat_standalone::backup_source::until_interrupted;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::exit_code::{CheckOutcome, answered};
use lifeboat_terminal::output::yaml;
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// `lifeboat repo diff BEFORE AFTER`.
#[derive(Debug, Args)]
pub(crate) struct RepoDiffArgs {
    /// The earlier snapshot, by its ID, the beginning of one, or latest; and a path in it
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    before: SnapshotPath,
    /// The later snapshot of the same repository, and a path in it
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    after: SnapshotPath,
    #[command(flatten)]
    snapshot_source: SnapshotSourceArgs,
    /// Print one document instead, as JSON or YAML
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    repository: RepositoryArgs,
}

/// Numbers of entries that differ, and of those that could not be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChangeCounts {
    added: u64,
    removed: u64,
    changed: u64,
    not_compared: u64,
}

impl ChangeCounts {
    fn outcome(self) -> CheckOutcome {
        match self {
            Self { not_compared: 1.., .. } => CheckOutcome::Unknown,
            Self { added: 0, removed: 0, changed: 0, .. } => CheckOutcome::Yes,
            _ => CheckOutcome::No,
        }
    }
}

impl RepoDiffArgs {
    /// The exit code answers whether nothing differs.
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let comparing = Box::pin(self.compare(globals));
        let interrupted = "interrupted before all was compared: what is told is not all";
        Ok(answered(until_interrupted(comparing, interrupted).await.map(ChangeCounts::outcome)))
    }

    async fn compare(&self, globals: &Globals) -> Result<ChangeCounts> {
        let opened = self.repository.open(globals).await?;
        let before = self.before.find(&opened.repository, &self.snapshot_source).await?;
        let after = self.after.find(&opened.repository, &self.snapshot_source).await?;
        let side = |found: &FoundInKopia, path: &str| {
            found.gaps.warn(&found.snapshot.id);
            json!({"snapshot": found.snapshot.id, "path": path})
        };
        let sides = json!({"before": side(&before, &self.before.path), "after": side(&after, &self.after.path)});
        let mut diff = TreeDiff::new(opened.repository.contents(), before.entry, after.entry);
        let mut printer = ChangePrinter::begin(self.output, &sides, BufWriter::new(std::io::stdout()))?;
        loop {
            match diff.next().await {
                Ok(Some(DiffItem::Change(change))) => printer.change(&change)?,
                Ok(Some(DiffItem::Unreadable { path, error })) => printer.not_compared(&path, &error)?,
                Ok(None) => return printer.end(),
                Err(error) => {
                    printer.broken_off(&error)?;
                    return Err(anyhow::Error::new(error).context("compare the snapshots"));
                }
            }
        }
    }
}

/// Prints what differs as that is found out, and the counts at the end.
struct ChangePrinter<W: Write> {
    out: W,
    output: Option<Output>,
    counts: ChangeCounts,
    is_first: bool,
    /// Entries of a document that could not be compared.
    not_compared: Vec<Value>,
}

/// The most entries that could not be compared and are named in a document.
const MOST_NAMED: usize = 1000;

impl<W: Write> ChangePrinter<W> {
    fn begin(output: Option<Output>, sides: &Value, mut out: W) -> Result<Self> {
        match output {
            Some(Output::Json) => {
                let sides = sides.to_string();
                write!(out, "{},\"entries\":[", sides.strip_suffix('}').unwrap_or(&sides))?;
            }
            Some(Output::Yaml) => write!(out, "{}entries:", yaml::print(sides)?)?,
            None => {}
        }
        Ok(Self { out, output, counts: ChangeCounts::default(), is_first: true, not_compared: Vec::new() })
    }

    fn change(&mut self, change: &EntryChange) -> Result<()> {
        let count = match (&change.before, &change.after) {
            (None, _) => &mut self.counts.added,
            (_, None) => &mut self.counts.removed,
            _ => &mut self.counts.changed,
        };
        *count += 1;
        let is_first = std::mem::take(&mut self.is_first);
        match self.output {
            Some(Output::Json) => write!(self.out, "{}\n{}", if is_first { "" } else { "," }, document(change))?,
            Some(Output::Yaml) => {
                let item = yaml::print(&json!([document(change)]))?;
                writeln!(self.out, "{}{}", if is_first { "\n" } else { "" }, item.trim_end())?;
            }
            None => writeln!(self.out, "{}", printable(text(change)))?,
        }
        Ok(())
    }

    fn not_compared(&mut self, path: &str, why: &dyn std::error::Error) -> Result<()> {
        self.counts.not_compared += 1;
        if self.not_compared.len() < MOST_NAMED {
            self.not_compared.push(json!({"path": shown(path), "reason": why.to_string()}));
        }
        self.out.flush()?;
        lifeboat_terminal::output::errors::report(&anyhow!("{} was not compared: {why}", shown(path)));
        Ok(())
    }

    /// Ends a document when nothing more can be compared. Text just ends: the error follows.
    fn broken_off(mut self, why: &dyn std::error::Error) -> Result<()> {
        self.not_compared.push(json!({"reason": why.to_string()}));
        if self.output.is_none() {
            return Ok(self.out.flush()?);
        }
        self.end().map(drop)
    }

    fn end(mut self) -> Result<ChangeCounts> {
        let ChangeCounts { added, removed, changed, not_compared } = self.counts;
        let counts = json!({"added": added, "removed": removed, "changed": changed, "notCompared": not_compared});
        let named = Value::from(std::mem::take(&mut self.not_compared));
        match self.output {
            Some(Output::Json) => writeln!(self.out, "],\"notCompared\":{named},\"counts\":{counts}}}")?,
            Some(Output::Yaml) => {
                let rest = yaml::print(&json!({"notCompared": named, "counts": counts}))?;
                write!(self.out, "{}{rest}", if self.is_first { " []\n" } else { "" })?;
            }
            None => writeln!(self.out, "{added} added, {removed} removed, {changed} changed")?,
        }
        self.out.flush()?;
        Ok(self.counts)
    }
}

/// The path as it is shown: a point for the compared trees themselves.
fn shown(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

/// A change in one line.
fn text(change: &EntryChange) -> String {
    let path = shown(&change.path);
    let slash = |entry: &DirectoryEntry| if entry.entry_type == EntryType::Directory { "/" } else { "" };
    match (&change.before, &change.after) {
        (None, after) => format!("added    {path}{}", after.as_ref().map_or("", slash)),
        (Some(before), None) => format!("removed  {path}{}", slash(before)),
        (Some(before), Some(after)) => {
            let parts: Vec<String> = change
                .properties()
                .into_iter()
                .map(|property| format!("{} {}", property.name(), difference(property, before, after)))
                .collect();
            format!("changed  {path}{}: {}", slash(after), parts.join(", "))
        }
    }
}

/// Both values of a property.
fn difference(property: ChangedProperty, before: &DirectoryEntry, after: &DirectoryEntry) -> String {
    let value = |entry: &DirectoryEntry| match property {
        ChangedProperty::Type => super::list::type_name(&entry.into()).to_owned(),
        ChangedProperty::Content => format!("{} bytes", entry.size),
        ChangedProperty::Mode => format!("{:04o}", entry.mode),
        ChangedProperty::Owner => format!("{}:{}", entry.uid, entry.gid),
        ChangedProperty::Time => entry.modified.to_string(),
    };
    format!("{} -> {}", value(before), value(after))
}

/// A change as JSON.
fn document(change: &EntryChange) -> Value {
    let word = match (&change.before, &change.after) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    let what: Vec<&str> = change.properties().into_iter().map(ChangedProperty::name).collect();
    json!({
        "path": shown(&change.path),
        "change": word,
        "what": what,
        "before": change.before.as_ref().map(|entry| entry_document(&entry.into())),
        "after": change.after.as_ref().map(|entry| entry_document(&entry.into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_kopia::format::object_id::ObjectId;
    use lifeboat_kopia::format::time::UnixNanos;

    fn entry(size: u64, mode: u32) -> DirectoryEntry {
        DirectoryEntry {
            name: "a".into(),
            entry_type: EntryType::File,
            mode,
            size,
            modified: UnixNanos(0),
            uid: 1,
            gid: 2,
            object: ObjectId::parse("abababababababababababababababab").ok(),
            summary: None,
        }
    }

    fn changes() -> Vec<EntryChange> {
        let folder = DirectoryEntry { entry_type: EntryType::Directory, ..entry(0, 0o755) };
        let change = |path: &str, before, after| EntryChange { path: path.to_owned(), before, after };
        vec![
            change("", Some(folder.clone()), Some(DirectoryEntry { uid: 5, ..folder.clone() })),
            change("d", None, Some(folder)),
            change("d/a\nremoved  x", Some(entry(1, 0o644)), Some(entry(2, 0o600))),
            change("z", Some(entry(1, 0o644)), None),
        ]
    }

    fn printed(output: Option<Output>, changes: &[EntryChange]) -> String {
        let mut out = Vec::new();
        let mut printer = ChangePrinter::begin(output, &json!({"before": "A"}), &mut out).unwrap();
        changes.iter().for_each(|change| printer.change(change).unwrap());
        printer.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_entry_that_differs_is_a_line_with_both_values() {
        let expected = "changed  ./: owner 1:2 -> 5:2\nadded    d/\n\
             changed  d/a\\nremoved  x: content 1 bytes -> 2 bytes, mode 0644 -> 0600\nremoved  z\n\
             1 added, 1 removed, 2 changed\n";
        assert_eq!(printed(None, &changes()), expected);
    }

    #[test]
    fn one_document_has_all_that_differs() {
        let entry = |word: &str, size: u64, mode: &str, uid: u64, object: &str| json!({"type": word, "mode": mode, "uid": uid, "gid": 2, "size": size, "modified": UnixNanos(0).to_string(), "object": object});
        let id = "abababababababababababababababab";
        let folder = |uid| entry("directory", 0, "0755", uid, id);
        let (one, two) = (entry("file", 1, "0644", 1, id), entry("file", 2, "0600", 1, id));
        let change = |path: &str, word: &str, what: &[&str], before: Value, after: Value| json!({"path": path, "change": word, "what": what, "before": before, "after": after});
        let entries = json!([
            change(".", "changed", &["owner"], folder(1), folder(5)),
            change("d", "added", &[], Value::Null, folder(1)),
            change("d/a\nremoved  x", "changed", &["content", "mode"], one.clone(), two),
            change("z", "removed", &[], one, Value::Null),
        ]);
        let counts = json!({"added": 1, "removed": 1, "changed": 2, "notCompared": 0});
        let expected = json!({"before": "A", "entries": entries, "notCompared": [], "counts": counts});
        let none = json!({"before": "A", "entries": [], "notCompared": [],
            "counts": {"added": 0, "removed": 0, "changed": 0, "notCompared": 0}});
        for (changes, expected) in [(changes(), expected), (Vec::new(), none)] {
            let json: Value = serde_json::from_str(&printed(Some(Output::Json), &changes)).unwrap();
            let yaml: Value = serde_saphyr::from_str(&printed(Some(Output::Yaml), &changes)).unwrap();
            assert_eq!((json, yaml), (expected.clone(), expected));
        }
    }

    #[test]
    fn what_could_not_be_compared_is_no_answer() {
        let counts = |added, not_compared| ChangeCounts { added, not_compared, ..ChangeCounts::default() };
        let outcomes = [counts(0, 0), counts(1, 0), counts(1, 1)].map(ChangeCounts::outcome);
        assert_eq!(outcomes, [CheckOutcome::Yes, CheckOutcome::No, CheckOutcome::Unknown]);
    }
}
