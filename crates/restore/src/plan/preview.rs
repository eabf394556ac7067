//! Preview of a restore: computes all changes without making them.

mod dry_run;

use crate::end::outcome::RestoreError;
use crate::object::apply::{ActionSelection, Need, PrepareError};
use crate::object::desired::{Desired, ObjectBuilder};
use crate::object::existing::{Treatment, is_same_state, told_newer};
use crate::object::recreate::refusal;
use crate::object::refused::Refused;
use crate::object::update;
use crate::plan::cluster_only::ClusterOnly;
use crate::plan::companions::{Companions, PreviewedItem};
use crate::plan::guard::PlanGuard;
use crate::plan::planned::{Planned, PreviewItem};
use crate::plan::required_objects::RequiredObjects;
use crate::plan::target_namespaces::TargetNamespaces;
use crate::request::modifier::Modified;
use crate::request::settings::{Request, check_source, prepare_preview};
use crate::state::attempt::SourceObject;
use crate::state::claimed_rows::ClaimedRows;
use crate::state::env::Env;
use crate::state::item_result::ItemResult;
use crate::state::reader::BackupReader;
use crate::state::terminating::TerminatingObject;
use crate::volumes::native::{NotPrepared, VolumeDestination};
use crate::volumes::report::{FromNative, VolumeReport};
use crate::volumes::retained::{PlannedVolume, is_volume, unseen_volume};
use crate::walk::existence::{Existence, ExistingObjects, LOOK_FOR};
use crate::walk::levels::Level;
use crate::walk::prefetch::PrefetchedState;
use crate::walk::preparation::PreparedRestore;
use crate::walk::read::{StateDigest, filter_namespace, is_completed};
use crate::walk::same_target::{SameTarget, taken};
use crate::walk::scope::RestoreScope;
use dry_run::DryRun;
use futures::{Stream, TryStreamExt};
use lifeboat_api::ExistingResourcePolicy;
use lifeboat_archive::index::Row;
use lifeboat_archive::volume_info::RestoreVolumeInfo;
use lifeboat_object::{ApiResource, GroupResource, Head, ObjectKey, ResultScope, Results, chain};
use lifeboat_store::{ArchiveItem, StoreError};
use lifeboat_volume::{RetainedPlan, VolumeRefusal};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// The end of a preview.
#[derive(Clone, Debug)]
pub struct PreviewEnd {
    /// Number of objects of each type of the backup that are not part of the restore, by reason.
    pub left_out: BTreeMap<(GroupResource, String), u64>,
    /// Outcome for volumes and claims.
    pub volumes: Vec<RestoreVolumeInfo>,
    /// Warnings and errors found on the way.
    pub results: Results,
}

/// Reads of the cluster at once.
const READS: usize = 16;
/// Objects whose additional objects are read together. They wait for these in memory.
const TOGETHER: usize = 64;

/// Previews a restore: sends the changes that `run` would make, object by object in its order, as they are computed.
/// Nothing in the cluster or the bucket changes. Checks by the API server itself (admission, quotas) are not known,
/// unless [`Settings::asks_server`](crate::Settings::asks_server) requests a dry run of each write: webhooks of the
/// cluster see these.
///
/// Ends early when the receiver is dropped.
///
/// # Errors
/// [`RestoreError`], where `run` would have it too: [`RestoreError::Cancelled`] as soon as the operation is cancelled, whatever
/// it is at, and what was sent is a part then.
pub async fn preview(request: &Request, env: &Env, out: mpsc::Sender<PreviewItem>) -> Result<PreviewEnd, RestoreError> {
    let cancel = &env.operation.cancel;
    match cancel.run_until_cancelled(Box::pin(whole_preview(request, env, out))).await {
        // What reads the archive may have seen it first, and have ended with a part.
        Some(end) if !cancel.is_cancelled() => end,
        _ => Err(RestoreError::Cancelled),
    }
}

async fn whole_preview(
    request: &Request,
    env: &Env,
    out: mpsc::Sender<PreviewItem>,
) -> Result<PreviewEnd, RestoreError> {
    let restore = prepare_preview(request)?;
    let backup = env.store.backup(&restore.spec.backup_name).await?;
    check_source(&backup)?;
    let mut prepared = PreparedRestore::begin(request, &restore, env).await?;
    env.operation.progress.found(prepared.levels.iter().map(|level| level.items.len() as u64).sum());
    env.operation.progress.found_all();
    let (scope, builder) = (Arc::clone(&prepared.scope), Arc::clone(&prepared.builder));
    let left_out = std::mem::take(&mut prepared.contents.left_out);
    let namespaces = Arc::new(TargetNamespaces::new(Arc::clone(&scope), env.clone()));
    let mut needed = RequiredObjects::new(Arc::clone(&scope), Arc::clone(&namespaces), left_out);
    let asks_server = request.settings.asks_server;
    let reader = BackupReader::new(scope.archive.clone(), Arc::clone(&prepared.stop));
    let (defined, has_turn) = (Mutex::default(), ClaimedRows::new(scope.archive.rows().len()));
    for one in prepared.levels.iter().flat_map(|level| &level.items) {
        has_turn.begin(one.row);
    }
    let previewer = Previewer { scope, builder, namespaces, reader, env: env.clone(), defined, has_turn, asks_server };
    let previewer = Arc::new(previewer);
    for level in std::mem::take(&mut prepared.levels) {
        if out.is_closed() {
            break;
        }
        let ahead = prepared.ahead.take(&level.name);
        previewer.level(level, ahead, &mut needed, &out).await?;
    }
    if restore.spec.existing_resource_policy == ExistingResourcePolicy::Exact {
        let planned = if restore.spec.prune { Planned::Remove } else { Planned::Extra };
        match ClusterOnly::new(&previewer.scope, &backup, env) {
            Ok(extras) => extras.send(&planned, &out).await,
            // Who wants to remove something must not take it for done.
            Err(why) if restore.spec.prune => env.operation.journal.error(&ResultScope::Velero, why),
            Err(why) => env.operation.journal.warn(&ResultScope::Velero, why),
        }
    }
    // As if every claim were made: one that is there already keeps what it holds.
    let made = |volume: &str| FromNative::Made(volume.to_owned());
    let VolumeReport { records, warning } =
        prepared.builder.volumes.retained.treatments.tell(&restore, |_| Some(ItemResult::Created), made);
    if let Some(warning) = warning {
        env.operation.journal.warn(&ResultScope::Velero, format!("where claims are made anew: {warning}"));
    }
    let left_out = needed.left_out().await?.into_iter();
    let left_out = left_out.map(|((resource, reason), count)| ((resource, reason.to_owned()), count)).collect();
    Ok(PreviewEnd { left_out, volumes: records, results: env.operation.journal.close().results })
}

struct Previewer {
    scope: Arc<RestoreScope>,
    builder: Arc<ObjectBuilder>,
    namespaces: Arc<TargetNamespaces>,
    reader: BackupReader,
    env: Env,
    /// Types that the restore would define itself.
    defined: Mutex<HashSet<String>>,
    /// Objects that are previewed in their own turn, or were added because others need them.
    has_turn: ClaimedRows,
    /// Set when the API server is asked about each write, by a dry run.
    asks_server: bool,
}

impl Previewer {
    async fn level(
        self: &Arc<Self>,
        level: Level,
        ahead: Option<PrefetchedState>,
        needed: &mut RequiredObjects,
        out: &mpsc::Sender<PreviewItem>,
    ) -> Result<(), RestoreError> {
        let lookup = self.scope.lookup(&self.env);
        let presence = match ahead.and_then(PrefetchedState::still_counts) {
            Some(presence) => presence,
            None => Arc::new(lookup.look(lookup.places(&level), LOOK_FOR).await),
        };
        let archive = &self.scope.archive;
        if level.defines_types() {
            // The name of a definition is that of its type.
            let names = level.items.iter().filter_map(|one| Some(archive.row(one.row)?.name.to_string()));
            self.defined().extend(names);
        }
        let rows = self.rows_to_read(level, &presence, out).await;
        let look = |key: &ObjectKey, state| presence.look(&self.scope.target_of(key), state);
        let mut tasks = JoinSet::new();
        let mut previews = pin!(self.previews(rows, look, &mut tasks));
        let mut waiting = Vec::new();
        while let Some(one) = previews.try_next().await.map_err(RestoreError::Store)? {
            self.env.operation.progress.finished(1);
            waiting.push(one.found);
            let any_needs_something = waiting.iter().any(|one: &PreviewedItem| !one.item.needs.is_empty());
            if any_needs_something && waiting.len() < TOGETHER {
                continue;
            }
            self.tell(std::mem::take(&mut waiting), needed, out).await?;
            if out.is_closed() {
                return Ok(());
            }
        }
        self.tell(waiting, needed, out).await
    }

    /// Returns the rows of the objects of a level that must be read. Reports the others at once.
    async fn rows_to_read(
        &self,
        level: Level,
        presence: &ExistingObjects,
        out: &mpsc::Sender<PreviewItem>,
    ) -> Vec<usize> {
        let mut rows = Vec::new();
        for one in level.items {
            let Some(row) = self.scope.archive.row(one.row) else { continue };
            let key = self.scope.target_of(&row.key());
            let stays = self.builder.stays(&self.scope, &key, presence.look(&key, one.state));
            if stays && !self.namespaces.takes_along(&key).await {
                let planned = if one.ended { ended() } else { Planned::Unchanged };
                // It fails only when the receiver is gone, which wants no more then.
                let _ = out.send(PreviewItem::of(key, planned)).await;
                self.env.operation.progress.finished(1);
            } else {
                rows.push(one.row);
            }
        }
        rows
    }

    /// Previews the objects of these rows, several at once, in the order of the archive. Each preview is a task: others
    /// may wait for its requests, so it goes on while the objects before it are reported.
    fn previews(
        self: &Arc<Self>,
        rows: Vec<usize>,
        look: impl Fn(&ObjectKey, StateDigest) -> Existence,
        tasks: &mut JoinSet<()>,
    ) -> impl Stream<Item = Result<Previewed, StoreError>> {
        let archive = &self.scope.archive;
        let contents = archive.read(rows, tasks);
        let items = futures::stream::try_unfold(contents, |mut contents| async {
            Ok::<_, StoreError>(contents.next().await?.map(|item| (item, contents)))
        });
        let previews = items.map_ok(move |ArchiveItem { row, head, body }| {
            let begun = archive.row(row).map(Row::key).map(|key| {
                let seen = look(&key, StateDigest::of(&head));
                let source = SourceObject { row, key: key.clone(), body, exists: false };
                (key, self.begin(source, seen, tasks))
            });
            async move {
                let Some((source, item)) = begun else { return Ok(None) };
                let item = item.await.map_err(|_| StoreError::Worker("previewing an object"))?;
                Ok(Some(Previewed { row, head, found: PreviewedItem { source, item } }))
            }
        });
        previews.try_buffered(READS).try_filter_map(async |one| Ok(one))
    }

    /// Begins a task that previews an object.
    fn begin(
        self: &Arc<Self>,
        source: SourceObject,
        seen: Existence,
        tasks: &mut JoinSet<()>,
    ) -> oneshot::Receiver<PreviewItem> {
        // Of those that have ended nothing is kept.
        while tasks.try_join_next().is_some() {}
        let (sender, item) = oneshot::channel();
        let previewer = Arc::clone(self);
        tasks.spawn(async move {
            // Nobody waits for it when the preview ends early.
            let _ = sender.send(previewer.one(source, seen).await);
        });
        item
    }

    fn defined(&self) -> MutexGuard<'_, HashSet<String>> {
        self.defined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports these objects in their order, each preceded by the objects that it needs.
    async fn tell(
        self: &Arc<Self>,
        all: Vec<PreviewedItem>,
        needed: &mut RequiredObjects,
        out: &mpsc::Sender<PreviewItem>,
    ) -> Result<(), RestoreError> {
        let mut along = self.along(&all, needed).await?;
        for found in all {
            let before = along.take(&found.item.needs, |key| self.scope.find(key));
            for PreviewedItem { source, item } in before.into_iter().chain([found]) {
                for item in needed.with(&source, item).await {
                    // It fails only when the receiver is gone, which wants no more then.
                    if out.send(item).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The objects that the restore does not select and brings back all the same, because these need them, and those that they need
    /// in turn. The archive is read once for all that are as far from these: neighbours lie in the same member.
    async fn along(
        self: &Arc<Self>,
        all: &[PreviewedItem],
        needed: &mut RequiredObjects,
    ) -> Result<Companions, RestoreError> {
        let mut along = Companions::default();
        let mut rows: Vec<usize> = all.iter().flat_map(|one| self.take_turns(&one.item.needs)).collect();
        while !rows.is_empty() {
            let mut tasks = JoinSet::new();
            let mut previews = pin!(self.previews(std::mem::take(&mut rows), |_, _| Existence::Unknown, &mut tasks));
            while let Some(Previewed { row, head, found }) = previews.try_next().await.map_err(RestoreError::Store)? {
                needed.take_out_of_left_out(row, &found.source, &head);
                rows.extend(self.take_turns(&found.item.needs));
                along.keep(row, found);
            }
        }
        Ok(along)
    }

    /// Marks those of these objects to which nothing has led before, and gives their rows.
    fn take_turns(&self, needs: &[ObjectKey]) -> Vec<usize> {
        let rows = needs.iter().filter_map(|key| self.scope.find(key));
        rows.filter(|row| self.has_turn.begin(*row)).collect()
    }

    async fn one(&self, source: SourceObject, seen: Existence) -> PreviewItem {
        let key = self.scope.target_of(&source.key);
        let mut beside = ItemFindings::default();
        let planned = match serde_json::from_slice::<Value>(&source.body) {
            Err(e) => Planned::Refused(format!("error decoding {}: {e}", source.key)),
            Ok(object) if is_completed(&key.resource, &object) => ended(),
            Ok(_) if key.resource.is_namespaces() => {
                return self.namespaces.item(self.scope.namespace(&source.key.name)).await;
            }
            Ok(object) => {
                let planned = match self.scope.taken_by(source.row) {
                    Some(other) if !SameTarget::are_merged(&key.resource) => {
                        self.beside(&key, &object, &other, &mut beside).await
                    }
                    _ => self.object(&key, &object, seen, &mut beside).await,
                };
                planned.unwrap_or_else(Planned::Refused)
            }
        };
        let planned = match beside.write.take() {
            Some(write) if self.asks_server => {
                let (planned, stays) = write.ask(&key, planned, &self.env.cluster).await;
                beside.modified.warnings.extend(stays);
                planned
            }
            _ => planned,
        };
        let ItemFindings { waits, unasked, modified, needs, pin, .. } = beside;
        let Modified { by: modifications, errors, warnings } = modified;
        PreviewItem { key, planned, waits, unasked, modifications, errors, warnings, needs, pin }
    }

    /// The objects of the backup that come before another one because an action wants them, as [`crate::object::additional`] decides.
    fn coming_along(&self, needs: &[Need]) -> Vec<ObjectKey> {
        let filter = &self.scope.filter;
        let comes = |need: &Need, key: &ObjectKey| {
            need.is_past_filters || filter.includes_additional(&key.resource, filter_namespace(key))
        };
        let keys = needs.iter().flat_map(|need| need.items.iter().filter(|key| comes(need, key)));
        keys.filter(|key| self.scope.find(key).is_some()).cloned().collect()
    }

    /// Plans an object whose key in the cluster another object of the backup has already.
    async fn beside(
        &self,
        key: &ObjectKey,
        from_backup: &Value,
        (row, other): &(usize, ObjectKey),
        beside: &mut ItemFindings,
    ) -> Result<Planned, String> {
        let own =
            match self.builder.desired(&self.scope, key, from_backup, ActionSelection::Pure).await.map_err(said)? {
                Desired::Skip { reason, .. } => return Ok(Planned::Skip(reason)),
                Desired::Object(object) => object.item,
            };
        let body = self.reader.load(*row).await.map_err(|e| chain(&e))?;
        let there = serde_json::from_slice(&body).map_err(|e| format!("error decoding {other}: {e}"))?;
        let there = match self.builder.desired(&self.scope, key, &there, ActionSelection::Pure).await.map_err(said)? {
            Desired::Skip { .. } => Value::Null,
            Desired::Object(object) => object.item,
        };
        if update::patch(&own, &there).is_none() {
            return Ok(Planned::Unchanged);
        }
        beside.modified.warnings.push(taken(other));
        Ok(Planned::Conflict(update::differences(&own, &there)))
    }

    async fn object(
        &self,
        key: &ObjectKey,
        from_backup: &Value,
        seen: Existence,
        beside: &mut ItemFindings,
    ) -> Result<Planned, String> {
        let retained = &self.builder.volumes.retained;
        if let Some(why) = retained.lost(key, from_backup, &self.scope, &self.env).await.map_err(|e| e.to_string())? {
            return Ok(Planned::Refused(why));
        }
        let desired =
            match self.builder.desired(&self.scope, key, from_backup, ActionSelection::Pure).await.map_err(said)? {
                Desired::Skip { reason, needs, .. } => {
                    beside.needs = self.coming_along(&needs);
                    return Ok(Planned::Skip(reason));
                }
                Desired::Object(object) => *object,
            };
        let (pin, needs) = (PlanGuard::of(None, &desired.item), self.coming_along(&desired.needs));
        *beside = ItemFindings {
            unasked: desired.unasked,
            modified: desired.modified,
            needs,
            pin,
            ..ItemFindings::default()
        };
        let volume = match retained.plan(key, &desired.item, &self.scope, &self.env).await {
            Err(e) if e.is_denied() && !is_volume(key) => {
                beside.modified.warnings.push(unseen_volume(key, &e));
                None
            }
            volume => volume.map_err(|e| e.to_string())?,
        };
        if let Some(planned) = volume.and_then(|volume| planned_volume(key, volume)) {
            return Ok(planned);
        }
        let resource = match self.scope.served(key, &desired.item) {
            Ok(resource) => resource,
            Err(_) if self.defined().contains(&key.resource.to_string()) => return Ok(Planned::Create),
            Err(e) => return Err(e),
        };
        let item = desired.item;
        beside.write = self.write(&resource, &item, None);
        if self.builder.volumes.native.has(key) {
            let room = self.builder.volumes.native.room(key, from_backup, &self.scope, &self.env).await;
            let is_made = match room {
                Ok(VolumeDestination::Free(_)) => true,
                Err(NotPrepared::Refused(Refused::Leaving(terminating))) => {
                    beside.wait_for(&terminating);
                    true
                }
                // What stays is compared as it is.
                _ => false,
            };
            if is_made {
                return self.builder.volumes.native.refusal(key).map_or(Ok(Planned::Create), Err);
            }
        } else if seen == Existence::Absent {
            return Ok(Planned::Create);
        }
        let name = item["metadata"]["name"].as_str().unwrap_or(&key.name);
        let found = self.env.cluster.get(&resource, key.namespace.as_deref(), name).await;
        let Some(existing) = found.map_err(|e| e.to_string())? else { return Ok(Planned::Create) };
        let existing: Value = serde_json::from_slice(&existing).unwrap_or_default();
        // The restore waits until it is gone, and makes it then.
        if self.namespaces.takes_along(key).await {
            // The API server takes nothing into that namespace now.
            beside.write = None;
            return Ok(Planned::Create);
        }
        if let Some(terminating) = TerminatingObject::of(&existing) {
            beside.wait_for(&terminating);
            return Ok(Planned::Create);
        }
        beside.pin = PlanGuard::of(Some(&existing), &item);
        if is_same_state(&existing, from_backup) {
            let is_to_change = self.builder.is_to_change(&self.scope, key, from_backup, &item).await;
            if !is_to_change.map_err(said)? {
                return Ok(Planned::Unchanged);
            }
        }
        Ok(self.by_policy(
            &ComparedObject { key, resource: &resource, from_backup, item: &item, existing: &existing },
            beside,
        ))
    }

    /// The write that the API server is asked about, where it is asked.
    fn write(&self, resource: &Arc<ApiResource>, desired: &Value, patch: Option<Value>) -> Option<DryRun> {
        let (resource, desired) = (Arc::clone(resource), desired.clone());
        self.asks_server.then_some(DryRun { resource, patch, desired, is_beside: false })
    }

    /// The plan for an object that the cluster has, by the policy for it.
    fn by_policy(&self, both: &ComparedObject<'_>, beside: &mut ItemFindings) -> Planned {
        let ComparedObject { key, resource, from_backup, item, existing } = *both;
        let policy = self.scope.existing.of(&key.resource, from_backup);
        let updates = self.scope.updates_definitions();
        let treatment = Treatment::of(policy, &key.resource, item, existing, updates);
        let planned = planned(&treatment, item, existing);
        beside.write = match treatment {
            Treatment::Merge(ref patch) | Treatment::Update(ref patch) => {
                self.write(resource, item, Some(patch.clone()))
            }
            _ => self.write(resource, item, None),
        };
        if let Treatment::Newer(what) = &treatment {
            beside.modified.warnings.push(told_newer(what));
        }
        let Planned::Recreate(differences) = planned else { return planned };
        match refusal(&self.scope.existing, resource, existing, item) {
            Some(why) => {
                beside.modified.warnings.push(format!("it is not recreated: {why}"));
                Planned::Conflict(differences)
            }
            None => Planned::Recreate(differences),
        }
    }
}

/// An object of the backup, as it would be written, and the one of its name in the cluster.
struct ComparedObject<'a> {
    key: &'a ObjectKey,
    resource: &'a Arc<ApiResource>,
    from_backup: &'a Value,
    item: &'a Value,
    existing: &'a Value,
}

/// The results of the preview for an object of the backup.
struct Previewed {
    row: usize,
    head: Head,
    found: PreviewedItem,
}

/// Findings about an object, beside its planned change.
#[derive(Default)]
struct ItemFindings {
    waits: Option<String>,
    unasked: Vec<String>,
    modified: Modified,
    needs: Vec<ObjectKey>,
    pin: PlanGuard,
    write: Option<DryRun>,
}

impl ItemFindings {
    /// The object is made when the one in the cluster is gone.
    fn wait_for(&mut self, terminating: &TerminatingObject) {
        self.waits = Some(terminating.waits());
        if let Some(write) = &mut self.write {
            write.is_beside = true;
        }
    }
}

/// The reason why an object could not be made, for people.
fn said(why: PrepareError) -> String {
    match why {
        PrepareError::Failed(why) | PrepareError::ForNow(why) => why,
        PrepareError::Fatal(why) => format!("the restore would break off here: {why}"),
        PrepareError::Stopped => "the dry run was cancelled".to_owned(),
    }
}

fn ended() -> Planned {
    Planned::Skip("it has ended, and is not started again".to_owned())
}

/// The plan for an object that follows from its volume, which comes back as it is; `None` when that changes nothing.
fn planned_volume(key: &ObjectKey, volume: PlannedVolume) -> Option<Planned> {
    let is_left_out = volume.is_left_out(key);
    let PlannedVolume { plan, existing, .. } = volume;
    match plan {
        RetainedPlan::Rebind(patch) if is_volume(key) => {
            let before = existing.unwrap_or_default();
            let mut after = before.clone();
            lifeboat_patch::merge(&mut after, &patch);
            Some(Planned::Update(lifeboat_patch::differences(&before, &after)))
        }
        RetainedPlan::Refused(VolumeRefusal { why, .. }) if is_left_out => Some(Planned::Skip(why)),
        RetainedPlan::Refused(VolumeRefusal { why, next }) => Some(Planned::Refused(format!("{why}; {next}"))),
        _ => None,
    }
}

/// Plans the change of an object that is in the cluster.
fn planned(treatment: &Treatment, desired: &Value, in_cluster: &Value) -> Planned {
    let differences = || update::differences(desired, in_cluster);
    match treatment {
        Treatment::Unchanged => Planned::Unchanged,
        Treatment::Merge(patch) => {
            let mut merged = in_cluster.clone();
            lifeboat_patch::merge(&mut merged, patch);
            Planned::Update(lifeboat_patch::differences(in_cluster, &merged))
        }
        Treatment::Update(_) => Planned::Update(differences()),
        Treatment::Recreate => Planned::Recreate(differences()),
        Treatment::Stay | Treatment::Newer(_) => Planned::Conflict(differences()),
        Treatment::OfCluster(why) => Planned::Skip((*why).to_owned()),
    }
}

#[cfg(test)]
mod tests;
