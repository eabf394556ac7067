//! Makes the repositories of volumes ready (velero: pkg/controller/backup_repository_controller.go,
//! pkg/repository/udmrepo/kopialib/repo_init.go).

mod config;
pub(crate) mod deletion;
#[cfg(test)]
mod deletion_tests;
pub(crate) mod maintenance;
mod open;
mod password;
#[cfg(test)]
mod tests;

use super::{Context, Effect, StepError, StepResult};
use lifeboat_api::{BackupRepository, BackupStorageLocation, Time};
use lifeboat_lifecycle::phase::repository::{
    REESTABLISH, fill_in, full_maintenance, is_new, note_not_ready, note_place, note_ready,
};
use lifeboat_repository::{EnsureOptions, RepositoryError, blobs_of, ensure};
use open::look_options;
use password::password;

/// Makes a repository where it is missing, or sees that it opens, and notes which it is: ready, or the reason for which it is not.
pub(crate) async fn prepare(
    context: &Context,
    before: &BackupRepository,
    location: &BackupStorageLocation,
) -> StepResult {
    let mut after = before.clone();
    let prepared = make_ready(context, &mut after, location).await;
    match &prepared {
        Ok(()) => note_ready(&mut after, location, Time::new(context.env.now())),
        Err(why) => note_not_ready(&mut after, why),
    }
    let stored = context.client.change(before, &after).await?;
    match prepared {
        Ok(()) => Ok(vec![Effect::stored(stored)]),
        // The mirror brings what was noted; the failure is remembered for the time of the next attempt.
        Err(why) => Err(StepError::Because(why)),
    }
}

/// Notes that a repository has to prove itself again.
pub(crate) async fn reestablish(context: &Context, before: &BackupRepository) -> StepResult {
    let mut after = before.clone();
    note_not_ready(&mut after, REESTABLISH);
    Ok(vec![Effect::stored(context.client.change(before, &after).await?)])
}

/// Notes where a repository lies that another program has made ready.
pub(crate) async fn note(context: &Context, before: &BackupRepository, location: &BackupStorageLocation) -> StepResult {
    let mut after = before.clone();
    note_place(&mut after, location);
    Ok(vec![Effect::stored(context.client.change(before, &after).await?)])
}

/// Fills in what a new repository leaves open, and makes it ready in its bucket.
async fn make_ready(
    context: &Context,
    repository: &mut BackupRepository,
    location: &BackupStorageLocation,
) -> Result<(), String> {
    if is_new(repository) {
        let config = config::of_server(context, repository.spec.repository_type.as_str()).await?;
        fill_in(repository, context.options.repository.maintenance_frequency, config);
    }
    let options = EnsureOptions {
        may_create: !location.is_read_only(),
        full_maintenance: full_maintenance(&repository.spec.repository_config)?,
        ..look_options(context)
    };
    let bucket = context.bucket(location).await?;
    let password = password(context, location).await?;
    let made = ensure(blobs_of(bucket, &repository.spec.volume_namespace), &password, &options).await;
    made.map_err(|error| described(&error, location))
}

/// The reason for which a repository is not ready, for people.
fn described(error: &RepositoryError, location: &BackupStorageLocation) -> String {
    match error {
        RepositoryError::ReadOnly { .. } => format!(
            "cannot create new backup repo for read-only backup storage location {}/{}",
            location.metadata.namespace, location.metadata.name
        ),
        error => password::explained(error),
    }
}
