//! The preview of a restore.

use super::item::{item_text, says_more};
use super::left_out::print_left_out;
use super::plan::KeptPlan;
use anyhow::{Context, Result};
use lifeboat_api::RestoreSpec;
use lifeboat_object::{GroupResource, Results, printable};
use lifeboat_restore::{PlanWord, PreviewEnd, PreviewItem};
use lifeboat_terminal::flags::dry_run::PlanFiles;
use lifeboat_terminal::output::results::{exit_code, print_results};
use lifeboat_terminal::output::{Output, yaml};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Seek, Stdout, Write};
use std::process::ExitCode;

/// Prints the preview of a restore. As JSON, one object with all items as they come. As text, the counts of each type
/// by planned action, then the objects about which there is more to say.
pub struct RestorePrinter<W: Write> {
    out: W,
    show: ShownParts,
    counts: BTreeMap<GroupResource, WordCounts>,
    /// True when no item was printed yet.
    is_first: bool,
    /// The lines of objects: they come before the counts are known, and there may be as many as objects.
    lines: BufWriter<File>,
    plan: KeptPlan,
}

/// The parts of a preview that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShownParts {
    /// A single JSON or YAML object instead of text.
    pub output: Option<Output>,
    /// Values of Secrets.
    pub secrets: bool,
    /// In text, also the objects that are created or unchanged.
    pub details: bool,
    /// Only the objects that differ; in text also without the table of types and further messages.
    pub only_differences: bool,
    /// Colours for what differs.
    pub colours: bool,
}

impl ShownParts {
    /// Returns true if an object has a line of its own.
    fn wants(self, item: &PreviewItem) -> bool {
        match self.only_differences {
            true => item.planned.differences().is_some(),
            false => self.details || says_more(item),
        }
    }
}

/// Objects by the word for what becomes of them.
type WordCounts = BTreeMap<PlanWord, u64>;

/// Returns the number of objects with a word.
fn count(counts: &WordCounts, word: PlanWord) -> u64 {
    counts.get(&word).copied().unwrap_or_default()
}

impl RestorePrinter<BufWriter<Stdout>> {
    /// Begins on the standard output.
    ///
    /// # Errors
    /// As [`RestorePrinter::to`].
    pub fn new(show: ShownParts, files: &PlanFiles, spec: &RestoreSpec) -> Result<Self> {
        Self::to(BufWriter::new(std::io::stdout()), show, files, spec)
    }
}

impl<W: Write> RestorePrinter<W> {
    /// Begins.
    ///
    /// # Errors
    /// When standard output is closed, there is no room for a temporary file, or the plan to compare with cannot be read.
    fn to(mut out: W, show: ShownParts, files: &PlanFiles, spec: &RestoreSpec) -> Result<Self> {
        let plan = KeptPlan::new(files, &spec.plan_digest)?;
        match show.output {
            Some(Output::Json) => write!(out, "{{\"items\":[")?,
            Some(Output::Yaml) => writeln!(out, "items:")?,
            None => {}
        }
        let lines = BufWriter::new(tempfile::tempfile().context("make a temporary file for the lines of the preview")?);
        Ok(Self { out, show, counts: BTreeMap::new(), is_first: true, lines, plan })
    }

    /// Takes one object.
    ///
    /// # Errors
    /// When standard output is closed, or the temporary file is full.
    pub fn item(&mut self, mut item: PreviewItem) -> Result<()> {
        if !self.show.secrets {
            item.hide_secret_values();
        }
        self.plan.add(&item);
        self.count(&item);
        if self.show.only_differences && !self.show.wants(&item) {
            return Ok(());
        }
        match self.show.output {
            Some(Output::Json) => {
                let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
                write!(self.out, "{comma}\n{}", item.to_json())?;
            }
            Some(Output::Yaml) => write!(self.out, "{}", yaml::print(&json!([item.to_json()]))?)?,
            None if self.show.wants(&item) => {
                write!(self.lines, "{}", item_text(&item, self.show.colours)).context("write a temporary file")?;
            }
            None => {}
        }
        Ok(())
    }

    fn count(&mut self, item: &PreviewItem) {
        let word = item.planned.word();
        if let Some(counts) = self.counts.get_mut(&item.key.resource) {
            *counts.entry(word).or_default() += 1;
        } else {
            self.counts.insert(item.key.resource.clone(), WordCounts::from([(word, 1)]));
        }
    }

    /// Objects of all types.
    fn sum(&self) -> WordCounts {
        let mut sum = WordCounts::new();
        for (word, count) in self.counts.values().flatten() {
            *sum.entry(*word).or_default() += count;
        }
        sum
    }

    /// Ends the output; exit code 3 when something could not be restored, or the plan is not the one that it is compared with or
    /// pinned to.
    ///
    /// # Errors
    /// When standard output is closed, the temporary file cannot be read, or the plan cannot be written.
    pub fn end(mut self, end: &PreviewEnd) -> Result<ExitCode> {
        let sum = self.sum();
        let plan = std::mem::take(&mut self.plan).end()?;
        if let Some(output) = self.show.output {
            let counts: Map<String, Value> =
                PlanWord::ALL.iter().map(|word| (word.to_string(), count(&sum, *word).into())).collect();
            let mut rest = end.to_json();
            rest["counts"] = counts.into();
            rest["planDigest"] = plan.digest.as_str().into();
            if let Some(pinned) = plan.pinned_value() {
                rest["pinnedTo"] = pinned;
            }
            if let Some(compared) = plan.value() {
                rest["comparedWith"] = compared;
            }
            match output {
                // The braces of the rest belong to the one object that the items are in.
                Output::Json => writeln!(self.out, "\n],{}", &rest.to_string()[1..])?,
                Output::Yaml => write!(self.out, "{}", yaml::print(&rest)?)?,
            }
        } else {
            self.end_text(end)?;
            if !self.show.only_differences || plan.is_compared() {
                plan.write_text(&mut self.out)?;
            }
        }
        self.out.flush()?;
        let Results { errors, .. } = &end.results;
        print_results(&end.results);
        Ok(exit_code(errors.is_empty() && count(&sum, PlanWord::Refused) == 0 && plan.is_same()))
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
        write_volumes(&mut self.out, end)?;
        let sum = self.sum();
        let [create, update, recreate, unchanged, skip, conflict, refused, extra, remove] =
            PlanWord::ALL.map(|word| count(&sum, word));
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

/// Prints the treatment of volumes, if there are any.
pub fn write_volumes(out: &mut impl Write, end: &PreviewEnd) -> Result<()> {
    if !end.volumes.is_empty() {
        writeln!(out, "\nVolumes:")?;
    }
    for volume in &end.volumes {
        let names = [&volume.pvc_namespace, &volume.pvc_name, &volume.pv_name];
        let name = names.into_iter().filter(|name| !name.is_empty()).map(String::as_str).collect::<Vec<_>>().join("/");
        writeln!(out, "  {}", printable(format!("{name}: {}", volume.message)))?;
    }
    Ok(())
}

/// A line for each type.
fn write_table(out: impl Write, counts: &BTreeMap<GroupResource, WordCounts>) -> Result<()> {
    let mut out = tabwriter::TabWriter::new(out).padding(2);
    // Most restores do not look for what the backup lacks.
    let is_of_extras = |word: PlanWord| matches!(word, PlanWord::Extra | PlanWord::Remove);
    let looks_for_extras = counts.values().flat_map(WordCounts::keys).any(|word| is_of_extras(*word));
    let shown = PlanWord::ALL.into_iter().filter(|word| looks_for_extras || !is_of_extras(*word));
    let shown: Vec<PlanWord> = shown.collect();
    let head: Vec<&str> = shown.iter().map(|word| word.as_str()).collect();
    writeln!(out, "TYPE\t{}", head.join("\t").to_uppercase())?;
    for (resource, counts) in counts {
        let counts: Vec<String> = shown.iter().map(|word| count(counts, *word).to_string()).collect();
        writeln!(out, "{}\t{}", printable(resource), counts.join("\t"))?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use lifeboat_archive::volume_info::RestoreVolumeInfo;
    use lifeboat_object::ObjectKey;
    use lifeboat_restore::Planned;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        files: PlanFiles,
    }

    #[test]
    fn the_objects_of_a_type_are_counted_in_one_line() {
        let table = |maps: WordCounts, deployments: WordCounts| -> Vec<String> {
            let counts = BTreeMap::from([
                (GroupResource::new("", "configmaps"), maps),
                (GroupResource::new("apps", "deployments"), deployments),
            ]);
            let mut out = Vec::new();
            write_table(&mut out, &counts).unwrap();
            String::from_utf8(out).unwrap().lines().map(|line| line.trim_end().to_owned()).collect()
        };
        let maps = WordCounts::from([
            (PlanWord::Create, 300_000),
            (PlanWord::Recreate, 5),
            (PlanWord::Unchanged, 1),
            (PlanWord::Skip, 2),
            (PlanWord::Conflict, 3),
        ]);
        let all = table(
            WordCounts::from([(PlanWord::Remove, 6)]).into_iter().chain(maps.clone()).collect(),
            WordCounts::from([(PlanWord::Update, 1), (PlanWord::Refused, 4), (PlanWord::Extra, 7)]),
        );
        assert_eq!(
            all,
            [
                "TYPE              CREATE  UPDATE  RECREATE  UNCHANGED  SKIP  CONFLICT  REFUSED  EXTRA  REMOVE",
                "configmaps        300000  0       5         1          2     3         0        0      6",
                "deployments.apps  0       1       0         0          0     0         4        7      0"
            ]
        );
        assert_eq!(
            table(maps, WordCounts::from([(PlanWord::Update, 1)])),
            [
                "TYPE              CREATE  UPDATE  RECREATE  UNCHANGED  SKIP  CONFLICT  REFUSED",
                "configmaps        300000  0       5         1          2     3         0",
                "deployments.apps  0       1       0         0          0     0         0"
            ]
        );
    }

    #[test]
    fn who_names_an_object_makes_no_lines() {
        let types = GroupResource::new("example.com", "a\u{1b}[2J");
        let key = ObjectKey::new(types.clone(), Some("shop"), "b\nupdate    secrets/shop/c");
        let mut item = PreviewItem::of(key, Planned::Skip("d\re".to_owned()));
        item.warnings.push("f\ng".to_owned());
        let volume = RestoreVolumeInfo {
            pvc_namespace: "shop".to_owned(),
            pvc_name: "h\ni".to_owned(),
            message: "j\u{9b}k".to_owned(),
            ..RestoreVolumeInfo::default()
        };
        let left_out = BTreeMap::from([((types, "l\nm".to_owned()), 2)]);
        let end = PreviewEnd { left_out, volumes: vec![volume], results: Results::default() };
        let mut out = Vec::new();
        let spec = RestoreSpec::default();
        let mut printer = RestorePrinter::to(&mut out, ShownParts::default(), &PlanFiles::default(), &spec).unwrap();
        printer.item(item).unwrap();
        printer.end(&end).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let plan = lines.last().unwrap();
        assert!(plan.starts_with("Plan: sha256:"), "{plan}");
        assert_eq!(
            lines[..lines.len() - 1],
            [
                "TYPE                    CREATE  UPDATE  RECREATE  UNCHANGED  SKIP  CONFLICT  REFUSED",
                r"a\u{1b}[2J.example.com  0       0       0         0          1     0         0",
                "",
                r"skip      a\u{1b}[2J.example.com/shop/b\nupdate    secrets/shop/c: d\re",
                r"            warning: f\ng",
                "",
                "Left out:",
                r"  2 of a\u{1b}[2J.example.com: l\nm",
                "",
                "Volumes:",
                r"  shop/h\ni: j\u{9b}k",
                "",
                "Would create 0 objects, update 0, leave 0 that are as in the backup and 0 that differ, skip 1; 0 cannot be restored. \
                 Nothing was written."
            ]
        );
    }

    #[test]
    fn a_diff_has_the_objects_that_differ_and_how_the_plan_does() {
        let item = |name: &str, planned: Planned| {
            PreviewItem::of(ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name), planned)
        };
        let folder = tempfile::tempdir().unwrap();
        let before = folder.path().join("plan").display().to_string();
        let printed = |output: Option<Output>, files: &str, names: [&str; 2]| {
            let mut out = Vec::new();
            let show = ShownParts { output, only_differences: true, ..ShownParts::default() };
            let Line { files } = Line::parse_from(format!("plan {files}").split_whitespace());
            let mut printer = RestorePrinter::to(&mut out, show, &files, &RestoreSpec::default()).unwrap();
            printer.item(item(names[0], Planned::Create)).unwrap();
            printer.item(item(names[1], Planned::Update(Vec::new()))).unwrap();
            let end = PreviewEnd { left_out: BTreeMap::new(), volumes: Vec::new(), results: Results::default() };
            printer.end(&end).unwrap();
            String::from_utf8(out).unwrap()
        };
        let line = |name: &str| format!("update    configmaps/shop/{name}\n");
        assert_eq!(printed(None, &format!("--save {before}"), ["a", "b"]), line("b"));
        let text = printed(None, &format!("--compare {before}"), ["c", "b"]);
        let (differing, plan) = text.split_once("Plan: ").unwrap();
        assert_eq!(differing, line("b"));
        assert!(
            plan.ends_with("  configmaps/shop/a: create -> (absent)\n  configmaps/shop/c: (absent) -> create\n"),
            "{plan}"
        );
        let json: Value = serde_json::from_str(&printed(Some(Output::Json), "", ["a", "b"])).unwrap();
        assert_eq!(json["items"], json!([item("b", Planned::Update(Vec::new())).to_json()]));
    }
}
