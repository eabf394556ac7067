//! Deletes snapshots in repositories that the deletion of their backup has left, from the lists that it has kept.

use super::backup::operation;
use super::repository::deletion::LocationRepositories;
use super::sweep::gone;
use super::{Context, StepError};
use crate::world::Meta;
use lifeboat_action::{Actions, VolumeRepositories};
use lifeboat_api::BackupStorageLocation;
use lifeboat_backup::{Env, delete_listed_snapshots};
use lifeboat_store::{SnapshotList, Store, StoreError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Longest time for it in one sync, which it delays; the rest has its turn a day later.
const LONGEST: Duration = Duration::from_secs(600);
/// Longest time for the snapshots of one backup, so that a repository that is slow leaves time to others. The first one has all the time.
const LONGEST_OF_ONE: Duration = Duration::from_secs(240);

/// Deletes them, once a day and when the server begins. A list whose backup is still there is its own deletion's.
pub(super) async fn delete_kept_snapshots(context: &Context, store: &Store, location: &BackupStorageLocation) {
    let notes = &context.notes.locations;
    if location.is_read_only() || !notes.kept_snapshots_are_due(location.key(), Instant::now()) {
        return;
    }
    let name = &location.metadata.name;
    let deadline = Instant::now() + LONGEST;
    match Box::pin(delete(context, store, location, deadline)).await {
        Ok(first) => notes.note_kept_snapshots(location.key(), Instant::now(), first),
        Err(e) => {
            // Each sync would be that much longer.
            notes.note_kept_snapshots(location.key(), Instant::now(), notes.first_kept_snapshots(location.key()));
            tracing::warn!(location = name, error = %e, "snapshots that deleted backups have left could not be deleted");
        }
    }
}

/// Deletes those of all lists. Gives the list that is the first one of the next pass, where the time was not enough.
async fn delete(
    context: &Context,
    store: &Store,
    location: &BackupStorageLocation,
    deadline: Instant,
) -> Result<Option<SnapshotList>, StepError> {
    let late = |_| StepError::Because("the bucket did not list them in time".to_owned());
    let lists = timeout(deadline - Instant::now(), store.lists_of_repository_snapshots()).await.map_err(late)??;
    if lists.is_empty() {
        return Ok(None);
    }
    let bucket = context.visited_bucket(location).await.map_err(StepError::Because)?;
    let repositories = LocationRepositories::in_bucket(context, bucket);
    let first = context.notes.locations.first_kept_snapshots(location.key());
    let day = context.env.now().as_second() / (24 * 3600);
    let mut turns = Turns::new(in_turn(lists, first.as_ref(), day), deadline);
    while let Some((list, time)) = turns.next() {
        let work = Box::pin(delete_one(context, store, location, &repositories, &list));
        let is_late = timeout(time, work).await.is_err();
        turns.ended(list, is_late);
    }
    Ok(turns.first_of_next)
}

/// Lists in the order of one pass: from the one on with which the pass before has ended. A server that has just begun does not know that one,
/// and begins with another one each day.
fn in_turn(mut lists: Vec<SnapshotList>, first: Option<&SnapshotList>, day: i64) -> Vec<SnapshotList> {
    lists.sort();
    let by_day = || usize::try_from(day).unwrap_or_default();
    let at = first.map_or_else(by_day, |first| lists.partition_point(|list| list < first));
    let length = lists.len().max(1);
    lists.rotate_left(at % length);
    lists
}

/// The lists of one pass, in their order. None of them keeps another one from its turn for ever: the first one has all of the time, and the
/// first of those for which it was not enough is the first one of the next pass.
struct Turns {
    lists: VecDeque<SnapshotList>,
    deadline: Instant,
    is_first: bool,
    /// The list with which the next pass begins; `None` where all had the time that they needed.
    first_of_next: Option<SnapshotList>,
}

impl Turns {
    fn new(lists: Vec<SnapshotList>, deadline: Instant) -> Self {
        Self { lists: lists.into(), deadline, is_first: true, first_of_next: None }
    }

    /// The next list, and the time that it has; `None` at the end of the pass.
    fn next(&mut self) -> Option<(SnapshotList, Duration)> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            if let Some(list) = self.lists.pop_front() {
                let (backup, lists) = (&list.backup, self.lists.len() + 1);
                tracing::warn!(
                    lists,
                    backup,
                    "there was no time for all snapshots that deleted backups have left, it goes on in a day"
                );
                self.first_of_next.get_or_insert(list);
            }
            return None;
        }
        let time = if self.is_first { left } else { left.min(LONGEST_OF_ONE) };
        Some((self.lists.pop_front()?, time))
    }

    /// Notes that a list had its turn, and whether the time was not enough for it.
    fn ended(&mut self, list: SnapshotList, is_late: bool) {
        let was_first = std::mem::take(&mut self.is_first);
        if is_late {
            let backup = &list.backup;
            tracing::warn!(backup, "there was no time to delete the snapshots that a deleted backup has left");
            if !was_first {
                self.first_of_next.get_or_insert(list);
            }
        }
    }
}

/// Deletes the snapshots of one list.
async fn delete_one(
    context: &Context,
    store: &Store,
    location: &BackupStorageLocation,
    repositories: &Arc<dyn VolumeRepositories>,
    SnapshotList { backup, uid }: &SnapshotList,
) {
    match has_files(store, backup, uid).await {
        Ok(false) => {}
        Ok(true) => return,
        Err(e) => {
            tracing::warn!(backup, error = %e, "it is not known whether the backup is still there, and its snapshots stay");
            return;
        }
    }
    let of = gone(location, backup, uid.clone());
    let env = Env {
        cluster: context.client.cluster.clone(),
        store: store.clone(),
        actions: Actions { repositories: Some(Arc::clone(repositories)), ..Actions::default() },
        operation: operation(context, &of, context.env.cancel.child_token()),
    };
    let location = &location.metadata.name;
    if let Err(errors) = Box::pin(delete_listed_snapshots(backup, uid, &env)).await {
        tracing::warn!(backup, location, errors = errors.join("; "), "snapshots of a deleted backup are left");
    }
}

/// Returns true if the backup with this UID has files, or nobody can say of which backup they are.
async fn has_files(store: &Store, backup: &str, uid: &str) -> Result<bool, StoreError> {
    match store.backup(backup).await {
        Ok(record) => Ok(record.metadata.uid == uid),
        Err(StoreError::OtherRecord { uid: other, .. }) => Ok(other == uid),
        Err(StoreError::NoBackup { .. }) => {
            Ok(store.claim_of(backup).await?.is_some_and(|claim| claim.backup_uid == uid))
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(name: &str) -> SnapshotList {
        SnapshotList { backup: name.to_owned(), uid: format!("u-{name}") }
    }

    /// The lists of each of so many passes that came to their end, where each takes so many seconds.
    async fn passes(lists: &[(&str, u64)], count: i64, forgets: bool) -> Vec<Vec<String>> {
        let (mut first, mut all) = (None, Vec::new());
        for day in 0..count {
            let mut done = Vec::new();
            let waiting = lists.iter().map(|(name, _)| list(name)).collect();
            let known = if forgets { None } else { first.take() };
            let deadline = Instant::now() + LONGEST;
            let mut turns = Turns::new(in_turn(waiting, known.as_ref(), day), deadline);
            while let Some((list, time)) = turns.next() {
                let seconds = lists.iter().find(|(name, _)| *name == list.backup).map_or(0, |(_, seconds)| *seconds);
                let is_late = timeout(time, tokio::time::sleep(Duration::from_secs(seconds))).await.is_err();
                if !is_late {
                    done.push(list.backup.clone());
                }
                turns.ended(list, is_late);
            }
            first = turns.first_of_next;
            assert!(Instant::now() <= deadline, "a sync waits for it");
            all.push(done);
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn slow_lists_keep_no_other_from_its_turn() {
        assert_eq!(passes(&[("a", 1), ("b", 2), ("c", 3)], 1, false).await, [["a", "b", "c"]]);
        // The first three need more than there is, for ever.
        let never = [("a", 10_000), ("b", 10_000), ("c", 10_000), ("d", 1), ("e", 500)];
        for forgets in [false, true] {
            let done: Vec<String> = passes(&never, 5, forgets).await.into_iter().flatten().collect();
            for name in ["d", "e"] {
                assert!(done.contains(&name.to_owned()), "{name} had its turn within five days: {done:?}");
            }
        }
        // One that needs all of the time gets it.
        let slow = [("a", 500), ("b", 500), ("c", 500)];
        assert_eq!(passes(&slow, 3, false).await, [["a"], ["b"], ["c"]]);
    }
}
