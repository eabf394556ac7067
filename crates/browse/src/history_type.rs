//! The types among which those are looked for that a word names in all backups of a bucket.

use crate::history::HistoryOptions;
use crate::store::BackupStore;
use lifeboat_archive::index::Row;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::sidecar::ResourceList;
use lifeboat_object::{ApiResource, GroupResource, types_named};
use lifeboat_sandbox::{ObjectStore, ServedTypes};
use lifeboat_store::{ArchiveRows, Store, StoreError, UsableBackups};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Backups whose contents are looked at in any case.
const NEWEST: usize = 10;

/// The types that a word names ([`types_named`]). Custom types are found by their plural in the newest ten of these backups of the store, and in
/// older ones whose list of resources may name such a type; and by their other names in the newest one that can be read. One that
/// cannot be read is passed over: [`History`](crate::History) tells.
pub async fn types_of_backups(
    store: &Store,
    backups: &UsableBackups,
    word: &str,
    options: &HistoryOptions,
) -> Vec<Arc<ApiResource>> {
    let built_in = meant(word, ServedTypes::default().all());
    if !built_in.is_empty() {
        return built_in;
    }
    let (mut has_read, lower) = (false, word.to_lowercase());
    for (place, (name, _)) in backups.oldest_first.iter().rev().enumerate() {
        if place >= NEWEST && !may_name(store, name, &lower).await {
            continue;
        }
        let Ok(rows) = store.archive_rows(name, &options.open, options.cache.as_ref()).await else { continue };
        let is_newest = !has_read;
        has_read = true;
        let mut found = meant(word, held(rows.rows()).iter());
        if found.is_empty() && is_newest {
            found = defined(word, store, rows, options).await.unwrap_or_default();
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Returns true if the list of resources of a backup names a type that this word may name. A backup without a list, or
/// with one that cannot be read, names nothing.
async fn may_name(store: &Store, backup: &str, word: &str) -> bool {
    let list = store.backup_file::<ResourceList>(backup, BackupFile::ResourceList).await;
    list.ok().flatten().is_some_and(|list| list.0.keys().any(|listed| may_be(word, listed)))
}

/// Returns true if a word in lower case may be the plural of a type that is listed as `GROUP/VERSION/KIND`, where the
/// plural is not known: most plurals begin as the kind does, but for its last letter. After the plural, a word may have
/// a version, and the group or the beginning of it.
fn may_be(word: &str, listed: &str) -> bool {
    let mut parts = listed.rsplit('/');
    let kind = parts.next().unwrap_or_default().to_lowercase();
    let (version, group) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (plural, place) = word.split_once('.').unwrap_or((word, ""));
    let stem = kind.char_indices().next_back().map_or("", |(last, _)| &kind[..last]);
    let of_version = place.strip_prefix(version).and_then(|rest| rest.strip_prefix('.'));
    plural.starts_with(stem) && (group.starts_with(place) || of_version.is_some_and(|rest| group.starts_with(rest)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_resources_says_by_kinds_and_groups_which_words_it_may_have() {
        let gadget = "example.com/v1/Gadget";
        for (word, listed, expected) in [
            ("gadgets", gadget, true),
            ("gadgets.example.com", gadget, true),
            ("gadgets.example", gadget, true),
            ("gadgets.v1.example.com", gadget, true),
            ("gadgets.v2.example.com", gadget, false),
            ("gadgets.example.org", gadget, false),
            ("kettles.example.com", gadget, false),
            ("policies.kyverno.io", "kyverno.io/v1/Policy", true),
            ("indices", "example.com/v1/Index", false),
            ("pods", "v1/Pod", true),
            ("pods", "", true),
        ] {
            assert_eq!(may_be(word, listed), expected, "{word} {listed}");
        }
    }
}
