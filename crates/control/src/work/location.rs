//! Validates a storage location (velero: pkg/controller/backup_storage_location_controller.go).

use super::bucket_id::{MarkerSearch, empty_though, mark, may_be_unmounted};
use super::probe::probe;
use super::sync::{SyncFacts, is_stored_in, sync_backups, tell_of_passed_over};
use super::{Context, Effect, StepResult};
use crate::world::Meta;
use jiff::Timestamp;
use lifeboat_api::{Backup, BackupStorageLocation, BackupStorageLocationPhase, Time, label_value, well_known};
use lifeboat_archive::layout::TOP_LEVEL;
use lifeboat_bucket::{BlobStore, BucketError, Entry, ErrorKind, ListOptions};
use lifeboat_lifecycle::phase::writable::note_writable;
use std::sync::Arc;
use tokio::time::Instant;

/// Looks into the bucket and notes whether it can be used; nothing is written into it, but for one object when it is seen first. With what a sync needs, a bucket
/// that can be used is synced too, and one write notes both.
pub(crate) async fn validate(
    context: &Context,
    location: BackupStorageLocation,
    known: Option<SyncFacts>,
) -> StepResult {
    let mut is_bucket = None;
    let found = match look(context, &location).await {
        Ok(bucket) => match marked(context, &location, &*bucket).await {
            Ok(marking) => {
                is_bucket = marking.id;
                let probed = probe(context, &location, bucket).await;
                let said: Vec<String> = marking.remark.into_iter().chain(probed).collect();
                Ok((!said.is_empty()).then(|| said.join(". ")))
            }
            Err(why) => Err(why),
        },
        Err(why) => Err(why),
    };
    let mut effects = Vec::new();
    let mut synced = false;
    if let Some(known) = known.filter(|_| found.is_ok()) {
        match sync_backups(context, &location, &known).await {
            Ok(changed) => (effects, synced) = (changed, true),
            // It is due still, and tried again by itself.
            Err(why) => effects.push(Effect::NotSynced(location.key(), Box::new(why))),
        }
    }
    if let Err(why) = &found {
        // A connection of it may be what is wrong.
        context.buckets.forget(&location.key());
        tracing::warn!("{}", unavailable(&location, why));
    }
    let passed_over = context.notes.locations.passed_over(&location);
    let found = found.map(|said| {
        let all: Vec<String> = said.into_iter().chain(passed_over.text()).collect();
        (!all.is_empty()).then(|| all.join(". "))
    });
    let mut after = validated(&location, &found, synced, context.env.now());
    passed_over.note(&mut after);
    after.metadata.annotations.extend(is_bucket.map(|id| (well_known::ANNOTATION_BUCKET_ID.to_owned(), id)));
    let stored = context.client.change(&location, &after).await.inspect_err(|_| {
        // The effects are lost with this step, and the reason with them.
        for effect in &effects {
            if let Effect::NotSynced(location, why) = effect {
                tracing::warn!(location = location.name, error = %why, "a location could not be synced");
            }
        }
    })?;
    effects.push(Effect::stored(stored));
    tell_of_passed_over(context, &location, &passed_over).await;
    Ok(effects)
}

/// Which bucket a directory is, when that is to be noted. An empty one in which backups should be is refused.
async fn marked(
    context: &Context,
    location: &BackupStorageLocation,
    bucket: &dyn BlobStore,
) -> Result<MarkerSearch, String> {
    if !context.env.providers.is_directory(location) {
        return Ok(MarkerSearch::default());
    }
    if may_be_unmounted(location, bucket).await? {
        let label = label_value(&location.metadata.name);
        let selector = format!("{}={label}", well_known::LABEL_STORAGE_LOCATION);
        let backups: Vec<Backup> = context.client.list(&selector).await.map_err(|e| e.to_string())?;
        let stored = backups.iter().filter(|backup| is_stored_in(backup, &label));
        let names: Vec<String> = stored.map(|backup| backup.metadata.name.clone()).collect();
        if !names.is_empty() {
            return Err(empty_though(&bucket.describe(), &names));
        }
    }
    Ok(mark(location, bucket).await)
}

/// The location after a validation, and after a sync within it.
fn validated(
    location: &BackupStorageLocation,
    found: &Result<Option<String>, String>,
    synced: bool,
    now: Timestamp,
) -> BackupStorageLocation {
    let mut after = location.clone();
    after.status.last_validation_time = Some(Time::new(now));
    if synced {
        // What came after the look is found the next time; so both are due at one time then.
        after.status.last_synced_time = Some(Time::new(now));
    }
    (after.status.phase, after.status.message) = match found {
        Ok(remark) => (Some(BackupStorageLocationPhase::Available), remark.clone().unwrap_or_default()),
        Err(why) => (Some(BackupStorageLocationPhase::Unavailable), unavailable(location, why)),
    };
    let is_read_only = location.is_read_only();
    if found.is_ok() || is_read_only {
        note_writable(&mut after, now);
    }
    after
}

fn unavailable(location: &BackupStorageLocation, why: &str) -> String {
    format!("BackupStorageLocation \"{}\" is unavailable: {why}", location.metadata.name)
}

/// Marks a location as the default, or takes the mark off.
pub(crate) async fn mark_default(context: &Context, location: BackupStorageLocation, default: bool) -> StepResult {
    let mut after = location.clone();
    after.spec.default = default;
    let stored = context.client.change(&location, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// The bucket of a location, which can be used; otherwise why it cannot.
async fn look(context: &Context, location: &BackupStorageLocation) -> Result<Arc<dyn BlobStore>, String> {
    let begun = Instant::now();
    let mut bucket = context.visited_bucket(location).await?;
    let strange = match strange_folders(&*bucket).await {
        // The client may have been kept from before its credentials were replaced.
        Err(e) if e.kind == ErrorKind::Denied && context.buckets.forget_kept(&location.key(), begun) => {
            bucket = context.visited_bucket(location).await?;
            strange_folders(&*bucket).await
        }
        found => found,
    };
    match unexpected(&strange.map_err(|e| e.to_string())?) {
        None => Ok(bucket),
        Some(message) => Err(message),
    }
}

/// Folders at the top that neither we nor Velero put there; not all, when there are many.
async fn strange_folders(bucket: &dyn BlobStore) -> Result<Vec<String>, BucketError> {
    let mut strange = Vec::new();
    let mut options = ListOptions { delimiter: Some("/".to_owned()), prefixes_only: true, ..ListOptions::default() };
    loop {
        let page = bucket.list(options.clone()).await?;
        strange.extend(page.entries.into_iter().filter_map(|entry| match entry {
            Entry::Prefix(prefix) => Some(prefix.trim_end_matches('/').to_owned()),
            Entry::Object(_) => None,
        }));
        strange.retain(|name| !TOP_LEVEL.contains(&name.as_str()));
        match page.continuation {
            Some(_) if strange.len() > LISTED => return Ok(strange),
            None => return Ok(strange),
            next => options.continuation = next,
        }
    }
}

/// Names that a message lists.
const LISTED: usize = 3;

fn unexpected(strange: &[String]) -> Option<String> {
    let count = strange.len();
    let names = strange.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(" ");
    match count {
        0 => None,
        _ if count <= LISTED => Some(format!("Backup store contains invalid top-level directories: [{names}]")),
        _ => Some(format!("Backup store contains {count} invalid top-level directories: [{names} ...]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Providers;
    use crate::stub::{api_server, context, sandbox};
    use crate::world::MirroredObject;
    use crate::world::World;
    use async_trait::async_trait;
    use lifeboat_api::BackupPhase;
    use lifeboat_api::BackupStorageLocationAccessMode;
    use lifeboat_api::well_known;
    use lifeboat_bucket::{MARKER, Memory, PutOptions, StorageAccess};
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::task::JoinSet;

    /// Opens a bucket so many times.
    #[derive(Debug)]
    struct Opens(AtomicUsize);

    #[async_trait]
    impl Providers for Opens {
        async fn open(&self, _: &BackupStorageLocation, _: StorageAccess) -> Result<Arc<dyn BlobStore>, String> {
            let opens = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
            if opens { Ok(Arc::new(Memory::default())) } else { Err("there is no way to it".to_owned()) }
        }

        fn may_keep(&self, _: &BackupStorageLocation) -> bool {
            false
        }
    }

    #[test]
    fn a_failed_sync_leaves_the_time_of_the_last_sync_alone() {
        let at = |second| Some(Time::new(Timestamp::from_second(second).unwrap()));
        let mut location = BackupStorageLocation::default();
        location.metadata.name = "main".into();
        location.status.last_synced_time = at(1);
        for (found, syncs, phase, last_sync) in [
            (Ok(None), true, BackupStorageLocationPhase::Available, 2),
            (Ok(None), false, BackupStorageLocationPhase::Available, 1),
            (Err("no".to_owned()), false, BackupStorageLocationPhase::Unavailable, 1),
        ] {
            let status = validated(&location, &found, syncs, Timestamp::from_second(2).unwrap()).status;
            let expected = (Some(phase), at(2), at(last_sync));
            assert_eq!((status.phase, status.last_validation_time, status.last_synced_time), expected);
        }
    }

    #[test]
    fn a_validation_notes_since_when_a_location_can_be_written() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut location = BackupStorageLocation::default();
        let noted = |location: &BackupStorageLocation, found: Result<Option<String>, String>, now| {
            let after = validated(location, &found, false, at(now));
            let noted = after.metadata.annotations.get(well_known::ANNOTATION_WRITABLE_SINCE);
            noted.and_then(|noted| noted.split(' ').next()).map(str::to_owned)
        };
        assert_eq!(noted(&location, Err("no".into()), 1), None, "it was not found yet");
        assert_eq!(noted(&location, Ok(None), 2).as_deref(), Some("1970-01-01T00:00:02Z"));
        location = validated(&location, &Ok(None), false, at(2));
        for found in [Ok(None), Err("no".to_owned())] {
            assert_eq!(noted(&location, found, 5000).as_deref(), Some("1970-01-01T00:00:02Z"));
        }
        location.spec.access_mode = Some(BackupStorageLocationAccessMode::ReadOnly);
        assert_eq!(noted(&location, Err("no".into()), 5000), None);
    }

    #[tokio::test]
    async fn a_sync_that_failed_is_told_beside_the_validation_that_did_not() {
        let mut location = BackupStorageLocation::default();
        location.metadata.name = "main".into();
        location.spec.provider = "aws".into();
        let mut validated = location.clone();
        validated.status.phase = Some(BackupStorageLocationPhase::Available);
        let mut seen = Vec::new();
        for (opens, answer) in [(1, json!(validated)), (2, json!(validated))] {
            let mut tasks = JoinSet::new();
            let cluster = api_server(&mut tasks, vec![(200, answer)]).await;
            let context = context(cluster, Arc::new(Opens(AtomicUsize::new(opens))));
            let known = SyncFacts::of(&World::default(), &location, Default::default());
            let effects = validate(&context, location.clone(), Some(known)).await.unwrap();
            seen.extend(effects.into_iter().map(|effect| match effect {
                Effect::NotSynced(key, why) => format!("{opens}: {} not_synced: {why}", key.name),
                Effect::Stored(MirroredObject::BackupStorageLocation(stored)) => {
                    format!("{opens}: {:?}", stored.status.phase)
                }
                other => format!("{opens}: {other:?}"),
            }));
        }
        let available = |opens| format!("{opens}: Some(Available)");
        assert_eq!(seen, ["1: main not_synced: there is no way to it".to_owned(), available(1), available(2)]);
    }

    /// Each location is a directory.
    #[derive(Debug)]
    struct Directories;

    #[async_trait]
    impl Providers for Directories {
        async fn open(&self, _: &BackupStorageLocation, _: StorageAccess) -> Result<Arc<dyn BlobStore>, String> {
            Err("the test has opened it".to_owned())
        }

        fn may_keep(&self, _: &BackupStorageLocation) -> bool {
            false
        }

        fn is_directory(&self, _: &BackupStorageLocation) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn an_empty_directory_missing_its_backups_is_unavailable_and_unmarked() {
        let (_sandbox, cluster) = sandbox().await;
        let context = context(cluster, Arc::new(Directories));
        let (disk, empty) = (Memory::default(), Memory::default());
        disk.put("backups/b/velero-backup.json", b"{}".to_vec().into(), PutOptions::default()).await.unwrap();
        let mut location = BackupStorageLocation::default();
        (location.metadata.name, location.metadata.uid) = ("main".into(), "first".into());
        let as_first = || Ok(MarkerSearch { id: Some("first".to_owned()), remark: None });
        assert_eq!(marked(&context, &location, &Memory::default()).await, as_first(), "nobody misses anything in it");
        let mut backup = Backup::default();
        (backup.metadata.name, backup.metadata.namespace) = ("b".into(), "velero".into());
        backup.metadata.labels = [(well_known::LABEL_STORAGE_LOCATION.to_owned(), "main".to_owned())].into();
        backup.status.phase = Some(BackupPhase::Completed);
        context.client.create("b", &backup).await.unwrap().unwrap();
        let refused = marked(&context, &location, &empty).await.unwrap_err();
        assert!(refused.contains("it is empty, and the files of b should be there"), "{refused}");
        assert!(!empty.exists(MARKER).await.unwrap());
        assert_eq!(marked(&context, &location, &disk).await, as_first());
    }

    #[test]
    fn directories_of_others_are_named() {
        let names = |n: usize| (0..n).map(|n| format!("d{n}")).collect::<Vec<_>>();
        assert_eq!(unexpected(&[]), None);
        assert_eq!(
            unexpected(&names(2)).as_deref(),
            Some("Backup store contains invalid top-level directories: [d0 d1]")
        );
        assert_eq!(
            unexpected(&names(5)).as_deref(),
            Some("Backup store contains 5 invalid top-level directories: [d0 d1 d2 ...]")
        );
    }
}
