//! Set of the objects for which an attempt was begun: each object is restored once, even when it is an additional item
//! of others.

use crate::state::attempt::Attempt;
use crate::state::lock::lock;
use std::sync::Mutex;

/// Objects that an attempt has begun, and how attempts at additional items ended, until `running` takes that.
#[derive(Debug)]
pub(crate) struct ClaimedRows(Mutex<RowClaims>);

#[derive(Debug, Default)]
struct RowClaims {
    /// A bit for each row; an additional item comes here before its own turn.
    rows: Vec<u8>,
    /// Outcomes of attempts at additional items, by row.
    ended: Vec<(usize, Attempt)>,
    /// Additional items whose attempt was ended from outside.
    cut_off: Vec<usize>,
}

impl ClaimedRows {
    /// For an archive of so many rows.
    pub(crate) fn new(rows: usize) -> Self {
        Self(Mutex::new(RowClaims { rows: vec![0; rows.div_ceil(8)], ..RowClaims::default() }))
    }

    /// Takes an object of the backup for the caller; false when an attempt at it was begun before.
    pub(crate) fn begin(&self, row: usize) -> bool {
        let (mut inner, bit) = (lock(&self.0), 1 << (row % 8));
        let Some(byte) = inner.rows.get_mut(row / 8) else { return false };
        let is_first = *byte & bit == 0;
        *byte |= bit;
        is_first
    }

    /// Returns true if an attempt at an object was begun.
    pub(crate) fn has_begun(&self, row: usize) -> bool {
        lock(&self.0).rows.get(row / 8).is_some_and(|byte| byte & (1 << (row % 8)) != 0)
    }

    /// Takes an additional item for the caller, which says how the attempt ended; `None` when one was begun before.
    pub(crate) fn begin_extra(&self, row: usize) -> Option<AdditionalAttempt<'_>> {
        self.begin(row).then(|| AdditionalAttempt { begun: self, row, has_ended: false })
    }

    /// Takes the outcomes of attempts at additional items since the last call.
    pub(crate) fn take_extra(&self) -> Vec<(usize, Attempt)> {
        std::mem::take(&mut lock(&self.0).ended)
    }

    /// Additional items since the last call whose attempt did not come to its end: the task that was at it was stopped.
    pub(crate) fn take_cut_off(&self) -> Vec<usize> {
        std::mem::take(&mut lock(&self.0).cut_off)
    }
}

/// An attempt at an additional item. When its task is stopped before the end, the item is noted as cut off.
#[derive(Debug)]
pub(crate) struct AdditionalAttempt<'a> {
    begun: &'a ClaimedRows,
    row: usize,
    has_ended: bool,
}

impl AdditionalAttempt<'_> {
    /// Keeps how the attempt ended, for [`ClaimedRows::take_extra`].
    pub(crate) fn ended(mut self, attempt: Attempt) {
        lock(&self.begun.0).ended.push((self.row, attempt));
        self.has_ended = true;
    }
}

impl Drop for AdditionalAttempt<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            lock(&self.begun.0).cut_off.push(self.row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::task::JoinSet;

    #[test]
    fn an_object_is_begun_once() {
        let all = ClaimedRows::new(9);
        let begun = [0, 8, 0, 7, 8].map(|row| all.begin(row));
        assert_eq!(begun, [true, true, false, true, false]);
    }

    #[tokio::test]
    async fn no_additional_item_is_forgotten_whatever_becomes_of_the_attempt_at_it() {
        let begun = Arc::new(ClaimedRows::new(9));
        begun.begin_extra(1).unwrap().ended(Attempt::FAILED);
        let mut tasks = JoinSet::new();
        let at = Arc::clone(&begun);
        tasks.spawn(async move {
            let (_first, _that_it_needs) = (at.begin_extra(2), at.begin_extra(3));
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        assert!(begun.begin_extra(2).is_none() && begun.take_cut_off().is_empty(), "it is in flight");
        tasks.shutdown().await;
        let mut cut_off = begun.take_cut_off();
        cut_off.sort_unstable();
        assert_eq!((begun.take_extra(), cut_off), (vec![(1, Attempt::FAILED)], vec![2, 3]));
        assert!(begun.take_extra().is_empty() && begun.take_cut_off().is_empty(), "they were taken");
    }
}
