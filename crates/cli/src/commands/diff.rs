//! `lifeboat diff`: compares two backups, or a backup with the cluster.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use lifeboat_browse::{ChangedObject, Diff, DiffCounts, DiffScope, LiveCluster, LiveDiff, LiveError, ObjectChange};
use lifeboat_object::{GroupResource, chain, printable};
use lifeboat_patch::{Difference, hide_secret_values};
use lifeboat_requests::archive::FromServerArgs;
use lifeboat_select::Selector;
use lifeboat_standalone::backup_source::{self, OpenBackup, until_interrupted};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::{self, List};
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::difference::{difference_documents, difference_lines};
use lifeboat_terminal::output::errors;
use lifeboat_terminal::output::exit_code::{CheckOutcome, answered};
use lifeboat_terminal::output::yaml;
use lifeboat_terminal::process::scratch::ScratchArgs;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Stdout, Write};
use std::path::Path;
use std::process::ExitCode;
use tabwriter::TabWriter;

/// Blanks before a place where an object differs.
const INDENT: usize = 11;

/// `lifeboat diff BEFORE [AFTER] [--bucket URL]`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The backup, or the earlier one of two
    before: String,
    /// The later backup; the cluster as it is now when left out
    after: Option<String>,
    /// Where the backups lie: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…; otherwise the server is
    /// asked for them
    #[arg(long, value_name = "URL")]
    bucket: Option<String>,
    /// Compare only objects of these namespaces, and the namespaces themselves
    #[arg(long, value_parser = flags::list, default_value = "", value_name = "NAMESPACES")]
    pub(crate) include_namespaces: List,
    /// Compare only objects of these types, by plural, singular, short name or kind
    #[arg(long, value_parser = flags::list, default_value = "", value_name = "TYPES")]
    include_resources: List,
    /// Compare no objects of these types
    #[arg(long, value_parser = flags::list, default_value = "", value_name = "TYPES")]
    exclude_resources: List,
    /// Compare only objects whose labels match, on one of the two sides
    #[arg(long, short = 'l', default_value = "", value_name = "SELECTOR")]
    selector: String,
    /// Print only how many objects of each type changed
    #[arg(long, conflicts_with = "output")]
    stat: bool,
    /// Show the values of Secrets
    #[arg(long)]
    show_secrets: bool,
    /// Print one document instead, as JSON or YAML
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    scratch: ScratchArgs,
    #[command(flatten)]
    server: FromServerArgs,
}

/// The outcome of a comparison.
struct DiffOutcome {
    counts: DiffCounts,
    /// True when some types could not be compared; each was reported.
    is_incomplete: bool,
}

impl DiffArgs {
    /// The exit code answers whether nothing differs.
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let comparing = async {
            match &self.after {
                Some(after) => Box::pin(self.compare_backups(after, globals)).await,
                None => Box::pin(self.compare_with_cluster(globals)).await,
            }
        };
        let outcome =
            until_interrupted(comparing, "interrupted before all was compared: what is told is not all").await;
        let answer = |DiffOutcome { counts, is_incomplete }| match counts.added + counts.removed + counts.changed {
            _ if is_incomplete => CheckOutcome::Unknown,
            0 => CheckOutcome::Yes,
            _ => CheckOutcome::No,
        };
        Ok(answered(outcome.map(answer)))
    }

    async fn compare_backups(&self, after: &str, globals: &Globals) -> Result<DiffOutcome> {
        let folder = self.scratch.folder()?;
        let before = self.open(&self.before, globals, folder.path()).await?.store;
        let after_store = self.open(after, globals, folder.path()).await?.store;
        let known = |word: &str| [&before, &after_store].iter().flat_map(|side| side.resources_of(word)).collect();
        let mut diff = Diff::new(&before, &after_store, self.scope(known)?);
        let mut printer = self.printer(&json!({"before": self.before, "after": after}), globals)?;
        loop {
            match diff.next().await {
                Ok(Some(object)) => printer.object(object)?,
                Ok(None) => break,
                Err(e) => {
                    printer.broken_off(&e, diff.counts())?;
                    return Err(e).context("compare the backups");
                }
            }
        }
        printer.end(diff.counts())?;
        Ok(DiffOutcome { counts: diff.counts(), is_incomplete: false })
    }

    async fn compare_with_cluster(&self, globals: &Globals) -> Result<DiffOutcome> {
        let folder = self.scratch.folder()?;
        let OpenBackup { store, record, what } = self.open(&self.before, globals, folder.path()).await?;
        let cluster = globals.connect().await?;
        let doing = || format!("compare {what} with the cluster at {}", cluster.url());
        let live = LiveCluster::discover(&cluster).await.with_context(doing)?;
        let known = |word: &str| store.resources_of(word).into_iter().chain(live.resources_of(word)).collect();
        let scope = self.scope(known)?;
        let mut diff = Box::pin(LiveDiff::begin(&store, &record, &live, scope)).await.with_context(doing)?;
        for note in diff.notes() {
            errors::warn(Some(note));
        }
        let mut printer = self.printer(&json!({"before": self.before, "cluster": cluster.url()}), globals)?;
        loop {
            match Box::pin(diff.next()).await {
                Ok(Some(object)) => printer.object(object)?,
                Ok(None) => break,
                Err(e) => match e.resource() {
                    Some(resource) => {
                        printer.not_compared(resource, &e);
                        errors::report(&anyhow!("{}: {}", chain(&e), next_step(&e)));
                    }
                    None => {
                        printer.broken_off(&e, diff.counts())?;
                        return Err(e).with_context(doing);
                    }
                },
            }
        }
        let is_incomplete = !printer.not_compared.is_empty();
        printer.end(diff.counts())?;
        Ok(DiffOutcome { counts: diff.counts(), is_incomplete })
    }

    async fn open(&self, name: &str, globals: &Globals, folder: &Path) -> Result<OpenBackup> {
        backup_source::backup(name, self.bucket.as_deref(), &self.server, globals, folder).await
    }

    /// Returns the scope that is asked for; a type that neither side knows is refused.
    fn scope(&self, known: impl Fn(&str) -> BTreeSet<GroupResource>) -> Result<DiffScope> {
        let selector = Selector::parse(&self.selector).context("--selector")?;
        let types = |flag: &str, words: &List| -> Result<BTreeSet<GroupResource>> {
            let mut types = BTreeSet::new();
            for word in &words.0 {
                let of_word = known(word);
                if of_word.is_empty() {
                    bail!("{flag}: neither side knows a type {word:?}");
                }
                types.extend(of_word);
            }
            Ok(types)
        };
        Ok(DiffScope {
            namespaces: self.include_namespaces.0.iter().cloned().collect(),
            resources: types("--include-resources", &self.include_resources)?,
            excluded: types("--exclude-resources", &self.exclude_resources)?,
            selector,
        })
    }

    fn printer(&self, sides: &Value, globals: &Globals) -> Result<Printer<BufWriter<Stdout>>> {
        let form =
            PrintedForm { output: self.output, stat: self.stat, colours: globals.colour(), secrets: self.show_secrets };
        Printer::new(form, sides, BufWriter::new(std::io::stdout()))
    }
}

/// Hint for a type that could not be compared.
fn next_step(e: &LiveError) -> &'static str {
    match e.is_forbidden() {
        true => "comparing them takes the right to list them; --exclude-resources leaves them out",
        false => "try again, or leave them out with --exclude-resources",
    }
}

/// The form in which differences are printed.
#[derive(Clone, Copy)]
struct PrintedForm {
    /// As one document.
    output: Option<Output>,
    /// Only how many there are.
    stat: bool,
    colours: bool,
    /// True when values of Secrets are shown.
    secrets: bool,
}

/// Prints what differs, object by object as that is found out, and the counts at the end.
struct Printer<W: Write> {
    out: W,
    form: PrintedForm,
    of_types: BTreeMap<GroupResource, DiffCounts>,
    is_first: bool,
    /// Of a document: what was not compared, and why.
    not_compared: Vec<Value>,
}

impl<W: Write> Printer<W> {
    /// `sides` names what is compared.
    fn new(form: PrintedForm, sides: &Value, mut out: W) -> Result<Self> {
        match form.output {
            Some(Output::Json) => {
                let sides = sides.to_string();
                write!(out, "{},\"objects\":[", sides.strip_suffix('}').unwrap_or(&sides))?;
            }
            Some(Output::Yaml) => write!(out, "{}objects:", yaml::print(sides)?)?,
            None => {}
        }
        Ok(Self { out, form, of_types: BTreeMap::new(), is_first: true, not_compared: Vec::new() })
    }

    fn object(&mut self, mut object: ChangedObject) -> Result<()> {
        if let ObjectChange::Changed(differences) = &mut object.change
            && object.key.resource.is_secrets()
            && !self.form.secrets
        {
            hide_secret_values(differences);
        }
        self.of_types.entry(object.key.resource.clone()).or_default().add(&object.change);
        let is_first = std::mem::take(&mut self.is_first);
        match self.form.output {
            Some(Output::Json) => {
                write!(self.out, "{}\n{}", if is_first { "" } else { "," }, document(&object))?;
            }
            Some(Output::Yaml) => {
                let item = yaml::print(&json!([document(&object)]))?;
                writeln!(self.out, "{}{}", if is_first { "\n" } else { "" }, item.trim_end())?;
            }
            None if self.form.stat => {}
            None => write!(self.out, "{}", text(&object, self.form.colours))?,
        }
        Ok(())
    }

    /// Notes that a type was not compared to its end.
    fn not_compared(&mut self, resource: &GroupResource, why: &(dyn std::error::Error + 'static)) {
        self.not_compared.push(json!({"type": resource.to_string(), "reason": chain(why)}));
    }

    /// Ends a document when nothing more can be compared. Text just ends: the error follows.
    fn broken_off(mut self, why: &(dyn std::error::Error + 'static), counts: DiffCounts) -> Result<()> {
        self.not_compared.push(json!({"reason": chain(why)}));
        match self.form.output {
            Some(output) => self.end_of_document(output, counts),
            None => Ok(self.out.flush()?),
        }
    }

    fn end_of_document(mut self, output: Output, counts: DiffCounts) -> Result<()> {
        let DiffCounts { added, removed, changed, unchanged, left_out } = counts;
        let counts = json!({"added": added, "removed": removed, "changed": changed, "unchanged": unchanged, "leftOut": left_out});
        let not_compared = Value::from(std::mem::take(&mut self.not_compared));
        match output {
            Output::Json => writeln!(self.out, "],\"notCompared\":{not_compared},\"counts\":{counts}}}")?,
            Output::Yaml => {
                let rest = yaml::print(&json!({"notCompared": not_compared, "counts": counts}))?;
                write!(self.out, "{}{rest}", if self.is_first { " []\n" } else { "" })?;
            }
        }
        Ok(self.out.flush()?)
    }

    fn end(mut self, counts: DiffCounts) -> Result<()> {
        if let Some(output) = self.form.output {
            return self.end_of_document(output, counts);
        }
        let DiffCounts { added, removed, changed, unchanged, left_out } = counts;
        if self.form.stat {
            let mut table = TabWriter::new(&mut self.out).minwidth(0).padding(3);
            writeln!(table, "TYPE\tADDED\tREMOVED\tCHANGED")?;
            for (resource, of_type) in &self.of_types {
                let DiffCounts { added, removed, changed, .. } = of_type;
                writeln!(table, "{}\t{added}\t{removed}\t{changed}", printable(resource))?;
            }
            table.flush()?;
        }
        writeln!(self.out, "{added} added, {removed} removed, {changed} changed, {unchanged} unchanged")?;
        if left_out > 0 {
            writeln!(
                self.out,
                "{left_out} that clusters and servers make themselves are left out: events, endpoints, leases and the like"
            )?;
        }
        Ok(self.out.flush()?)
    }
}

fn text(object: &ChangedObject, colours: bool) -> String {
    let key = printable(&object.key);
    match &object.change {
        ObjectChange::Added => format!("added    {key}\n"),
        ObjectChange::Removed => format!("removed  {key}\n"),
        ObjectChange::Changed(differences) => {
            format!("changed  {key}\n{}", difference_lines(differences, INDENT, colours))
        }
    }
}

/// Formats an object as JSON: its change, and the differences.
fn document(object: &ChangedObject) -> Value {
    let (word, differences): (&str, &[Difference]) = match &object.change {
        ObjectChange::Added => ("added", &[]),
        ObjectChange::Removed => ("removed", &[]),
        ObjectChange::Changed(differences) => ("changed", differences),
    };
    let mut document = object.key.to_json();
    document["change"] = word.into();
    if !differences.is_empty() {
        document["differences"] = difference_documents(differences);
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
            ChangedObject { key: key("new"), change: ObjectChange::Added },
            ChangedObject { key: key("settings"), change: ObjectChange::Changed(places) },
            ChangedObject {
                key: ObjectKey::new(GroupResource::new("a.io", "xs"), None, "x"),
                change: ObjectChange::Removed,
            },
        ]
    }

    fn printer(output: Option<Output>, stat: bool, out: &mut Vec<u8>) -> Printer<&mut Vec<u8>> {
        let form = PrintedForm { output, stat, colours: false, secrets: false };
        Printer::new(form, &json!({"before": "b1", "after": "b2"}), out).unwrap()
    }

    fn printed(output: Option<Output>, stat: bool) -> String {
        let mut out = Vec::new();
        let mut printer = printer(output, stat, &mut out);
        for object in objects() {
            printer.object(object).unwrap();
        }
        printer.end(DiffCounts { added: 1, removed: 1, changed: 1, unchanged: 7, left_out: 2 }).unwrap();
        String::from_utf8(out).unwrap()
    }

    const END: &str = "1 added, 1 removed, 1 changed, 7 unchanged\n\
         2 that clusters and servers make themselves are left out: events, endpoints, leases and the like\n";

    #[test]
    fn a_line_for_each_object_and_each_place() {
        let lines = "added    configmaps/shop/new\nchanged  configmaps/shop/settings\n           /data/a: \"1\" -> \"2\"\n           \
                     /data/b: \"3\" -> (absent)\nremoved  xs.a.io/x\n";
        assert_eq!(printed(None, false), format!("{lines}{END}"));
    }

    #[test]
    fn who_names_an_object_makes_no_lines() {
        let key = ObjectKey::new(GroupResource::new("", "pods"), Some("shop"), "a\nremoved  pods/shop/b");
        let object = ChangedObject { key, change: ObjectChange::Added };
        assert_eq!(text(&object, false), "added    pods/shop/a\\nremoved  pods/shop/b\n");
    }

    #[test]
    fn counts_by_type() {
        let table = "TYPE         ADDED   REMOVED   CHANGED\nconfigmaps   1       0         1\nxs.a.io      0       1         0\n";
        assert_eq!(printed(None, true), format!("{table}{END}"));
    }

    #[test]
    fn one_document() {
        let key = |name: &str, change: &str| json!({"change": change, "type": "configmaps", "namespace": "shop", "name": name});
        let mut changed = key("settings", "changed");
        changed["differences"] =
            json!([{"path": "/data/a", "before": "1", "after": "2"}, {"path": "/data/b", "before": "3"}]);
        let removed = json!({"change": "removed", "type": "xs.a.io", "name": "x"});
        let counts = json!({"added": 1, "removed": 1, "changed": 1, "unchanged": 7, "leftOut": 2});
        let objects = json!([key("new", "added"), changed, removed]);
        let expected = json!({"before": "b1", "after": "b2", "objects": objects, "notCompared": [], "counts": counts});
        assert_eq!(serde_json::from_str::<Value>(&printed(Some(Output::Json), false)).unwrap(), expected);
        assert_eq!(serde_saphyr::from_str::<Value>(&printed(Some(Output::Yaml), false)).unwrap(), expected);
    }

    #[test]
    fn a_document_says_what_was_not_compared_also_when_it_is_broken_off() {
        let why = std::io::Error::other("it is gone");
        let read = |output: Output| -> Value {
            let mut out = Vec::new();
            let mut printer = printer(Some(output), false, &mut out);
            printer.not_compared(&GroupResource::new("", "secrets"), &why);
            printer.broken_off(&why, DiffCounts::default()).unwrap();
            let text = String::from_utf8(out).unwrap();
            match output {
                Output::Json => serde_json::from_str(&text).unwrap(),
                Output::Yaml => serde_saphyr::from_str(&text).unwrap(),
            }
        };
        let counts = json!({"added": 0, "removed": 0, "changed": 0, "unchanged": 0, "leftOut": 0});
        let not_compared = json!([{"type": "secrets", "reason": "it is gone"}, {"reason": "it is gone"}]);
        let expected =
            json!({"before": "b1", "after": "b2", "objects": [], "notCompared": not_compared, "counts": counts});
        assert_eq!((read(Output::Json), read(Output::Yaml)), (expected.clone(), expected));
    }
}
