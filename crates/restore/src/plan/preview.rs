//! Preview of a restore: computes all changes without making them.

mod dry_run;
mod item;

use crate::end::outcome::RestoreError;
use crate::plan::cluster_only::ClusterOnly;
use crate::plan::companions::{Companions, PreviewedItem};
use crate::plan::planned::{Planned, PreviewItem};
use crate::plan::required_objects::RequiredObjects;
use crate::plan::target_namespaces::TargetNamespaces;
use crate::request::settings::{Request, prepare_preview};
use crate::state::attempt::SourceObject;
use crate::state::claimed_rows::ClaimedRows;
use crate::state::env::Env;
use crate::state::item_result::ItemResult;
use crate::state::lock::lock;
use crate::state::reader::BackupReader;
use crate::volumes::report::{FromNative, VolumeReport};
use crate::volumes::repository_records::FilesReport;
use crate::walk::existence::{Existence, ExistingObjects, LOOK_FOR};
use crate::walk::levels::Level;
use crate::walk::prefetch::PrefetchedState;
use crate::walk::preparation::PreparedRestore;
use crate::walk::read::StateDigest;
use crate::walk::source::read_source;
use futures::{Stream, TryStreamExt};
use item::{ItemPreviewer, ended};
use lifeboat_api::ExistingResourcePolicy;
use lifeboat_archive::index::Row;
use lifeboat_archive::volume_info::RestoreVolumeInfo;
use lifeboat_object::{GroupResource, Head, ObjectKey, ResultScope, Results};
use lifeboat_store::{ArchiveItem, StoreError};
use lifeboat_volume::facts::name_of_object;
use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
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
    let backup = read_source(&restore.spec.backup_name, env).await?;
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
    let items = ItemPreviewer { scope, builder, namespaces, reader, env: env.clone(), defined, asks_server };
    let previewer = Arc::new(Previewer { items, has_turn, kept_claims: Mutex::default() });
    for level in std::mem::take(&mut prepared.levels) {
        if out.is_closed() {
            break;
        }
        let ahead = prepared.ahead.take(&level.name);
        previewer.level(level, ahead, &mut needed, &out).await?;
    }
    if restore.spec.existing_resource_policy == ExistingResourcePolicy::Exact {
        let planned = if restore.spec.prune { Planned::Remove } else { Planned::Extra };
        match ClusterOnly::new(&previewer.items.scope, &backup, env) {
            Ok(extras) => extras.send(&planned, &out).await,
            // Who wants to remove something must not take it for done.
            Err(why) if restore.spec.prune => env.operation.journal.error(&ResultScope::Velero, why),
            Err(why) => env.operation.journal.warn(&ResultScope::Velero, why),
        }
    }
    // As if every claim were made, but those that are there and whose files would come through a pod: what they hold is at stake.
    let made = |volume: &str| FromNative::Made(volume.to_owned());
    let treatments = &prepared.builder.volumes.retained.treatments;
    let VolumeReport { records, warning } =
        treatments.tell(&restore, |key| Some(previewer.claim(key)), made, FilesReport::Planned);
    if let Some(warning) = warning {
        env.operation.journal.warn(&ResultScope::Velero, format!("where claims are made anew: {warning}"));
    }
    let left_out = needed.left_out().await?.into_iter();
    let left_out = left_out.map(|((resource, reason), count)| ((resource, reason.to_owned()), count)).collect();
    Ok(PreviewEnd { left_out, volumes: records, results: env.operation.journal.close().results })
}

struct Previewer {
    items: ItemPreviewer,
    /// Objects that are previewed in their own turn, or were added because others need them.
    has_turn: ClaimedRows,
    /// Claims that are in the cluster and stay, by their keys there.
    kept_claims: Mutex<HashSet<ObjectKey>>,
}

impl Previewer {
    /// The outcome for a claim of the backup.
    fn claim(&self, key: &ObjectKey) -> ItemResult {
        let files = &self.items.builder.volumes.retained.files;
        let is_filled = files.is_filled(&name_of_object(key));
        let is_kept = is_filled && lock(&self.kept_claims).contains(&self.items.scope.target_of(key));
        if is_kept { ItemResult::Skipped } else { ItemResult::Created }
    }

    /// Notes a claim that stays as it is, or is changed.
    fn note(&self, key: &ObjectKey, planned: &Planned) {
        let stays = matches!(planned, Planned::Update(_) | Planned::Unchanged | Planned::Conflict(_));
        if stays && key.resource == GroupResource::new("", "persistentvolumeclaims") {
            lock(&self.kept_claims).insert(key.clone());
        }
    }

    async fn level(
        self: &Arc<Self>,
        level: Level,
        ahead: Option<PrefetchedState>,
        needed: &mut RequiredObjects,
        out: &mpsc::Sender<PreviewItem>,
    ) -> Result<(), RestoreError> {
        let lookup = self.items.scope.lookup(&self.items.env);
        let presence = match ahead.and_then(PrefetchedState::still_counts) {
            Some(presence) => presence,
            None => Arc::new(lookup.look(lookup.places(&level), LOOK_FOR).await),
        };
        let archive = &self.items.scope.archive;
        if level.defines_types() {
            // The name of a definition is that of its type.
            let names = level.items.iter().filter_map(|one| Some(archive.row(one.row)?.name.to_string()));
            lock(&self.items.defined).extend(names);
        }
        let rows = self.rows_to_read(level, &presence, out).await;
        let look = |key: &ObjectKey, state| presence.look(&self.items.scope.target_of(key), state);
        let mut tasks = JoinSet::new();
        let mut previews = pin!(self.previews(rows, look, &mut tasks));
        let mut waiting = Vec::new();
        while let Some(one) = previews.try_next().await.map_err(RestoreError::Store)? {
            self.items.env.operation.progress.finished(1);
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
            let Some(row) = self.items.scope.archive.row(one.row) else { continue };
            let key = self.items.scope.target_of(&row.key());
            let stays = self.items.builder.stays(&self.items.scope, &key, presence.look(&key, one.state));
            if stays && !self.items.namespaces.takes_along(&key).await {
                let planned = if one.ended { ended() } else { Planned::Unchanged };
                self.note(&key, &planned);
                // It fails only when the receiver is gone, which wants no more then.
                let _ = out.send(PreviewItem::of(key, planned)).await;
                self.items.env.operation.progress.finished(1);
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
        let archive = &self.items.scope.archive;
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
            let _ = sender.send(previewer.items.preview(source, seen).await);
        });
        item
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
            let before = along.take(&found.item.needs, |key| self.items.scope.find(key));
            for PreviewedItem { source, item } in before.into_iter().chain([found]) {
                self.note(&item.key, &item.planned);
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
        let rows = needs.iter().filter_map(|key| self.items.scope.find(key));
        rows.filter(|row| self.has_turn.begin(*row)).collect()
    }
}

/// The results of the preview for an object of the backup.
struct Previewed {
    row: usize,
    head: Head,
    found: PreviewedItem,
}

#[cfg(test)]
mod tests;
