//! Asks for the deletion of backups whose time is over (velero: pkg/controller/gc_controller.go).

use super::{Context, Effect, StepError, StepResult, keep};
use lifeboat_api::{Backup, BackupStorageLocation, DeleteBackupRequest, Time, label_value, well_known};
use lifeboat_lifecycle::phase::CLOCK_SKEW;
use lifeboat_lifecycle::phase::expiry::Obstacle;

/// Says by its label why a backup stays.
pub(crate) async fn label_failure(context: &Context, backup: &Backup, obstacle: &Obstacle) -> StepResult {
    let (name, why) = (&backup.metadata.name, obstacle.label());
    tracing::warn!(backup = name, why, "the time of a backup is over, and it cannot be deleted");
    let mut after = backup.clone();
    after.metadata.labels.insert(well_known::LABEL_GC_FAILURE.to_owned(), why.to_owned());
    let stored = context.client.change(backup, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Asks for the deletion of a backup, and takes the label off that said why it stayed; unless its record says that another
/// cluster keeps it.
pub(crate) async fn delete(context: &Context, backup: &Backup, location: Option<&BackupStorageLocation>) -> StepResult {
    if let Some(location) = location
        && let Some(kept) = keep::keep_as_record_says(context, backup, location).await?
    {
        return Ok(kept);
    }
    let mut effects = Vec::new();
    let mut after = backup.clone();
    if after.metadata.labels.remove(well_known::LABEL_GC_FAILURE).is_some() {
        effects.push(Effect::stored(context.client.change(backup, &after).await?));
    }
    let name = &backup.metadata.name;
    let mut request = DeleteBackupRequest::default();
    request.metadata.generate_name = format!("{name}-");
    request.metadata.namespace.clone_from(&backup.metadata.namespace);
    request.metadata.labels = [
        (well_known::LABEL_BACKUP_NAME.to_owned(), label_value(name)),
        (well_known::LABEL_BACKUP_UID.to_owned(), backup.metadata.uid.clone()),
    ]
    .into();
    let notes = [well_known::ANNOTATION_WAIT_FOR_RESTORES, well_known::ANNOTATION_BY_EXPIRY];
    request.metadata.annotations = notes.map(|note| (note.to_owned(), "true".to_owned())).into();
    request.spec.backup_name.clone_from(name);
    let would_be = context.client.would_create(name, &request).await?;
    if let Some(why) = too_early(backup, would_be.metadata.creation_timestamp) {
        return Err(StepError::Because(why));
    }
    context.leadership.check().map_err(|lost| StepError::Because(lost.to_string()))?;
    let made = context.client.create(name, &request).await?;
    let taken = || {
        StepError::Because(format!(
            "the name that was made for a request to delete backup {name} is taken: another one is tried"
        ))
    };
    effects.push(Effect::stored(made.ok_or_else(taken)?));
    tracing::info!(backup = name, "the time of a backup is over: its deletion is asked for");
    Ok(effects)
}

/// The reason for which a backup is not deleted although its time is over by the clock of this server: it is not over
/// by that of the API server. Either clock may be wrong, and a deleted backup does not come back.
fn too_early(backup: &Backup, api_server: Option<Time>) -> Option<String> {
    let (end, now) = (backup.status.expiration?, api_server?);
    (now.timestamp().duration_until(end.timestamp()) > CLOCK_SKEW).then(|| {
        format!(
            "the time of the backup is over at {end}, and the clock of the API server says {now}: it is not deleted before both clocks \
             agree; set the clock of the node that this server runs on"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_stays_until_the_api_servers_clock_says_its_time_is_over_too() {
        let at = |text: &str| Some(Time::new(text.parse().unwrap()));
        let mut backup = Backup::default();
        backup.status.expiration = at("2026-11-25T03:00:00Z");
        assert_eq!(too_early(&backup, at("2026-11-25T02:59:00Z")), None);
        assert_eq!(too_early(&backup, None), None);
        assert_eq!(
            too_early(&backup, at("2026-11-25T02:58:59Z")).unwrap(),
            "the time of the backup is over at 2026-11-25T03:00:00Z, and the clock of the API server says 2026-11-25T02:58:59Z: it is \
             not deleted before both clocks agree; set the clock of the node that this server runs on"
        );
    }
}
