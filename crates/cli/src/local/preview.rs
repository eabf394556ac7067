//! Prints what an operation would do: `--dry-run`.

use super::journal::print_results;
use super::{Output, PARTIALLY_FAILED};
use anyhow::Result;
use lifeboat_backup::Preview;
use lifeboat_object::{GroupResource, Results};
use lifeboat_patch::{Difference, hide_secret_values};
use lifeboat_restore::{Planned, PreviewEnd, PreviewItem};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{BufWriter, Stdout, Write};
use std::process::ExitCode;

/// Characters of a value that are shown.
const SHOWN: usize = 100;

/// Prints the preview of a backup.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn print_backup(preview: &Preview, output: Option<Output>) -> Result<ExitCode> {
    print_results(&preview.results);
    match output {
        Some(output) => super::journal::print_resource(&backup_value(preview), output)?,
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

/// Prints the preview of a restore as it comes: as text, or as one JSON object.
pub(crate) struct RestorePrinter {
    out: BufWriter<Stdout>,
    json: bool,
    show_secrets: bool,
    counts: [u64; 6],
}

/// In the order of [`RestorePrinter::counts`].
const WORDS: [&str; 6] = ["create", "update", "unchanged", "skip", "conflict", "refused"];

impl RestorePrinter {
    /// Begins.
    ///
    /// # Errors
    /// When standard output is closed.
    pub(crate) fn new(json: bool, show_secrets: bool) -> Result<Self> {
        let mut out = BufWriter::new(std::io::stdout());
        if json {
            write!(out, "{{\"items\":[")?;
        }
        Ok(Self { out, json, show_secrets, counts: [0; 6] })
    }

    /// Prints one object.
    ///
    /// # Errors
    /// When standard output is closed.
    pub(crate) fn item(&mut self, mut item: PreviewItem) -> Result<()> {
        if let Planned::Update(differences) | Planned::Conflict(differences) = &mut item.planned
            && item.key.resource == GroupResource::new("", "secrets")
            && !self.show_secrets
        {
            hide_secret_values(differences);
        }
        let first = self.counts.iter().sum::<u64>() == 0;
        let word = self.count(&item.planned);
        if self.json {
            let comma = if first { "" } else { "," };
            write!(self.out, "{comma}\n{}", item_value(&item, word))?;
        } else {
            write!(self.out, "{}", item_text(&item, word))?;
        }
        Ok(())
    }

    fn count(&mut self, planned: &Planned) -> &'static str {
        let at = match planned {
            Planned::Create => 0,
            Planned::Update(_) => 1,
            Planned::Unchanged => 2,
            Planned::Skip(_) => 3,
            Planned::Conflict(_) => 4,
            Planned::Refused(_) => 5,
        };
        self.counts[at] += 1;
        WORDS[at]
    }

    /// Ends the output; exit code 3 when something could not be restored.
    ///
    /// # Errors
    /// When standard output is closed.
    pub(crate) fn end(mut self, end: &PreviewEnd) -> Result<ExitCode> {
        if self.json {
            let counts: Map<String, Value> =
                WORDS.iter().zip(self.counts).map(|(word, count)| ((*word).to_owned(), count.into())).collect();
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
        Ok(code(errors.is_empty() && self.counts[5] == 0))
    }

    fn end_text(&mut self, end: &PreviewEnd) -> Result<()> {
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
        let [create, update, unchanged, skip, conflict, refused] = self.counts;
        writeln!(
            self.out,
            "\nWould create {create} objects, update {update}, leave {unchanged} that are as in the backup and {conflict} that differ, skip {skip}; {refused} cannot be restored. Nothing was written."
        )?;
        Ok(())
    }
}

fn item_text(item: &PreviewItem, word: &str) -> String {
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
    if let Planned::Update(differences) | Planned::Conflict(differences) = &item.planned {
        for Difference { path, left, right } in differences {
            out.push_str(&format!("            {path}: {} -> {}\n", shown(left.as_ref()), shown(right.as_ref())));
        }
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
    if let Planned::Update(differences) | Planned::Conflict(differences) = &item.planned {
        let one = |d: &Difference| {
            let mut out = json!({"path": d.path});
            for (key, side) in [("inCluster", &d.left), ("inBackup", &d.right)] {
                if let Some(value) = side {
                    out[key] = value.clone();
                }
            }
            out
        };
        out["differences"] = differences.iter().map(one).collect();
    }
    if !item.unasked.is_empty() {
        out["decidedWhenRestored"] = json!(item.unasked);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ObjectKey;

    #[test]
    fn one_line_for_each_object_and_one_for_each_difference() {
        let item = |planned| PreviewItem {
            key: ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), "settings"),
            planned,
            unasked: Vec::new(),
        };
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
            assert_eq!(item_text(&item(planned), word), expected);
        }
        let unasked = PreviewItem { unasked: vec!["example.com/x".into()], ..item(Planned::Unchanged) };
        assert_eq!(
            item_text(&unasked, "unchanged"),
            "unchanged configmaps/shop/settings (as far as known: example.com/x decide when it is restored)\n"
        );
        assert_eq!(
            item_value(&unasked, "unchanged"),
            json!({"action": "unchanged", "type": "configmaps", "namespace": "shop", "name": "settings", "decidedWhenRestored": ["example.com/x"]})
        );
    }
}
