//! A restore that this machine runs, without a server in the cluster.

use super::bucket_url::{self, Purpose};
use super::dry_run::print_restore;
use super::local_operation::operation_key::{OperationKey, identity};
use super::local_operation::restore_run::{RestoreRun, ResumeRule, RunOutcome, run_restore};
use super::local_operation::specification::Specification;
use super::local_operation::state::{OldState, OperationState, OperationStateFile, ResumedOperation};
use lifeboat_action::Actions;
use lifeboat_api::well_known::LABEL_MOVER_OF_RESTORE;
use lifeboat_api::{
    BackupMaker, Features, Restore, SourceCluster, Time, newest_of_schedule, only_of_others, usable_of_schedule,
};
use lifeboat_cluster::Cluster;
use lifeboat_operation::Operation;
use lifeboat_provider::{PortableBucket, portable};
use lifeboat_restore::{Env, Request, Settings};
use lifeboat_store::{Store, StoreError};
use lifeboat_terminal::flags::dry_run::PlanFiles;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::errors;
use lifeboat_terminal::process::clock::clock;
use lifeboat_view::preview::ShownParts;
use lifeboat_volume::mover_pod::{MoverPodSettings, MoverPods, PASSWORD, SECRET_AT, SecretFiles, SweptMover};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// A restore that this machine runs.
pub struct LocalRestore {
    /// The restore, without UID, time and backup.
    pub restore: Restore,
    /// Settings of the engine.
    pub settings: Settings,
    /// The URL of the bucket that it reads.
    pub bucket: String,
    /// The backup.
    pub origin: BackupOrigin,
    /// True when an earlier run that was cut off is forgotten.
    pub begin_anew: bool,
    /// A folder for the temporary copy of an archive that has no index.
    pub scratch: PathBuf,
    /// Starts movers for volumes whose data is in a repository.
    pub movers: LocalMovers,
    /// The form in which the final Restore is printed; a line of text when there is none.
    pub output: Option<Output>,
}

/// The movers of a restore of this machine.
pub struct LocalMovers {
    /// The image of the program.
    pub image: String,
    /// The URL of the bucket as pods reach it; `None` when it is that of the restore.
    pub bucket: Option<String>,
    /// The password of the repositories.
    pub password: Vec<u8>,
}

impl LocalMovers {
    /// The movers of a restore with these settings from a bucket; `None` where no pod reaches the bucket.
    async fn pods(&self, bucket: &str, settings: &Settings) -> anyhow::Result<Option<Arc<MoverPods>>> {
        let (flag, url) = match &self.bucket {
            Some(url) => ("--mover-bucket", url.as_str()),
            None => ("--bucket", bucket),
        };
        if self.bucket.is_none() && bucket_url::is_directory(flag, url)? {
            return Ok(None);
        }
        let PortableBucket { url, mut files } = portable(flag, url, SECRET_AT).await.map_err(anyhow::Error::msg)?;
        files.insert(PASSWORD.to_owned(), self.password.clone());
        Ok(Some(Arc::new(MoverPods::new(MoverPodSettings {
            image: self.image.clone(),
            bucket: url,
            files: SecretFiles(files),
            start_timeout: settings.resource_timeout.to_std(),
        }))))
    }
}

/// The backup of a restore.
pub enum BackupOrigin {
    /// The backup of this name.
    Named(String),
    /// The newest one of a schedule.
    OfSchedule(ScheduledBackup),
}

/// The newest backup of a schedule.
pub struct ScheduledBackup {
    /// The name of the schedule.
    pub schedule: String,
    /// The cluster that has made it.
    pub cluster: SourceCluster,
    /// True when one that is only partially there will do.
    pub allow_partially_failed: bool,
}

impl LocalRestore {
    /// Runs the restore, or goes on with one that was cut off.
    ///
    /// # Errors
    /// Returns the error that kept it from beginning or ending.
    pub async fn run(mut self, globals: &Globals) -> anyhow::Result<ExitCode> {
        self.settings.movers.pods = self.movers.pods(&self.bucket, &self.settings).await?;
        let store = bucket_url::open(&self.bucket, Purpose::Read, globals.patience()).await?;
        let cluster = globals.connect().await?;
        let backup = self.source(&store, &cluster).await?;
        // By the cluster's clock, so that it compares with the creation times of objects.
        let now = cluster.time().await?.unwrap_or_else(jiff::Timestamp::now);
        let new = OperationState::new(now);
        let specification = self.specification(&self.restore(&new, &backup), &store).await?;
        let state = self.state(&cluster, &store, OperationState { specification, ..new }).await?;
        let restore = self.restore(&state.content, &backup);
        if let Some(pods) = &self.settings.movers.pods {
            sweep(pods, &restore, now, &cluster).await;
        }
        let env = self.env(cluster, store);
        let request = Request { restore, settings: self.settings };
        let run = RestoreRun { state, until: ResumeRule::Ended, output: self.output };
        match run_restore(&request, env, run).await? {
            RunOutcome::Done(code) => Ok(code),
            // Its files in the bucket stay: the error says where the plan is.
            RunOutcome::Refused { why, .. } => Err(why.into()),
        }
    }

    /// Prints what the restore would do.
    ///
    /// # Errors
    /// Returns the error that keeps the restore from being previewed.
    pub async fn preview(mut self, globals: &Globals, show: ShownParts, files: &PlanFiles) -> anyhow::Result<ExitCode> {
        self.settings.movers.pods = self.movers.pods(&self.bucket, &self.settings).await?;
        let store = bucket_url::open(&self.bucket, Purpose::Read, globals.patience()).await?;
        let cluster = globals.connect().await?;
        let backup = self.source(&store, &cluster).await?;
        let restore = self.restore(&OperationState::new(clock()()), &backup);
        let env = self.env(cluster, store);
        Box::pin(print_restore(&Request { restore, settings: self.settings }, &env, show, files)).await
    }

    /// The name of the backup to restore from.
    async fn source(&self, store: &Store, cluster: &Cluster) -> anyhow::Result<String> {
        let ScheduledBackup { schedule, cluster: from, allow_partially_failed: partly } = match &self.origin {
            BackupOrigin::Named(name) => return Ok(name.clone()),
            BackupOrigin::OfSchedule(scheduled) => scheduled,
        };
        let partly = *partly;
        let backups = store.backups().await?;
        let backups = backups.iter().filter_map(|summary| summary.backup.as_deref().ok());
        let usable = usable_of_schedule(backups, schedule, partly);
        if usable.is_empty() {
            let also = if partly { "" } else { "; --allow-partially-failed takes partial ones too" };
            anyhow::bail!("no completed backup of schedule {schedule:?} is in {}{also}", store.describe())
        }
        let this = cluster.uid().await?;
        let mut others = Vec::new();
        for backup in usable {
            let claimed = store.cluster_of(&backup.metadata.name).await?;
            if from.admits_claim(claimed.as_deref(), &this) {
                let maker = BackupMaker::claimed(claimed.as_deref(), &this);
                errors::warn(Some(&newest_of_schedule(schedule, backup, maker)));
                return Ok(backup.metadata.name.clone());
            }
            others.push(claimed);
        }
        anyhow::bail!(only_of_others(schedule, others.iter().map(Option::as_deref)))
    }

    /// The specification of the restore, which identifies the operation.
    async fn specification(&self, restore: &Restore, store: &Store) -> anyhow::Result<Specification> {
        let settings = &self.settings;
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
        let key = OperationKey { kind: "restore", bucket: store.describe(), cluster, name: self.name().to_owned() };
        let state = OperationStateFile::open(&key, new.clone())?;
        if let Some(old) = OldState::find(&key) {
            let path = old.remove();
            errors::warn(Some(&format!(
                "warning: an earlier version was cut off in a restore {:?}, and its notes ({}) do not say into which cluster: they are \
                 removed, and the restore begins anew. What is there already is left, or treated as --existing-resource-policy says.",
                self.name(),
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
                self.name(),
                differences.join("; ")
            ),
        }
    }

    fn name(&self) -> &str {
        &self.restore.metadata.name
    }

    fn env(&self, cluster: Cluster, store: Store) -> Env {
        let metadata = &self.restore.metadata;
        let subject = format!("restore={}/{}", metadata.namespace, metadata.name);
        let operation = Operation::new(clock(), &subject, self.scratch.clone());
        Env { cluster, store, actions: Actions::default(), operation }
    }

    fn restore(&self, content: &OperationState, backup: &str) -> Restore {
        let mut restore = self.restore.clone();
        restore.metadata.uid.clone_from(&content.uid);
        restore.metadata.creation_timestamp = Some(Time::new(content.started));
        backup.clone_into(&mut restore.spec.backup_name);
        restore
    }
}

/// Removes what restores that were killed have left of their movers, and says it: their Secrets hold the credentials of buckets.
async fn sweep(pods: &MoverPods, restore: &Restore, now: jiff::Timestamp, cluster: &Cluster) {
    let what = "movers that earlier local restores have left";
    match pods.sweep(restore, now, cluster).await {
        Ok(swept) => {
            for SweptMover { kind, namespace, name, restore } in swept {
                let text = format!(
                    "The {kind} {namespace}/{name} of a mover was left by the restore {restore:?}, which was killed, and is removed."
                );
                errors::warn(Some(&text));
            }
        }
        // The namespaces into which it restores are looked at all the same.
        Err(e) => errors::warn(Some(&format!(
            "{what} cannot be looked for in all namespaces ({e}): they are pods and Secrets with the label {LABEL_MOVER_OF_RESTORE}"
        ))),
    }
}

/// The features that are switched on, by their names.
fn features(on: Features) -> Vec<&'static str> {
    let Features { csi, api_group_versions } = on;
    let all = [(csi, "EnableCSI"), (api_group_versions, "EnableAPIGroupVersions")];
    all.into_iter().filter_map(|(is_on, name)| is_on.then_some(name)).collect()
}
