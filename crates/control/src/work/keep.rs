//! Keeps backups: moves their expiration, and records their holds and the rules that keep them, in the bucket first and then in the
//! cluster.
//!
//! A server that dies in between has lost nothing: the next one does it again, and finds the record as it should be.

use super::backup::is_record_of;
use super::{Context, Effect, StepError, StepResult};
use jiff::Timestamp;
use lifeboat_api::{Backup, BackupStorageLocation, KeptBy, Time, well_known};
use lifeboat_lifecycle::phase::hold::set_elsewhere;
use lifeboat_lifecycle::phase::keep::{Keeper, describe};
use lifeboat_lifecycle::phase::kept_by::InForce;
use lifeboat_lifecycle::phase::taken_over::is_of_another_cluster;
use lifeboat_lifecycle::phase::{hold, kept_by};
use lifeboat_object::chain;
use lifeboat_store::{Store, StoreError};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The changes to a backup that stays.
#[derive(Debug, Default)]
pub(crate) struct KeepChange {
    /// Its expiration is moved to this time.
    pub(crate) until: Option<Timestamp>,
    /// These rules are written beside it.
    pub(crate) note: Option<KeptBy>,
}

/// Moves the expiration of a backup to a time, because these keep it.
pub(crate) async fn prolong(
    context: &Context,
    backup: &Backup,
    location: Option<&BackupStorageLocation>,
    by: &[Keeper],
    change: KeepChange,
) -> StepResult {
    let is_by_rules = by.iter().any(|by| matches!(by, Keeper::Rules { .. } | Keeper::WrongRules { .. }));
    let in_force = if is_by_rules { InForce::Yes } else { InForce::No };
    let (name, by, until) = (&backup.metadata.name, describe(by), change.until.map(|until| until.to_string()));
    tracing::info!(backup = name, until, by, "a backup is kept: its expiration is moved");
    write(context, backup, location, RequestedKeep { change, in_force }).await
}

/// Makes a backup and its record agree on what keeps it.
pub(crate) async fn record(
    context: &Context,
    backup: &Backup,
    location: Option<&BackupStorageLocation>,
    change: KeepChange,
) -> StepResult {
    tracing::info!(backup = backup.metadata.name, "what keeps a backup is recorded in the bucket");
    // Only what the schedule keeps is given its rules.
    let in_force = if change.note.is_some() { InForce::Yes } else { InForce::Unknown };
    write(context, backup, location, RequestedKeep { change, in_force }).await
}

/// Takes over what another cluster has written into the record of a backup whose time is over, where that keeps it; nothing is
/// changed where it does not.
pub(super) async fn keep_as_record_says(
    context: &Context,
    backup: &Backup,
    location: &BackupStorageLocation,
) -> Result<Option<Vec<Effect>>, StepError> {
    let store = context.visited_store(location).await.map_err(StepError::Because)?;
    let Some(record) = own_record(&store, backup).await? else { return Ok(None) };
    let now = context.env.now();
    let (own, recorded) = (&backup.metadata, &record.known.metadata);
    let is_later = record.known.status.expiration.is_some_and(|end| end.timestamp() > now);
    let is_own = !is_of_another_cluster(backup, &context.cluster_uid().await?);
    let says_more = kept_by::says_more(&recorded.annotations, &own.annotations, is_own);
    if !is_later && !says_more && set_elsewhere(own, recorded, now).is_none() {
        return Ok(None);
    }
    let (name, end) = (&backup.metadata.name, record.known.status.expiration.map(|end| end.to_string()));
    tracing::info!(backup = name, end, "the time of a backup is over, and another cluster keeps it");
    let asked = RequestedKeep { change: KeepChange::default(), in_force: InForce::No };
    write_agreement(context, &store, backup, Some(record), asked).await.map(Some)
}

/// A change, and whether the rules of the schedule keep the backup here.
struct RequestedKeep {
    change: KeepChange,
    in_force: InForce,
}

/// Changes a backup, and makes it and its record agree on what keeps it.
async fn write(
    context: &Context,
    backup: &Backup,
    location: Option<&BackupStorageLocation>,
    asked: RequestedKeep,
) -> StepResult {
    let missing = || StepError::Because(format!("there is no location of backup {}", backup.metadata.name));
    let store = context.visited_store(location.ok_or_else(missing)?).await.map_err(StepError::Because)?;
    let record = own_record(&store, backup).await?;
    write_agreement(context, &store, backup, record, asked).await
}

/// The record of a backup.
struct Record {
    all: Value,
    known: Backup,
}

/// The record of this very backup. One that cannot be read, or is that of another one, is left alone.
async fn own_record(store: &Store, backup: &Backup) -> Result<Option<Record>, StepError> {
    let name = &backup.metadata.name;
    let all = match store.record(name).await {
        Ok(all) => all,
        Err(StoreError::NoBackup { .. }) => return Ok(None),
        Err(e) if e.is_damage() => {
            tracing::warn!(
                backup = name,
                error = chain(&e),
                "the record of a backup cannot be read, and stays as it is"
            );
            return Ok(None);
        }
        Err(e) => return Err(e.into()),
    };
    match serde_json::from_value::<Backup>(all.clone()) {
        Ok(known) if is_record_of(&known, backup) => Ok(Some(Record { all, known })),
        Ok(_) => Ok(None),
        Err(e) => {
            tracing::warn!(backup = name, error = %e, "the record of a backup cannot be read, and stays as it is");
            Ok(None)
        }
    }
}

/// Writes what a backup and its record agree on, into the bucket and into the cluster.
async fn write_agreement(
    context: &Context,
    store: &Store,
    backup: &Backup,
    record: Option<Record>,
    RequestedKeep { change: KeepChange { until, note }, in_force }: RequestedKeep,
) -> StepResult {
    let mut after = backup.clone();
    after.metadata.labels.remove(well_known::LABEL_GC_FAILURE);
    if let Some(note) = note {
        let (cluster, since) = (context.cluster_uid().await?, Some(Time::new(context.env.now())));
        let note = KeptBy { cluster, since, ..note };
        after.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.to_owned(), note.value());
    }
    match record {
        Some(Record { all, .. }) => {
            let mut changed = all.clone();
            let is_own = !is_of_another_cluster(backup, &context.cluster_uid().await?);
            let kept = KeptHere { is_own, in_force };
            reconcile(&mut after, &mut changed, until, kept);
            if changed != all {
                store.change_record(&backup.metadata.name, &changed).await?;
            }
        }
        None => {
            hold::agree_alone(&mut after.metadata.annotations);
            kept_by::agree_alone(&mut after.metadata.annotations);
            after.status.expiration = later(after.status.expiration, until.map(Time::new));
        }
    }
    let stored = context.client.change(backup, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

fn later(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    let at = |time: Option<Time>| time.map(Time::timestamp);
    if at(other) > at(one) { other } else { one }
}

/// A backup, as this cluster sees it.
#[derive(Clone, Copy, Debug)]
struct KeptHere {
    /// Tells that this cluster has made it.
    is_own: bool,
    in_force: InForce,
}

/// Makes both say the same: the hold of the one that was changed, the rules that keep it, and the latest expiration. What else the record
/// has stays.
fn reconcile(backup: &mut Backup, record: &mut Value, until: Option<Timestamp>, kept: KeptHere) {
    let KeptHere { is_own, in_force } = kept;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let given = record["metadata"]["annotations"].as_object().into_iter().flatten();
    let before: BTreeMap<String, String> =
        given.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect();
    let mut there = before.clone();
    hold::agree(&mut backup.metadata.annotations, &mut there);
    kept_by::agree_beside(&mut backup.metadata.annotations, &mut there, is_own, in_force);
    if there != before {
        record["metadata"]["annotations"] = json!(there);
    }
    let recorded = text(&record["status"]["expiration"]).and_then(|text| text.parse().ok()).map(Time::new);
    let latest = later(later(backup.status.expiration, recorded), until.map(Time::new));
    if latest != recorded
        && let Some(latest) = latest
    {
        record["status"]["expiration"] = json!(latest);
    }
    backup.status.expiration = latest;
}

#[cfg(test)]
mod tests;
