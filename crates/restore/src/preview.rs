//! What a restore would do, without doing it.

use crate::action::Action;
use crate::ahead::Glance;
use crate::apply::{Ask, Need, Unprepared};
use crate::attempt::Source;
use crate::begun::Begun;
use crate::check::{LOOK_FOR, Seen};
use crate::desired::{Desired, Maker};
use crate::env::Env;
use crate::existing::{Treatment, is_same_state};
use crate::extras::Extras;
use crate::leaving::Leaving;
use crate::levels::Level;
use crate::mapping::Mapping;
use crate::modifier::Modified;
use crate::native::{NotPrepared, Room};
use crate::needed::Needed;
use crate::outcome::RestoreError;
use crate::pin::Pin;
use crate::planned::{Planned, PreviewItem};
use crate::read::{State, filter_namespace, is_completed};
use crate::reader::Reader;
use crate::recreate::{probe, refusal};
use crate::refused::Refused;
use crate::request::{Request, check_source, prepare_preview};
use crate::same_target::{SameTarget, taken};
use crate::target_namespaces::TargetNamespaces;
use crate::update;
use crate::volume_fates::{FromNative, Told};
use crate::walk::Walk;
use futures::StreamExt;
use lifeboat_api::ExistingResourcePolicy;
use lifeboat_archive::volume_info::RestoreVolumeInfo;
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, Place, Results, chain};
use lifeboat_store::StoreError;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The end of a preview.
#[derive(Clone, Debug)]
pub struct PreviewEnd {
    /// How many objects of each type of the backup are not part of the restore, by reason.
    pub left_out: BTreeMap<(GroupResource, String), u64>,
    /// What would become of volumes and claims.
    pub volumes: Vec<RestoreVolumeInfo>,
    /// Warnings and errors found on the way.
    pub results: Results,
}

/// Reads of the cluster at once.
const READS: usize = 16;

/// Previews a restore: what `run` would do, object by object in its order, sent as it is found out. Nothing in the cluster or the
/// bucket changes. What the cluster would say of an object itself (admission, quotas) is not known, unless
/// [`Settings::asks_server`](crate::Settings::asks_server) has it asked by a dry run of each write: webhooks of the cluster see these.
///
/// Ends early when the receiver is dropped or the operation is cancelled.
///
/// # Errors
/// [`RestoreError`], where `run` would have it too.
pub async fn preview(request: &Request, env: &Env, out: mpsc::Sender<PreviewItem>) -> Result<PreviewEnd, RestoreError> {
    let restore = prepare_preview(request)?;
    let backup = env.store.backup(&restore.spec.backup_name).await?;
    check_source(&backup)?;
    let mut walk = Walk::begin(request, &restore, env).await?;
    env.operation.progress.found(walk.levels.iter().map(|level| level.items.len() as u64).sum());
    env.operation.progress.found_all();
    let maker = walk.maker()?;
    let mapping = Arc::clone(&maker.mapping);
    let reader = Reader::new(walk.archive.clone(), Arc::clone(&walk.stop));
    let left_out = std::mem::take(&mut walk.left_out);
    let namespaces = Arc::new(TargetNamespaces::new(Arc::clone(&mapping), env.clone()));
    let mut needed = Needed::new(Arc::clone(&mapping), reader, Arc::clone(&namespaces), left_out);
    let asks_server = request.settings.asks_server;
    let reader = Reader::new(walk.archive.clone(), Arc::clone(&walk.stop));
    let (defined, has_turn) = (HashSet::new(), Begun::new(walk.archive.rows().len()));
    for one in walk.levels.iter().flat_map(|level| &level.items) {
        has_turn.begin(one.row);
    }
    let mut previewer =
        Previewer { mapping, maker, namespaces, reader, env: env.clone(), defined, has_turn, asks_server };
    for level in std::mem::take(&mut walk.levels) {
        if env.operation.cancel.is_cancelled() || out.is_closed() {
            break;
        }
        let ahead = walk.ahead.take(&level.name);
        previewer.level(level, ahead, &mut needed, &out).await?;
    }
    if restore.spec.existing_resource_policy == ExistingResourcePolicy::Exact {
        let planned = if restore.spec.prune { Planned::Remove } else { Planned::Extra };
        match Extras::new(&previewer.mapping, &backup, env) {
            Ok(extras) => extras.send(&planned, &out).await,
            // Who wants to remove something must not take it for done.
            Err(why) if restore.spec.prune => env.operation.journal.error(&Place::Velero, why),
            Err(why) => env.operation.journal.warn(&Place::Velero, why),
        }
    }
    // As if every claim were made: one that is there already keeps what it holds.
    let made = |volume: &str| FromNative::Made(volume.to_owned());
    let Told { records, warning } = walk.volumes.tell(&restore, |_| Some(Action::Created), made);
    if let Some(warning) = warning {
        env.operation.journal.warn(&Place::Velero, format!("where claims are made anew: {warning}"));
    }
    let left_out = needed.left_out().into_iter();
    let left_out = left_out.map(|((resource, reason), count)| ((resource, reason.to_owned()), count)).collect();
    Ok(PreviewEnd { left_out, volumes: records, results: env.operation.journal.close().results })
}

struct Previewer {
    mapping: Arc<Mapping>,
    maker: Maker,
    namespaces: Arc<TargetNamespaces>,
    reader: Reader,
    env: Env,
    /// Types that the restore would define itself.
    defined: HashSet<String>,
    /// Objects that have a turn of their own, or have come along with another one.
    has_turn: Begun,
    /// Whether the API server is asked about each write.
    asks_server: bool,
}

impl Previewer {
    async fn level(
        &mut self,
        level: Level,
        ahead: Option<Glance>,
        needed: &mut Needed,
        out: &mpsc::Sender<PreviewItem>,
    ) -> Result<(), RestoreError> {
        let lookout = self.mapping.lookout(&self.env);
        let presence = match ahead.and_then(Glance::still_counts) {
            Some(presence) => presence,
            None => Arc::new(lookout.look(lookout.places(&level), LOOK_FOR).await),
        };
        let archive = &self.mapping.archive;
        if level.defines_types() {
            // The name of a definition is that of its type.
            self.defined.extend(level.items.iter().filter_map(|one| Some(archive.row(one.row)?.name.to_string())));
        }
        let mut rows = Vec::new();
        for one in level.items {
            let Some(row) = archive.row(one.row) else { continue };
            let key = self.mapping.target_of(&row.key());
            let stays = self.maker.stays(&key, presence.look(&key, one.state));
            if stays && !self.namespaces.takes_along(&key).await {
                let planned = if one.ended { ended() } else { Planned::Unchanged };
                // It fails only when the receiver is gone, which wants no more then.
                let _ = out.send(PreviewItem::of(key, planned)).await;
                self.env.operation.progress.finished(1);
            } else {
                rows.push(one.row);
            }
        }
        let mut reading = JoinSet::new();
        let contents = archive.read(rows, &mut reading);
        let items = futures::stream::try_unfold(contents, |mut contents| async {
            Ok::<_, StoreError>(contents.next().await?.map(|item| (item, contents)))
        });
        let previews = items
            .map(|item| async {
                let item = item?;
                let Some(row) = archive.row(item.row) else { return Ok(None) };
                let key = row.key();
                let seen = presence.look(&self.mapping.target_of(&key), State::of(&item.head));
                let source = Source { row: item.row, key: key.clone(), body: item.body, exists: false };
                Ok(Some((key, self.one(source, seen).await)))
            })
            .buffered(READS);
        let mut previews = pin!(previews);
        while let Some(item) = previews.next().await {
            self.env.operation.progress.finished(1);
            let Some((source, item)) = item.map_err(RestoreError::Store)? else { continue };
            let along = self.along(&item.needs, needed).await?;
            for (source, item) in along.into_iter().chain([(source, item)]) {
                for item in needed.with(&source, item).await? {
                    if out.send(item).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The objects among these that the restore does not select and brings back all the same, by their keys in the backup, and those
    /// that they need in turn. Each comes once, behind those that it needs.
    async fn along(
        &self,
        needs: &[ObjectKey],
        needed: &mut Needed,
    ) -> Result<Vec<(ObjectKey, PreviewItem)>, RestoreError> {
        enum Step {
            Look(ObjectKey),
            Tell(ObjectKey, Box<PreviewItem>),
        }
        let look = |needs: &[ObjectKey]| needs.iter().rev().cloned().map(Step::Look).collect::<Vec<_>>();
        let (mut open, mut out) = (look(needs), Vec::new());
        while let Some(step) = open.pop() {
            let key = match step {
                Step::Look(key) => key,
                Step::Tell(key, item) => {
                    out.push((key, *item));
                    continue;
                }
            };
            let Some(row) = self.mapping.find(&key).filter(|row| self.has_turn.begin(*row)) else { continue };
            let body = self.reader.load(row).await?;
            needed.take_out_of_left_out(&key, &body);
            let item = self.one(Source { row, key: key.clone(), body, exists: false }, Seen::Unknown).await;
            let needs = look(&item.needs);
            open.push(Step::Tell(key, Box::new(item)));
            open.extend(needs);
        }
        Ok(out)
    }

    async fn one(&self, source: Source, seen: Seen) -> PreviewItem {
        let key = self.mapping.target_of(&source.key);
        let mut beside = Beside::default();
        let planned = match serde_json::from_slice::<Value>(&source.body) {
            Err(e) => Planned::Refused(format!("error decoding {}: {e}", source.key)),
            Ok(object) if is_completed(&key.resource, &object) => ended(),
            Ok(_) if key.resource.is_namespaces() => {
                return self.namespaces.item(self.mapping.namespace(&source.key.name)).await;
            }
            Ok(object) => {
                let planned = match self.mapping.taken_by(source.row) {
                    Some(other) if !SameTarget::are_merged(&key.resource) => {
                        self.beside(&key, &object, &other, &mut beside).await
                    }
                    _ => self.object(&key, &object, seen, &mut beside).await,
                };
                planned.unwrap_or_else(Planned::Refused)
            }
        };
        let planned = match beside.write.take() {
            Some(write) if self.asks_server => self.asked(&key, planned, &write).await,
            _ => planned,
        };
        let Beside { waits, unasked, modified, needs, pin, .. } = beside;
        let Modified { by: modifications, errors, warnings } = modified;
        PreviewItem { key, planned, waits, unasked, modifications, errors, warnings, needs, pin }
    }

    /// The objects of the backup that come before another one because an action wants them, as [`crate::additional`] decides.
    fn coming_along(&self, needs: &[Need]) -> Vec<ObjectKey> {
        let filter = &self.mapping.filter;
        let comes = |need: &Need, key: &ObjectKey| {
            need.is_past_filters || filter.includes_additional(&key.resource, filter_namespace(key))
        };
        let keys = needs.iter().flat_map(|need| need.items.iter().filter(|key| comes(need, key)));
        keys.filter(|key| self.mapping.find(key).is_some()).cloned().collect()
    }

    /// What is planned for an object whose place another one of the backup has.
    async fn beside(
        &self,
        key: &ObjectKey,
        from_backup: &Value,
        (row, other): &(usize, ObjectKey),
        beside: &mut Beside,
    ) -> Result<Planned, String> {
        let own = match self.maker.desired(key, from_backup, Ask::Pure).await.map_err(said)? {
            Desired::Skip { reason, .. } => return Ok(Planned::Skip(reason)),
            Desired::Object(object) => object.item,
        };
        let body = self.reader.load(*row).await.map_err(|e| chain(&e))?;
        let there = serde_json::from_slice(&body).map_err(|e| format!("error decoding {other}: {e}"))?;
        let there = match self.maker.desired(key, &there, Ask::Pure).await.map_err(said)? {
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
        seen: Seen,
        beside: &mut Beside,
    ) -> Result<Planned, String> {
        let desired = match self.maker.desired(key, from_backup, Ask::Pure).await.map_err(said)? {
            Desired::Skip { reason, needs } => {
                beside.needs = self.coming_along(&needs);
                return Ok(Planned::Skip(reason));
            }
            Desired::Object(object) => *object,
        };
        let (pin, needs) = (Pin::of(None, &desired.item), self.coming_along(&desired.needs));
        *beside = Beside { unasked: desired.unasked, modified: desired.modified, needs, pin, ..Beside::default() };
        let resource = match self.mapping.served(key, &desired.item) {
            Ok(resource) => resource,
            Err(_) if self.defined.contains(&key.resource.to_string()) => return Ok(Planned::Create),
            Err(e) => return Err(e),
        };
        let item = desired.item;
        let write = |patch: Option<Value>| {
            let (resource, desired) = (Arc::clone(&resource), item.clone());
            self.asks_server.then_some(Write { resource, patch, desired, is_beside: false })
        };
        beside.write = write(None);
        if self.maker.natives.has(key) {
            let room = self.maker.natives.room(key, from_backup, (&self.mapping, &self.env)).await;
            let is_made = match room {
                Ok(Room::Free(_)) => true,
                Err(NotPrepared::Refused(Refused::Leaving(leaving))) => {
                    beside.wait_for(&leaving);
                    true
                }
                // What stays is compared as it is.
                _ => false,
            };
            if is_made {
                return self.maker.natives.refusal(key).map_or(Ok(Planned::Create), Err);
            }
        } else if seen == Seen::Absent {
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
        if let Some(leaving) = Leaving::of(&existing) {
            beside.wait_for(&leaving);
            return Ok(Planned::Create);
        }
        beside.pin = Pin::of(Some(&existing), &item);
        if is_same_state(&existing, from_backup) {
            let is_to_change = self.maker.is_to_change(key, from_backup, &item).await;
            if !is_to_change.map_err(said)? {
                return Ok(Planned::Unchanged);
            }
        }
        let policy = self.mapping.existing.of(&key.resource, from_backup);
        let treatment = Treatment::of(policy, &key.resource, &item, &existing);
        let planned = planned(&treatment, &item, &existing);
        beside.write = match treatment {
            Treatment::Merge(patch) | Treatment::Update(patch) => write(Some(patch)),
            Treatment::Unchanged | Treatment::Recreate | Treatment::Stay => write(None),
        };
        if let Planned::Recreate(differences) = planned {
            return Ok(match refusal(&self.mapping.existing, &resource, &existing, &item) {
                Some(why) => {
                    beside.modified.warnings.push(format!("it is not recreated: {why}"));
                    Planned::Conflict(differences)
                }
                None => Planned::Recreate(differences),
            });
        }
        Ok(planned)
    }
}

impl Previewer {
    /// The same, or that the API server would refuse it. What is not there yet because the restore would make it first, such as a
    /// namespace, is no refusal.
    async fn asked(&self, key: &ObjectKey, planned: Planned, write: &Write) -> Planned {
        let (cluster, namespace) = (&self.env.cluster, key.namespace.as_deref());
        let asked = match (&planned, &write.patch) {
            (Planned::Create, _) if !write.is_beside => {
                let body = write.desired.to_string().into();
                cluster.dry_run_create(&write.resource, namespace, &key.name, body).await.map(drop)
            }
            (Planned::Update(_), Some(patch)) => {
                cluster.dry_run_patch(&write.resource, namespace, &key.name, patch.to_string().into()).await
            }
            (Planned::Create | Planned::Recreate(_), _) => {
                let (name, probe) = probe(key, &write.desired);
                cluster.dry_run_create(&write.resource, namespace, &name, probe.to_string().into()).await.map(drop)
            }
            _ => return planned,
        };
        match asked {
            Err(e) if !e.is_not_found() => {
                Planned::Refused(format!("the API server would refuse to {}: {}", e.verb, e.failure))
            }
            _ => planned,
        }
    }
}

/// What is said of an object beside what becomes of it.
#[derive(Default)]
struct Beside {
    waits: Option<String>,
    unasked: Vec<String>,
    modified: Modified,
    needs: Vec<ObjectKey>,
    pin: Pin,
    write: Option<Write>,
}

impl Beside {
    /// The object is made when the one in the cluster is gone.
    fn wait_for(&mut self, leaving: &Leaving) {
        self.waits = Some(leaving.waits());
        if let Some(write) = &mut self.write {
            write.is_beside = true;
        }
    }
}

/// What would be sent to the API server.
struct Write {
    resource: Arc<ApiResource>,
    desired: Value,
    /// Of an object that is there.
    patch: Option<Value>,
    /// Whether the API server is to be asked about it beside the one in the cluster, which is about to go.
    is_beside: bool,
}

/// Why an object could not be made, for people.
fn said(why: Unprepared) -> String {
    match why {
        Unprepared::Failed(why) | Unprepared::ForNow(why) => why,
        Unprepared::Fatal(why) => format!("the restore would break off here: {why}"),
        Unprepared::Stopped => "the dry run was cancelled".to_owned(),
    }
}

fn ended() -> Planned {
    Planned::Skip("it has ended, and is not started again".to_owned())
}

/// What is planned for an object that is there.
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
        Treatment::Stay => Planned::Conflict(differences()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{Ground, Scripted, config_map};
    use lifeboat_action::RestoreItemOutput;
    use lifeboat_patch::Difference;
    use lifeboat_select::RulesText;
    use serde_json::json;

    #[tokio::test]
    async fn what_would_be_done_otherwise_than_was_asked_is_a_warning_of_its_object_and_no_error() {
        let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
        let mut ground = Ground::new(&[config_map("a")], &action).await;
        let text = "version: v1
resourceModifierRules:
- conditions: {groupResource: configmaps}
  strategicPatches: [{patchData: 'data: {k: new}'}]
- conditions: {groupResource: configmaps}
  patches: [{operation: remove, path: /data/gone}]
";
        let document = RulesText { source: "rules".to_owned(), text: text.to_owned() };
        ground.request.settings.resource_modifiers = Some(document);
        let (sender, mut items) = mpsc::channel(16);
        preview(&ground.request, &ground.env, sender).await.unwrap();
        let mut found = None;
        while let Some(item) = items.recv().await {
            found = found.or((item.key.name == "a").then_some(item));
        }
        let item = found.unwrap();
        assert_eq!((item.errors.len(), item.warnings.len()), (1, 1), "{item:?}");
        assert!(item.errors[0].starts_with("rule 2: "), "{item:?}");
        assert!(item.warnings[0].starts_with("rule 1: the cluster does not say how lists of ConfigMap"), "{item:?}");
    }

    #[tokio::test]
    async fn what_comes_along_comes_once_and_behind_all_that_it_needs() {
        let key = |name: &str| ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name);
        let action = Scripted::new(move |item, _| {
            let needs: &[&str] = match item["metadata"]["name"].as_str() {
                Some("a") => &["b", "c"],
                Some("b") => &["c", "d"],
                Some("c") => &["b"],
                _ => &[],
            };
            let additional_items = needs.iter().map(|name| key(name)).collect();
            Ok(RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item) })
        });
        let mut selected = config_map("a");
        selected["metadata"]["labels"] = json!({"app": "web"});
        let objects = [selected, config_map("b"), config_map("c"), config_map("d"), config_map("e")];
        let mut ground = Ground::new(&objects, &Arc::new(action.pure())).await;
        let labels = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
        ground.request.restore.spec.label_selector = Some(labels);
        let (sender, mut items) = mpsc::channel(16);
        preview(&ground.request, &ground.env, sender).await.unwrap();
        let mut told = Vec::new();
        while let Some(item) = items.recv().await {
            told.push(item.key.to_string());
        }
        // The first that is told brings its namespace with it. What needs itself, over others, comes when it is met.
        let expected =
            ["namespaces/shop", "configmaps/shop/c", "configmaps/shop/d", "configmaps/shop/b", "configmaps/shop/a"];
        assert_eq!(told, expected);
    }

    #[test]
    fn the_policy_decides_about_what_is_there() {
        let object = |kind: &str, labels: Value, data: &str| json!({"kind": kind, "metadata": {"name": "a", "labels": labels}, "data": {"a": data}});
        let restored = json!({"velero.io/restore-name": "r", "velero.io/backup-name": "b"});
        let planned = |policy: &str, resource: &str, desired: &Value, existing: &Value| {
            let resource = GroupResource::new("", resource);
            planned(&Treatment::of(&policy.to_owned().into(), &resource, desired, existing), desired, existing)
        };
        let difference = |path: &str, left: Value, right: Value| {
            vec![Difference { path: path.into(), left: Some(left), right: Some(right) }]
        };
        let desired = object("ConfigMap", restored, "1");
        let existing = object("ConfigMap", json!({}), "2");
        let changed = difference("/data/a", json!("2"), json!("1"));
        assert_eq!(planned("", "configmaps", &desired, &existing), Planned::Conflict(changed.clone()));
        assert_eq!(planned("none", "configmaps", &desired, &existing), Planned::Conflict(changed.clone()));
        assert_eq!(planned("update", "configmaps", &desired, &existing), Planned::Update(changed.clone()));
        assert_eq!(planned("exact", "configmaps", &desired, &existing), Planned::Update(changed.clone()));
        assert_eq!(planned("recreate", "configmaps", &desired, &existing), Planned::Recreate(changed));
        let same = object("ConfigMap", json!({}), "1");
        assert_eq!(planned("update", "configmaps", &desired, &same), Planned::Unchanged);

        let account = |secrets: Value| json!({"kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": secrets});
        let (poor, rich) = (account(json!([])), account(json!([{"name": "s"}])));
        assert_eq!(planned("", "serviceaccounts", &poor, &rich), Planned::Unchanged);
        let added = vec![Difference { path: "/secrets/0".into(), left: None, right: Some(json!({"name": "s"})) }];
        assert_eq!(planned("", "serviceaccounts", &rich, &poor), Planned::Update(added));
    }
}
