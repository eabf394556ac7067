//! The door.

use crate::env::Env;
use crate::execute::level;
use crate::finalize::finalize;
use crate::item::{Context, Done};
use crate::namespaces::Namespaces;
use crate::plan::plan;
use crate::read::scan;
use crate::request::{Request, ValidationErrors, check_source, prepare};
use lifeboat_api::{Restore, RestorePhase, Time};
use lifeboat_cluster::ClusterError;
use lifeboat_object::{GroupResource, Place, Results};
use lifeboat_store::{Archive, OpenOptions, StoreError};
use std::sync::Arc;

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
    let options = OpenOptions { limits: request.settings.limits, scratch: env.scratch.clone() };
    let archive = env.store.open_archive(&backup_name, &options).await?;
    let done = walk(request, &restore, &archive, env).await?;
    let cancelled = env.cancel.is_cancelled();
    let (restore, closed) = finalize(restore, &done, cancelled, env).await?;
    Ok(Outcome { restore, results: closed.results })
}

async fn walk(request: &Request, restore: &Restore, archive: &Archive, env: &Env) -> Result<Vec<Done>, RestoreError> {
    let mut facts = scan(archive, env).await?;
    let mut catalog = env.cluster.discover().await?;
    for failure in &catalog.failures {
        env.journal.warn(
            &Place::Velero,
            format!("the types of {} could not be discovered: {}", failure.group_version, failure.message),
        );
    }
    let excluded = &restore.spec.excluded_resources;
    facts.retain(|f| archive.row(f.row).is_some_and(|r| !excluded.contains(&r.resource.to_string())));
    env.progress.found(facts.len() as u64);
    let levels = plan(&facts, |n| archive.row(n), &request.settings.priorities, &catalog);
    let mut done = Vec::new();
    for one in levels {
        if env.cancel.is_cancelled() {
            break;
        }
        let defines_types = one.name.starts_with("customresourcedefinitions");
        let namespaces = catalog
            .find(&GroupResource::new("", "namespaces"))
            .cloned()
            .ok_or_else(|| RestoreError::NoNamespaces(env.cluster.url().to_owned()))?;
        let context = Arc::new(Context {
            restore: restore.clone(),
            catalog: catalog.clone(),
            namespaces: Namespaces::new(namespaces, request.settings.terminating_resource_timeout.to_std()),
            resource_timeout: request.settings.resource_timeout.to_std(),
            env: env.clone(),
        });
        env.journal.info("Restoring a level", &[("level", &one.name), ("items", &one.rows.len().to_string())]);
        done.extend(level(one, archive, &context, env).await?);
        if defines_types {
            catalog = env.cluster.discover().await?;
        }
    }
    Ok(done)
}
