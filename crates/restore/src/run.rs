//! The door.

use crate::actions::{ActionConfig, built_in_actions};
use crate::apply::Actions;
use crate::env::Env;
use crate::execute::{Deferred, drain, level};
use crate::finalize::finalize;
use crate::item::{Context, Done};
use crate::namespaces::Namespaces;
use crate::plan::plan;
use crate::read::{by_key, namespaces_in, scan};
use crate::request::{Request, ValidationErrors, check_source, prepare};
use crate::versions::choose;
use crate::volumes::Recorded;
use lifeboat_action::ActionError;
use lifeboat_api::{Restore, RestorePhase, Time};
use lifeboat_archive::layout::BackupFile;
use lifeboat_cluster::ClusterError;
use lifeboat_object::{Catalog, GroupResource, Place, Results};
use lifeboat_select::{RestoreFilter, SelectorError};
use lifeboat_store::{Archive, OpenOptions, StoreError};
use std::sync::{Arc, PoisonError};

/// What came of a restore.
#[derive(Debug)]
pub struct Outcome {
    /// The resource in its final state.
    pub restore: Restore,
    /// Warnings and errors.
    pub results: Results,
}

/// A restore that did not begin, or broke off.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Refused before anything was done.
    #[error(transparent)]
    Invalid(#[from] ValidationErrors),
    /// The bucket, or what lies in it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive does not fit its index, found before anything was written.
    #[error(transparent)]
    Unfitting(StoreError),
    /// The cluster as a whole did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The cluster serves no namespaces.
    #[error("the cluster at {0} does not serve namespaces: is it a Kubernetes API server?")]
    NoNamespaces(String),
}

/// Restores a backup: reads and checks its whole archive, then writes objects level by level.
///
/// Objects that fail are in the results and the others go on. Running it again is safe: what is there already is
/// left alone.
///
/// # Errors
/// [`RestoreError`].
pub async fn run(request: &Request, env: &Env) -> Result<Outcome, RestoreError> {
    let mut restore = prepare(request)?;
    let backup_name = restore.spec.backup_name.clone();
    check_source(&env.store.backup(&backup_name).await?)?;
    restore.status.start_timestamp = Some(Time::new((env.clock)()));
    restore.status.phase = Some(RestorePhase::InProgress);
    let mut options =
        OpenOptions { limits: request.settings.limits, scratch: env.scratch.clone(), ignore_index: false };
    let archive = env.store.open_archive(&backup_name, &options).await?;
    let done = match walk(request, &restore, &archive, env).await {
        // Nothing was written yet: the whole archive is read before. Velero may have rewritten it.
        Err(RestoreError::Unfitting(e)) => {
            env.journal.warn(&Place::Velero, format!("the archive is read as a stream, its index does not fit: {e}"));
            options.ignore_index = true;
            let archive = env.store.open_archive(&backup_name, &options).await?;
            walk(request, &restore, &archive, env).await?
        }
        done => done?,
    };
    let cancelled = env.cancel.is_cancelled();
    let (restore, closed) = finalize(restore, &done, cancelled, env).await?;
    Ok(Outcome { restore, results: closed.results })
}

async fn walk(request: &Request, restore: &Restore, archive: &Archive, env: &Env) -> Result<Vec<Done>, RestoreError> {
    let mut catalog = discover(&Catalog::default(), env).await?;
    let in_backup = namespaces_in(archive);
    let filter_for =
        |catalog: &Catalog| RestoreFilter::new(&restore.spec, catalog, &in_backup).map_err(invalid_selector);
    let filter = filter_for(&catalog)?;
    for warning in filter.warnings() {
        env.journal.warn(&Place::Velero, warning.as_str());
    }
    let rows = choose(archive.rows(), &catalog);
    let by_key = Arc::new(by_key(archive, &rows));
    let recorded = recorded(&restore.spec.backup_name, env).await?;
    let contents = match scan(archive, rows, &filter, &recorded, env).await {
        Err(e @ StoreError::Index { .. }) => return Err(RestoreError::Unfitting(e)),
        contents => contents?,
    };
    for lost in &contents.lost {
        env.journal.warn(&Place::Cluster, lost.as_str());
    }
    env.progress.found(contents.facts.len() as u64);
    let provisioned = Arc::new(contents.provisioned);
    let levels = plan(&contents.facts, |n| archive.row(n), &request.settings.priorities, &catalog);
    let config = ActionConfig::load(&env.cluster, &restore.metadata.namespace).await.map_err(|e| config_error(&e))?;
    let built_in = built_in_actions(&env.cluster, &config);
    let context = |catalog: &Catalog| -> Result<Context, RestoreError> {
        let namespaces = catalog
            .find(&GroupResource::new("", "namespaces"))
            .cloned()
            .ok_or_else(|| RestoreError::NoNamespaces(env.cluster.url().to_owned()))?;
        Ok(Context {
            restore: restore.clone(),
            filter: filter_for(catalog)?,
            actions: Actions::resolve(built_in.clone(), catalog).map_err(invalid_selector)?,
            namespaces: Namespaces::new(namespaces, request.settings.terminating_resource_timeout.to_std()),
            archive: archive.clone(),
            rows: Arc::clone(&by_key),
            provisioned: Arc::clone(&provisioned),
            begun: Arc::default(),
            extra: Arc::default(),
            resource_timeout: request.settings.resource_timeout.to_std(),
            catalog: catalog.clone(),
            env: env.clone(),
        })
    };
    let mut current = Arc::new(context(&catalog)?);
    let mut deferred = Deferred::default();
    let mut done = Vec::new();
    for one in levels {
        if env.cancel.is_cancelled() {
            break;
        }
        let (settles, defines_types) = (one.must_settle(), one.name.starts_with("customresourcedefinitions."));
        env.journal.info("Restoring a level", &[("level", &one.name), ("items", &one.rows.len().to_string())]);
        done.extend(level(one, &current, &mut deferred, env).await?);
        if settles || defines_types {
            done.extend(drain(&mut deferred, &current, env).await);
        }
        if defines_types {
            // The types that were just defined are served now.
            catalog = discover(&catalog, env).await?;
            let Context { begun, extra, .. } = &*current;
            let (begun, extra) = (Arc::clone(begun), Arc::clone(extra));
            current = Arc::new(Context { begun, extra, ..context(&catalog)? });
        }
    }
    done.extend(drain(&mut deferred, &current, env).await);
    done.extend(std::mem::take(&mut *current.extra.lock().unwrap_or_else(PoisonError::into_inner)));
    Ok(done)
}

/// The types that are served now. Groups that did not answer `before` either are not told again.
async fn discover(before: &Catalog, env: &Env) -> Result<Catalog, RestoreError> {
    let catalog = env.cluster.discover().await?;
    let is_known = |group_version: &str| before.failures.iter().any(|f| f.group_version == group_version);
    for failure in catalog.failures.iter().filter(|f| !is_known(&f.group_version)) {
        env.journal.warn(
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
