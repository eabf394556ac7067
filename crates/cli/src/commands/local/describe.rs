//! `lifeboat local describe`.

use clap::Args;
use lifeboat_api::{Backup, BackupSpec, Time};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::sidecar::ResourceList;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_object::{ResultSet, Results};
use lifeboat_standalone::bucket_url::{self, Purpose};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::print_resource;
use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;
use tabwriter::TabWriter;

/// `lifeboat local describe NAME --bucket URL`.
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// The backup to describe
    name: String,
    /// Where the backup lies: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…
    #[arg(long, value_name = "URL")]
    bucket: String,
    /// Also name every object, by type
    #[arg(long)]
    details: bool,
    /// Print the Backup as json or yaml instead
    #[arg(long, short, value_enum)]
    output: Option<Output>,
}

impl DescribeArgs {
    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let store = bucket_url::open(&self.bucket, Purpose::Read, globals.patience()).await?;
        let backup = store.backup(&self.name).await?;
        if let Some(output) = self.output {
            print_resource(&backup, output)?;
            return Ok(ExitCode::SUCCESS);
        }
        let results: Results = store.backup_file(&self.name, BackupFile::Results).await?.unwrap_or_default();
        let resources: ResourceList =
            store.backup_file(&self.name, BackupFile::ResourceList).await?.unwrap_or_default();
        let volumes: Vec<BackupVolumeInfo> =
            store.backup_file(&self.name, BackupFile::VolumeInfo).await?.unwrap_or_default();
        let text = describe(&backup, &results, &resources, &volumes, self.details);
        let mut out = TabWriter::new(std::io::stdout()).minwidth(0).padding(2);
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The description, columns separated by tabs.
fn describe(
    backup: &Backup,
    results: &Results,
    resources: &ResourceList,
    volumes: &[BackupVolumeInfo],
    details: bool,
) -> String {
    let mut out = String::new();
    let status = &backup.status;
    let time = |t: Option<Time>| t.map_or_else(|| "<n/a>".to_owned(), |t| t.to_string());
    line(&mut out, "Name", &backup.metadata.name);
    line(&mut out, "Namespace", &backup.metadata.namespace);
    for (name, map) in [("Labels", &backup.metadata.labels), ("Annotations", &backup.metadata.annotations)] {
        let pairs: Vec<String> = map.iter().map(|(k, v)| format!("{k}={v}")).collect();
        line(&mut out, name, &if pairs.is_empty() { "<none>".to_owned() } else { pairs.join("\n\t") });
    }
    out.push('\n');
    line(&mut out, "Phase", &status.phase.map_or_else(|| "New".to_owned(), |p| format!("{p:?}")));
    messages(&mut out, "Warnings", &results.warnings);
    messages(&mut out, "Errors", &results.errors);
    out.push('\n');
    scope(&mut out, &backup.spec);
    out.push('\n');
    line(&mut out, "Backup Format Version", &status.format_version);
    line(&mut out, "Started", &time(status.start_timestamp));
    line(&mut out, "Completed", &time(status.completion_timestamp));
    line(&mut out, "Expiration", &time(status.expiration));
    let items = status.progress.as_ref().map_or(0, |progress| progress.items_backed_up);
    line(&mut out, "Items backed up", &items.to_string());
    out.push_str("\nResource List:\n");
    for (kind, names) in &resources.0 {
        let _ = writeln!(out, "\t{kind}:\t{}", names.len());
        for name in names.iter().filter(|_| details) {
            let _ = writeln!(out, "\t\t- {name}");
        }
    }
    out.push_str("\nBackup Volumes:\n");
    for volume in volumes {
        let claim = match volume.pvc_name.as_str() {
            "" => "<no claim>".to_owned(),
            name => format!("{}/{name}", volume.pvc_namespace),
        };
        let volume_name = if volume.pv_name.is_empty() { "<no volume>" } else { &volume.pv_name };
        let what = match (volume.skipped, volume.message.is_empty()) {
            (true, _) => format!("skipped: {}", volume.skipped_reason),
            (false, true) => volume.backup_method.clone(),
            (false, false) => format!("{}, {}: {}", volume.backup_method, volume.result, volume.message),
        };
        let _ = writeln!(out, "\t{claim}\t{volume_name}\t{what}");
    }
    if volumes.is_empty() {
        out.push_str("\t<none>\n");
    }
    out
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{name}:\t{value}");
}

fn messages(out: &mut String, name: &str, set: &ResultSet) {
    if set.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{name}:");
    for message in &set.velero {
        let _ = writeln!(out, "\tVelero:\t{}", message.trim());
    }
    for message in &set.cluster {
        let _ = writeln!(out, "\tCluster:\t{}", message.trim());
    }
    for (namespace, messages) in &set.namespaces {
        for message in messages {
            let _ = writeln!(out, "\t{namespace}:\t{}", message.trim());
        }
    }
}

fn scope(out: &mut String, spec: &BackupSpec) {
    let list = |names: &[String]| if names.is_empty() { "<none>".to_owned() } else { names.join(", ") };
    for (name, names) in [
        ("Included namespaces", &spec.included_namespaces),
        ("Excluded namespaces", &spec.excluded_namespaces),
        ("Included resources", &spec.included_resources),
        ("Excluded resources", &spec.excluded_resources),
        ("Included cluster-scoped", &spec.included_cluster_scoped_resources),
        ("Excluded cluster-scoped", &spec.excluded_cluster_scoped_resources),
        ("Included namespace-scoped", &spec.included_namespace_scoped_resources),
        ("Excluded namespace-scoped", &spec.excluded_namespace_scoped_resources),
    ] {
        line(out, name, &list(names));
    }
    let cluster = match spec.include_cluster_resources {
        Some(true) => "included",
        Some(false) => "excluded",
        None => "auto",
    };
    line(out, "Cluster-scoped", cluster);
    line(out, "Storage Location", &spec.storage_location);
    line(out, "TTL", &spec.ttl.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ResultScope;

    #[test]
    fn says_what_is_in_a_backup_and_what_went_wrong() {
        let mut backup = Backup::default();
        backup.metadata.name = "nightly".into();
        backup.spec.included_namespaces = vec!["shop".into()];
        let mut results = Results::default();
        results.warnings.add(&ResultScope::of(Some("shop")), " a warning");
        let mut resources = ResourceList::default();
        resources.add("v1", "Pod", Some("shop"), "web");
        let volume = BackupVolumeInfo {
            pvc_name: "data".into(),
            pvc_namespace: "shop".into(),
            skipped: true,
            skipped_reason: "not bound".into(),
            ..BackupVolumeInfo::default()
        };
        let text = describe(&backup, &results, &resources, &[volume], true);
        for expected in [
            "Name:\tnightly\n",
            "Labels:\t<none>\n",
            "Phase:\tNew\n\nWarnings:\n\tshop:\ta warning\n",
            "Included namespaces:\tshop\nExcluded namespaces:\t<none>\n",
            "Resource List:\n\tv1/Pod:\t1\n\t\t- shop/web\n",
            "Backup Volumes:\n\tshop/data\t<no volume>\tskipped: not bound\n",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }
}
