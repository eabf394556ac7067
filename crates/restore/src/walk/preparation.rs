//! Preparation of a restore before anything is written: the types of the cluster, the objects of the archive, and their
//! levels.

use crate::actions::{ActionConfig, FilesToRestore, built_in_actions};
use crate::end::outcome::RestoreError;
use crate::object::apply::Actions;
use crate::object::desired::ObjectBuilder;
use crate::request::existing_policies::ExistingPolicies;
use crate::request::load::{modifiers, policies, version_priorities};
use crate::request::modifier::Schemas;
use crate::request::settings::{Request, ValidationErrors};
use crate::state::defined::Defined;
use crate::state::env::Env;
use crate::state::stop::Stop;
use crate::volumes::movers;
use crate::volumes::native::NativeVolumeRestore;
use crate::volumes::report::VolumeTreatments;
use crate::volumes::restored::RestoredVolumes;
use crate::volumes::retained::RetainedVolumes;
use crate::volumes::snapshot_groups::recorded_groups;
use crate::walk::existence::ExistenceLookup;
use crate::walk::levels::{Level, into_levels};
use crate::walk::prefetch::Prefetch;
use crate::walk::read::{Contents, Facts, Kinds, ScanRules, StateDigest, filter_namespace, namespaces_in, scan};
use crate::walk::same_target::SameTarget;
use crate::walk::scope::{FilterInput, RestoreOptions, RestoreScope, SelectedRows};
use crate::walk::source::settle_volumes;
use crate::walk::versions::{ChosenRows, VersionPriorities, choose};
use futures::FutureExt;
use lifeboat_action::ActionError;
use lifeboat_api::Restore;
use lifeboat_api::well_known::ANNOTATION_POD_VOLUME_TIMEOUT;
use lifeboat_archive::index::Row;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_hook::RestoreHooks;
use lifeboat_object::{ApiResource, Catalog, GroupResource, ResultScope, chain};
use lifeboat_select::{ResourcePolicies, RestoreFilter, RestoredFacts, SelectorError};
use lifeboat_store::{Archive, OpenOptions, StoreError};
use lifeboat_volume::csi::{GroupHandle, SnapshotsOfBackup, restore_actions};
use lifeboat_volume::data_movement::restore::DownloadSettings;
use lifeboat_volume::facts::name_of_object;
use lifeboat_volume::{BackupOrigin, Movers, RecordedVolumes, RestoreMeans, VolumeFiles};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for discovery to name the types that were defined.
const LONGEST_DISCOVERY: Duration = Duration::from_secs(60);

/// A restore whose archive was read and checked, and whose objects are ordered.
pub(crate) struct PreparedRestore {
    /// The objects that are restored, in a cluster that serves the types that are known.
    pub(crate) scope: Arc<RestoreScope>,
    /// Makes the objects to be written.
    pub(crate) builder: Arc<ObjectBuilder>,
    /// The objects to restore, in order.
    pub(crate) levels: Vec<Level>,
    /// Objects of the first levels that were found in the cluster while the archive was read.
    pub(crate) ahead: Prefetch,
    pub(crate) contents: ContentsSummary,
    filters: FilterInput,
    /// Set when nothing more is to be begun.
    pub(crate) stop: Arc<Stop>,
    pub(crate) env: Env,
}

/// Facts about the contents of an archive for the reports and the last stages of a restore.
pub(crate) struct ContentsSummary {
    /// The snapshots of each group that the backup records.
    pub(crate) groups: BTreeMap<GroupHandle, BTreeSet<String>>,
    /// Rows of the objects whose owners a restore can bring back, in ascending order.
    pub(crate) with_owners: Vec<usize>,
    /// Number of objects of each type that are left out, by reason.
    pub(crate) left_out: BTreeMap<(GroupResource, &'static str), u64>,
    pub(crate) kinds: Kinds,
}

impl PreparedRestore {
    /// Opens and reads the whole archive and plans. Nothing is written.
    ///
    /// # Errors
    /// As of a restore.
    pub(crate) async fn begin(request: &Request, restore: &Restore, env: &Env) -> Result<Self, RestoreError> {
        let modifiers = Arc::new(modifiers(restore, &request.settings, env).await?);
        let policies = policies(restore, &request.settings, env).await?;
        let hooks = RestoreHooks::new(&restore.spec.hooks).map_err(ValidationErrors)?;
        let priorities = version_priorities(restore, &request.settings, env).await?;
        let mut archive = open(request, restore, false, env).await?;
        let catalog = env.cluster.discover().await?;
        tell_failures(&Catalog::default(), &catalog, env);
        let recorded = recorded(restore, env).await?;
        let agents = movers::find(&request.settings.movers, restore, env).await?;
        let movers = movers::movers_of(&request.settings.movers, agents);
        let selecting = SelectionInput {
            request,
            restore,
            policies: policies.as_ref(),
            priorities,
            catalog: &catalog,
            recorded: &recorded,
            movers,
            env,
        };
        let selected = match selecting.select(&archive).await {
            // Velero may have rewritten it.
            Err(RestoreError::Store(e @ StoreError::Index { .. })) => {
                let text = format!("the archive is read as a stream, its index does not fit: {e}");
                env.operation.journal.warn(&ResultScope::Velero, text);
                archive = open(request, restore, true, env).await?;
                selecting.select(&archive).await?
            }
            selected => selected?,
        };
        let Selected { in_backup, filter, chosen, contents, mut ahead } = selected;
        for warning in filter.warnings() {
            env.operation.journal.warn(&ResultScope::Velero, warning.as_str());
        }
        // Also those of which nothing is read.
        let mut types: BTreeSet<&GroupResource> = BTreeSet::new();
        for (number, row) in archive.rows().enumerate() {
            // Objects of one type lie together.
            if number == 0 || archive.row(number - 1).is_none_or(|last| !Arc::ptr_eq(&last.resource, &row.resource)) {
                types.insert(&row.resource);
            }
        }
        for name in ExistingPolicies::unknown(&restore.spec, &catalog, &types) {
            let text =
                format!("{name} in the policies for existing resources is no type of the cluster or of the backup");
            env.operation.journal.warn(&ResultScope::Velero, text);
        }
        let mut restored: Vec<usize> = contents.facts.iter().filter(|one| !one.ended).map(|one| one.row).collect();
        restored.sort_unstable();
        // The others come where something needs them.
        let rows = restored.iter().chain(chosen.rows()).filter_map(|n| Some((*n, archive.row(*n)?)));
        let same_target = SameTarget::of(rows, &in_backup, &restore.spec.namespace_mapping);
        drop(restored);
        let origin = if contents.retained.is_empty() { None } else { origin(restore, env).await? };
        let retained = RetainedVolumes {
            names_cluster: origin.is_some(),
            origin: origin.unwrap_or_default(),
            volumes: contents.retained,
            files: Arc::clone(&contents.files),
            treatments: Arc::new(contents.volumes),
        };
        let levels = into_levels(contents.facts, |n| archive.row(n), &request.settings.priorities, &catalog);
        ahead.keep(&levels);
        let config =
            ActionConfig::load(&env.cluster, &restore.metadata.namespace).await.map_err(|e| config_error(&e))?;
        let settings = &request.settings.movers;
        if agents.are_unready && (!contents.files.is_empty() || retained.treatments.has_moved()) {
            movers::tell_waiting(restore, env);
        }
        let files = FilesToRestore {
            pods: Arc::clone(&contents.files),
            claims: Arc::new(retained.treatments.filled_by_mover_pods(restore)),
            wait: movers::wait_settings(settings, config.restore_wait.clone(), restore, env).await,
        };
        let downloads = downloads(request, restore, &retained.treatments, env).await?;
        let mut actions = built_in_actions(&env.cluster, &config, files);
        let rows = Arc::new(SelectedRows { chosen, same_target });
        let (restore, stop) = (Arc::new(restore.clone()), Arc::new(Stop::with(&env.operation.cancel)));
        let (treatments, of_restore) = (Arc::clone(&retained.treatments), Arc::clone(&restore));
        let snapshots = SnapshotsOfBackup {
            is_moved: Arc::new(move |claim| treatments.moved(claim, &of_restore).is_some()),
            ..snapshots_of_backup(&archive, &rows, &recorded)
        };
        actions.extend(restore_actions(&env.cluster, &catalog, snapshots));
        actions.extend(env.actions.restore_item.iter().cloned());
        served_namespaces(&catalog, env)?;
        let actions = Actions::resolve(actions, &catalog, Arc::clone(&restore), Arc::clone(&stop));
        let native = NativeVolumeRestore::new(contents.native, &restore, env);
        let builder = ObjectBuilder {
            actions: actions.map_err(|e| ValidationErrors(vec![e]))?,
            job_pods: Arc::new(contents.job_pods),
            orphaned_claims: Arc::new(contents.orphaned_claims),
            volumes: Arc::new(RestoredVolumes {
                provisioned: contents.provisioned,
                native,
                retained,
                downloads,
                pods: request.settings.movers.pods.clone(),
                mounting: contents.mounting,
            }),
            modifiers,
            schemas: Arc::new(Schemas::new(&env.cluster)),
        };
        let existing = ExistingPolicies::new(&restore.spec, &catalog).map_err(invalid_selector)?;
        let hooks = hooks.with_most(request.settings.max_hook_timeout);
        let hooks = Arc::new(hooks.with_most_wait(restore.spec.item_operation_timeout));
        let options = RestoreOptions {
            lists_existing: request.settings.lists_existing,
            terminating_timeout: request.settings.terminating_resource_timeout.to_std(),
            resource_timeout: request.settings.resource_timeout.to_std(),
            files_timeout: files_timeout(request, &restore, env),
        };
        Ok(Self {
            scope: Arc::new(RestoreScope { restore, catalog, filter, archive, existing, hooks, rows, options }),
            builder: Arc::new(builder),
            levels,
            ahead,
            contents: ContentsSummary {
                groups: recorded_groups(&recorded),
                with_owners: contents.with_owners,
                left_out: contents.left_out,
                kinds: contents.kinds,
            },
            filters: FilterInput { policies, in_backup },
            stop,
            env: env.clone(),
        })
    }

    /// Asks for the types again, after these were defined, and waits until they are served. When the cluster does not say, the
    /// restore goes on with those that it served before: objects of the others fail, each with an error of its own.
    ///
    /// # Errors
    /// The cluster serves no namespaces any more, or the restore selects with what is no selector.
    pub(crate) async fn discover_again(&mut self, defined: &Defined) -> Result<(), RestoreError> {
        let time = self.scope.options.resource_timeout.min(LONGEST_DISCOVERY);
        match defined.discover(time, &self.env).await {
            Ok((catalog, missing)) => {
                tell_failures(&self.scope.catalog, &catalog, &self.env);
                if !missing.is_empty() && !self.stop.has_come() {
                    let (types, seconds) = (missing.join(", "), time.as_secs());
                    let text = format!("this restore has defined types that are not served after {seconds} s: {types}");
                    self.env.operation.journal.warn(&ResultScope::Cluster, text);
                }
                served_namespaces(&catalog, &self.env)?;
                let builder = self.builder.serving(&catalog).map_err(|e| ValidationErrors(vec![e]))?;
                let scope = self.scope.serving(catalog, &self.filters).map_err(invalid_selector)?;
                (self.scope, self.builder) = (Arc::new(scope), Arc::new(builder));
            }
            Err(e) => {
                let text = format!("refresh discovery after restoring CRDs: {}", chain(&e));
                self.env.operation.journal.warn(&ResultScope::Cluster, text);
            }
        }
        Ok(())
    }

    /// The type of namespaces.
    ///
    /// # Errors
    /// The cluster serves none.
    pub(crate) fn namespaces(&self) -> Result<Arc<ApiResource>, RestoreError> {
        served_namespaces(&self.scope.catalog, &self.env)
    }
}

/// The type of namespaces among these types.
///
/// # Errors
/// The cluster serves none.
fn served_namespaces(catalog: &Catalog, env: &Env) -> Result<Arc<ApiResource>, RestoreError> {
    let found = catalog.find(&GroupResource::namespaces()).cloned();
    found.ok_or_else(|| RestoreError::NoNamespaces(env.cluster.url().to_owned()))
}

/// Selection that a restore makes from an archive.
struct Selected {
    in_backup: BTreeSet<String>,
    filter: RestoreFilter,
    chosen: ChosenRows,
    contents: Contents,
    ahead: Prefetch,
}

/// Input of the selection: the request, its policies, and its version priorities.
struct SelectionInput<'a> {
    request: &'a Request,
    restore: &'a Restore,
    policies: Option<&'a ResourcePolicies>,
    priorities: VersionPriorities,
    catalog: &'a Catalog,
    recorded: &'a RecordedVolumes,
    movers: Movers,
    env: &'a Env,
}

impl SelectionInput<'_> {
    async fn select(&self, archive: &Archive) -> Result<Selected, RestoreError> {
        let Self { request, restore, policies, priorities, catalog, recorded, movers, env } = self;
        let in_backup = namespaces_in(archive);
        let filter = RestoreFilter::new(&restore.spec, *policies, catalog, &in_backup).map_err(invalid_selector)?;
        let chosen = choose(archive.rows(), catalog, priorities);
        let namespace_mapping = &restore.spec.namespace_mapping;
        let lookup =
            ExistenceLookup { archive, catalog, namespace_mapping, lists: request.settings.lists_existing, env };
        let likely = likely(archive, chosen.rows(), &filter);
        let rows = match request.settings.reads_selected_only {
            true => with_volumes(archive, chosen.rows(), &likely),
            false => chosen.rows().to_vec(),
        };
        let look =
            Prefetch::look(&lookup, into_levels(likely, |n| archive.row(n), &request.settings.priorities, catalog));
        let means = RestoreMeans { wants_volumes: restore.spec.restore_pvs != Some(false), movers: *movers };
        let scan = scan(archive, rows, ScanRules { filter: &filter, recorded, means }, env);
        // An archive that cannot be read ends this at once, without waiting for the lists.
        let (contents, ahead) = futures::try_join!(scan, look.map(Ok))?;
        Ok(Selected { in_backup, filter, chosen, contents, ahead })
    }
}

/// Guesses from the index which objects will be restored: labels are known only from the objects themselves.
fn likely(archive: &Archive, rows: &[usize], filter: &RestoreFilter) -> Vec<Facts> {
    let included = |row: &Row| {
        let key = row.key();
        let facts = RestoredFacts {
            resource: &key.resource,
            kind: None,
            namespace: filter_namespace(&key),
            name: &key.name,
            labels: None,
        };
        filter.includes_item(facts).is_ok()
    };
    let rows = rows.iter().filter(|n| archive.row(**n).is_some_and(included));
    rows.map(|n| Facts { row: *n, early: false, ended: false, state: StateDigest::default() }).collect()
}

/// The rows of objects that will be restored, and of all volumes: the treatment of a claim depends on its volume, even
/// if that is not selected.
fn with_volumes(archive: &Archive, rows: &[usize], likely: &[Facts]) -> Vec<usize> {
    let likely: HashSet<usize> = likely.iter().map(|one| one.row).collect();
    // The DataUploads say where data is that was moved.
    let types = [GroupResource::new("", "persistentvolumes"), GroupResource::new(lifeboat_api::GROUP, "datauploads")];
    let is_volume = |n: usize| archive.row(n).is_some_and(|row| types.contains(&row.resource));
    rows.iter().copied().filter(|n| likely.contains(n) || is_volume(*n)).collect()
}

async fn open(request: &Request, restore: &Restore, ignore_index: bool, env: &Env) -> Result<Archive, StoreError> {
    if let Some(archive) = request.settings.archive.as_ref().filter(|_| !ignore_index) {
        return Ok(archive.clone());
    }
    let options = OpenOptions { limits: request.settings.limits, scratch: env.operation.scratch.clone(), ignore_index };
    env.store.open_archive(&restore.spec.backup_name, &options).await
}

/// Warns of groups that do not answer, unless they did not before.
fn tell_failures(before: &Catalog, catalog: &Catalog, env: &Env) {
    let known = |group_version: &str| before.failures.iter().any(|f| f.group_version == group_version);
    for failure in catalog.failures.iter().filter(|f| !known(&f.group_version)) {
        env.operation.journal.warn(
            &ResultScope::Velero,
            format!("the types of {} could not be discovered: {}", failure.group_version, failure.message),
        );
    }
}

/// The cluster of which the backup is; `None` when the backup does not say it.
async fn origin(restore: &Restore, env: &Env) -> Result<Option<BackupOrigin>, RestoreError> {
    let Some(of_backup) = env.store.cluster_of(&restore.spec.backup_name).await? else { return Ok(None) };
    Ok(Some(BackupOrigin::of(&of_backup, &env.cluster.uid().await?)))
}

async fn recorded(restore: &Restore, env: &Env) -> Result<RecordedVolumes, StoreError> {
    let backup = &restore.spec.backup_name;
    let infos = env.store.backup_file(backup, BackupFile::VolumeInfo).await?;
    let mut infos: Vec<BackupVolumeInfo> = infos.unwrap_or_default();
    settle_volumes(backup, &mut infos, env).await?;
    let files = VolumeFiles {
        infos,
        native: env.store.backup_file(backup, BackupFile::VolumeSnapshots).await?.flatten().unwrap_or_default(),
        pod_volumes: env.store.backup_file(backup, BackupFile::PodVolumeBackups).await?.flatten().unwrap_or_default(),
        snapshots: env.store.backup_file(backup, BackupFile::CsiVolumeSnapshots).await?.flatten().unwrap_or_default(),
    };
    Ok(RecordedVolumes::of(files))
}

/// The location from which data movers bring data, and their limit. Only a backup with such data is looked at again.
async fn downloads(
    request: &Request,
    restore: &Restore,
    treatments: &VolumeTreatments,
    env: &Env,
) -> Result<DownloadSettings, StoreError> {
    let mut location = request.settings.movers.location.clone();
    let mut operation_timeout = lifeboat_api::Duration::from_secs(600);
    if treatments.has_moved() || location.is_empty() && request.settings.movers.may_be_used {
        let backup = env.store.backup(&restore.spec.backup_name).await?;
        if location.is_empty() {
            location = backup.spec.storage_location;
        }
        if !backup.spec.csi_snapshot_timeout.is_zero() {
            operation_timeout = backup.spec.csi_snapshot_timeout;
        }
    }
    Ok(DownloadSettings { location, operation_timeout, ..DownloadSettings::default() })
}

/// The limit of the files of all volumes, which an annotation of the restore may set.
fn files_timeout(request: &Request, restore: &Restore, env: &Env) -> Duration {
    let default = request.settings.movers.fs_backup_timeout;
    let Some(text) = restore.metadata.annotations.get(ANNOTATION_POD_VOLUME_TIMEOUT) else { return default.to_std() };
    match text.parse::<lifeboat_api::Duration>() {
        Ok(limit) => limit.to_std(),
        Err(e) => {
            let text = format!("the annotation {ANNOTATION_POD_VOLUME_TIMEOUT} is ignored, {default} is taken: {e}");
            env.operation.journal.warn(&ResultScope::Velero, text);
            default.to_std()
        }
    }
}

/// Collects the input of the actions for CSI snapshots.
fn snapshots_of_backup(archive: &Archive, rows: &Arc<SelectedRows>, recorded: &RecordedVolumes) -> SnapshotsOfBackup {
    let (archive, rows) = (archive.clone(), Arc::clone(rows));
    let drivers = recorded.snapshots.iter().map(|(claim, info)| (name_of_object(claim), info.driver.clone()));
    SnapshotsOfBackup {
        drivers: drivers.collect(),
        failed: recorded.failed_claims.iter().map(name_of_object).collect(),
        is_moved: Arc::new(|_| false),
        holds: Arc::new(move |key| rows.chosen.find(key, |number| archive.row(number)).is_some()),
    }
}

fn invalid_selector(error: SelectorError) -> RestoreError {
    let told = match error {
        SelectorError::Requirement(_) | SelectorError::Syntax(_) => format!("invalid label selector: {error}"),
        SelectorError::Wildcard(_) | SelectorError::Ambiguous(_) => error.to_string(),
    };
    ValidationErrors(vec![told]).into()
}

fn config_error(error: &ActionError) -> RestoreError {
    ValidationErrors(vec![error.to_string()]).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::BUILT_IN_ACTIONS;
    use crate::request::settings::prepare;
    use crate::stub::{RestoreFixture, Scripted, config_map};
    use lifeboat_action::RestoreItemOutput;
    use lifeboat_volume::csi::RESTORE_ACTIONS;

    #[tokio::test]
    async fn built_in_actions_come_first_then_csi_snapshots_then_given_ones() {
        let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
        let RestoreFixture { request, env, .. } = &RestoreFixture::new(&[config_map("a")], &action).await;
        let prepared = PreparedRestore::begin(request, &prepare(request).unwrap(), env).await.unwrap();
        let names = prepared.builder.actions.names();
        let expected: Vec<&str> =
            BUILT_IN_ACTIONS.into_iter().chain(RESTORE_ACTIONS).chain(["test/scripted"]).collect();
        assert_eq!(names, expected);
    }
}
