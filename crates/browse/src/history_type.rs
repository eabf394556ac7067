//! The types among which those are looked for that a word names in all backups of a bucket.

use crate::history::HistoryOptions;
use crate::store::BackupStore;
use lifeboat_archive::index::Row;
use lifeboat_object::{ApiResource, GroupResource, types_named};
use lifeboat_sandbox::{ObjectStore, Types};
use lifeboat_store::{ArchiveRows, Store, StoreError, UsableBackups};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The types that a word names ([`types_named`]). Custom types are found by their plural in all these backups of the store, and by
/// their other names in the newest one that can be read. A backup that cannot be read is passed over: [`History`](crate::History)
/// tells.
pub async fn types_of_backups(
    store: &Store,
    backups: &UsableBackups,
    word: &str,
    options: &HistoryOptions,
) -> Vec<Arc<ApiResource>> {
    let built_in = meant(word, Types::default().all());
    if !built_in.is_empty() {
        return built_in;
    }
    let mut read = 0;
    for (name, _) in backups.oldest_first.iter().rev() {
        let Ok(rows) = store.archive_rows(name, &options.open, options.cache.as_ref()).await else { continue };
        read += 1;
        let mut found = meant(word, held(rows.rows()).iter());
        if found.is_empty() && read == 1 {
            found = defined(word, store, rows, options).await.unwrap_or_default();
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

fn meant<'a>(word: &str, types: impl Iterator<Item = &'a Arc<ApiResource>>) -> Vec<Arc<ApiResource>> {
    types_named(word, types).into_iter().cloned().collect()
}

/// The types that a word names by the definitions in a backup.
async fn defined(
    word: &str,
    store: &Store,
    rows: ArchiveRows,
    options: &HistoryOptions,
) -> Result<Vec<Arc<ApiResource>>, StoreError> {
    let opened = BackupStore::open(rows.open(store, &options.open).await?, "a backup").await?;
    Ok(meant(word, opened.types().all()))
}

/// The types of which an archive has objects, as far as its index knows them: without their kinds and short names.
fn held<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<Arc<ApiResource>> {
    let mut found: BTreeMap<&GroupResource, Arc<ApiResource>> = BTreeMap::new();
    let mut last: Option<&Row> = None;
    for row in rows.filter(|row| row.preferred) {
        // Objects of a type mostly follow each other.
        if last.is_none_or(|last| last.resource != row.resource) {
            found.entry(&row.resource).or_insert_with(|| {
                let GroupResource { group, resource } = &*row.resource;
                let namespaced = row.namespace().is_some();
                Arc::new(ApiResource { namespaced, ..ApiResource::new(group, &*row.version, resource, "") })
            });
        }
        last = Some(row);
    }
    found.into_values().collect()
}
