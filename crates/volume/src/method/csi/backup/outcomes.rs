//! Known outcomes of the snapshots of a backup, shared by the tasks that take them and the tasks that wait for them.

use crate::method::csi::content::SnapshotContent;
use crate::method::data_movement::backup::BegunUpload;
use crate::record::Report;
use lifeboat_api::{NamespacedName, Time};
use lifeboat_archive::volume_info::{CsiSnapshotInfo, UploadInfo};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// A snapshot that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenSnapshot {
    /// Its namespace: that of its claim.
    pub namespace: String,
    /// The name of its VolumeSnapshot.
    pub name: String,
    /// The name of its VolumeSnapshotClass; empty for none, as members of groups have it.
    pub class: String,
    /// The facts in its VolumeSnapshotContent. Of a snapshot whose data an earlier attempt has given to a data mover only the driver.
    pub content: SnapshotContent,
    /// The time when it was taken, as its driver says.
    pub at: Option<Time>,
    /// The group that it was taken with, if any.
    pub group: Option<Arc<TakenGroup>>,
}

/// A group of snapshots that were taken at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenGroup {
    /// The name of its VolumeGroupSnapshot.
    pub name: String,
    /// The name of its VolumeGroupSnapshotContent.
    pub content: String,
    /// The value of the label that its claims have in common.
    pub value: String,
    /// The driver's names of all its snapshots, also of claims that are not in the backup.
    pub snapshots: Vec<String>,
}

/// The outcome of the snapshot of a claim.
pub(crate) type SnapshotOutcome = Result<Arc<TakenSnapshot>, Arc<str>>;

/// The outcomes of all claims of which snapshots were begun.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    all: Mutex<OutcomesState>,
}

#[derive(Debug, Default)]
struct OutcomesState {
    begun: BTreeMap<NamespacedName, watch::Receiver<Option<SnapshotOutcome>>>,
    /// The claims of snapshots that were taken, by the names of these.
    claims: HashMap<NamespacedName, NamespacedName>,
    /// The operations that wait until a snapshot is ready.
    operations: HashMap<NamespacedName, String>,
    /// The claims whose data is to be moved out of their snapshots.
    moved: HashSet<NamespacedName>,
    /// The outcomes of asking for that.
    uploads: HashMap<NamespacedName, Result<BegunUpload, String>>,
}

/// A promise to take the snapshot of a claim, and to give its outcome.
#[derive(Debug)]
pub(crate) struct SnapshotPromise {
    claim: NamespacedName,
    sender: watch::Sender<Option<SnapshotOutcome>>,
    outcomes: Arc<Outcomes>,
}

impl SnapshotPromise {
    /// Gives the outcome.
    pub(crate) fn keep(self, outcome: SnapshotOutcome) {
        if let Ok(taken) = &outcome {
            let name = NamespacedName::new(&*taken.namespace, &*taken.name);
            self.outcomes.lock().claims.insert(name, self.claim);
        }
        // Whoever waits for it may be gone.
        let _ = self.sender.send(Some(outcome));
    }
}

impl Outcomes {
    /// Notes that the snapshot of a claim is begun; `None` when it was before.
    pub(crate) fn promise(self: &Arc<Self>, claim: &NamespacedName) -> Option<SnapshotPromise> {
        let mut all = self.lock();
        if all.begun.contains_key(claim) {
            return None;
        }
        let (sender, receiver) = watch::channel(None);
        all.begun.insert(claim.clone(), receiver);
        Some(SnapshotPromise { claim: claim.clone(), sender, outcomes: Arc::clone(self) })
    }

    /// Returns true if the snapshot of a claim was begun.
    pub(crate) fn has_begun(&self, claim: &NamespacedName) -> bool {
        self.lock().begun.contains_key(claim)
    }

    /// Waits for the snapshot of a claim. `None` when none was begun.
    pub(crate) async fn of(&self, claim: &NamespacedName) -> Option<SnapshotOutcome> {
        let mut outcome = self.lock().begun.get(claim).cloned()?;
        let outcome = outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        Some(outcome.ok().flatten().unwrap_or_else(|| Err(Arc::from("the task that took the snapshot died"))))
    }

    /// The snapshot of this name, if it was taken.
    pub(crate) fn named(&self, namespace: &str, name: &str) -> Option<Arc<TakenSnapshot>> {
        let all = self.lock();
        let claim = all.claims.get(&NamespacedName::new(namespace, name))?;
        all.begun.get(claim)?.borrow().clone()?.ok()
    }

    /// Notes the operation that waits until the snapshot of this name is ready.
    pub(crate) fn note_operation(&self, namespace: &str, name: &str, operation: &str) {
        let mut all = self.lock();
        if let Some(claim) = all.claims.get(&NamespacedName::new(namespace, name)).cloned() {
            all.operations.insert(claim, operation.to_owned());
        }
    }

    /// Notes that the data of a claim is to be moved out of its snapshot.
    pub(crate) fn note_moved(&self, claim: &NamespacedName) {
        self.lock().moved.insert(claim.clone());
    }

    /// Notes that a data mover was asked for the data of a claim, or why not.
    pub(crate) fn note_upload(&self, claim: &NamespacedName, upload: Result<BegunUpload, String>) {
        self.lock().uploads.insert(claim.clone(), upload);
    }

    /// The DataUploads that were made, by their claims.
    pub(crate) fn uploads(&self) -> BTreeMap<NamespacedName, NamespacedName> {
        let all = &self.lock().uploads;
        let made = all.iter().filter_map(|(claim, upload)| Some((claim, upload.as_ref().ok()?)));
        made.map(|(claim, made)| (claim.clone(), NamespacedName::new(&*made.namespace, &*made.name))).collect()
    }

    /// The outcome for each claim.
    pub(crate) fn reports(&self) -> BTreeMap<NamespacedName, Report> {
        let OutcomesState { begun, operations, moved, uploads, .. } = &*self.lock();
        let report = |claim: &NamespacedName, outcome: &Option<SnapshotOutcome>| match outcome {
            Some(Ok(taken)) if moved.contains(claim) => match uploads.get(claim) {
                Some(Ok(upload)) => taken.moved_by(upload),
                Some(Err(why)) => Report::Failed { why: format!("its snapshot was taken, but not moved: {why}") },
                None => Report::Failed { why: "the backup ended before the data of its snapshot was moved".to_owned() },
            },
            Some(Ok(taken)) => Report::CsiSnapshot {
                taken: taken.at,
                info: taken.info(operations.get(claim).cloned().unwrap_or_default()),
            },
            Some(Err(why)) => Report::Failed { why: why.to_string() },
            None => Report::Failed { why: "the backup ended before it was taken".to_owned() },
        };
        begun.iter().map(|(claim, outcome)| (claim.clone(), report(claim, &outcome.borrow()))).collect()
    }

    /// The snapshots that were taken.
    pub(crate) fn taken(&self) -> BTreeMap<NamespacedName, Arc<TakenSnapshot>> {
        let begun = &self.lock().begun;
        begun.iter().filter_map(|(claim, outcome)| Some((claim.clone(), outcome.borrow().clone()?.ok()?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, OutcomesState> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TakenSnapshot {
    fn moved_by(&self, upload: &BegunUpload) -> Report {
        let data_mover = if upload.data_mover.is_empty() { "velero" } else { &upload.data_mover };
        Report::Moved {
            driver: self.content.driver.clone(),
            group: self.group.as_ref().map(|group| group.value.clone()).unwrap_or_default(),
            info: UploadInfo {
                data_mover: data_mover.to_owned(),
                uploader_type: "kopia".to_owned(),
                operation_id: upload.operation_id.clone(),
                ..UploadInfo::default()
            },
        }
    }

    fn info(&self, operation_id: String) -> CsiSnapshotInfo {
        let SnapshotContent { name, driver, handle, restore_size, is_ready, group_handle, .. } = self.content.clone();
        CsiSnapshotInfo {
            snapshot_handle: handle,
            size: restore_size,
            driver,
            vsc_name: name,
            operation_id,
            ready_to_use: is_ready,
            volume_group_snapshot_handle: group_handle,
            volume_group: self.group.as_ref().map(|group| group.value.clone()).unwrap_or_default(),
            ..CsiSnapshotInfo::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str) -> NamespacedName {
        NamespacedName { namespace: "shop".to_owned(), name: name.to_owned() }
    }

    #[tokio::test]
    async fn each_claim_is_promised_once_and_found_by_claim_and_by_snapshot_name() {
        let outcomes = Arc::new(Outcomes::default());
        let promises = ["taken", "failed", "begun", "died"].map(|name| outcomes.promise(&claim(name)).unwrap());
        assert!(outcomes.promise(&claim("taken")).is_none());
        assert_eq!((outcomes.has_begun(&claim("begun")), outcomes.has_begun(&claim("another"))), (true, false));
        let content =
            SnapshotContent { handle: "snap-1".to_owned(), driver: "d".to_owned(), ..SnapshotContent::default() };
        let (namespace, name) = ("shop".to_owned(), "s".to_owned());
        let class = String::new();
        let taken = Arc::new(TakenSnapshot { namespace, name, class, content, at: None, group: None });
        assert_eq!(outcomes.named("shop", "s"), None);
        let [of_taken, of_failed, _of_begun, of_died] = promises;
        of_taken.keep(Ok(Arc::clone(&taken)));
        of_failed.keep(Err(Arc::from("full")));
        drop(of_died);
        outcomes.note_operation("shop", "s", "operation-1");
        outcomes.note_operation("shop", "another", "operation-2");

        assert_eq!(outcomes.named("shop", "s").as_ref(), Some(&taken));
        assert_eq!(outcomes.of(&claim("taken")).await, Some(Ok(Arc::clone(&taken))));
        assert_eq!(outcomes.of(&claim("failed")).await, Some(Err(Arc::from("full"))));
        assert_eq!(outcomes.of(&claim("died")).await, Some(Err(Arc::from("the task that took the snapshot died"))));
        assert_eq!(outcomes.of(&claim("another")).await, None);
        assert_eq!(outcomes.taken(), BTreeMap::from([(claim("taken"), taken)]));
        let info = CsiSnapshotInfo {
            snapshot_handle: "snap-1".to_owned(),
            driver: "d".to_owned(),
            operation_id: "operation-1".to_owned(),
            ..CsiSnapshotInfo::default()
        };
        let failed = |why: &str| Report::Failed { why: why.to_owned() };
        let expected = [
            (claim("taken"), Report::CsiSnapshot { taken: None, info }),
            (claim("failed"), failed("full")),
            (claim("begun"), failed("the backup ended before it was taken")),
            (claim("died"), failed("the backup ended before it was taken")),
        ];
        assert_eq!(outcomes.reports(), expected.into());
    }
    #[tokio::test]
    async fn a_claim_whose_data_is_to_be_moved_is_saved_once_a_mover_is_asked() {
        let outcomes = Arc::new(Outcomes::default());
        for name in ["asked", "refused", "forgotten"] {
            outcomes.note_moved(&claim(name));
            let content = SnapshotContent { driver: "d".to_owned(), ..SnapshotContent::default() };
            let group =
                Arc::new(TakenGroup { value: "db".into(), name: "g".into(), content: "c".into(), snapshots: vec![] });
            let (namespace, class) = ("shop".to_owned(), String::new());
            let taken =
                TakenSnapshot { namespace, name: name.to_owned(), class, content, at: None, group: Some(group) };
            outcomes.promise(&claim(name)).unwrap().keep(Ok(Arc::new(taken)));
        }
        let upload = BegunUpload {
            namespace: "velero".to_owned(),
            name: "b-1".to_owned(),
            operation_id: "du-1".to_owned(),
            data_mover: String::new(),
        };
        outcomes.note_upload(&claim("asked"), Ok(upload));
        outcomes.note_upload(&claim("refused"), Err("forbidden".to_owned()));
        let info = UploadInfo {
            data_mover: "velero".to_owned(),
            uploader_type: "kopia".to_owned(),
            operation_id: "du-1".to_owned(),
            ..UploadInfo::default()
        };
        let failed = |why: &str| Report::Failed { why: why.to_owned() };
        let expected = [
            (claim("asked"), Report::Moved { driver: "d".to_owned(), group: "db".to_owned(), info }),
            (claim("refused"), failed("its snapshot was taken, but not moved: forbidden")),
            (claim("forgotten"), failed("the backup ended before the data of its snapshot was moved")),
        ];
        assert_eq!(outcomes.reports(), expected.into());
        assert_eq!(outcomes.uploads(), [(claim("asked"), NamespacedName::new("velero", "b-1"))].into());
    }
}
