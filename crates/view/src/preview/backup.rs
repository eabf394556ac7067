//! The preview of a backup.

use super::left_out::print_left_out;
use anyhow::Result;
use lifeboat_backup::{Preview, PreviewedVolume};
use lifeboat_object::GroupResource;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::results::{exit_code, print_results};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

/// Prints the preview of a backup.
///
/// # Errors
/// When standard output is closed.
pub fn print_backup(preview: &Preview, output: Option<Output>) -> Result<ExitCode> {
    print_results(&preview.results);
    match output {
        Some(output) => lifeboat_terminal::output::print_resource(&backup_value(preview), output)?,
        None => print_backup_text(preview)?,
    }
    Ok(exit_code(preview.results.errors.is_empty()))
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

/// Returns the name of a volume, and the name of its PersistentVolume where that is another one.
pub fn volume_name(volume: &PreviewedVolume) -> String {
    match &volume.volume {
        Some(name) if *name != volume.name => format!("{} ({name})", volume.name),
        _ => volume.name.clone(),
    }
}

/// A volume for programs.
pub fn volume_value(volume: &PreviewedVolume) -> Value {
    let PreviewedVolume { name, volume, done, reason, advice } = volume;
    json!({"name": name, "persistentVolume": volume, "done": done, "reason": reason, "advice": advice})
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
