//! Asynchronous operations that actions have begun, noted where they survive a crash
//! (velero: pkg/controller/restore_operations_controller.go).
//!
//! Its action, its object and the action's name for it tell an operation from others: an action that is asked again and
//! answers the same has begun no second one. The format of the notes is `docs/formats/checkpoint.md`.

use crate::state::lock::lock;
use bytes::Bytes;
use jiff::Timestamp;
use lifeboat_api::{OperationPhase, OperationStatus, Restore, Time};
use lifeboat_archive::operations::{ResourceIdentifier, RestoreOperation, RestoreOperationSpec};
use lifeboat_object::{ObjectKey, ResultScope};
use lifeboat_operation::{Operation, RecordsError};
use serde::ser::{Serialize, Serializer};
use serde::{Deserialize, Serialize as DeriveSerialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// Prefix of the keys of the notes; a number follows.
const KEY: &str = "operations.";
/// Bytes of one note, and of all: other notes of the restore need room too.
const NOTE: usize = 32 << 10;
const ALL_NOTES: usize = 512 << 10;

const FORMAT: &str = "lifeboat.io/restore-operations/v1";

/// The operations of a restore, of earlier runs too. What there is no room for among its notes lives as long as the process:
/// its objects are not called done, so that a run again asks their actions again.
pub(crate) struct Operations {
    restore: Arc<Restore>,
    operation: Operation,
    begun: Mutex<BegunOperations>,
    /// Held while a note is written: operations that begin meanwhile go into the next note together.
    noted: tokio::sync::Mutex<Noted>,
}

#[derive(Default)]
struct BegunOperations {
    /// When each was begun.
    all: BTreeMap<Id, Timestamp>,
    /// Operations that are not in any note yet.
    to_note: Vec<Id>,
    /// Number of operations of each object that are not noted yet, or could not be noted.
    unnoted: HashMap<[u8; 16], usize>,
}

/// Identity of an operation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    /// By its key in the cluster.
    object: ObjectKey,
    action: String,
    /// The action's name for it.
    id: String,
}

#[derive(Clone, Default)]
struct Noted {
    /// Bytes of all notes.
    bytes: usize,
    /// The number of the note that still grows, its contents, and its bytes.
    number: usize,
    open: Vec<Note>,
    open_bytes: usize,
    /// Set when a warning has said that not all are noted.
    is_told: bool,
}

#[derive(DeriveSerialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredOperations {
    format: String,
    #[serde(rename = "restoreUID")]
    restore_uid: String,
    operations: Vec<Note>,
}

#[derive(Clone, DeriveSerialize, Deserialize)]
struct Note {
    action: String,
    object: ResourceIdentifier,
    id: String,
    created: Timestamp,
}

impl Operations {
    /// Of a restore that has begun none.
    pub(crate) fn new(restore: Arc<Restore>, operation: &Operation) -> Self {
        Self { restore, operation: operation.clone(), begun: Mutex::default(), noted: tokio::sync::Mutex::default() }
    }

    /// Loads the operations that an earlier run of this restore has noted.
    pub(crate) async fn load(&self) {
        if let Err(e) = self.read().await {
            let message = format!("operations that an earlier run of this restore may have begun are not known: {e}");
            self.operation.journal.error(&ResultScope::Velero, message);
        }
    }

    async fn read(&self) -> Result<(), RecordsError> {
        let records = &self.operation.records;
        let mut noted = self.noted.lock().await;
        for key in records.keys().await? {
            let Some(number) = key.strip_prefix(KEY).and_then(|number| number.parse::<usize>().ok()) else { continue };
            let Some(note) = records.read(&key).await? else { continue };
            let stored = serde_json::from_slice::<StoredOperations>(&note);
            let is_ours = |one: &StoredOperations| one.format == FORMAT && one.restore_uid == self.restore.metadata.uid;
            match stored.ok().filter(is_ours) {
                Some(stored) => {
                    noted.bytes += note.len();
                    noted.number = noted.number.max(number + 1);
                    let all = stored
                        .operations
                        .into_iter()
                        .map(|one| (Id { object: (&one.object).into(), action: one.action, id: one.id }, one.created));
                    lock(&self.begun).all.extend(all);
                }
                // Of another restore that had its name.
                None => records.write(BTreeMap::from([(key, None)])).await?,
            }
        }
        Ok(())
    }

    /// Notes that an action has begun an operation for this object of the cluster.
    pub(crate) async fn begin(&self, action: &str, object: &ObjectKey, id: &str) {
        let (action, id) = (action.to_owned(), id.to_owned());
        let one = Id { object: object.clone(), action, id };
        {
            let mut begun = lock(&self.begun);
            if begun.all.contains_key(&one) {
                return;
            }
            begun.all.insert(one.clone(), (self.operation.clock)());
            *begun.unnoted.entry(object.digest()).or_default() += 1;
            begun.to_note.push(one);
        }
        let mut noted = self.noted.lock().await;
        let ids = std::mem::take(&mut lock(&self.begun).to_note);
        if !ids.is_empty() {
            self.note(ids, &mut noted).await;
        }
    }

    /// Returns true if all operations of an object are noted where they survive a crash.
    pub(crate) fn are_noted(&self, object: &ObjectKey) -> bool {
        lock(&self.begun).unnoted.get(&object.digest()).is_none_or(|count| *count == 0)
    }

    async fn note(&self, ids: Vec<Id>, noted: &mut Noted) {
        let (mut after, mut notes, mut taken) = (noted.clone(), BTreeMap::new(), Vec::new());
        let mut problem = None;
        for id in ids {
            let created = lock(&self.begun).all.get(&id).copied().unwrap_or_default();
            let note = Note { action: id.action, object: (&id.object).into(), id: id.id, created };
            let size = serde_json::to_vec(&note).map_or(NOTE, |bytes| bytes.len() + 1);
            if after.bytes + size > ALL_NOTES {
                problem = Some(format!("they would take more than {} KiB", ALL_NOTES >> 10));
                continue;
            }
            if after.open_bytes + size > NOTE && !after.open.is_empty() {
                after = Noted { number: after.number + 1, open: Vec::new(), open_bytes: 0, ..after };
            }
            after.open.push(note);
            after.open_bytes += size;
            after.bytes += size;
            notes.insert(format!("{KEY}{}", after.number), Some(self.stored(&after.open)));
            taken.push(id.object.digest());
        }
        match self.operation.records.write(notes).await {
            Ok(()) => {
                let unnoted = &mut lock(&self.begun).unnoted;
                for object in taken {
                    unnoted.entry(object).and_modify(|count| *count = count.saturating_sub(1));
                }
                *noted = after;
            }
            Err(e) => problem = Some(e.to_string()),
        }
        if let Some(why) = problem.filter(|_| !noted.is_told) {
            noted.is_told = true;
            let message = format!(
                "not all operations that actions have begun are noted where they survive a crash: {why}; were the restore cut \
                 off, a run again would ask these actions again"
            );
            self.operation.journal.warn(&ResultScope::Velero, message);
        }
    }

    fn stored(&self, operations: &[Note]) -> Bytes {
        let (format, restore_uid) = (FORMAT.to_owned(), self.restore.metadata.uid.clone());
        let stored = StoredOperations { format, restore_uid, operations: operations.to_vec() };
        // Texts: encoding cannot fail.
        serde_json::to_vec(&stored).unwrap_or_default().into()
    }

    /// The number of operations.
    pub(crate) fn count(&self) -> usize {
        lock(&self.begun).all.len()
    }

    /// Writes an error for each: it goes on, and the restore does not wait for it, for this reason.
    pub(crate) fn tell_left(&self, why: &str) {
        let begun = lock(&self.begun);
        for Id { object, action, id } in begun.all.keys() {
            let message = format!(
                "the operation {id} that the action {action} has begun for {object} goes on and is not waited for, because \
                 {why}: whether it ends well is not known; ask what performs it"
            );
            self.operation.journal.error(&ResultScope::of(object.namespace.as_deref()), message);
        }
    }

    fn listed(&self, id: &Id, created: Timestamp) -> RestoreOperation {
        RestoreOperation {
            spec: RestoreOperationSpec {
                restore_name: self.restore.metadata.name.clone(),
                restore_uid: self.restore.metadata.uid.clone(),
                restore_item_action: id.action.clone(),
                resource_identifier: (&id.object).into(),
                operation_id: id.id.clone(),
            },
            status: OperationStatus {
                phase: Some(OperationPhase::New),
                created: Some(Time::new(created)),
                ..OperationStatus::default()
            },
        }
    }
}

/// As in the file of a restore.
impl Serialize for Operations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(lock(&self.begun).all.iter().map(|(id, created)| self.listed(id, *created)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::key;
    use lifeboat_operation::{InMemory, Records};
    use serde_json::{Value, json};
    use std::path::PathBuf;

    fn operation() -> Operation {
        Operation::new(Arc::new(|| "2026-01-01T00:00:00.5Z".parse().unwrap()), "restore=velero/r", PathBuf::new())
    }

    fn operations(uid: &str, operation: &Operation) -> Operations {
        let mut restore = Restore::default();
        restore.metadata.name = "r".to_owned();
        restore.metadata.uid = uid.to_owned();
        Operations::new(Arc::new(restore), operation)
    }

    fn listed(operations: &Operations) -> Vec<(String, String)> {
        let all: Vec<RestoreOperation> = serde_json::from_value(serde_json::to_value(operations).unwrap()).unwrap();
        all.into_iter().map(|one| (one.spec.resource_identifier.name, one.spec.operation_id)).collect()
    }

    fn texts(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, id)| ((*name).to_owned(), (*id).to_owned())).collect()
    }

    #[tokio::test]
    async fn a_run_again_neither_loses_nor_doubles_an_operation() {
        let operation = operation();
        let first = operations("u", &operation);
        first.begin("test/a", &key("configmaps", "x"), "1").await;
        first.begin("test/a", &key("configmaps", "x"), "1").await;
        first.begin("test/a", &key("configmaps", "y"), "1").await;
        assert_eq!(["x", "y", "z"].map(|name| first.are_noted(&key("configmaps", name))), [true; 3]);

        let second = operations("u", &operation);
        second.load().await;
        second.begin("test/a", &key("configmaps", "x"), "1").await;
        second.begin("test/a", &key("configmaps", "x"), "2").await;
        let third = operations("u", &operation);
        third.load().await;
        let expected = texts(&[("x", "1"), ("x", "2"), ("y", "1")]);
        assert_eq!((listed(&second), listed(&third)), (expected.clone(), expected));
        let written: Value = serde_json::to_value(&third).unwrap();
        assert_eq!(
            written[0],
            json!({"spec": {"restoreName": "r", "restoreUID": "u", "restoreItemAction": "test/a",
                "resourceIdentifier": {"Group": "", "Resource": "configmaps", "Namespace": "shop", "Name": "x"},
                "operationID": "1"}, "status": {"phase": "New", "created": "2026-01-01T00:00:00Z"}})
        );

        let other = operations("v", &operation);
        other.load().await;
        assert_eq!(listed(&other), []);
        assert_eq!(operation.records.keys().await.unwrap().len(), 0, "what another restore has left is removed");
    }

    #[tokio::test]
    async fn operations_beyond_the_notes_are_listed_and_their_objects_stay_open() {
        let operation = operation();
        let all = operations("u", &operation);
        let names: Vec<String> = (0..5000).map(|n| format!("{n:04}")).collect();
        for name in &names {
            all.begin("test/a", &key("configmaps", name), name).await;
        }
        let mut bytes = 0;
        for note in operation.records.keys().await.unwrap() {
            let length = operation.records.read(&note).await.unwrap().unwrap().len();
            assert!(length <= NOTE + 200, "{note}: {length}");
            bytes += length;
        }
        assert!((ALL_NOTES - NOTE..ALL_NOTES + (4 << 10)).contains(&bytes), "{bytes}");
        assert_eq!(listed(&all).len(), names.len());
        let again = operations("u", &operation);
        again.load().await;
        let noted = names.iter().filter(|name| all.are_noted(&key("configmaps", name))).count();
        assert_eq!((listed(&again).len(), noted < names.len()), (noted, true));
        let closed = operation.journal.close();
        assert_eq!((closed.warnings, closed.errors), (1, 0), "it is said once");
    }

    #[derive(Debug, Default)]
    struct Away(InMemory);

    #[async_trait::async_trait]
    impl Records for Away {
        async fn read(&self, key: &str) -> Result<Option<Bytes>, RecordsError> {
            self.0.read(key).await
        }

        async fn keys(&self) -> Result<std::collections::BTreeSet<String>, RecordsError> {
            self.0.keys().await
        }

        async fn write(&self, _: BTreeMap<String, Option<Bytes>>) -> Result<(), RecordsError> {
            Err(RecordsError::Unavailable("the disk is full".to_owned()))
        }
    }

    #[tokio::test]
    async fn an_operation_that_cannot_be_noted_is_listed_all_the_same() {
        let operation = Operation { records: Arc::new(Away::default()), ..operation() };
        let all = operations("u", &operation);
        all.begin("test/a", &key("configmaps", "x"), "1").await;
        assert_eq!((listed(&all), all.are_noted(&key("configmaps", "x"))), (texts(&[("x", "1")]), false));
        let results = operation.journal.close().results;
        let said: Vec<&str> = results.warnings.messages().collect();
        assert!(said.len() == 1 && said[0].contains("survive a crash: the disk is full; "), "{said:?}");
    }
}
