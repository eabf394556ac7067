//! Which type of the backups of a bucket a word means.

use crate::history::{HistoryOptions, is_finished};
use crate::store::BackupStore;
use crate::words::{named_types, parts};
use lifeboat_archive::index::Row;
use lifeboat_object::GroupResource;
use lifeboat_sandbox::{ObjectStore, Types};
use lifeboat_store::{Store, StoreError};
use std::collections::BTreeMap;

/// The types that a word names, as kubectl takes it, each with whether its objects live in namespaces. Custom types are found by their
/// plural in all backups of the store, and by their other names in the newest one. A backup that cannot be read is passed over.
///
/// # Errors
/// When the store cannot be listed.
pub async fn types_named(
    store: &Store,
    word: &str,
    options: &HistoryOptions,
) -> Result<BTreeMap<GroupResource, bool>, StoreError> {
    let built_in = named_types(word, Types::default().all());
    if !built_in.is_empty() {
        return Ok(built_in);
    }
    let mut backups = store.backups().await?;
    let begun = |summary: &lifeboat_store::BackupSummary| {
        let record = summary.backup.as_ref().ok();
        (record.and_then(|record| record.status.start_timestamp), summary.name.clone())
    };
    backups.retain(|summary| summary.backup.as_ref().is_ok_and(|record| is_finished(record)));
    backups.sort_by_key(begun);
    let mut is_newest = true;
    for backup in backups.into_iter().rev() {
        let rows = store.archive_rows(&backup.name, &options.open, options.cache.as_ref()).await;
        let rows = match rows {
            Ok(rows) => rows,
            // Its turn comes, and tells.
            Err(_) => continue,
        };
        let mut found = held(word, rows.rows());
        if found.is_empty() && std::mem::take(&mut is_newest) {
            let what = format!("the backup {:?}", backup.name);
            let open = async { BackupStore::open(rows.open(store, &options.open).await?, &what).await };
            found = open.await.map_or_else(|_| BTreeMap::new(), |opened| named_types(word, opened.types().all()));
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(BTreeMap::new())
}

/// The types of which an archive has objects and whose plural is the word.
fn held<'a>(word: &str, rows: impl Iterator<Item = &'a Row>) -> BTreeMap<GroupResource, bool> {
    let word = word.to_lowercase();
    let (name, group) = parts(&word);
    let mut found: BTreeMap<GroupResource, bool> = BTreeMap::new();
    for row in rows.filter(|row| row.resource.resource == name && group.is_none_or(|group| row.resource.group == group))
    {
        if !found.contains_key(&*row.resource) {
            found.insert((*row.resource).clone(), row.namespace().is_some());
        }
    }
    found
}
