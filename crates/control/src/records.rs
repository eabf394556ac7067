//! The notes of a backup or restore in a ConfigMap that goes with it.

use crate::work::Context;
use crate::work::running::RECORDING_CANCELLED;
use crate::world::Meta;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lifeboat_api::{API_VERSION, ObjectMeta, well_known};
use lifeboat_cluster::{Cluster, MergePatch, WriteBody};
use lifeboat_object::ApiResource;
use lifeboat_operation::{Records, RecordsError, is_key};
use lifeboat_reconcile::Leadership;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Bytes that the values of a ConfigMap have room for; the API server refuses more.
const MOST: usize = 1 << 20;

type NoteChanges = BTreeMap<String, Option<Bytes>>;
type WriteResult = Result<(), RecordsError>;

/// The notes of one backup or restore. Writes that come while a request is under way go together into the next one.
#[derive(Debug)]
pub(crate) struct RecordMap {
    cluster: Cluster,
    leadership: Leadership,
    namespace: String,
    owner: RecordsOwner,
    cancel: CancellationToken,
    /// Set while the API server has not answered the last request of an operation that is cancelled: the next one is not waited
    /// for.
    is_silent: AtomicBool,
    /// Writes that no request carries yet.
    waiting: Mutex<Vec<(NoteChanges, oneshot::Sender<WriteResult>)>>,
    /// The length of each note in the ConfigMap, once it was read. Locked while a request is under way.
    lengths: tokio::sync::Mutex<Option<BTreeMap<String, usize>>>,
}

/// The resource that the notes go with.
#[derive(Debug)]
struct RecordsOwner {
    kind: &'static str,
    metadata: ObjectMeta,
}

impl RecordMap {
    pub(crate) fn new<T: Meta>(context: &Context, owner: &T) -> Self {
        Self::until_cancelled(context, owner, CancellationToken::new())
    }

    /// The notes of an operation that runs: when it is cancelled, an API server that hangs is waited for no longer than
    /// a bucket.
    pub(crate) fn until_cancelled<T: Meta>(context: &Context, owner: &T, cancel: CancellationToken) -> Self {
        let owner = RecordsOwner { kind: T::KIND, metadata: owner.meta().clone() };
        Self::of(context.client.cluster.clone(), context.leadership.clone(), owner, cancel)
    }

    fn of(cluster: Cluster, leadership: Leadership, owner: RecordsOwner, cancel: CancellationToken) -> Self {
        Self {
            cluster,
            leadership,
            namespace: owner.metadata.namespace.clone(),
            owner,
            cancel,
            is_silent: AtomicBool::new(false),
            waiting: Mutex::default(),
            lengths: tokio::sync::Mutex::default(),
        }
    }

    /// Waits for the result of a request, or gives the request up when the operation is cancelled and the API server is
    /// silent.
    async fn bound<O>(&self, request: impl Future<Output = Result<O, String>>) -> Result<O, String> {
        let overdue = async {
            self.cancel.cancelled().await;
            if !self.is_silent.load(Ordering::Relaxed) {
                sleep(RECORDING_CANCELLED).await;
            }
        };
        tokio::select! {
            done = request => {
                self.is_silent.store(false, Ordering::Relaxed);
                done
            }
            () = overdue => {
                self.is_silent.store(true, Ordering::Relaxed);
                let kind = self.owner.kind.to_lowercase();
                Err(format!("the {kind} was cancelled, and the API server did not answer in time"))
            }
        }
    }

    /// The UID is a part of it: a name may come again, and names of owners may be as long as names can be.
    fn name(&self) -> String {
        format!("lifeboat-{}-{}", self.owner.kind.to_lowercase(), self.owner.metadata.uid)
    }

    /// Removes them: the operation has ended.
    pub(crate) async fn forget(&self) {
        // A ConfigMap that stays goes with its owner.
        let (resource, name) = (config_maps(), self.name());
        let deleting = self.cluster.delete(&resource, Some(&self.namespace), &name);
        if let Err(why) = self.bound(async { deleting.await.map_err(|e| e.to_string()) }).await {
            tracing::warn!(why, owner = self.owner.metadata.name, "the notes of an operation stay");
        }
    }
}

#[async_trait]
impl Records for RecordMap {
    async fn read(&self, key: &str) -> Result<Option<Bytes>, RecordsError> {
        Ok(self.all().await?.remove(key))
    }

    async fn keys(&self) -> Result<BTreeSet<String>, RecordsError> {
        Ok(self.all().await?.into_keys().collect())
    }

    async fn read_all(&self, prefix: &str) -> Result<BTreeMap<String, Bytes>, RecordsError> {
        let mut all = self.all().await?;
        all.retain(|key, _| key.starts_with(prefix));
        Ok(all)
    }

    async fn write(&self, notes: NoteChanges) -> WriteResult {
        if let Some(key) = notes.keys().find(|key| !is_key(key)) {
            return Err(RecordsError::Key(key.clone()));
        }
        if notes.is_empty() {
            return Ok(());
        }
        loop {
            let (sender, mut answer) = oneshot::channel();
            self.waiting().push((notes.clone(), sender));
            // The first caller to get the lock writes what waits for all; the others are told how that went.
            let told = tokio::select! {
                biased;
                told = &mut answer => told,
                mut lengths = self.lengths.lock() => {
                    let batch = std::mem::take(&mut *self.waiting());
                    if !batch.is_empty() {
                        self.send(batch, &mut lengths).await;
                    }
                    drop(lengths);
                    answer.await
                }
            };
            // Without an answer, the task that had taken these notes along was stopped: they go again.
            if let Ok(answer) = told {
                return answer;
            }
        }
    }
}

impl RecordMap {
    fn waiting(&self) -> MutexGuard<'_, Vec<(NoteChanges, oneshot::Sender<WriteResult>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn all(&self) -> Result<BTreeMap<String, Bytes>, RecordsError> {
        self.bound(self.request_all()).await.map_err(RecordsError::Unavailable)
    }

    async fn request_all(&self) -> Result<BTreeMap<String, Bytes>, String> {
        let found = self.cluster.get(&config_maps(), Some(&self.namespace), &self.name()).await;
        let Some(bytes) = found.map_err(|e| e.to_string())? else { return Ok(BTreeMap::new()) };
        let map: Value = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        let notes = map["binaryData"].as_object().into_iter().flatten();
        let decoded = notes.map(|(key, note)| {
            let bytes = note.as_str().and_then(|text| STANDARD.decode(text).ok());
            let bytes = bytes.ok_or_else(|| format!("ConfigMap {}: {key} is no base64", self.name()))?;
            Ok((key.clone(), Bytes::from(bytes)))
        });
        decoded.collect()
    }

    /// Writes what there is room for, by one request, and answers all.
    async fn send(
        &self,
        batch: Vec<(NoteChanges, oneshot::Sender<WriteResult>)>,
        lengths: &mut Option<BTreeMap<String, usize>>,
    ) {
        let known = match lengths.take() {
            Some(known) => Ok(known),
            None => self.all().await.map(|all| all.into_iter().map(|(key, note)| (key, note.len())).collect()),
        };
        let mut after: BTreeMap<String, usize> = match known {
            Ok(known) => known,
            Err(e) => return answer_all(batch.into_iter().map(|(_, sender)| sender), &Err(e)),
        };
        let mut taken = Vec::new();
        let mut together = NoteChanges::new();
        for (notes, sender) in batch {
            match with(&after, &notes) {
                Ok(grown) => {
                    after = grown;
                    together.extend(notes);
                    taken.push(sender);
                }
                // The receiver may be gone.
                Err(full) => drop(sender.send(Err(full))),
            }
        }
        if taken.is_empty() {
            *lengths = Some(after);
            return;
        }
        let only_these = after.keys().all(|key| together.contains_key(key));
        let written = self.bound(self.request_write(together)).await;
        if written == Ok(WrittenTo::Anew) && !only_these {
            tracing::warn!(
                name = self.name(),
                owner = self.owner.metadata.name,
                "the ConfigMap with the notes of an operation was deleted: what was noted before is lost"
            );
        }
        // After a failure, and after others have changed the ConfigMap, it is not known what that holds.
        let is_known = written == Ok(WrittenTo::Into) || (written == Ok(WrittenTo::Anew) && only_these);
        *lengths = is_known.then_some(after);
        answer_all(taken, &written.map(drop).map_err(RecordsError::Unavailable));
    }

    async fn request_write(&self, notes: NoteChanges) -> Result<WrittenTo, String> {
        let (resource, namespace, name) = (config_maps(), Some(self.namespace.as_str()), self.name());
        let data: Value =
            notes.iter().map(|(key, note)| (key.clone(), json!(note.as_ref().map(|n| STANDARD.encode(n))))).collect();
        let patch = Bytes::from(json!({"binaryData": data}).to_string());
        let made: Value = notes
            .iter()
            .filter_map(|(key, note)| Some((key.clone(), json!(STANDARD.encode(note.as_ref()?)))))
            .collect();
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": self.namespace,
                "labels": {well_known::LABEL_EXCLUDE_FROM_BACKUP: "true"},
                "ownerReferences": [{"apiVersion": API_VERSION, "kind": self.owner.kind,
                    "name": self.owner.metadata.name, "uid": self.owner.metadata.uid}],
            },
            "binaryData": made,
        });
        let is_removal = notes.values().all(Option::is_none);
        // After the loss of the lease the notes belong to the next leader, which may be further.
        self.leadership.check().map_err(|lost| lost.to_string())?;
        match self.cluster.patch(&resource, namespace, &name, MergePatch::of(patch)).await {
            Ok(_) => return Ok(WrittenTo::Into),
            // There is nothing to remove, and its owner may be gone for long.
            Err(e) if e.is_not_found() && is_removal => return Ok(WrittenTo::Anew),
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e.to_string()),
        }
        self.leadership.check().map_err(|lost| lost.to_string())?;
        let body = Bytes::from(map.to_string());
        let created = self.cluster.create(&resource, namespace, &name, WriteBody::of(body)).await;
        created.map(|_| WrittenTo::Anew).map_err(|e| e.to_string())
    }
}

/// Where notes were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrittenTo {
    /// Into the ConfigMap that was there.
    Into,
    /// Into a new one: there was none.
    Anew,
}

/// The lengths of all notes once these are written, when there is room for them.
fn with(lengths: &BTreeMap<String, usize>, notes: &NoteChanges) -> Result<BTreeMap<String, usize>, RecordsError> {
    let mut after = lengths.clone();
    for (key, note) in notes {
        match note {
            Some(note) => drop(after.insert(key.clone(), note.len())),
            None => drop(after.remove(key)),
        }
    }
    let size = after.values().sum();
    if size > MOST { Err(RecordsError::Full { size, most: MOST }) } else { Ok(after) }
}

fn answer_all(senders: impl IntoIterator<Item = oneshot::Sender<WriteResult>>, answer: &WriteResult) {
    for sender in senders {
        // The receiver may be gone.
        let _ = sender.send(answer.clone());
    }
}

fn config_maps() -> ApiResource {
    ApiResource::new("", "v1", "configmaps", "ConfigMap")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{api_server, sandbox};
    use std::sync::Arc;
    use tokio::task::JoinSet;
    use tokio::time::Instant;

    async fn records(tasks: &mut JoinSet<()>, answers: Vec<(u16, Value)>) -> RecordMap {
        let metadata = ObjectMeta { namespace: "velero".into(), uid: "u".into(), ..ObjectMeta::default() };
        let restore = RecordsOwner { kind: "Restore", metadata };
        RecordMap::of(api_server(tasks, answers).await, Leadership::for_ever(), restore, CancellationToken::new())
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_hangs_holds_a_cancelled_restore_for_seconds_only() {
        let map = records(&mut JoinSet::new(), Vec::new()).await;
        let begun = Instant::now();
        map.cancel.cancel();
        let late = Err("the restore was cancelled, and the API server did not answer in time".to_owned());
        // However often it is saved then.
        for _ in 0..3 {
            assert_eq!(map.bound(std::future::pending::<Result<(), String>>()).await, late);
            assert_eq!(begun.elapsed(), RECORDING_CANCELLED);
        }
    }

    #[test]
    fn notes_beyond_what_a_config_map_holds_are_refused() {
        let note = |length: usize| Some(Bytes::from(vec![0; length]));
        let lengths = BTreeMap::from([("a".to_owned(), MOST - 10), ("b".to_owned(), 5)]);
        for (key, note, expected) in [
            ("c", note(5), Ok(MOST)),
            ("c", note(6), Err(RecordsError::Full { size: MOST + 1, most: MOST })),
            ("a", note(MOST - 5), Ok(MOST)),
            ("a", None, Ok(5)),
            ("b", note(10), Ok(MOST)),
        ] {
            let after = with(&lengths, &NoteChanges::from([(key.to_owned(), note)]));
            assert_eq!(after.map(|after| after.values().sum::<usize>()), expected);
        }
    }

    #[tokio::test]
    async fn notes_in_a_config_map_pass_the_suite() {
        let (sandbox, cluster) = sandbox().await;
        // Without it the notes would be garbage.
        let owner = json!({"apiVersion": "velero.io/v1", "kind": "Restore", "spec": {},
            "metadata": {"name": "r", "namespace": "velero", "uid": "u"}});
        sandbox.apply(vec![owner]).await.unwrap();
        let metadata =
            ObjectMeta { name: "r".into(), namespace: "velero".into(), uid: "u".into(), ..ObjectMeta::default() };
        let restore = RecordsOwner { kind: "Restore", metadata };
        let map = RecordMap::of(cluster, Leadership::for_ever(), restore, CancellationToken::new());
        let map = Arc::new(map);
        lifeboat_operation::conformance::run(Arc::clone(&map) as Arc<dyn Records>).await;
        map.forget().await;
        assert_eq!(map.keys().await, Ok(BTreeSet::new()));
    }

    /// The one that carried them along may be stopped at any time.
    #[tokio::test]
    async fn notes_that_waited_are_written_though_their_carrier_is_stopped() {
        let mut tasks = JoinSet::new();
        let map = records(&mut tasks, vec![(200, json!({}))]).await;
        let write =
            |key: &'static str| map.write(NoteChanges::from([(key.to_owned(), Some(Bytes::from_static(b"1")))]));
        let turn = map.lengths.lock().await;
        let (mut carrier, mut other) = (Box::pin(write("a")), Box::pin(write("b")));
        assert!(futures::poll!(&mut carrier).is_pending() && futures::poll!(&mut other).is_pending());
        drop(turn);
        assert!(futures::poll!(&mut carrier).is_pending(), "its request is under way");
        drop(carrier);
        assert_eq!(other.await, Ok(()));
    }

    #[tokio::test]
    async fn what_a_config_map_holds_is_asked_anew_when_somebody_has_deleted_it() {
        let mut tasks = JoinSet::new();
        let held = json!({"binaryData": {"old": "AAAA"}});
        // The read, the patch that finds no ConfigMap any more, and the create.
        let map = records(&mut tasks, vec![(200, held), (404, json!({})), (201, json!({}))]).await;
        let notes = NoteChanges::from([("new".to_owned(), Some(Bytes::from_static(b"1")))]);
        assert_eq!(map.write(notes).await, Ok(()));
        assert_eq!(*map.lengths.lock().await, None);
    }

    /// A note that is too large does not make the others fail with it.
    #[tokio::test]
    async fn what_waits_goes_into_one_request() {
        let mut tasks = JoinSet::new();
        // The read, the patch that finds no ConfigMap, and the create.
        let map =
            records(&mut tasks, vec![(404, json!({})), (404, json!({})), (201, json!({})), (500, json!({}))]).await;
        let write = |key: &'static str, length: usize| {
            map.write(NoteChanges::from([(key.to_owned(), Some(Bytes::from(vec![0; length])))]))
        };
        // All three wait while another request is under way.
        let turn = map.lengths.lock().await;
        let (mut one, mut large, mut other) =
            (Box::pin(write("a", 1)), Box::pin(write("b", MOST)), Box::pin(write("c", 2)));
        for write in [&mut one, &mut large, &mut other] {
            assert!(futures::poll!(write).is_pending());
        }
        drop(turn);
        let answers = futures::join!(one, large, other);
        assert_eq!(answers, (Ok(()), Err(RecordsError::Full { size: MOST + 1, most: MOST }), Ok(())));
        let lengths = map.lengths.lock().await.clone();
        assert_eq!(lengths, Some(BTreeMap::from([("a".to_owned(), 1), ("c".to_owned(), 2)])));
    }
}
