//! What is noted of objects on the way, by all that are restored at the same time.

use crate::item::Attempt;
use crate::leaving::LeavingWait;
use crate::lock::lock;
use crate::wait::Together;
use lifeboat_object::ObjectKey;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Objects that are read alone at the same time: each takes a whole member of the archive.
const READ_ALONE: usize = 4;

/// What is noted of objects on the way.
#[derive(Debug)]
pub(crate) struct Notes {
    /// Objects that an attempt has begun, a bit for each row; an additional item comes here before its own turn.
    begun: Mutex<Vec<u8>>,
    /// Objects that others need and the backup does not have.
    missing: Mutex<HashSet<[u8; 16]>>,
    /// How attempts at additional items ended, by row.
    extra: Mutex<Vec<(usize, Attempt)>>,
    /// Additional items whose attempt was ended from outside.
    cut_off: Mutex<Vec<usize>>,
    /// Objects (target keys) that a message was about.
    noted: Mutex<HashSet<[u8; 16]>>,
    /// Claims that could not be restored, by target namespace.
    lost_claims: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// Who may read an object alone.
    reading: Semaphore,
    /// How long objects that are being deleted are waited for.
    leaving: Together,
    /// Since when each of them, by row, is waited for.
    leaving_since: Mutex<HashMap<usize, Instant>>,
}

impl Notes {
    /// For an archive of so many rows.
    pub(crate) fn new(rows: usize, leaving_timeout: Duration) -> Self {
        Self {
            begun: Mutex::new(vec![0; rows.div_ceil(8)]),
            missing: Mutex::default(),
            extra: Mutex::default(),
            cut_off: Mutex::default(),
            noted: Mutex::default(),
            lost_claims: Mutex::default(),
            reading: Semaphore::new(READ_ALONE),
            leaving: Together::new(leaving_timeout),
            leaving_since: Mutex::default(),
        }
    }

    /// Takes an object of the backup for the caller; false when somebody else has begun it.
    pub(crate) fn begin(&self, row: usize) -> bool {
        let (mut begun, bit) = (lock(&self.begun), 1 << (row % 8));
        let Some(byte) = begun.get_mut(row / 8) else { return false };
        let is_first = *byte & bit == 0;
        *byte |= bit;
        is_first
    }

    /// Remembers an object that is needed and not in the backup; false when it was remembered before.
    pub(crate) fn miss(&self, key: &ObjectKey) -> bool {
        lock(&self.missing).insert(key.digest())
    }

    /// Takes an additional item for the caller, who says how the attempt at it ended; `None` when somebody else has begun it.
    pub(crate) fn begin_extra(&self, row: usize) -> Option<Extra<'_>> {
        self.begin(row).then(|| Extra { notes: self, row, has_ended: false })
    }

    /// How attempts at additional items ended since the last call.
    pub(crate) fn take_extra(&self) -> Vec<(usize, Attempt)> {
        std::mem::take(&mut lock(&self.extra))
    }

    /// Additional items since the last call whose attempt did not come to its end: the task that was at it was stopped.
    pub(crate) fn take_cut_off(&self) -> Vec<usize> {
        std::mem::take(&mut lock(&self.cut_off))
    }

    /// Remembers that a message was about this object.
    pub(crate) fn note(&self, target: &ObjectKey) {
        lock(&self.noted).insert(target.digest());
    }

    /// Whether a message was about this object.
    pub(crate) fn is_noted(&self, target: &ObjectKey) -> bool {
        lock(&self.noted).contains(&target.digest())
    }

    /// Remembers a claim that could not be restored.
    pub(crate) fn lose_claim(&self, namespace: &str, name: &str) {
        lock(&self.lost_claims).entry(namespace.to_owned()).or_default().insert(name.to_owned());
    }

    /// What `look` makes of the claims of a target namespace that could not be restored.
    pub(crate) fn lost_claims<T>(
        &self,
        namespace: &str,
        look: impl FnOnce(&BTreeSet<String>) -> Option<T>,
    ) -> Option<T> {
        look(lock(&self.lost_claims).get(namespace)?)
    }

    /// How the wait for an object of the backup stands that is being deleted in the cluster: all such objects of a restore
    /// have one deadline, which the first of them sets.
    pub(crate) fn leaving_wait(&self, row: usize) -> LeavingWait {
        let now = Instant::now();
        let since = *lock(&self.leaving_since).entry(row).or_insert(now);
        if now < self.leaving.until() { LeavingWait::GoesOn } else { LeavingWait::Over(self.leaving.from(since)) }
    }

    /// Waits for the right to read an object alone; it is given back when the permit is dropped.
    pub(crate) async fn may_read(&self) -> Option<SemaphorePermit<'_>> {
        // Nobody closes the semaphore.
        self.reading.acquire().await.ok()
    }
}

/// An attempt at an additional item. Whatever becomes of the task that is at it, somebody gets to know of the item.
#[derive(Debug)]
pub(crate) struct Extra<'a> {
    notes: &'a Notes,
    row: usize,
    has_ended: bool,
}

impl Extra<'_> {
    /// Keeps how the attempt ended, for who collects it.
    pub(crate) fn ended(mut self, attempt: Attempt) {
        lock(&self.notes.extra).push((self.row, attempt));
        self.has_ended = true;
    }
}

impl Drop for Extra<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            lock(&self.notes.cut_off).push(self.row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Share;
    use std::sync::Arc;
    use tokio::task::JoinSet;

    #[test]
    fn an_object_is_begun_once() {
        let notes = Notes::new(9, Duration::ZERO);
        let begun = [0, 8, 0, 7, 8].map(|row| notes.begin(row));
        assert_eq!(begun, [true, true, false, true, false]);
    }

    #[tokio::test]
    async fn no_additional_item_is_forgotten_whatever_becomes_of_the_attempt_at_it() {
        let notes = Arc::new(Notes::new(9, Duration::ZERO));
        notes.begin_extra(1).unwrap().ended(Attempt::FAILED);
        let mut tasks = JoinSet::new();
        let at = Arc::clone(&notes);
        tasks.spawn(async move {
            let (_first, _that_it_needs) = (at.begin_extra(2), at.begin_extra(3));
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        assert!(notes.begin_extra(2).is_none() && notes.take_cut_off().is_empty(), "it is in flight");
        tasks.shutdown().await;
        let mut cut_off = notes.take_cut_off();
        cut_off.sort_unstable();
        assert_eq!((notes.take_extra(), cut_off), (vec![(1, Attempt::FAILED)], vec![2, 3]));
        assert!(notes.take_extra().is_empty() && notes.take_cut_off().is_empty(), "they were taken");
    }

    #[tokio::test(start_paused = true)]
    async fn all_objects_that_are_being_deleted_have_one_deadline_and_each_tells_how_long_it_was_waited_for() {
        let notes = Notes::new(0, Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(notes.leaving_wait(1), LeavingWait::GoesOn);
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(notes.leaving_wait(2), LeavingWait::GoesOn);
        tokio::time::advance(Duration::from_secs(60)).await;
        let waits = [1, 2, 3].map(|row| notes.leaving_wait(row));
        let [ten, three] = [10, 3].map(Duration::from_secs);
        let expected = [Share::Some(ten), Share::Some(three), Share::Nothing(ten)].map(LeavingWait::Over);
        assert_eq!(waits, expected);
        assert_eq!(notes.leaving_wait(3), expected[2], "however often it is asked");
    }
}
