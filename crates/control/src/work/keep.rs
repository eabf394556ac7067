//! Keeps backups: moves their expiration, and records their holds, in the bucket first and then in the cluster.
//!
//! A server that dies in between has lost nothing: the next one does it again, and finds the record as it should be.

use super::backup::is_record_of;
use super::{Context, Effect, Finished, Unfinished};
use crate::phase::hold::{agree, agree_alone, set_elsewhere};
use crate::phase::keep::{Keeper, describe};
use jiff::Timestamp;
use lifeboat_api::{Backup, BackupStorageLocation, Time, well_known};
use lifeboat_object::chain;
use lifeboat_store::{Store, StoreError};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Moves the expiration of a backup to a time, because these keep it.
pub(crate) async fn prolong(
    context: &Context,
    backup: &Backup,
    location: Option<&BackupStorageLocation>,
    until: Timestamp,
    by: &[Keeper],
) -> Finished {
    let (name, by) = (&backup.metadata.name, describe(by));
    tracing::info!(backup = name, until = until.to_string(), by, "a backup is kept: its expiration is moved");
    prolong_or_record(context, backup, location, Some(until)).await
}

/// Makes a backup and its record agree on the hold.
pub(crate) async fn record_hold(
    context: &Context,
    backup: &Backup,
    location: Option<&BackupStorageLocation>,
) -> Finished {
    tracing::info!(backup = backup.metadata.name, "the hold of a backup is recorded in the bucket");
    prolong_or_record(context, backup, location, None).await
}

/// Takes over what another cluster has written into the record of a backup whose time is over, where that keeps it; nothing is
/// changed where it does not.
pub(super) async fn keep_as_record_says(
    context: &Context,
    backup: &Backup,
    location: &BackupStorageLocation,
) -> Result<Option<Vec<Effect>>, Unfinished> {
    let store = context.visited_store(location).await.map_err(Unfinished::Because)?;
    let Some(record) = own_record(&store, backup).await? else { return Ok(None) };
    let now = context.env.now();
    let is_later = record.known.status.expiration.is_some_and(|end| end.timestamp() > now);
    if !is_later && set_elsewhere(&backup.metadata, &record.known.metadata, now).is_none() {
        return Ok(None);
    }
    let (name, end) = (&backup.metadata.name, record.known.status.expiration.map(|end| end.to_string()));
    tracing::info!(backup = name, end, "the time of a backup is over, and another cluster keeps it");
    write_agreement(context, &store, backup, Some(record), None).await.map(Some)
}

/// Moves the expiration of a backup to a time, if there is one, and makes the backup and its record agree on the hold.
async fn prolong_or_record(
    context: &Context,
    backup: &Backup,
    location: Option<&BackupStorageLocation>,
    until: Option<Timestamp>,
) -> Finished {
    let missing = || Unfinished::Because(format!("there is no location of backup {}", backup.metadata.name));
    let store = context.visited_store(location.ok_or_else(missing)?).await.map_err(Unfinished::Because)?;
    let record = own_record(&store, backup).await?;
    write_agreement(context, &store, backup, record, until).await
}

/// The record of a backup.
struct Record {
    all: Value,
    known: Backup,
}

/// The record of this very backup. One that cannot be read, or is that of another one, is left alone.
async fn own_record(store: &Store, backup: &Backup) -> Result<Option<Record>, Unfinished> {
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
    until: Option<Timestamp>,
) -> Finished {
    let mut after = backup.clone();
    after.metadata.labels.remove(well_known::LABEL_GC_FAILURE);
    match record {
        Some(Record { all, .. }) => {
            let mut changed = all.clone();
            reconcile(&mut after, &mut changed, until);
            if changed != all {
                store.change_record(&backup.metadata.name, &changed).await?;
            }
        }
        None => {
            agree_alone(&mut after.metadata.annotations);
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

/// Makes both say the same: the hold of the one that was changed, and the latest expiration. What else the record has stays.
fn reconcile(backup: &mut Backup, record: &mut Value, until: Option<Timestamp>) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let given = record["metadata"]["annotations"].as_object().into_iter().flatten();
    let before: BTreeMap<String, String> =
        given.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect();
    let mut there = before.clone();
    agree(&mut backup.metadata.annotations, &mut there);
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
