//! What is known of a restore before anything is written: the cluster's types, the archive's objects, their levels.

use crate::actions::{ActionConfig, built_in_actions};
use crate::ahead::Ahead;
use crate::apply::Actions;
use crate::check::Lookout;
use crate::env::Env;
use crate::item::Context;
use crate::namespaces::Namespaces;
use crate::notes::Notes;
use crate::operations::Operations;
use crate::outcome::RestoreError;
use crate::plan::{Level, plan};
use crate::read::{Contents, Facts, Kinds, State, filter_namespace, namespaces_in, scan};
use crate::request::{Request, ValidationErrors};
use crate::stop::Stop;
use crate::versions::{Chosen, choose};
use crate::volumes::{Recorded, Volumes};
use futures::FutureExt;
use jiff::Timestamp;
use lifeboat_action::{ActionError, RestoreItemAction};
use lifeboat_api::{Restore, Time};
use lifeboat_archive::index::Row;
use lifeboat_archive::layout::BackupFile;
use lifeboat_object::{Catalog, GroupResource, Place};
use lifeboat_select::{RestoreFilter, SelectorError};
use lifeboat_store::{Archive, OpenOptions, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A restore whose archive was read and checked, and whose objects are ordered.
pub(crate) struct Walk {
    /// The types that the cluster serves.
    pub(crate) catalog: Catalog,
    /// What is restored, in order.
    pub(crate) levels: Vec<Level>,
    /// What becomes of volumes and claims.
    pub(crate) volumes: Volumes,
    /// How many objects of each type are left out, by reason.
    pub(crate) left_out: BTreeMap<(GroupResource, &'static str), u64>,
    /// Whether an earlier run of this restore was cut off.
    pub(crate) resumed: bool,
    restore: Arc<Restore>,
    in_backup: BTreeSet<String>,
    pub(crate) archive: Archive,
    /// What was seen of the cluster while the archive was read.
    pub(crate) ahead: Ahead,
    chosen: Arc<Chosen>,
    kinds: Arc<Kinds>,
    provisioned: Arc<BTreeSet<String>>,
    actions: Vec<Arc<dyn RestoreItemAction>>,
    /// What actions have begun.
    pub(crate) operations: Arc<Operations>,
    terminating_timeout: Duration,
    resource_timeout: Duration,
    /// Set when nothing more is to be begun.
    pub(crate) stop: Arc<Stop>,
    env: Env,
}

impl Walk {
    /// Opens and reads the whole archive and plans. Nothing is written.
    ///
    /// # Errors
    /// As of a restore.
    pub(crate) async fn begin(request: &Request, restore: &Restore, env: &Env) -> Result<Self, RestoreError> {
        let mut archive = open(request, restore, false, env).await?;
        let catalog = discover(&Catalog::default(), env).await?;
        let recorded = recorded(&restore.spec.backup_name, env).await?;
        let selected = match select(request, restore, &archive, &catalog, &recorded, env).await {
            // Velero may have rewritten it.
            Err(RestoreError::Store(e @ StoreError::Index { .. })) => {
                let text = format!("the archive is read as a stream, its index does not fit: {e}");
                env.operation.journal.warn(&Place::Velero, text);
                archive = open(request, restore, true, env).await?;
                select(request, restore, &archive, &catalog, &recorded, env).await?
            }
            selected => selected?,
        };
        let Selected { in_backup, filter, chosen, contents, mut ahead } = selected;
        for warning in filter.warnings() {
            env.operation.journal.warn(&Place::Velero, warning.as_str());
        }
        let levels = plan(contents.facts, |n| archive.row(n), &request.settings.priorities, &catalog);
        ahead.keep(&levels);
        let config =
            ActionConfig::load(&env.cluster, &restore.metadata.namespace).await.map_err(|e| config_error(&e))?;
        let mut actions = built_in_actions(&env.cluster, &config);
        actions.extend(env.actions.restore_item.iter().cloned());
        Ok(Self {
            actions,
            catalog,
            levels,
            volumes: contents.volumes,
            left_out: contents.left_out,
            resumed: false,
            operations: Arc::new(Operations::new(Arc::new(restore.clone()), &env.operation)),
            restore: Arc::new(restore.clone()),
            in_backup,
            archive,
            ahead,
            chosen: Arc::new(chosen),
            kinds: Arc::new(contents.kinds),
            provisioned: Arc::new(contents.provisioned),
            terminating_timeout: request.settings.terminating_resource_timeout.to_std(),
            resource_timeout: request.settings.resource_timeout.to_std(),
            stop: Arc::new(Stop::with(&env.operation.cancel)),
            env: env.clone(),
        })
    }

    /// Asks for the types again, after some were defined.
    pub(crate) async fn discover_again(&mut self) -> Result<(), RestoreError> {
        self.catalog = discover(&self.catalog, &self.env).await?;
        Ok(())
    }

    fn resolved_actions(&self) -> Result<Actions, RestoreError> {
        let (restore, stop) = (Arc::clone(&self.restore), Arc::clone(&self.stop));
        let actions = Actions::resolve(self.actions.clone(), &self.catalog, restore, stop);
        actions.map_err(|e| ValidationErrors(vec![e]).into())
    }

    /// When a restore began that was cut off.
    fn began(&self) -> Option<Timestamp> {
        self.restore.metadata.creation_timestamp.filter(|_| self.resumed).map(Time::timestamp)
    }

    /// What all objects share while the cluster serves these types; namespaces and what was noted of objects are taken
    /// over from the context before.
    pub(crate) fn context(&self, before: Option<&Context>) -> Result<Context, RestoreError> {
        let catalog = &self.catalog;
        let namespaces = catalog
            .find(&GroupResource::new("", "namespaces"))
            .cloned()
            .ok_or_else(|| RestoreError::NoNamespaces(self.env.cluster.url().to_owned()))?;
        Ok(Context {
            restore: Arc::clone(&self.restore),
            filter: RestoreFilter::new(&self.restore.spec, catalog, &self.in_backup).map_err(invalid_selector)?,
            actions: self.resolved_actions()?,
            operations: Arc::clone(&self.operations),
            kept: before.map_or_else(Arc::default, |before| Arc::clone(&before.kept)),
            aside: before.map_or_else(Arc::default, |before| Arc::clone(&before.aside)),
            namespaces: before.map_or_else(
                || Arc::new(Namespaces::new(namespaces, self.terminating_timeout, self.began())),
                |before| Arc::clone(&before.namespaces),
            ),
            archive: self.archive.clone(),
            chosen: Arc::clone(&self.chosen),
            provisioned: Arc::clone(&self.provisioned),
            notes: before.map_or_else(
                || Arc::new(Notes::new(self.archive.rows().len(), self.terminating_timeout)),
                |before| Arc::clone(&before.notes),
            ),
            kinds: Arc::clone(&self.kinds),
            resumed: self.resumed,
            resource_timeout: self.resource_timeout,
            catalog: catalog.clone(),
            stop: Arc::clone(&self.stop),
            env: self.env.clone(),
        })
    }
}

/// What a restore takes out of an archive.
struct Selected {
    in_backup: BTreeSet<String>,
    filter: RestoreFilter,
    chosen: Chosen,
    contents: Contents,
    ahead: Ahead,
}

async fn select(
    request: &Request,
    restore: &Restore,
    archive: &Archive,
    catalog: &Catalog,
    recorded: &Recorded,
    env: &Env,
) -> Result<Selected, RestoreError> {
    let in_backup = namespaces_in(archive);
    let filter = RestoreFilter::new(&restore.spec, catalog, &in_backup).map_err(invalid_selector)?;
    let chosen = choose(archive.rows(), catalog);
    let namespace_mapping = &restore.spec.namespace_mapping;
    let lookout = Lookout { archive, catalog, namespace_mapping, env };
    let likely = likely(archive, chosen.rows(), &filter);
    let look = Ahead::look(&lookout, plan(likely, |n| archive.row(n), &request.settings.priorities, catalog));
    let scan = scan(archive, chosen.rows().to_vec(), &filter, recorded, env);
    // An archive that cannot be read ends this at once, without waiting for the lists.
    let (contents, ahead) = futures::try_join!(scan, look.map(Ok))?;
    Ok(Selected { in_backup, filter, chosen, contents, ahead })
}

/// What will be restored, as far as the index knows: labels stand in the objects.
fn likely(archive: &Archive, rows: &[usize], filter: &RestoreFilter) -> Vec<Facts> {
    let included = |row: &Row| {
        let key = row.key();
        filter.includes_item(&key.resource, filter_namespace(&key), &BTreeMap::new()).is_ok()
    };
    let rows = rows.iter().filter(|n| archive.row(**n).is_some_and(included));
    rows.map(|n| Facts { row: *n, early: false, ended: false, state: State::default() }).collect()
}

async fn open(request: &Request, restore: &Restore, ignore_index: bool, env: &Env) -> Result<Archive, StoreError> {
    let options = OpenOptions { limits: request.settings.limits, scratch: env.operation.scratch.clone(), ignore_index };
    env.store.open_archive(&restore.spec.backup_name, &options).await
}

/// The types that the cluster serves now; a group that does not answer is a warning, unless it did not before.
async fn discover(before: &Catalog, env: &Env) -> Result<Catalog, RestoreError> {
    let catalog = env.cluster.discover().await?;
    let known = |group_version: &str| before.failures.iter().any(|f| f.group_version == group_version);
    for failure in catalog.failures.iter().filter(|f| !known(&f.group_version)) {
        env.operation.journal.warn(
            &Place::Velero,
            format!("the types of {} could not be discovered: {}", failure.group_version, failure.message),
        );
    }
    Ok(catalog)
}

async fn recorded(backup: &str, env: &Env) -> Result<Recorded, StoreError> {
    Ok(Recorded::of(
        env.store.backup_file(backup, BackupFile::VolumeInfo).await?,
        env.store.backup_file(backup, BackupFile::VolumeSnapshots).await?.flatten(),
        env.store.backup_file(backup, BackupFile::PodVolumeBackups).await?.flatten(),
    ))
}

fn invalid_selector(error: SelectorError) -> RestoreError {
    ValidationErrors(vec![format!("invalid label selector: {error}")]).into()
}

fn config_error(error: &ActionError) -> RestoreError {
    ValidationErrors(vec![error.to_string()]).into()
}
