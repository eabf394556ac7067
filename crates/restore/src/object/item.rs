//! Restores one object (restore.md 2.8).

use crate::object::additional::Additional;
use crate::object::answer_cache::AnswerCache;
use crate::object::apply::{ActionSelection, PrepareError};
use crate::object::desired::{Desired, DesiredObject, ObjectBuilder};
use crate::object::job_pods::LeftToJobs;
use crate::object::refused::{self, Missing, Refused};
use crate::object::required_namespaces::RequiredNamespaces;
use crate::object::update;
use crate::object::write::{ClusterWriter, ToWrite};
use crate::request::modifier::Modified;
use crate::state::attempt::{Attempt, AttemptNumber, Obstacle, SourceObject};
use crate::state::claimed_rows::ClaimedRows;
use crate::state::item_result::ItemResult;
use crate::state::messages::Messages;
use crate::state::operations::Operations;
use crate::state::reader::BackupReader;
use crate::state::retry::{can_be_read_later, can_pass};
use crate::state::stop::Stop;
use crate::state::terminating::{TerminatingObject, TerminationWaits};
use crate::volumes::hold_back::LostClaims;
use crate::volumes::native::{NativeVolumeRestore, NotPrepared, VolumeDestination};
use crate::volumes::retained::{is_volume, unseen_volume};
use crate::volumes::snapshot_groups::SnapshotGroups;
use crate::walk::read::is_completed;
use crate::walk::same_target::{SameTarget, taken};
use crate::walk::scope::RestoreScope;
use futures::FutureExt;
use futures::future::BoxFuture;
use lifeboat_archive::index::Row;
use lifeboat_object::{ObjectKey, chain};
use lifeboat_store::StoreError;
use lifeboat_volume::csi::CsiError;
use lifeboat_volume::{RetainedPlan, VolumeRefusal};
use serde_json::Value;
use std::sync::Arc;
use tokio::task::JoinError;

/// Restores objects, several at the same time: leads each through the stages, and decides about its outcome from their
/// results.
pub(crate) struct Restorer {
    pub(crate) mapping: Arc<RestoreScope>,
    pub(crate) messages: Arc<Messages>,
    pub(crate) begun: Arc<ClaimedRows>,
    pub(crate) reader: Arc<BackupReader>,
    pub(crate) builder: Arc<ObjectBuilder>,
    pub(crate) namespaces: Arc<RequiredNamespaces>,
    pub(crate) additional: Additional,
    pub(crate) native_volumes: Arc<NativeVolumeRestore>,
    pub(crate) writer: ClusterWriter,
    pub(crate) remembered: AttemptMemory,
    pub(crate) groups: Arc<SnapshotGroups>,
    pub(crate) stop: Arc<Stop>,
}

/// State of objects that is kept from one attempt to the next, and for other objects that depend on them.
#[derive(Clone)]
pub(crate) struct AttemptMemory {
    /// Operations that actions have begun.
    pub(crate) operations: Arc<Operations>,
    /// Answers of actions about objects that are tried again.
    pub(crate) kept: Arc<AnswerCache>,
    /// Claims that could not be restored.
    pub(crate) lost_claims: Arc<LostClaims>,
    /// The waits for objects that are being deleted.
    pub(crate) terminating: Arc<TerminationWaits>,
    /// Pods that were left to the Jobs that make them.
    pub(crate) left_to_jobs: Arc<LeftToJobs>,
}

impl Restorer {
    /// Restores one object in its own turn. What goes wrong is in the journal, unless it may pass and there is a later
    /// turn.
    pub(crate) async fn restore(&self, source: &SourceObject, turn: AttemptNumber) -> Attempt {
        if !self.begun.begin(source.row) && !turn.again {
            return Attempt::Elsewhere;
        }
        self.attempt(source, turn).await
    }

    /// Restores one object that the caller has begun.
    async fn attempt(&self, source: &SourceObject, turn: AttemptNumber) -> Attempt {
        let last = turn.last;
        let key = &source.key;
        let target = self.mapping.target_of(key);
        let object: Value = match serde_json::from_slice(&source.body) {
            Ok(object) => object,
            Err(e) => {
                self.messages.error(&target, &format!("error decoding {key}: {e}"));
                return Attempt::FAILED;
            }
        };
        if key.resource.is_namespaces() {
            return self.namespaces.restore(key, object, last).await;
        }
        if is_completed(&key.resource, &object) {
            return Attempt::Done { action: ItemResult::Skipped, listed: false, settled: true };
        }
        if let Some((_, other)) = self.mapping.taken_by(source.row) {
            // The other one comes first.
            if !turn.again {
                return Attempt::Later(Obstacle::Passing);
            }
            if !SameTarget::are_merged(&key.resource) {
                return match self.beside(source, &target, &object, &other).await {
                    Ok(true) => Attempt::Done { action: ItemResult::Skipped, listed: true, settled: true },
                    Ok(false) => Attempt::Done { action: ItemResult::Differs, listed: true, settled: false },
                    Err(refused) => self.refused(source, &target, refused, last).await,
                };
            }
        }
        match self.write(source, &target, &object).await {
            // It is there, and could not be changed.
            Ok(ItemResult::Failed) => Attempt::FAILED,
            Ok(action) => {
                let settled = !self.messages.is_open(&target) && self.remembered.operations.are_noted(&target);
                Attempt::Done { action, listed: true, settled }
            }
            Err(refused) => self.refused(source, &target, refused, last).await,
        }
    }

    /// Tells of an object whose place another one of the backup has, unless both are the same. Gives whether a run again has nothing
    /// to say about it.
    async fn beside(
        &self,
        source: &SourceObject,
        target: &ObjectKey,
        from_backup: &Value,
        other: &ObjectKey,
    ) -> Result<bool, Refused> {
        let desired = match self
            .builder
            .desired(target, from_backup, ActionSelection::Pure)
            .await
            .map_err(Refused::Unprepared)?
        {
            Desired::Object(object) => object.item,
            Desired::Skip { reason, .. } => {
                self.messages.left_out(target, &reason);
                return Ok(true);
            }
        };
        let in_cluster = self.writer.read(target, &desired).await?;
        let is_same = in_cluster.is_some_and(|there| update::patch(&desired, &there).is_none());
        if !is_same {
            let why = taken(other);
            self.messages.warning(target, &format!("could not restore {} as {target}: {why}", source.key));
        }
        Ok(is_same)
    }

    /// Handles an object that was not written: defers it, reports it, or stops the restore.
    async fn refused(&self, source: &SourceObject, target: &ObjectKey, refused: Refused, last: bool) -> Attempt {
        match refused {
            Refused::Reported => {}
            Refused::Unprepared(PrepareError::ForNow(_)) if !last => return Attempt::Later(Obstacle::Passing),
            Refused::Unprepared(PrepareError::Failed(why) | PrepareError::ForNow(why)) => {
                self.messages.error(target, &why);
            }
            Refused::Unprepared(PrepareError::Fatal(why)) => {
                self.stop.break_off(*why);
                return Attempt::Later(Obstacle::Passing);
            }
            Refused::Stopped | Refused::Unprepared(PrepareError::Stopped) => return Attempt::Later(Obstacle::Passing),
            Refused::Crowded => return Attempt::Later(Obstacle::Crowded),
            Refused::Leaving(terminating) => {
                match terminating.warning_after(target, self.remembered.terminating.of(source.row)) {
                    None => return Attempt::Later(Obstacle::Leaving),
                    Some(warning) => self.messages.warning(target, &warning),
                }
            }
            Refused::Namespace(Missing::ForNow) if !last => return Attempt::Later(Obstacle::NamespaceMissing),
            Refused::Namespace(_) => {
                let Some(row) = self.mapping.archive.row(source.row) else { return Attempt::FAILED };
                return self.without_namespace(row).await;
            }
            Refused::Unequal { told, .. } if !last => {
                tracing::debug!(key = %source.key, told, "not brought in line for now");
                return Attempt::Later(Obstacle::Passing);
            }
            Refused::Unequal { told, is_error } => {
                self.messages.unequal(target, &told, is_error);
                // It is there: nothing that needs it is lost.
                return Attempt::FAILED;
            }
            Refused::Because(refusal) if !last && can_pass(&refusal) => {
                tracing::debug!(key = %source.key, %refusal, "refused for now");
                return Attempt::Later(Obstacle::Passing);
            }
            Refused::Because(e) => {
                self.messages.error(target, &format!("error restoring {target}: {}", refused::error_text(&e)));
            }
        }
        self.remembered.lost_claims.add(target);
        self.native_volumes.lose(&source.key);
        Attempt::FAILED
    }

    async fn write(
        &self,
        source: &SourceObject,
        target: &ObjectKey,
        from_backup: &Value,
    ) -> Result<ItemResult, Refused> {
        if let Some(claim) = self.remembered.lost_claims.holding_back(target, from_backup) {
            let why = "could not be restored and would be made anew, empty";
            let next = "restore the claim, then run the restore again";
            let message = format!("error restoring {target}: held back, because its claim {claim} {why}; {next}");
            self.messages.error(target, &message);
            return Err(Refused::Reported);
        }
        let lost = self.builder.retained.lost(target, from_backup, &self.mapping, &self.writer.env).await;
        if let Some(why) = lost.map_err(|e| Refused::Because(Box::new(e)))? {
            self.messages.error(target, &format!("error restoring {target}: {why}"));
            return Err(Refused::Reported);
        }
        let mut desired = match self.remembered.kept.take(source.row) {
            Some(desired) => desired,
            None => {
                match self.builder.desired(target, from_backup, ActionSelection::All(&self.remembered.operations)).await
                {
                    Ok(Desired::Object(object)) => *object,
                    Ok(Desired::Skip { mut needs, reason, job }) => {
                        self.messages.left_out(target, &reason);
                        // One that is there runs on.
                        if let Some(job) = job
                            && self.writer.read(target, from_backup).await?.is_none()
                        {
                            self.remembered.left_to_jobs.add(target, job);
                        }
                        needs.iter_mut().for_each(|need| need.wait = None);
                        let restore = |row, key| self.restore_row(row, key);
                        self.additional.meet(&source.key, &mut needs, &restore).await?;
                        return Ok(ItemResult::Skipped);
                    }
                    Err(e) => return Err(Refused::Unprepared(e)),
                }
            }
        };
        let written = self.write_desired(source, target, from_backup, &mut desired).await;
        if matches!(written, Ok(_) | Err(Refused::Reported)) {
            self.tell_modified(target, &desired.modified);
        }
        if desired.is_asked_once && !matches!(written, Ok(_) | Err(Refused::Reported)) {
            self.remembered.kept.keep(source.row, desired);
        }
        written
    }

    fn tell_modified(&self, target: &ObjectKey, modified: &Modified) {
        for error in &modified.errors {
            self.messages.error(target, &format!("error applying resource modifiers to {target}: {error}"));
        }
        for warning in &modified.warnings {
            self.messages.warning(target, &format!("resource modifiers of {target}: {warning}"));
        }
    }

    /// Writes an object after the objects that it needs.
    async fn write_desired(
        &self,
        source: &SourceObject,
        key: &ObjectKey,
        from_backup: &Value,
        desired: &mut DesiredObject,
    ) -> Result<ItemResult, Refused> {
        if let Some(namespace) = &source.key.namespace {
            self.namespaces.ensure(namespace).await.map_err(Refused::Namespace)?;
        }
        let restore = |row, key| self.restore_row(row, key);
        self.additional.meet(&source.key, &mut desired.needs, &restore).await?;
        if let Some(action) = self.with_kept(key, &desired.item).await? {
            return Ok(action);
        }
        let prepared = match self.native_volumes.follow(&source.key, &desired.item) {
            Ok(None) => self.with_volume(source, key, from_backup, &desired.item).await?,
            Ok(claim) => claim,
            Err(volume) => {
                let why = format!("its PersistentVolume {volume} could not be restored");
                let next = "when that is there, run the restore again";
                self.messages.error(key, &format!("error restoring {key}: held back, because {why}; {next}"));
                return Err(Refused::Reported);
            }
        };
        let DesiredObject { item: planned, status, .. } = desired;
        let item = prepared.as_ref().unwrap_or(planned);
        let object = ToWrite { source, key, from_backup, desired: item, planned, status: status.as_ref() };
        match self.groups.content(key, from_backup, &self.mapping).await {
            Ok(()) => {}
            Err(CsiError::Cluster(e)) => return Err(Refused::Because(Box::new(e))),
            Err(e) => {
                self.messages.error(key, &format!("error restoring {key}: its content could not be made: {e}"));
                return Err(Refused::Reported);
            }
        }
        self.groups.before(key, from_backup, &self.mapping).await;
        let written = self.writer.write(&object).await;
        if matches!(written, Ok(ItemResult::Created)) {
            self.groups.after(key, object.name(), from_backup, &self.mapping).await;
        }
        written
    }

    /// Makes sure of the volume that comes back as it is, for its PersistentVolume or its claim. Gives what was done with the object
    /// when that is all.
    async fn with_kept(&self, key: &ObjectKey, desired: &Value) -> Result<Option<ItemResult>, Refused> {
        let (retained, env) = (&self.builder.retained, &self.writer.env);
        let is_volume = is_volume(key);
        let planned = match retained.plan(key, desired, &self.mapping, env).await {
            Ok(Some(planned)) => planned,
            Ok(None) => return Ok(None),
            Err(e) if e.is_denied() && !is_volume => {
                // It may come here again.
                if !self.messages.is_open(key) {
                    self.messages.warning(key, &unseen_volume(key, &e));
                }
                return Ok(None);
            }
            Err(e) => return Err(Refused::Because(Box::new(e))),
        };
        let is_left_out = planned.is_left_out(key);
        match planned.plan {
            RetainedPlan::Wait(why) if is_volume => Err(Refused::Leaving(TerminatingObject::soon(why))),
            RetainedPlan::Make | RetainedPlan::Stays | RetainedPlan::Wait(_) => Ok(None),
            RetainedPlan::Rebind(patch) => {
                retained.rebind(key, desired, &patch, env).await.map_err(|e| Refused::Because(Box::new(e)))?;
                Ok(is_volume.then_some(ItemResult::Updated))
            }
            RetainedPlan::Refused(VolumeRefusal { why, .. }) if is_left_out => {
                self.messages.left_out(key, &why);
                Ok(Some(ItemResult::Skipped))
            }
            RetainedPlan::Refused(VolumeRefusal { why, next }) => {
                let held = if is_volume { "not made" } else { "held back" };
                self.messages.error(key, &format!("error restoring {key}: {held}, because {why}; {next}"));
                Err(Refused::Reported)
            }
        }
    }

    /// A PersistentVolume with a new volume behind it; `None` for other objects, and where it is in the cluster already.
    async fn with_volume(
        &self,
        source: &SourceObject,
        key: &ObjectKey,
        from_backup: &Value,
        planned: &Value,
    ) -> Result<Option<Value>, Refused> {
        if !self.native_volumes.has(&source.key) {
            return Ok(None);
        }
        let refused = |why: NotPrepared| match why {
            NotPrepared::Refused(refused) => refused,
            NotPrepared::Because(why) => {
                self.messages.error(key, &format!("error restoring {key}: {why}"));
                Refused::Reported
            }
        };
        let room = self.native_volumes.room(&source.key, from_backup, (&self.mapping, &self.writer.env)).await;
        let VolumeDestination::Free(name) = room.map_err(refused)? else { return Ok(None) };
        self.writer.may_create(key, planned)?;
        self.native_volumes.make(&source.key, planned, &name).await.map(Some).map_err(refused)
    }

    /// Restores an object that another one needs, and that the caller has begun.
    fn restore_row(&self, row: usize, key: ObjectKey) -> BoxFuture<'_, Attempt> {
        async move {
            match self.reader.load_to_restore(row).await {
                Ok(body) => {
                    self.attempt(&SourceObject { row, key, body, exists: false }, AttemptNumber::default()).await
                }
                Err(e) if can_be_read_later(&e) => Attempt::Later(Obstacle::Passing),
                Err(e) => self.unreadable(row, &e),
            }
        }
        .boxed()
    }

    /// Ends an object whose namespace does not come.
    pub(crate) async fn without_namespace(&self, row: &Row) -> Attempt {
        self.remembered.lost_claims.add(&self.mapping.target_of(&row.key()));
        self.namespaces.give_up(row).await
    }

    /// Ends an object that cannot be read from the backup, with an error.
    pub(crate) fn unreadable(&self, row: usize, error: &StoreError) -> Attempt {
        let why = chain(error);
        self.failed(row, |key| format!("error restoring {key}: it could not be read from the backup: {why}"))
    }

    /// Ends an object whose task died in the middle.
    pub(crate) fn died(&self, row: usize, error: &JoinError) -> Attempt {
        self.failed(row, |key| format!("error restoring {key}: the task that was at it died: {error}"))
    }

    fn failed(&self, row: usize, message: impl Fn(&ObjectKey) -> String) -> Attempt {
        if let Some(row) = self.mapping.archive.row(row) {
            let key = self.mapping.target_of(&row.key());
            self.messages.error(&key, &message(&key));
            self.remembered.lost_claims.add(&key);
            self.native_volumes.lose(&row.key());
        }
        Attempt::FAILED
    }
}
