//! The objects of the action lane while they are saved: where each of them lies, and what became of it.

use crate::action_lane::body_store::BodyStore;
use crate::action_lane::fetch::get;
use crate::action_lane::index::{Body, Index, Record};
use crate::action_lane::item_states::{ItemId, ItemState, ItemStates};
use crate::actions::service_account::Digest;
use crate::env::Env;
use crate::output::entry::{FAILED, whole};
use lifeboat_object::{Item, ObjectKey, ResultScope, Severity};
use serde_json::Value;
use std::sync::Arc;

/// The objects of the lane. Nothing of them changes but their states.
pub(crate) struct LaneItems {
    pub(crate) index: Index,
    pub(crate) body_store: BodyStore,
    pub(crate) states: ItemStates,
}

impl LaneItems {
    /// The objects of an index, of which none is saved yet.
    pub(crate) fn new(index: Index, body_store: BodyStore) -> Self {
        let states = ItemStates::new(index.len());
        Self { index, body_store, states }
    }

    /// Returns true if the object is in the backup, or an error in the results.
    pub(crate) fn has_seen(&self, key: &ObjectKey) -> bool {
        matches!(self.states.of(self.id(&key.digest())), Some(ItemState::Saved | ItemState::Failed))
    }

    /// The name of an object for its state.
    pub(crate) fn id(&self, digest: &Digest) -> ItemId {
        self.index.number(digest).map_or(ItemId::NotIndexed(*digest), ItemId::Indexed)
    }

    /// Reads an object of the index before its turn. An object that cannot be read is reported in its turn.
    pub(crate) async fn look_at(&self, number: u32, env: &Env) -> Result<Value, String> {
        let record = self.index.record(number).ok_or("it is not in the index")?;
        let body = match &record.body {
            Body::Stored(place) => self.body_store.take(place).await.map_err(|e| e.to_string())?,
            Body::Cluster(key) => {
                let read = env.cluster.get(&record.resource, key.namespace.as_deref(), &key.name).await;
                read.map_err(|e| e.to_string())?.ok_or("it was deleted while it waited for its turn")?
            }
        };
        whole(&record.resource, &body).map_err(|e| e.to_string())
    }

    /// An object of the index; `None` when it is lost, which stands in the results.
    pub(crate) async fn read(&self, record: &Record, env: &Env) -> Option<Item> {
        let journal = &env.operation.journal;
        let place = match &record.body {
            Body::Stored(place) => place,
            Body::Cluster(key) => {
                let read = get(&record.resource, key, env).await.ok()?;
                if read.is_none() {
                    let error = "it was deleted while it waited for its turn";
                    journal.item(Severity::Error, key, FAILED, Some(error));
                }
                return read;
            }
        };
        let body = self.body_store.take(place).await.map_err(|e| e.to_string());
        let item = body.and_then(|body| Item::parse(Arc::clone(&record.resource), body).map_err(|e| e.to_string()));
        let lost = |e: &String| {
            let (resource, folder) = (record.resource.group_resource(), self.body_store.folder());
            let text = format!("1 object of {resource} is lost: reading it back from {folder}: {e}");
            journal.error(&ResultScope::Velero, text);
        };
        item.inspect_err(lost).ok()
    }
}
