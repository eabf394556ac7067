//! Progress of a restore, kept where it outlives the process, so that a resumed restore continues where the last run
//! was cut off.
//!
//! Two bits for each row of the archive. The format is `docs/formats/checkpoint.md`.

use crate::state::item_result::ItemResult;
use crate::state::namespace_uids::NamespaceUids;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lifeboat_operation::{Records, RecordsError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The key of the checkpoint among the records of its restore.
pub(crate) const KEY: &str = "checkpoint";
/// Rows done since the last save that are worth the next.
const ROWS: usize = 1000;
/// Time since the last save that is worth the next.
const TIME: Duration = Duration::from_secs(5);

const FORMAT: &str = "lifeboat.io/restore-checkpoint/v1";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredCheckpoint {
    format: String,
    #[serde(rename = "restoreUID")]
    restore_uid: String,
    archive: String,
    rows: usize,
    done: String,
    /// Checkpoints of older versions have none.
    #[serde(default)]
    namespaces: BTreeMap<String, String>,
}

/// The rows of an archive that are done, with the outcome of each.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    records: Arc<dyn Records>,
    subject: CheckpointSubject,
    /// Two bits a row, the lowest first: 0 for not done.
    done: Vec<u8>,
    /// The namespaces of the cluster that objects were restored into.
    namespaces: Arc<NamespaceUids>,
    resumed: bool,
    unsaved: usize,
    saved: Instant,
}

/// The restore and the archive that a checkpoint is of.
#[derive(Debug)]
struct CheckpointSubject {
    restore_uid: String,
    archive: String,
    rows: usize,
}

impl Checkpoint {
    /// Loads the progress that an earlier run of this restore of this archive left, or starts with none.
    ///
    /// # Errors
    /// When the records cannot be read, or what it holds is of another restore or archive: then nothing is done, and the
    /// message says why.
    pub(crate) async fn open(
        records: Arc<dyn Records>,
        restore_uid: &str,
        archive: &str,
        rows: usize,
    ) -> (Self, Option<String>) {
        let mut checkpoint = Self {
            records,
            subject: CheckpointSubject { restore_uid: restore_uid.to_owned(), archive: archive.to_owned(), rows },
            done: vec![0; rows.div_ceil(4)],
            namespaces: Arc::default(),
            resumed: false,
            unsaved: 0,
            saved: Instant::now(),
        };
        let problem = match checkpoint.records.read(KEY).await {
            Ok(None) => None,
            Ok(Some(bytes)) => checkpoint.decode(&bytes).err(),
            Err(e) => Some(e.to_string()),
        };
        (checkpoint, problem)
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<(), String> {
        let stored: StoredCheckpoint = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        let done = STANDARD.decode(&stored.done).map_err(|e| e.to_string())?;
        if stored.format != FORMAT
            || stored.restore_uid != self.subject.restore_uid
            || stored.archive != self.subject.archive
            || stored.rows != self.subject.rows
            || done.len() != self.done.len()
        {
            return Err("it is of another restore, or the archive was rewritten since".to_owned());
        }
        self.done = done;
        self.namespaces.note_all(stored.namespaces);
        self.resumed = true;
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let stored = StoredCheckpoint {
            format: FORMAT.to_owned(),
            restore_uid: self.subject.restore_uid.clone(),
            archive: self.subject.archive.clone(),
            rows: self.subject.rows,
            done: STANDARD.encode(&self.done),
            namespaces: self.namespaces.all(),
        };
        // Texts and a number: encoding cannot fail.
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// The UIDs of namespaces, which others add to and read.
    pub(crate) fn namespaces(&self) -> Arc<NamespaceUids> {
        Arc::clone(&self.namespaces)
    }

    /// Takes a row for not done, so that its object is looked at again.
    pub(crate) fn forget(&mut self, row: usize) {
        if let Some(byte) = self.done.get_mut(row / 4) {
            *byte &= !(3 << (row % 4 * 2));
        }
    }

    /// Returns true if an earlier run had begun.
    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Takes nothing for done, so that every object is looked at again. That there was an earlier run stays known.
    pub(crate) fn forget_marks(&mut self) {
        self.done.fill(0);
    }

    /// Returns what an earlier run did with a row; `None` when there is still something to do.
    pub(crate) fn done(&self, row: usize) -> Option<ItemResult> {
        match self.done.get(row / 4)? >> (row % 4 * 2) & 3 {
            1 => Some(ItemResult::Created),
            2 => Some(ItemResult::Updated),
            3 => Some(ItemResult::Skipped),
            _ => None,
        }
    }

    /// Remembers that a row needs nothing more. What failed is not remembered: a run again tries it again.
    pub(crate) fn mark(&mut self, row: usize, action: ItemResult) {
        let bits = match action {
            // What an earlier run has made anew counts as made: it is there.
            ItemResult::Created | ItemResult::Recreated => 1,
            ItemResult::Updated => 2,
            ItemResult::Skipped => 3,
            // What is removed is no row.
            ItemResult::Differs | ItemResult::Failed | ItemResult::Removed => return,
        };
        if let Some(byte) = self.done.get_mut(row / 4) {
            let shift = row % 4 * 2;
            *byte = *byte & !(3 << shift) | bits << shift;
            self.unsaved += 1;
        }
    }

    /// Saves when enough was done since the last time.
    ///
    /// # Errors
    /// Returns the reason why it could not be saved; the next call tries again.
    pub(crate) async fn save_if_due(&mut self) -> Result<(), RecordsError> {
        if self.unsaved == 0 || (self.unsaved < ROWS && self.saved.elapsed() < TIME) {
            return Ok(());
        }
        self.save().await
    }

    /// Saves now. Before the first write, so that a run again knows that there was one.
    ///
    /// # Errors
    /// Returns the reason why it could not be saved.
    pub(crate) async fn save(&mut self) -> Result<(), RecordsError> {
        self.unsaved = 0;
        self.saved = Instant::now();
        let note = BTreeMap::from([(KEY.to_owned(), Some(Bytes::from(self.encode())))]);
        self.records.write(note).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_operation::InMemory;

    #[tokio::test(start_paused = true)]
    async fn a_run_again_knows_what_was_done() {
        let records = Arc::new(InMemory::default());
        let open = |uid: &'static str, archive: &'static str, rows| {
            Checkpoint::open(Arc::clone(&records) as Arc<dyn Records>, uid, archive, rows)
        };
        let (mut first, problem) = open("u", "a", 6).await;
        assert_eq!((problem, first.is_resumed()), (None, false));
        first.save().await.unwrap();
        let (begun, problem) = open("u", "a", 6).await;
        assert_eq!((problem, begun.is_resumed(), begun.done(0)), (None, true, None));
        records.write(BTreeMap::from([(KEY.to_owned(), None)])).await.unwrap();
        let marks = [ItemResult::Created, ItemResult::Updated, ItemResult::Skipped, ItemResult::Failed];
        for (row, action) in marks.into_iter().enumerate() {
            first.mark(row, action);
        }
        first.mark(5, ItemResult::Created);
        first.save_if_due().await.unwrap();
        assert_eq!(records.read(KEY).await, Ok(None), "too early");
        tokio::time::advance(TIME).await;
        first.save_if_due().await.unwrap();

        let (second, problem) = open("u", "a", 6).await;
        assert_eq!((problem, second.is_resumed()), (None, true));
        let done: Vec<Option<ItemResult>> = (0..7).map(|row| second.done(row)).collect();
        let expected = [
            Some(ItemResult::Created),
            Some(ItemResult::Updated),
            Some(ItemResult::Skipped),
            None,
            None,
            Some(ItemResult::Created),
            None,
        ];
        assert_eq!(done, expected);

        second.namespaces().note("shop", "1");
        let mut second = second;
        second.forget(1);
        second.save().await.unwrap();
        let (third, _) = open("u", "a", 6).await;
        assert_eq!((third.done(0), third.done(1), third.done(2)), (done[0], None, done[2]));
        assert_eq!(third.namespaces().all(), BTreeMap::from([("shop".to_owned(), "1".to_owned())]));

        let (mut again, _) = open("u", "a", 6).await;
        again.forget_marks();
        assert!(again.is_resumed() && (0..7).all(|row| again.done(row).is_none()));

        for (uid, archive, rows) in [("v", "a", 6), ("u", "b", 6), ("u", "a", 7)] {
            let (other, problem) = open(uid, archive, rows).await;
            assert_eq!(problem.as_deref(), Some("it is of another restore, or the archive was rewritten since"));
            assert_eq!((other.is_resumed(), other.done(0)), (false, None));
        }
    }
}
