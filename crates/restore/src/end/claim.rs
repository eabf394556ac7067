//! Claims the name of a restore in the bucket before the first of its files is written, so that no other restore writes
//! the same files.

use crate::end::outcome::RestoreError;
use crate::request::settings::Settings;
use crate::state::env::Env;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, Restore};
use lifeboat_store::{BackupReading, RestoreOwner};
use std::time::Duration;

/// A restore as the owner of its files, in the cluster of this UID, at this time.
#[must_use]
pub fn owner_of_files(restore: &Restore, settings: &Settings, cluster_uid: String, now: Timestamp) -> RestoreOwner {
    let metadata = &restore.metadata;
    RestoreOwner {
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        cluster_uid,
        namespace: if settings.served { metadata.namespace.clone() } else { String::new() },
        keep_replaced_until: kept_until(settings, now),
        reads: None,
    }
}

/// The time for which a sign of life of a restore counts.
const COUNTS: SignedDuration = SignedDuration::from_hours(3);
/// The time between two of them.
const BETWEEN_SIGNS: Duration = Duration::from_secs(10 * 60);
/// The time that a note in the claim may take.
const NOTING: Duration = Duration::from_secs(10);
const STAYS: &str = "the claim of a restore says still what it said of its backup";
/// The time that a pending restore has beside that of its operations.
const BESIDE_OPERATIONS: SignedDuration = SignedDuration::from_hours(1);

/// Gives signs of life of a restore that reads its backup, for ever: whoever deletes the backup in another cluster waits for it. One that
/// cannot be given is given later.
pub(crate) async fn give_signs(owner: &RestoreOwner, env: &Env) {
    loop {
        tokio::time::sleep(BETWEEN_SIGNS).await;
        note_reads(owner, Some(counts_until(env)), env).await;
    }
}

/// The note that a restore reads this backup.
pub(crate) fn reading(backup: &Backup, env: &Env) -> BackupReading {
    BackupReading {
        backup: backup.metadata.name.clone(),
        backup_uid: backup.metadata.uid.clone(),
        until: counts_until(env),
    }
}

fn counts_until(env: &Env) -> Timestamp {
    (env.operation.clock)().saturating_add(COUNTS).unwrap_or(Timestamp::MAX)
}

/// Notes that a restore has ended, or until when it may read its backup while it is pending: nothing runs for it then.
pub(crate) async fn note_run(restore: &Restore, owner: &RestoreOwner, is_pending: bool, env: &Env) {
    let most = SignedDuration::try_from(restore.spec.item_operation_timeout.to_std()).unwrap_or(SignedDuration::MAX);
    let until =
        || (env.operation.clock)().saturating_add(most.saturating_add(BESIDE_OPERATIONS)).unwrap_or(Timestamp::MAX);
    note_reads(owner, is_pending.then(until), env).await;
}

/// Notes that a pending restore has ended.
pub(crate) async fn note_end(restore: &Restore, env: &Env) {
    match env.cluster.uid().await {
        Ok(cluster) => {
            note_reads(&owner_of_files(restore, &Settings::default(), cluster, Timestamp::MIN), None, env).await;
        }
        Err(e) => {
            tracing::debug!(restore = restore.metadata.name, error = %e, "its claim says for a while that it reads its backup");
        }
    }
}

/// Whoever deletes the backup waits a little longer where this cannot be noted, such as in a bucket that may only be read.
async fn note_reads(RestoreOwner { name, cluster_uid, uid, .. }: &RestoreOwner, until: Option<Timestamp>, env: &Env) {
    let noting = env.store.note_restore_reads(name, cluster_uid, uid, until);
    match tokio::time::timeout(NOTING, noting).await {
        Ok(Ok(())) => {}
        Ok(Err(e)) => tracing::debug!(restore = name, error = %e, "{STAYS}"),
        Err(_) => tracing::debug!(restore = name, "{STAYS}: the bucket does not answer"),
    }
}

/// Until when the originals of objects stay that are recreated or removed now.
fn kept_until(settings: &Settings, now: Timestamp) -> Timestamp {
    let kept = SignedDuration::try_from(settings.keep_replaced.to_std()).unwrap_or(SignedDuration::MAX);
    now.saturating_add(kept).unwrap_or(Timestamp::MAX)
}

/// Claims the name of a restore in the bucket, and notes there which backup it `reads`. In a bucket that refuses every write, the restore goes on without a
/// claim: files that cannot be stored are reported at its end, and objects are recreated or removed only when they can
/// be stored. A bucket that only does not answer now may accept the files later, when the name belongs to another
/// restore: that is an error.
///
/// # Errors
/// [`RestoreError::Store`], such as when the files under the name are another's; [`RestoreError::Cluster`].
pub(crate) async fn claim(
    restore: &Restore,
    reads: Option<BackupReading>,
    settings: &Settings,
    env: &Env,
) -> Result<RestoreOwner, RestoreError> {
    let now = (env.operation.clock)();
    let owner = owner_of_files(restore, settings, env.cluster.uid().await?, now);
    let owner = RestoreOwner { reads, ..owner };
    // A clock that is ahead would take the name of a restore that goes on.
    let now = env.cluster.earlier_time(now).await?;
    match env.store.claim_restore(&owner, now).await {
        Err(e) if e.is_refused_for_good() => {
            let why = e.to_string();
            env.operation
                .journal
                .info("The name of the restore could not be claimed in the bucket", &[("error", &why)]);
        }
        claimed => claimed?,
    }
    Ok(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{RestoreFixture, Scripted, config_map};
    use futures::FutureExt;
    use lifeboat_action::RestoreItemOutput;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::sync::{Arc, Mutex};

    async fn ground() -> RestoreFixture {
        let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
        RestoreFixture::new(&[config_map("a"), config_map("b")], &action).await
    }

    #[tokio::test]
    async fn a_restore_says_in_its_claim_which_backup_it_reads_until_it_ends() {
        let ground = ground().await;
        let (store, said) = (ground.env.store.clone(), Arc::new(Mutex::new(Vec::new())));
        let saying = Arc::clone(&said);
        ground.react("ConfigMap", move |_| {
            // A bucket in memory answers at once.
            let claim = store.restore_claim("r").now_or_never().unwrap().unwrap().unwrap();
            saying.lock().unwrap().push((claim.backup, claim.reads_until));
        });
        let outcome = ground.run().await.unwrap();
        assert!(!outcome.is_pending());
        let expected = ("b".to_owned(), "2026-01-01T03:00:00Z".parse().ok());
        assert_eq!(*said.lock().unwrap(), [expected.clone(), expected]);
        let claim = ground.env.store.restore_claim("r").await.unwrap().unwrap();
        assert_eq!((claim.backup.as_str(), claim.reads_until), ("b", None));
    }

    #[tokio::test]
    async fn a_restore_that_takes_long_gives_signs_of_life() {
        let mut ground = ground().await;
        let clock = Arc::new(AtomicI64::new(0));
        let reading_clock = Arc::clone(&clock);
        ground.env.operation.clock =
            Arc::new(move || Timestamp::from_second(reading_clock.load(Ordering::Relaxed)).unwrap());
        let reads = BackupReading { backup: "b".into(), backup_uid: String::new(), until: counts_until(&ground.env) };
        let (request, env) = (&ground.request, &ground.env);
        let owner = claim(&request.restore, Some(reads), &request.settings, env).await.unwrap();
        tokio::time::pause();
        let hours = |hours: i64| Timestamp::from_second(hours * 3600).unwrap();
        for (past, expected) in [(2, hours(5)), (4, hours(7))] {
            clock.store(past * 3600, Ordering::Relaxed);
            let signs = tokio::time::timeout(BETWEEN_SIGNS + Duration::from_secs(1), give_signs(&owner, env)).await;
            assert!(signs.is_err(), "they are given for ever");
            let claim = env.store.restore_claim("r").await.unwrap().unwrap();
            assert_eq!(claim.reads_until, Some(expected));
        }
        let mut restore = request.restore.clone();
        restore.spec.item_operation_timeout = lifeboat_api::Duration::from_secs(4 * 3600);
        note_run(&restore, &owner, true, env).await;
        let claim = env.store.restore_claim("r").await.unwrap().unwrap();
        assert_eq!(claim.reads_until, Some(hours(4 + 4 + 1)), "it reads while its operations run");
    }
}
