//! Takes in the objects of the action lane until all of them are known: their bodies go into the body store, facts about them
//! into the index. It waits for no action and no upload.

use crate::action_lane::body_store::BodyStore;
use crate::action_lane::index::{Body, Index, NotIndexed, Record, RelationFacts};
use crate::action_lane::save_report::SaveReport;
use crate::actions::service_account::{Binding, Bindings, Digest};
use crate::collect::parse;
use crate::collect::spool::RawPage;
use crate::collect::tally::Tally;
use crate::env::Env;
use crate::request::scope::Scope;
use crate::stage_error::StageError;
use lifeboat_object::{Item, ResultScope};
use lifeboat_store::StreamReceiver;
use lifeboat_volume::VolumeInventory;
use std::collections::BTreeMap;
use std::sync::Arc;

/// State of the stage.
pub(crate) struct ActionLaneIntake {
    pub(crate) scope: Arc<Scope>,
    pub(crate) env: Env,
    pub(crate) tally: Arc<Tally>,
    pub(crate) body_store: BodyStore,
    pub(crate) index: Index,
    /// The cluster role bindings among the objects.
    pub(crate) bindings: Bindings,
    /// Related objects that actions of plugins have named, by the number of the object that they were asked about.
    pub(crate) named: BTreeMap<u32, Vec<Digest>>,
    /// Facts about volumes from pods, claims and PersistentVolumes.
    pub(crate) inventory: VolumeInventory,
    /// Counts of objects that were left out, types that are used, and additional items.
    pub(crate) report: SaveReport,
    /// Set when it was reported that the disk cannot be used.
    told: bool,
}

impl ActionLaneIntake {
    /// Empty ones, with room for so many bytes in memory.
    pub(crate) fn new(room: usize, scope: Arc<Scope>, env: &Env, tally: Arc<Tally>) -> Self {
        let (index, bindings, named, report) = Default::default();
        let body_store = BodyStore::new(room, &env.operation.scratch);
        let inventory = VolumeInventory::new(scope.volumes.rules.get());
        Self { scope, env: env.clone(), tally, body_store, index, bindings, named, inventory, report, told: false }
    }

    /// Takes in all lists, until their end is said.
    pub(crate) async fn take_lists(&mut self, mut lists: StreamReceiver<RawPage>) -> Result<(), StageError> {
        while let Some(RawPage { resource, bodies }) = lists.next().await? {
            if self.env.operation.cancel.is_cancelled() {
                return Err(StageError::OperationEnded);
            }
            let came = bodies.len();
            let mut items = parse::items(&resource, bodies, &self.env.operation.journal);
            // What was not asked for may still be asked for.
            items.retain(|item| {
                let listed = self.scope.includes_listed(item);
                if let Err(reason) = listed {
                    self.inventory.take_left_out(item);
                    *self.report.left_out.entry((item.resource.group_resource(), reason)).or_default() += 1;
                }
                listed.is_ok()
            });
            self.tally.settled(came - items.len());
            self.env.operation.progress.found(items.len() as u64);
            self.take(items).await;
        }
        Ok(())
    }

    /// Takes in objects that are counted already.
    pub(crate) async fn take(&mut self, items: Vec<Item>) {
        let mut new: Vec<Item> = Vec::with_capacity(items.len());
        for item in items {
            if let Err(reason) = self.scope.includes(&item, false) {
                self.inventory.take_left_out(&item);
                *self.report.left_out.entry((item.resource.group_resource(), reason)).or_default() += 1;
                self.index.note(item.digest(), NotIndexed::LeftOut);
                self.tally.settled(1);
            } else if self.index.number(&item.digest()).is_some() {
                // A list that was interrupted may bring one twice.
                self.tally.settled(1);
            } else {
                new.push(item);
            }
        }
        let bodies: Vec<_> = new.iter().map(|item| item.body.clone()).collect();
        let (places, result) = self.body_store.put(&bodies).await;
        if let Err(e) = result
            && !std::mem::replace(&mut self.told, true)
        {
            let folder = self.body_store.folder();
            let text = format!("objects cannot wait in {folder}, so some are read again when their turn comes: {e}");
            self.env.operation.journal.warn(&ResultScope::Velero, text);
        }
        for (item, place) in new.into_iter().zip(places) {
            // One answer may bring an object twice as well.
            let digest = item.digest();
            if self.index.number(&digest).is_some() {
                self.tally.settled(1);
                continue;
            }
            self.report.used.note(&item);
            self.inventory.take(&item);
            if item.resource.resource == "clusterrolebindings" && item.resource.group == "rbac.authorization.k8s.io" {
                let binding = serde_json::from_slice(&item.body).ok().as_ref().and_then(Binding::of);
                binding.into_iter().for_each(|binding| self.bindings.add(binding));
            }
            let label = &self.scope.backup.spec.volume_group_snapshot_label_key;
            let facts = RelationFacts::of(&item, label, &self.scope.hooks.rules);
            let body = place.map_or_else(|| Body::Cluster(Box::new(item.key())), Body::Stored);
            self.index.add(Record { digest, resource: item.resource, body, facts });
        }
    }

    /// Reads an object from the body store. A read error is reported in the object's turn.
    pub(crate) async fn read(&self, number: usize) -> Option<Item> {
        let record = self.index.records().get(number)?;
        let Body::Stored(place) = &record.body else { return None };
        let body = self.body_store.take(place).await.ok()?;
        Item::parse(Arc::clone(&record.resource), body).ok()
    }
}
