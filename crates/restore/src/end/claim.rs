//! Claims the name of a restore in the bucket before the first of its files is written, so that no other restore writes
//! the same files.

use crate::end::outcome::RestoreError;
use crate::request::settings::Settings;
use crate::state::env::Env;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::Restore;
use lifeboat_store::RestoreOwner;

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
    }
}

/// Until when the originals of objects stay that are recreated or removed now.
fn kept_until(settings: &Settings, now: Timestamp) -> Timestamp {
    let kept = SignedDuration::try_from(settings.keep_replaced.to_std()).unwrap_or(SignedDuration::MAX);
    now.saturating_add(kept).unwrap_or(Timestamp::MAX)
}

/// Claims the name of a restore in the bucket. In a bucket that refuses every write, the restore goes on without a
/// claim: files that cannot be stored are reported at its end, and objects are recreated or removed only when they can
/// be stored. A bucket that only does not answer now may accept the files later, when the name belongs to another
/// restore: that is an error.
///
/// # Errors
/// [`RestoreError::Store`], such as when the files under the name are another's; [`RestoreError::Cluster`].
pub(crate) async fn claim(restore: &Restore, settings: &Settings, env: &Env) -> Result<RestoreOwner, RestoreError> {
    let now = (env.operation.clock)();
    let owner = owner_of_files(restore, settings, env.cluster.uid().await?, now);
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
