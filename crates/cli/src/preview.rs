//! Prints what an operation would do: `--dry-run`.

mod item;
mod plan;

use crate::globals::Globals;
use crate::local::journal::{PARTIALLY_FAILED, print_results, watched};
use crate::output::Output;
use anyhow::{Context, Result};
use clap::ValueEnum;
use item::{item_text, says_more};
use lifeboat_backup::{Preview, PreviewedVolume};
use lifeboat_object::{GroupResource, Results};
use lifeboat_restore::{Env, Planned, PreviewEnd, PreviewItem, Request};
use plan::KeptPlan;
pub(crate) use plan::PlanFiles;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Seek, Stdout, Write};
use std::process::ExitCode;
use tokio::sync::mpsc;

/// Objects of a restore waiting to be printed.
const WAITING: usize = 64;

/// `--validate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Validate {
    /// The API server, by dry runs of all writes
    Server,
}

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
    print_left_out(&mut out, preview.left_out.iter().map(|((resource, reason), count)| (resource, *reason, *count)))?;
    if !preview.volumes.is_empty() {
        writeln!(out, "\nVolumes:")?;
    }
    for volume in &preview.volumes {
        writeln!(out, "  {}: {}: {}", volume_name(volume), volume.done, volume.reason)?;
    }
    let objects: u64 = preview.types.values().map(|found| found.objects).sum();
    writeln!(out, "\nWould save {objects} objects of {} types. Nothing was written.", preview.types.len())?;
    Ok(())
}

/// What a volume is called, and the name of its PersistentVolume where that is another one.
pub(crate) fn volume_name(volume: &PreviewedVolume) -> String {
    match &volume.volume {
        Some(name) if *name != volume.name => format!("{} ({name})", volume.name),
        _ => volume.name.clone(),
    }
}

/// A volume for programs.
pub(crate) fn volume_value(volume: &PreviewedVolume) -> Value {
    let PreviewedVolume { name, volume, done, reason, advice } = volume;
    json!({"name": name, "persistentVolume": volume, "done": done, "reason": reason, "advice": advice})
}

fn print_left_out<'a>(
    out: &mut impl Write,
    left_out: impl Iterator<Item = (&'a GroupResource, &'a str, u64)>,
) -> Result<()> {
    for (resource, reason, count) in left_out {
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
        "volumes": preview.volumes.iter().map(volume_value).collect::<Vec<_>>(),
        "results": preview.results,
    })
}

fn left_out_value(left_out: &BTreeMap<(GroupResource, &'static str), u64>) -> Vec<Value> {
    let one = |((resource, reason), count): (&(GroupResource, &'static str), &u64)| json!({"type": resource.to_string(), "objects": count, "reason": reason});
    left_out.iter().map(one).collect()
}

/// Previews a restore and prints what it would do, object by object as that is found out. Exit code 3 when something could
/// not be restored, or the plan is another one than that of `files`.
///
/// # Errors
/// What keeps the restore from being previewed; when standard output is closed, or a file cannot be read or written.
pub(crate) async fn print_restore(request: &Request, env: &Env, show: Show, files: &PlanFiles) -> Result<ExitCode> {
    let mut printer = RestorePrinter::new(show, files)?;
    let (sender, mut items) = mpsc::channel(WAITING);
    let printing = async {
        while let Some(item) = items.recv().await {
            printer.item(item)?;
        }
        anyhow::Ok(())
    };
    let operation = async { tokio::join!(lifeboat_restore::preview(request, env, sender), printing) };
    let (end, printed) = Box::pin(watched("dry run", &env.operation.progress, &env.operation.cancel, operation)).await;
    printed?;
    printer.end(&end?)
}

/// Prints the preview of a restore. As JSON, one object with all items as they come. As text, how many objects of each type
/// become what, then the objects about which there is more to say.
pub(crate) struct RestorePrinter {
    out: BufWriter<Stdout>,
    show: Show,
    counts: BTreeMap<GroupResource, Counts>,
    /// The lines of objects: they come before the counts are known, and there may be as many as objects.
    lines: BufWriter<File>,
    plan: KeptPlan,
}

/// What of a preview is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Show {
    /// One JSON or YAML object instead of text.
    pub(crate) output: Option<Output>,
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
type Counts = [u64; 9];

/// Where those stand that cannot be restored.
const REFUSED: usize = 6;

const WORDS: [&str; 9] =
    ["create", "update", "recreate", "unchanged", "skip", "conflict", "refused", "extra", "remove"];

impl RestorePrinter {
    /// Begins.
    ///
    /// # Errors
    /// When standard output is closed, there is no room for a temporary file, or the plan to compare with cannot be read.
    pub(crate) fn new(show: Show, files: &PlanFiles) -> Result<Self> {
        let plan = KeptPlan::new(files)?;
        let mut out = BufWriter::new(std::io::stdout());
        match show.output {
            Some(Output::Json) => write!(out, "{{\"items\":[")?,
            Some(Output::Yaml) => writeln!(out, "items:")?,
            None => {}
        }
        let lines = BufWriter::new(tempfile::tempfile().context("make a temporary file for the lines of the preview")?);
        Ok(Self { out, show, counts: BTreeMap::new(), lines, plan })
    }

    /// Takes one object.
    ///
    /// # Errors
    /// When standard output is closed, or the temporary file is full.
    pub(crate) fn item(&mut self, mut item: PreviewItem) -> Result<()> {
        if !self.show.secrets {
            item.hide_secret_values();
        }
        self.plan.add(&item);
        let first = self.counts.is_empty();
        self.count(&item);
        match self.show.output {
            Some(Output::Json) => {
                let comma = if first { "" } else { "," };
                write!(self.out, "{comma}\n{}", item.to_json())?;
            }
            Some(Output::Yaml) => write!(self.out, "{}", crate::yaml::print(&json!([item.to_json()]))?)?,
            None if self.show.wants(&item) => {
                write!(self.lines, "{}", item_text(&item, self.show.colours)).context("write a temporary file")?;
            }
            None => {}
        }
        Ok(())
    }

    fn count(&mut self, item: &PreviewItem) {
        let at = match item.planned {
            Planned::Create => 0,
            Planned::Update(_) => 1,
            Planned::Recreate(_) => 2,
            Planned::Unchanged => 3,
            Planned::Skip(_) => 4,
            Planned::Conflict(_) => 5,
            Planned::Refused(_) => REFUSED,
            Planned::Extra => 7,
            Planned::Remove => 8,
        };
        if let Some(counts) = self.counts.get_mut(&item.key.resource) {
            counts[at] += 1;
        } else {
            self.counts.entry(item.key.resource.clone()).or_default()[at] = 1;
        }
    }

    /// Objects of all types.
    fn sum(&self) -> Counts {
        let add = |mut sum: Counts, counts: &Counts| {
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            sum
        };
        self.counts.values().fold(Counts::default(), add)
    }

    /// Ends the output; exit code 3 when something could not be restored, or the plan is not the one that it is compared with.
    ///
    /// # Errors
    /// When standard output is closed, the temporary file cannot be read, or the plan cannot be written.
    pub(crate) fn end(mut self, end: &PreviewEnd) -> Result<ExitCode> {
        let sum = self.sum();
        let plan = std::mem::take(&mut self.plan).end()?;
        if let Some(output) = self.show.output {
            let counts: Map<String, Value> =
                WORDS.iter().zip(sum).map(|(word, count)| ((*word).to_owned(), count.into())).collect();
            let mut rest = end.to_json();
            rest["counts"] = counts.into();
            rest["planDigest"] = plan.digest.as_str().into();
            if let Some(compared) = plan.value() {
                rest["comparedWith"] = compared;
            }
            match output {
                // The braces of the rest belong to the one object that the items are in.
                Output::Json => writeln!(self.out, "\n],{}", &rest.to_string()[1..])?,
                Output::Yaml => write!(self.out, "{}", crate::yaml::print(&rest)?)?,
            }
        } else {
            self.end_text(end)?;
            if !self.show.only_differences {
                plan.write_text(&mut self.out)?;
            }
        }
        self.out.flush()?;
        let Results { errors, .. } = &end.results;
        print_results(&end.results);
        Ok(code(errors.is_empty() && sum[REFUSED] == 0 && plan.is_same()))
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
            let left_out = end.left_out.iter().map(|((resource, reason), count)| (resource, reason.as_str(), *count));
            print_left_out(&mut self.out, left_out)?;
        }
        if !end.volumes.is_empty() {
            writeln!(self.out, "\nVolumes:")?;
        }
        for volume in &end.volumes {
            let names = [&volume.pvc_namespace, &volume.pvc_name, &volume.pv_name];
            let name =
                names.into_iter().filter(|name| !name.is_empty()).map(String::as_str).collect::<Vec<_>>().join("/");
            writeln!(self.out, "  {name}: {}", volume.message)?;
        }
        let [create, update, recreate, unchanged, skip, conflict, refused, extra, remove] = self.sum();
        let some = |count: u64, text: String| if count == 0 { String::new() } else { text };
        let recreate = some(recreate, format!(" delete {recreate} and make them anew,"));
        let remove = some(remove, format!(" remove {remove} that the backup lacks,"));
        let extra = some(extra, format!(" leave {extra} that the backup lacks,"));
        writeln!(
            self.out,
            "\nWould create {create} objects, update {update},{recreate}{remove}{extra} leave {unchanged} that are as in the backup and {conflict} that differ, skip {skip}; {refused} cannot be restored. Nothing was written."
        )?;
        Ok(())
    }
}

/// A line for each type.
fn write_table(out: impl Write, counts: &BTreeMap<GroupResource, Counts>) -> Result<()> {
    let mut out = tabwriter::TabWriter::new(out).padding(2);
    // Most restores do not look for what the backup lacks.
    let looks_for_extras = counts.values().any(|counts| counts[REFUSED + 1..] != [0, 0]);
    let shown = if looks_for_extras { WORDS.len() } else { REFUSED + 1 };
    writeln!(out, "TYPE\t{}", WORDS.map(str::to_uppercase)[..shown].join("\t"))?;
    for (resource, counts) in counts {
        writeln!(out, "{resource}\t{}", counts.map(|count| count.to_string())[..shown].join("\t"))?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_objects_of_a_type_are_counted_in_one_line() {
        let counts = BTreeMap::from([
            (GroupResource::new("", "configmaps"), [300_000, 0, 5, 1, 2, 3, 0, 0, 6]),
            (GroupResource::new("apps", "deployments"), [0, 1, 0, 0, 0, 0, 4, 7, 0]),
        ]);
        let mut out = Vec::new();
        write_table(&mut out, &counts).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "TYPE              CREATE  UPDATE  RECREATE  UNCHANGED  SKIP  CONFLICT  REFUSED  EXTRA  REMOVE",
                "configmaps        300000  0       5         1          2     3         0        0      6",
                "deployments.apps  0       1       0         0          0     0         4        7      0"
            ]
        );
    }
}
