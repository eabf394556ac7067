//! `lifeboat local restore`.

use crate::standalone::bucket_url::{self, Purpose};
use crate::standalone::local_operation::document::document;
use crate::standalone::local_operation::operation_key::{OperationKey, identity};
use crate::standalone::local_operation::restore_run::{RestoreRun, ResumeRule, RunOutcome, run_restore};
use crate::standalone::local_operation::specification::Specification;
use crate::standalone::local_operation::state::{OldState, OperationState, OperationStateFile, ResumedOperation};
use crate::view::preview::{PlanFiles, ShownParts, Validate, print_restore};
use clap::Args;
use lifeboat_action::Actions;
use lifeboat_api::{Duration, Features, Restore, Time};
use lifeboat_api::{SourceCluster, only_of_others, usable_of_schedule};
use lifeboat_cluster::Cluster;
use lifeboat_operation::Operation;
use lifeboat_restore::{Env, Priorities, Request, Settings};
use lifeboat_store::{Store, StoreError};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::spec::{RestoreSpecArgs, file, no_flags};
use lifeboat_terminal::flags::{self, Optional};
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::errors;
use lifeboat_terminal::process::clock::clock;
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

impl RestoreArgs {
    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let store = bucket_url::open(&self.bucket, Purpose::Read, globals.patience()).await?;
        let cluster = globals.connect().await?;
        let backup = self.source(&store, &cluster).await?;
        if self.dry_run {
            return Box::pin(self.preview(globals, cluster, store, &backup)).await;
        }
        // By the cluster's clock, so that it compares with the creation times of objects.
        let now = cluster.time().await?.unwrap_or_else(jiff::Timestamp::now);
        let settings = self.settings(globals)?;
        let new = OperationState::new(now);
        let specification = self.specification(&self.restore(globals, &new, &backup)?, &settings, &store).await?;
        let state = self.state(&cluster, &store, OperationState { specification, ..new }).await?;
        let request = Request { restore: self.restore(globals, &state.content, &backup)?, settings };
        let run = RestoreRun { state, until: ResumeRule::Ended, output: self.output };
        match run_restore(&request, self.env(globals, cluster, store), run).await? {
            RunOutcome::Done(code) => Ok(code),
            // Its files in the bucket stay: the error says where the plan is.
            RunOutcome::Refused { why, .. } => Err(why.into()),
        }
    }

    /// The name of the backup to restore from.
    async fn source(&self, store: &Store, cluster: &Cluster) -> anyhow::Result<String> {
        if let Some(name) = &self.from_backup {
            return Ok(name.clone());
        }
        let schedule = self.from_schedule.as_deref().unwrap_or_default();
        let partly = *self.allow_partially_failed == Some(true);
        let backups = store.backups().await?;
        let backups = backups.iter().filter_map(|summary| summary.backup.as_deref().ok());
        let usable = usable_of_schedule(backups, schedule, partly);
        if usable.is_empty() {
            let also = if partly { "" } else { "; --allow-partially-failed takes partial ones too" };
            anyhow::bail!("no completed backup of schedule {schedule:?} is in {}{also}", store.describe())
        }
        let (from, this) = (SourceCluster::parse(&self.source_cluster), cluster.uid().await?);
        let mut others = Vec::new();
        for backup in usable {
            let claimed = store.cluster_of(&backup.metadata.name).await?;
            if from.admits_claim(claimed.as_deref(), &this) {
                let by = match claimed {
                    Some(uid) if uid == this => String::new(),
                    Some(uid) => format!(", made by the cluster {uid}"),
                    None => ", of which nothing says which cluster has made it".to_owned(),
                };
                let (name, began) = (&backup.metadata.name, backup.status.start_timestamp);
                let of = began.map_or_else(String::new, |time| format!(" of {time}"));
                errors::warn(Some(&format!("The newest backup of the schedule {schedule} is {name}{of}{by}.")));
                return Ok(name.clone());
            }
            others.push(claimed);
        }
        anyhow::bail!(only_of_others(schedule, others.iter().map(Option::as_deref)))
    }

    /// The specification of the restore, which identifies the operation.
    async fn specification(
        &self,
        restore: &Restore,
        settings: &Settings,
        store: &Store,
    ) -> anyhow::Result<Specification> {
        let uid = match store.backup(&restore.spec.backup_name).await {
            // The restore itself says that there is none.
            Err(StoreError::NoBackup { .. }) => String::new(),
            found => found?.metadata.uid,
        };
        Ok(Specification::of(&restore.spec)
            .with("backup UID", uid)
            .with("features", features(settings.features))
            .with_rules("resource modifiers (digest)", settings.resource_modifiers.as_ref())
            .with_rules("resource policies (digest)", settings.resource_policies.as_ref())
            .with_rules("API version priorities (digest)", settings.version_priorities.as_ref()))
    }

    /// The state of an earlier run of the same restore into the same cluster that was cut off, or a new one.
    ///
    /// # Errors
    /// The earlier run was one that does something else.
    async fn state(&self, cluster: &Cluster, store: &Store, new: OperationState) -> anyhow::Result<OperationStateFile> {
        let cluster = identity(cluster).await?;
        let key = OperationKey { kind: "restore", bucket: store.describe(), cluster, name: self.name.clone() };
        let state = OperationStateFile::open(&key, new.clone())?;
        if let Some(old) = OldState::find(&key) {
            let path = old.remove();
            errors::warn(Some(&format!(
                "warning: an earlier version was cut off in a restore {:?}, and its notes ({}) do not say into which cluster: they are \
                 removed, and the restore begins anew. What is there already is left, or treated as --existing-resource-policy says.",
                self.name,
                path.display()
            )));
        }
        if self.begin_anew {
            return state.renewed(new);
        }
        match state.resume(new)? {
            ResumedOperation::Same(state) => Ok(state),
            ResumedOperation::Differs(differences) => anyhow::bail!(
                "an earlier run of the restore {:?} into this cluster was cut off, and did something else: {}. The same command as then \
                 goes on with it; --begin-anew forgets it, so that this one begins anew; under another name this one is a restore of its own",
                self.name,
                differences.join("; ")
            ),
        }
    }

    async fn preview(
        &self,
        globals: &Globals,
        cluster: Cluster,
        store: Store,
        backup: &str,
    ) -> anyhow::Result<ExitCode> {
        let request = Request {
            restore: self.restore(globals, &OperationState::new(clock()()), backup)?,
            settings: self.settings(globals)?,
        };
        let env = self.env(globals, cluster, store);
        let show = ShownParts {
            output: self.output,
            secrets: self.show_secrets,
            details: self.details,
            ..ShownParts::of(globals)
        };
        Box::pin(print_restore(&request, &env, show, &self.plan_files)).await
    }

    fn env(&self, globals: &Globals, cluster: Cluster, store: Store) -> Env {
        let subject = format!("restore={}/{}", globals.namespace, self.name);
        let scratch = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        Env { cluster, store, actions: Actions::default(), operation: Operation::new(clock(), &subject, scratch) }
    }

    fn restore(&self, globals: &Globals, content: &OperationState, backup: &str) -> anyhow::Result<Restore> {
        let mut restore = Restore::default();
        restore.metadata.name.clone_from(&self.name);
        restore.metadata.namespace.clone_from(&globals.namespace);
        restore.metadata.uid.clone_from(&content.uid);
        restore.metadata.creation_timestamp = Some(Time::new(content.started));
        self.spec.apply(&mut restore);
        if let Some(file) = &self.spec_file {
            let mut none = Restore::default();
            no_flags::<RestoreSpecArgs>()?.apply(&mut none);
            restore.spec = file::overlaid(&file::read(file, "Restore")?, &restore.spec, &none.spec)?;
        }
        // The flag of the command says from which.
        restore.spec.schedule_name.clear();
        backup.clone_into(&mut restore.spec.backup_name);
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
            version_priorities: self.api_version_priorities.as_deref().map(document).transpose()?,
            asks_server: self.validate == Some(Validate::Server),
            ..Settings::default()
        })
    }
}

/// The features that are switched on, by their names.
fn features(on: Features) -> Vec<&'static str> {
    let Features { csi, api_group_versions } = on;
    let all = [(csi, "EnableCSI"), (api_group_versions, "EnableAPIGroupVersions")];
    all.into_iter().filter_map(|(is_on, name)| is_on.then_some(name)).collect()
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
