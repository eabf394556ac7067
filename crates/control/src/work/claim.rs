//! Keeps the claim of a backup fresh while it is written, so that no other server takes it for left behind, such as
//! that of a copy of this whole cluster, which has the same UID and does not know the Backup.

use super::running::silent_for;
use jiff::Timestamp;
use lifeboat_store::Store;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Interval between two refreshes of a claim.
const REFRESH: Duration = Duration::from_secs(60);
/// Time limit for a refresh. It is shorter than the time from the end of a leadership to the beginning of the next one,
/// so that no refresh comes after the claim of the next leader.
const PATIENCE: Duration = Duration::from_secs(4);

/// Runs the writing of this backup to its end, and refreshes its claim meanwhile.
pub(super) async fn refreshed<O>(
    store: &Store,
    name: &str,
    uid: &str,
    now: impl Fn() -> Timestamp,
    writing: impl Future<Output = O>,
) -> O {
    let mut writing = std::pin::pin!(writing);
    let mut ticks = interval(REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        tokio::select! {
            written = &mut writing => return written,
            _ = ticks.tick() => {}
        }
        let mut refreshing = std::pin::pin!(timeout(PATIENCE, store.refresh_claim(name, uid, now())));
        let (written, refreshed) = tokio::select! {
            // What is under way is awaited: it must not come after the claim of another attempt.
            written = &mut writing => (Some(written), refreshing.await),
            refreshed = &mut refreshing => (None, refreshed),
        };
        let why = match refreshed {
            Ok(Ok(())) => None,
            Ok(Err(e)) => Some(e.to_string()),
            Err(_) => Some(silent_for(PATIENCE)),
        };
        if let Some(why) = why {
            tracing::warn!(backup = name, why, "the claim of a running backup could not be refreshed");
        }
        if let Some(written) = written {
            return written;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::Memory;
    use lifeboat_store::{ClaimOutcome, ClaimRequest};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn a_claim_is_refreshed_while_its_backup_is_written() {
        let store = Store::new(Arc::new(Memory::default()));
        let request = ClaimRequest {
            name: "b".into(),
            backup_uid: "u".into(),
            cluster_uid: "c".into(),
            namespace: "velero".into(),
            take_over: false,
            now: Timestamp::UNIX_EPOCH,
        };
        let ClaimOutcome::Writer(writer) = store.claim(&request).await.unwrap() else { panic!("a new name") };
        let claimed = store.claim_of("b").await.unwrap().unwrap();
        assert_eq!(claimed.last_sign(), Timestamp::UNIX_EPOCH);
        let now = || Timestamp::from_second(7).unwrap();
        let minutes = || tokio::time::sleep(Duration::from_secs(150));
        refreshed(&store, "b", "another", now, minutes()).await;
        assert_eq!(store.claim_of("b").await.unwrap().unwrap(), claimed);
        refreshed(&store, "b", "u", now, minutes()).await;
        let fresh = store.claim_of("b").await.unwrap().unwrap();
        assert_eq!((fresh.last_sign(), fresh.claimed, fresh.attempt), (now(), claimed.claimed, 1));
        let sealed = writer.seal("u", "test", BTreeMap::new(), "v1").await;
        assert!(sealed.is_ok(), "signs of life are no other claim: {sealed:?}");
        refreshed(&store, "gone", "u", now, minutes()).await;
        assert!(store.claim_of("gone").await.unwrap().is_none());
    }
}
