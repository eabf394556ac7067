//! Prints what an operation would do: `--dry-run`.

use crate::globals::Globals;
use crate::local::journal::{PARTIALLY_FAILED, print_results, watched};
use crate::output::Output;
use anyhow::{Context, Result, bail};
use lifeboat_backup::Preview;
use lifeboat_object::{GroupResource, Results};
use lifeboat_patch::{Difference, hide_secret_values};
use lifeboat_restore::{Env, Modification, Planned, PreviewEnd, PreviewItem, Request};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Seek, Stdout, Write};
use std::process::ExitCode;
use tokio::sync::mpsc;

/// Objects of a restore waiting to be printed.
const WAITING: usize = 64;
/// Characters of a value that are shown.
const SHOWN: usize = 100;

/// Prints the preview of a backup.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn print_backup(preview: &Preview, output: Option<Output>) -> Result<ExitCode> {
    print_results(&preview.results);
    match output {
        Some(output) => crate::output::print_resource(&backup_value(preview), output)?,
        None => print_backup_text(preview)?,
    }
    Ok(code(preview.results.errors.is_empty()))
}

fn code(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::from(PARTIALLY_FAILED) }
}

fn print_backup_text(preview: &Preview) -> Result<()> {
    let mut out = tabwriter::TabWriter::new(std::io::stdout().lock());
    writeln!(out, "TYPE\tOBJECTS\tKIB")?;
    for (resource, found) in &preview.types {
        writeln!(out, "{resource}\t{}\t{}", found.objects, found.bytes.div_ceil(1024))?;
    }
    out.flush()?;
    let mut out = std::io::stdout().lock();
    if !preview.excluded.is_empty() || !preview.left_out.is_empty() {
        writeln!(out, "\nLeft out:")?;
    }
    for excluded in &preview.excluded {
        writeln!(out, "  {}: {}", excluded.resource, excluded.reason)?;
    }
    print_left_out(&mut out, &preview.left_out)?;
    if !preview.volumes.is_empty() {
        writeln!(out, "\nVolumes:")?;
    }
    for volume in &preview.volumes {
        let what =
            if volume.skipped { format!("skipped: {}", volume.skipped_reason) } else { volume.backup_method.clone() };
        let name = volume_name([&volume.pvc_namespace, &volume.pvc_name, &volume.pv_name]);
        writeln!(out, "  {name}: {what}")?;
    }
    let objects: u64 = preview.types.values().map(|found| found.objects).sum();
    writeln!(out, "\nWould save {objects} objects of {} types. Nothing was written.", preview.types.len())?;
    Ok(())
}

/// Namespace and name of the claim and name of the volume, as far as there are any.
fn volume_name(names: [&String; 3]) -> String {
    let names: Vec<&str> = names.into_iter().filter(|n| !n.is_empty()).map(String::as_str).collect();
    names.join("/")
}

fn print_left_out(out: &mut impl Write, left_out: &BTreeMap<(GroupResource, &'static str), u64>) -> Result<()> {
    for ((resource, reason), count) in left_out {
        writeln!(out, "  {count} of {resource}: {reason}")?;
    }
    Ok(())
}

fn backup_value(preview: &Preview) -> Value {
    let types = preview
        .types
        .iter()
        .map(|(resource, found)| json!({"type": resource.to_string(), "objects": found.objects, "bytes": found.bytes}));
    let excluded = preview.excluded.iter().map(|e| json!({"type": e.resource.to_string(), "reason": e.reason}));
    json!({
        "types": types.collect::<Vec<_>>(),
        "excluded": excluded.collect::<Vec<_>>(),
        "leftOut": left_out_value(&preview.left_out),
        "volumes": preview.volumes,
        "results": preview.results,
    })
}

fn left_out_value(left_out: &BTreeMap<(GroupResource, &'static str), u64>) -> Vec<Value> {
    let one = |((resource, reason), count): (&(GroupResource, &'static str), &u64)| json!({"type": resource.to_string(), "objects": count, "reason": reason});
    left_out.iter().map(one).collect()
}

/// Refuses a form of the output that the preview of a restore does not have.
///
/// # Errors
/// For YAML.
pub(crate) fn only_json(output: Option<Output>) -> Result<()> {
    if output == Some(Output::Yaml) {
        bail!("--dry-run prints text or, with -o json, JSON: YAML cannot be written object by object");
    }
    Ok(())
}

/// Previews a restore and prints what it would do, object by object as that is found out. Exit code 3 when something could
/// not be restored.
///
/// # Errors
/// What keeps the restore from being previewed; when standard output is closed.
pub(crate) async fn print_restore(request: &Request, env: &Env, show: Show) -> Result<ExitCode> {
    let mut printer = RestorePrinter::new(show)?;
    let (sender, mut items) = mpsc::channel(WAITING);
    let printing = async {
        while let Some(item) = items.recv().await {
            printer.item(item)?;
        }
        anyhow::Ok(())
    };
    let operation = async { tokio::join!(lifeboat_restore::preview(request, env, sender), printing) };
    let (end, printed) = watched("dry run", &env.operation.progress, &env.operation.cancel, operation).await;
    printed?;
    printer.end(&end?)
}

/// Prints the preview of a restore. As JSON, one object with all items as they come. As text, how many objects of each type
/// become what, then the objects about which there is more to say.
struct RestorePrinter {
    out: BufWriter<Stdout>,
    show: Show,
    counts: BTreeMap<GroupResource, Counts>,
    /// The lines of objects: they come before the counts are known, and there may be as many as objects.
    lines: BufWriter<File>,
}

/// What of a preview is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Show {
    /// One JSON object instead of text.
    pub(crate) json: bool,
    /// Values of Secrets.
    pub(crate) secrets: bool,
    /// In text, also the objects that are created or unchanged.
    pub(crate) details: bool,
    /// In text, only the objects that differ, without the table of types and what else there is to say.
    pub(crate) only_differences: bool,
    /// Colours for what differs.
    pub(crate) colours: bool,
}

impl Show {
    /// Whether an object has a line of its own.
    fn wants(self, item: &PreviewItem) -> bool {
        match self.only_differences {
            true => item.planned.differences().is_some(),
            false => self.details || says_more(item),
        }
    }

    /// Text, in colours where the user wants them.
    pub(crate) fn of(globals: &Globals) -> Self {
        Self { colours: globals.colour(), ..Self::default() }
    }
}

/// Objects by what becomes of them, in the order of [`WORDS`].
type Counts = [u64; 7];

/// Where those stand that cannot be restored.
const REFUSED: usize = 6;

const WORDS: [&str; 7] = ["create", "update", "recreate", "unchanged", "skip", "conflict", "refused"];

impl RestorePrinter {
    /// Begins.
    ///
    /// # Errors
    /// When standard output is closed, or there is no room for a temporary file.
    pub(crate) fn new(show: Show) -> Result<Self> {
        let mut out = BufWriter::new(std::io::stdout());
        if show.json {
            write!(out, "{{\"items\":[")?;
        }
        let lines = BufWriter::new(tempfile::tempfile().context("make a temporary file for the lines of the preview")?);
        Ok(Self { out, show, counts: BTreeMap::new(), lines })
    }

    /// Takes one object.
    ///
    /// # Errors
    /// When standard output is closed, or the temporary file is full.
    pub(crate) fn item(&mut self, mut item: PreviewItem) -> Result<()> {
        if item.key.resource == GroupResource::new("", "secrets") && !self.show.secrets {
            if let Some(differences) = item.planned.differences_mut() {
                hide_secret_values(differences);
            }
            item.modifications.iter_mut().for_each(|one| hide_secret_values(&mut one.differences));
        }
        let first = self.counts.is_empty();
        let word = self.count(&item);
        if self.show.json {
            let comma = if first { "" } else { "," };
            write!(self.out, "{comma}\n{}", item_value(&item, word))?;
        } else if self.show.wants(&item) {
            write!(self.lines, "{}", item_text(&item, word, self.show.colours)).context("write a temporary file")?;
        }
        Ok(())
    }

    fn count(&mut self, item: &PreviewItem) -> &'static str {
        let at = match item.planned {
            Planned::Create => 0,
            Planned::Update(_) => 1,
            Planned::Recreate(_) => 2,
            Planned::Unchanged => 3,
            Planned::Skip(_) => 4,
            Planned::Conflict(_) => 5,
            Planned::Refused(_) => REFUSED,
        };
        if let Some(counts) = self.counts.get_mut(&item.key.resource) {
            counts[at] += 1;
        } else {
            self.counts.entry(item.key.resource.clone()).or_default()[at] = 1;
        }
        WORDS[at]
    }

    /// Objects of all types.
    fn sum(&self) -> Counts {
        let add = |mut sum: Counts, counts: &Counts| {
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            sum
        };
        self.counts.values().fold(Counts::default(), add)
    }

    /// Ends the output; exit code 3 when something could not be restored.
    ///
    /// # Errors
    /// When standard output is closed, or the temporary file cannot be read.
    pub(crate) fn end(mut self, end: &PreviewEnd) -> Result<ExitCode> {
        let sum = self.sum();
        if self.show.json {
            let counts: Map<String, Value> =
                WORDS.iter().zip(sum).map(|(word, count)| ((*word).to_owned(), count.into())).collect();
            let rest = json!({"counts": counts, "leftOut": left_out_value(&end.left_out), "volumes": end.volumes, "results": end.results});
            // The braces of the rest belong to the one object that the items are in.
            let rest = rest.to_string();
            writeln!(self.out, "\n],{}", &rest[1..])?;
        } else {
            self.end_text(end)?;
        }
        self.out.flush()?;
        let Results { errors, .. } = &end.results;
        print_results(&end.results);
        Ok(code(errors.is_empty() && sum[REFUSED] == 0))
    }

    fn end_text(&mut self, end: &PreviewEnd) -> Result<()> {
        if !self.show.only_differences {
            write_table(&mut self.out, &self.counts)?;
        }
        self.lines.flush().context("write a temporary file")?;
        let mut lines = self.lines.get_ref();
        if lines.stream_position().context("read a temporary file")? > 0 {
            lines.rewind().context("read a temporary file")?;
            if !self.show.only_differences {
                writeln!(self.out)?;
            }
            std::io::copy(&mut lines, &mut self.out)?;
        }
        if self.show.only_differences {
            return Ok(());
        }
        if !end.left_out.is_empty() {
            writeln!(self.out, "\nLeft out:")?;
            print_left_out(&mut self.out, &end.left_out)?;
        }
        if !end.volumes.is_empty() {
            writeln!(self.out, "\nVolumes:")?;
        }
        for volume in &end.volumes {
            let name = volume_name([&volume.pvc_namespace, &volume.pvc_name, &volume.pv_name]);
            writeln!(self.out, "  {name}: {}", volume.message)?;
        }
        let [create, update, recreate, unchanged, skip, conflict, refused] = self.sum();
        let recreate = if recreate == 0 { String::new() } else { format!(" delete {recreate} and make them anew,") };
        writeln!(
            self.out,
            "\nWould create {create} objects, update {update},{recreate} leave {unchanged} that are as in the backup and {conflict} that differ, skip {skip}; {refused} cannot be restored. Nothing was written."
        )?;
        Ok(())
    }
}

/// Whether there is more to say of an object than the counts of its type do.
fn says_more(item: &PreviewItem) -> bool {
    let is_counted = matches!(item.planned, Planned::Create | Planned::Unchanged);
    !is_counted || !item.unasked.is_empty() || !item.modifications.is_empty() || !item.errors.is_empty()
}

/// A line for each type.
fn write_table(out: impl Write, counts: &BTreeMap<GroupResource, Counts>) -> Result<()> {
    let mut out = tabwriter::TabWriter::new(out).padding(2);
    writeln!(out, "TYPE\t{}", WORDS.map(str::to_uppercase).join("\t"))?;
    for (resource, counts) in counts {
        writeln!(out, "{resource}\t{}", counts.map(|count| count.to_string()).join("\t"))?;
    }
    Ok(out.flush()?)
}

fn item_text(item: &PreviewItem, word: &str, colours: bool) -> String {
    let mut out = format!("{word:<9} {}", item.key);
    match &item.planned {
        Planned::Skip(reason) | Planned::Refused(reason) => out.push_str(&format!(": {reason}")),
        Planned::Conflict(_) => out.push_str(": it is there, differs, and stays as it is"),
        _ => {}
    }
    if !item.unasked.is_empty() {
        out.push_str(&format!(" (as far as known: {} decide when it is restored)", item.unasked.join(", ")));
    }
    out.push('\n');
    let line = |Difference { path, left, right }: &Difference| {
        let [left, right] = [left, right].map(|value| shown(value.as_ref()));
        match colours {
            true => format!("            {path}: \u{1b}[31m{left}\u{1b}[0m -> \u{1b}[32m{right}\u{1b}[0m\n"),
            false => format!("            {path}: {left} -> {right}\n"),
        }
    };
    for error in &item.errors {
        out.push_str(&format!("            error: {error}\n"));
    }
    for Modification { rule, differences } in &item.modifications {
        out.push_str(&format!("          modified by rule {rule}:\n"));
        out.extend(differences.iter().map(line));
    }
    if let Some(differences) = item.planned.differences() {
        if !item.modifications.is_empty() {
            out.push_str("          in the cluster:\n");
        }
        out.extend(differences.iter().map(line));
    }
    out
}

/// A value, cut when it is long.
fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "(absent)".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text,
    }
}

fn item_value(item: &PreviewItem, word: &str) -> Value {
    let mut out = json!({"action": word, "type": item.key.resource.to_string(), "name": item.key.name});
    if let Some(namespace) = &item.key.namespace {
        out["namespace"] = namespace.as_str().into();
    }
    if let Planned::Skip(reason) | Planned::Refused(reason) = &item.planned {
        out["reason"] = reason.as_str().into();
    }
    if let Some(differences) = item.planned.differences() {
        out["differences"] = differences.iter().map(|d| difference_value(d, ["inCluster", "inBackup"])).collect();
    }
    if !item.modifications.is_empty() {
        let one = |Modification { rule, differences }: &Modification| {
            let differences: Vec<_> = differences.iter().map(|d| difference_value(d, ["before", "after"])).collect();
            json!({"rule": rule, "differences": differences})
        };
        out["modifications"] = item.modifications.iter().map(one).collect();
    }
    if !item.errors.is_empty() {
        out["errors"] = json!(item.errors);
    }
    if !item.unasked.is_empty() {
        out["decidedWhenRestored"] = json!(item.unasked);
    }
    out
}

fn difference_value(difference: &Difference, sides: [&str; 2]) -> Value {
    let mut out = json!({"path": difference.path});
    for (key, side) in sides.into_iter().zip([&difference.left, &difference.right]) {
        if let Some(value) = side {
            out[key] = value.clone();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ObjectKey;

    #[test]
    fn the_objects_of_a_type_are_counted_in_one_line() {
        let counts = BTreeMap::from([
            (GroupResource::new("", "configmaps"), [300_000, 0, 5, 1, 2, 3, 0]),
            (GroupResource::new("apps", "deployments"), [0, 1, 0, 0, 0, 0, 4]),
        ]);
        let mut out = Vec::new();
        write_table(&mut out, &counts).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "TYPE              CREATE  UPDATE  RECREATE  UNCHANGED  SKIP  CONFLICT  REFUSED",
                "configmaps        300000  0       5         1          2     3         0",
                "deployments.apps  0       1       0         0          0     0         4"
            ]
        );
    }

    #[test]
    fn only_objects_with_more_to_say_have_a_line() {
        let key = || ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), "settings");
        let item = |planned| PreviewItem::of(key(), planned);
        for (planned, expected) in [
            (Planned::Create, false),
            (Planned::Unchanged, false),
            (Planned::Update(Vec::new()), true),
            (Planned::Recreate(Vec::new()), true),
            (Planned::Conflict(Vec::new()), true),
            (Planned::Skip(String::new()), true),
            (Planned::Refused(String::new()), true),
        ] {
            assert_eq!(says_more(&item(planned.clone())), expected, "{planned:?}");
        }
        assert!(says_more(&PreviewItem { unasked: vec!["a".into()], ..item(Planned::Create) }));
    }

    #[test]
    fn one_line_for_each_object_and_one_for_each_difference() {
        let key = || ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), "settings");
        let item = |planned| PreviewItem::of(key(), planned);
        let differences = vec![
            Difference { path: "/data/a".into(), left: Some(json!("x".repeat(200))), right: Some(json!("1")) },
            Difference { path: "/data/b".into(), left: None, right: Some(json!("2")) },
        ];
        let cut = "x".repeat(99);
        for (planned, word, expected) in [
            (Planned::Create, "create", "create    configmaps/shop/settings\n".to_owned()),
            (
                Planned::Conflict(differences),
                "conflict",
                format!(
                    "conflict  configmaps/shop/settings: it is there, differs, and stays as it is\n            /data/a: \"{cut}… (202 bytes) -> \"1\"\n            /data/b: (absent) -> \"2\"\n"
                ),
            ),
            (Planned::Skip("why".into()), "skip", "skip      configmaps/shop/settings: why\n".to_owned()),
        ] {
            assert_eq!(item_text(&item(planned), word, false), expected);
        }
        let changed = Difference { path: "/data/c".into(), left: Some(json!("3")), right: None };
        let modified = PreviewItem {
            modifications: vec![Modification { rule: 2, differences: vec![changed] }],
            errors: vec!["rule 3: why".into()],
            ..item(Planned::Create)
        };
        assert!(says_more(&modified));
        assert_eq!(
            item_text(&modified, "create", false),
            "create    configmaps/shop/settings\n            error: rule 3: why\n          modified by rule 2:\n            /data/c: \"3\" -> (absent)\n"
        );
        assert_eq!(
            item_value(&modified, "create"),
            json!({"action": "create", "type": "configmaps", "namespace": "shop", "name": "settings", "errors": ["rule 3: why"],
                "modifications": [{"rule": 2, "differences": [{"path": "/data/c", "before": "3"}]}]})
        );
        let unasked = PreviewItem { unasked: vec!["example.com/x".into()], ..item(Planned::Unchanged) };
        assert_eq!(
            item_text(&unasked, "unchanged", false),
            "unchanged configmaps/shop/settings (as far as known: example.com/x decide when it is restored)\n"
        );
        assert_eq!(
            item_value(&unasked, "unchanged"),
            json!({"action": "unchanged", "type": "configmaps", "namespace": "shop", "name": "settings", "decidedWhenRestored": ["example.com/x"]})
        );
    }
}
