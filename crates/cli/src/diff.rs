//! `lifeboat diff`: what changed between two backups.

use crate::difference::difference_line;
use crate::errors;
use crate::flags::{self, List};
use crate::globals::Globals;
use crate::opened::{ScratchArgs, in_bucket};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use lifeboat_browse::{BackupStore, Change, ChangedObject, Diff, DiffCounts, DiffScope};
use lifeboat_object::GroupResource;
use lifeboat_patch::{Difference, hide_secret_values};
use lifeboat_select::Selector;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use tabwriter::TabWriter;

/// The exit code when something differs, as of `kubectl diff`.
const DIFFERENT: u8 = 1;
/// The exit code when it could not be found out.
const FAILED: u8 = 2;

/// `lifeboat diff BEFORE AFTER --bucket URL`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The earlier backup
    before: String,
    /// The later backup
    after: String,
    /// Where the backups lie: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…
    #[arg(long, value_name = "URL")]
    bucket: String,
    /// Compare only objects of these namespaces, and the namespaces themselves
    #[arg(long, value_parser = flags::list, default_value = "", value_name = "NAMESPACES")]
    include_namespaces: List,
    /// Compare only objects of these types, by plural, singular, short name or kind
    #[arg(long, value_parser = flags::list, default_value = "", value_name = "TYPES")]
    include_resources: List,
    /// Compare only objects whose labels match, in one of the backups
    #[arg(long, short = 'l', default_value = "", value_name = "SELECTOR")]
    selector: String,
    /// Print only how many objects of each type changed
    #[arg(long)]
    stat: bool,
    /// Show the values of Secrets
    #[arg(long)]
    show_secrets: bool,
    /// Print one JSON document instead
    #[arg(long, short, value_enum)]
    output: Option<Form>,
    #[command(flatten)]
    scratch: ScratchArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One JSON document
    Json,
}

impl DiffArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self.compare(globals).await {
            Ok(counts) if counts.added + counts.removed + counts.changed == 0 => Ok(ExitCode::SUCCESS),
            Ok(_) => Ok(ExitCode::from(DIFFERENT)),
            Err(e) => {
                errors::report(&e);
                Ok(ExitCode::from(FAILED))
            }
        }
    }

    async fn compare(&self, globals: &Globals) -> Result<DiffCounts> {
        let selector = Selector::parse(&self.selector).context("--selector")?;
        let folder = self.scratch.folder()?;
        let open = async |name: &str| anyhow::Ok(in_bucket(&self.bucket, name, globals, folder.path()).await?.store);
        let (before, after) = (open(&self.before).await?, open(&self.after).await?);
        let scope = DiffScope {
            namespaces: self.include_namespaces.0.iter().cloned().collect(),
            resources: self.resources([&before, &after])?,
            selector,
        };
        let mut diff = Diff::new(&before, &after, scope);
        let mut printer = Printer::new(self, globals.colour(), BufWriter::new(std::io::stdout()))?;
        while let Some(mut object) = diff.next().await.context("compare the backups")? {
            if let Change::Changed(differences) = &mut object.change
                && object.key.resource == GroupResource::new("", "secrets")
                && !self.show_secrets
            {
                hide_secret_values(differences);
            }
            printer.object(&object)?;
        }
        printer.end(diff.counts())?;
        Ok(diff.counts())
    }

    /// The types that are asked for; one that neither backup knows is refused.
    fn resources(&self, sides: [&BackupStore; 2]) -> Result<BTreeSet<GroupResource>> {
        let mut found = BTreeSet::new();
        for word in &self.include_resources.0 {
            let of_word: Vec<GroupResource> = sides.iter().flat_map(|side| side.resources_of(word)).collect();
            if of_word.is_empty() {
                bail!("--include-resources: neither backup knows a type {word:?}");
            }
            found.extend(of_word);
        }
        Ok(found)
    }
}

/// Prints what differs, object by object as that is found out, and the counts at the end.
struct Printer<W: Write> {
    out: W,
    form: Option<Form>,
    stat: bool,
    colours: bool,
    of_types: BTreeMap<GroupResource, DiffCounts>,
    is_first: bool,
}

impl<W: Write> Printer<W> {
    fn new(args: &DiffArgs, colours: bool, mut out: W) -> Result<Self> {
        if args.output.is_some() {
            write!(out, "{{\"before\":{},\"after\":{},\"objects\":[", json!(args.before), json!(args.after))?;
        }
        Ok(Self { out, form: args.output, stat: args.stat, colours, of_types: BTreeMap::new(), is_first: true })
    }

    fn object(&mut self, object: &ChangedObject) -> Result<()> {
        self.of_types.entry(object.key.resource.clone()).or_default().add(&object.change);
        match self.form {
            Some(Form::Json) => {
                let separator = if std::mem::take(&mut self.is_first) { "" } else { "," };
                write!(self.out, "{separator}\n{}", document(object))?;
            }
            None if self.stat => {}
            None => write!(self.out, "{}", text(object, self.colours))?,
        }
        Ok(())
    }

    fn end(mut self, counts: DiffCounts) -> Result<()> {
        let DiffCounts { added, removed, changed, unchanged, left_out } = counts;
        if self.form.is_some() {
            let counts = json!({"added": added, "removed": removed, "changed": changed, "unchanged": unchanged, "leftOut": left_out});
            writeln!(self.out, "],\"counts\":{counts}}}")?;
            return Ok(self.out.flush()?);
        }
        if self.stat {
            let mut table = TabWriter::new(&mut self.out).minwidth(0).padding(3);
            writeln!(table, "TYPE\tADDED\tREMOVED\tCHANGED")?;
            for (resource, of_type) in &self.of_types {
                writeln!(table, "{resource}\t{}\t{}\t{}", of_type.added, of_type.removed, of_type.changed)?;
            }
            table.flush()?;
        }
        writeln!(self.out, "{added} added, {removed} removed, {changed} changed, {unchanged} unchanged")?;
        if left_out > 0 {
            writeln!(
                self.out,
                "{left_out} that every cluster makes anew are left out: events, endpoints, nodes and the like"
            )?;
        }
        Ok(self.out.flush()?)
    }
}

fn text(object: &ChangedObject, colours: bool) -> String {
    let key = &object.key;
    match &object.change {
        Change::Added => format!("added    {key}\n"),
        Change::Removed => format!("removed  {key}\n"),
        Change::Changed(differences) => {
            let lines = differences.iter().map(|one| format!("           {}\n", difference_line(one, colours)));
            format!("changed  {key}\n{}", lines.collect::<String>())
        }
    }
}

/// One object as JSON: what became of it, and where it differs.
fn document(object: &ChangedObject) -> Value {
    let (word, differences): (&str, &[Difference]) = match &object.change {
        Change::Added => ("added", &[]),
        Change::Removed => ("removed", &[]),
        Change::Changed(differences) => ("changed", differences),
    };
    let mut document = json!({"change": word, "resource": object.key.resource.to_string(), "name": object.key.name});
    if let Some(namespace) = &object.key.namespace {
        document["namespace"] = namespace.as_str().into();
    }
    if !differences.is_empty() {
        let place = |one: &Difference| {
            let mut place = json!({"path": one.path});
            for (side, value) in [("before", &one.left), ("after", &one.right)] {
                if let Some(value) = value {
                    place[side] = value.clone();
                }
            }
            place
        };
        document["differences"] = differences.iter().map(place).collect();
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ObjectKey;

    fn objects() -> Vec<ChangedObject> {
        let key = |name: &str| ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name);
        let place =
            |path: &str, left: Value, right: Option<Value>| Difference { path: path.into(), left: Some(left), right };
        let places = vec![place("/data/a", json!("1"), Some(json!("2"))), place("/data/b", json!("3"), None)];
        vec![
            ChangedObject { key: key("new"), change: Change::Added },
            ChangedObject { key: key("settings"), change: Change::Changed(places) },
            ChangedObject { key: ObjectKey::new(GroupResource::new("a.io", "xs"), None, "x"), change: Change::Removed },
        ]
    }

    fn printed(form: Option<Form>, stat: bool) -> String {
        let args = DiffArgs {
            before: "b1".into(),
            after: "b2".into(),
            bucket: String::new(),
            include_namespaces: List::default(),
            include_resources: List::default(),
            selector: String::new(),
            stat,
            show_secrets: false,
            output: form,
            scratch: ScratchArgs { scratch: None },
        };
        let mut out = Vec::new();
        let mut printer = Printer::new(&args, false, &mut out).unwrap();
        for object in objects() {
            printer.object(&object).unwrap();
        }
        printer.end(DiffCounts { added: 1, removed: 1, changed: 1, unchanged: 7, left_out: 2 }).unwrap();
        String::from_utf8(out).unwrap()
    }

    const END: &str = "1 added, 1 removed, 1 changed, 7 unchanged\n\
         2 that every cluster makes anew are left out: events, endpoints, nodes and the like\n";

    #[test]
    fn a_line_for_each_object_and_each_place() {
        let lines = "added    configmaps/shop/new\nchanged  configmaps/shop/settings\n           /data/a: \"1\" -> \"2\"\n           \
                     /data/b: \"3\" -> (absent)\nremoved  xs.a.io/x\n";
        assert_eq!(printed(None, false), format!("{lines}{END}"));
    }

    #[test]
    fn counts_by_type() {
        let table = "TYPE         ADDED   REMOVED   CHANGED\nconfigmaps   1       0         1\nxs.a.io      0       1         0\n";
        assert_eq!(printed(None, true), format!("{table}{END}"));
    }

    #[test]
    fn one_document() {
        let document: Value = serde_json::from_str(&printed(Some(Form::Json), false)).unwrap();
        let key = |name: &str, change: &str| json!({"change": change, "resource": "configmaps", "namespace": "shop", "name": name});
        let mut changed = key("settings", "changed");
        changed["differences"] =
            json!([{"path": "/data/a", "before": "1", "after": "2"}, {"path": "/data/b", "before": "3"}]);
        let removed = json!({"change": "removed", "resource": "xs.a.io", "name": "x"});
        let counts = json!({"added": 1, "removed": 1, "changed": 1, "unchanged": 7, "leftOut": 2});
        let objects = json!([key("new", "added"), changed, removed]);
        assert_eq!(document, json!({"before": "b1", "after": "b2", "objects": objects, "counts": counts}));
    }
}
