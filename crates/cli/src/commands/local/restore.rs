//! `lifeboat local restore`.

use crate::commands::install::default_image;
use crate::commands::repo::password;
use clap::Args;
use lifeboat_api::well_known::ANNOTATION_OVERWRITE_VOLUMES;
use lifeboat_api::{Duration, Restore, SourceCluster};
use lifeboat_repository::DEFAULT_PASSWORD;
use lifeboat_restore::{Priorities, Settings};
use lifeboat_standalone::local_operation::document::document;
use lifeboat_standalone::local_restore::{BackupOrigin, LocalMovers, LocalRestore, ScheduledBackup};
use lifeboat_terminal::flags::dry_run::{PlanFiles, Validate};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::hooks::HookLimitArgs;
use lifeboat_terminal::flags::spec::{RestoreSpecArgs, file, no_flags};
use lifeboat_terminal::flags::{self, Optional};
use lifeboat_terminal::output::Output;
use lifeboat_view::preview::ShownParts;
use std::path::PathBuf;
use std::process::ExitCode;

/// `lifeboat local restore NAME --from-backup NAME --bucket URL`.
#[derive(Debug, Args)]
#[command(mut_arg("save", |save| save.requires("dry_run")), mut_arg("compare", |compare| compare.requires("dry_run")))]
pub(crate) struct RestoreArgs {
    /// The name of the restore
    name: String,
    /// The backup to restore from
    #[arg(long, value_name = "NAME", required_unless_present = "from_schedule")]
    from_backup: Option<String>,
    /// The schedule whose newest completed backup to restore from
    #[arg(long, value_name = "NAME", conflicts_with = "from_backup")]
    from_schedule: Option<String>,
    /// With --from-schedule: the newest backup of the cluster of this UID, or of "any", instead of that into which it is restored
    #[arg(long, value_name = "UID", requires = "from_schedule", default_value = "", hide_default_value = true)]
    source_cluster: String,
    /// With --from-schedule: also from a backup that is only partially there
    #[arg(long, default_value = "")]
    allow_partially_failed: Optional<bool>,
    /// Where the backup lies: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…
    #[arg(long, value_name = "URL")]
    bucket: String,
    /// A file with the password of the repositories that hold data of volumes; otherwise the one that Velero sets is tried
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The image of the pods that bring the data of volumes from repositories
    #[arg(long, default_value_t = default_image(), value_name = "IMAGE")]
    mover_image: String,
    /// The bucket as pods of the cluster reach it, when that is another URL than --bucket; it takes over none of its keys
    #[arg(long, value_name = "URL")]
    mover_bucket: Option<String>,
    #[command(flatten)]
    spec: RestoreSpecArgs,
    /// A file (YAML or JSON, - for the standard input) with a Restore or its spec, for what has no flags, such as hooks. A flag
    /// that is given wins over it
    #[arg(long = "spec", value_name = "FILE")]
    spec_file: Option<PathBuf>,
    /// A file with resource modifiers, in place of a ConfigMap
    #[arg(long, value_name = "FILE")]
    resource_modifiers: Option<PathBuf>,
    /// A file with resource policies, in place of a ConfigMap
    #[arg(long, value_name = "FILE")]
    resource_policies: Option<PathBuf>,
    /// A file with the versions in which objects are restored, in place of the ConfigMap enableapigroupversions; with
    /// --features EnableAPIGroupVersions
    #[arg(long, value_name = "FILE")]
    api_version_priorities: Option<PathBuf>,
    /// Shortest time for which the originals of recreated and removed objects stay, and no restore of another cluster takes the name. After
    /// that, and not before the restore has ended, a server of the same cluster that has the bucket as a location removes them, with the
    /// log and the results; where there is none, they stay until you delete them
    #[arg(long, value_parser = flags::duration, default_value = "720h", value_name = "DURATION")]
    keep_replaced: Duration,
    /// Forget an earlier run of this restore that was cut off, and begin anew: what it has restored is there and is treated as any
    /// object that exists
    #[arg(long)]
    begin_anew: bool,
    /// Types to restore first and, after a single -, last
    #[arg(long, value_name = "TYPES")]
    restore_resource_priorities: Option<Priorities>,
    /// Longest wait for objects and namespaces that are being deleted
    #[arg(long, value_parser = flags::duration, default_value = "10m", value_name = "DURATION")]
    terminating_resource_timeout: Duration,
    /// Longest wait for a definition to be established, for an object that is recreated to be gone, for the resources
    /// that actions wait for, and for the claims of the restore to get their volumes
    #[arg(long, value_parser = flags::duration, default_value = "10m", value_name = "DURATION")]
    resource_timeout: Duration,
    #[command(flatten)]
    hooks: HookLimitArgs,
    /// Accepted for scripts: this command always waits
    #[arg(long, short)]
    wait: bool,
    /// Print the final Restore as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    /// Only say what would be created, updated, left and skipped, and where objects differ; nothing is written
    #[arg(long)]
    dry_run: bool,
    /// Show the values of Secrets in the differences of a dry run
    #[arg(long, requires = "dry_run")]
    show_secrets: bool,
    /// With --dry-run, also list the objects that would be created or are unchanged
    #[arg(long, requires = "dry_run")]
    details: bool,
    /// With --dry-run, ask the API server by a dry run about each object that would be written
    #[arg(long, requires = "dry_run", value_enum, value_name = "WHO")]
    validate: Option<Validate>,
    #[command(flatten)]
    plan_files: PlanFiles,
    /// A folder for the temporary copy of an archive that has no index
    #[arg(long, value_name = "DIRECTORY")]
    scratch: Option<PathBuf>,
}

/// Refuses a restore that is to write over claims which are there.
fn refuse_overwriting(restore: &Restore) -> anyhow::Result<()> {
    match restore.metadata.annotations.get(ANNOTATION_OVERWRITE_VOLUMES).map(String::as_str) {
        Some("true") => anyhow::bail!(
            "--overwrite-volumes needs a server with a node agent: local restore fills only claims that it makes itself; use restore create, \
             or delete the claims before"
        ),
        _ => Ok(()),
    }
}

impl RestoreArgs {
    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let (restore, settings) = (self.restore(globals)?, self.settings(globals)?);
        refuse_overwriting(&restore)?;
        let origin = match self.from_backup {
            Some(name) => BackupOrigin::Named(name),
            None => BackupOrigin::OfSchedule(ScheduledBackup {
                schedule: self.from_schedule.unwrap_or_default(),
                cluster: SourceCluster::parse(&self.source_cluster),
                allow_partially_failed: *self.allow_partially_failed == Some(true),
            }),
        };
        let password = self.password_file.as_deref().map(password).transpose()?;
        let password = password.map_or_else(|| DEFAULT_PASSWORD.as_bytes().to_vec(), |given| given.as_bytes().to_vec());
        let movers = LocalMovers { image: self.mover_image, bucket: self.mover_bucket, password };
        let local = LocalRestore {
            restore,
            movers,
            settings,
            bucket: self.bucket,
            origin,
            begin_anew: self.begin_anew,
            scratch: self.scratch.unwrap_or_else(std::env::temp_dir),
            output: self.output,
        };
        if self.dry_run {
            let show = ShownParts {
                output: self.output,
                secrets: self.show_secrets,
                details: self.details,
                colours: globals.colour(),
                ..ShownParts::default()
            };
            return Box::pin(local.preview(globals, show, &self.plan_files)).await;
        }
        Box::pin(local.run(globals)).await
    }

    /// Returns the restore that the flags and the file of the spec ask for, without its backup.
    fn restore(&self, globals: &Globals) -> anyhow::Result<Restore> {
        let mut restore = Restore::default();
        restore.metadata.name.clone_from(&self.name);
        restore.metadata.namespace.clone_from(&globals.namespace);
        self.spec.apply(&mut restore);
        if let Some(file) = &self.spec_file {
            let mut none = Restore::default();
            no_flags::<RestoreSpecArgs>()?.apply(&mut none);
            restore.spec = file::overlaid(&file::read(file, "Restore")?, &restore.spec, &none.spec)?;
        }
        // The flag of the command says from which.
        restore.spec.schedule_name.clear();
        Ok(restore)
    }

    fn settings(&self, globals: &Globals) -> anyhow::Result<Settings> {
        let priorities = self.restore_resource_priorities.clone().unwrap_or_default();
        let terminating_resource_timeout = self.terminating_resource_timeout;
        let resource_modifiers = self.resource_modifiers.as_deref().map(document).transpose()?;
        let resource_policies = self.resource_policies.as_deref().map(document).transpose()?;
        Ok(Settings {
            priorities,
            terminating_resource_timeout,
            resource_timeout: self.resource_timeout,
            keep_replaced: self.keep_replaced,
            resource_modifiers,
            resource_policies,
            features: globals.features(),
            max_hook_timeout: Some(self.hooks.max_hook_timeout),
            version_priorities: self.api_version_priorities.as_deref().map(document).transpose()?,
            asks_server: self.validate == Some(Validate::Server),
            ..Settings::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        restore: RestoreArgs,
    }

    #[test]
    fn flags_for_plan_files_are_refused_without_dry_run_when_parsed() {
        for flag in ["--save", "--compare"] {
            let line = ["restore", "r", "--from-backup", "b", "--bucket", "/nowhere", flag, "plan"];
            let refused = Line::try_parse_from(line).unwrap_err().to_string();
            assert!(refused.contains("--dry-run"), "{refused}");
            let line = Line::try_parse_from([&line[..], &["--dry-run"]].concat()).unwrap();
            assert!(line.restore.dry_run && line.restore.plan_files.is_some());
        }
    }
}
