//! Asks the item block actions of plugins which objects belong into one block (velero: pkg/backup/itemblock.go).

use crate::action_lane::intake::ActionLaneIntake;
use crate::actions::service_account::Digest;
use crate::output::entry::whole;
use crate::stage_error::StageError;
use futures::StreamExt;
use lifeboat_action::{ActionError, call, caught};
use lifeboat_object::{Item, ObjectKey, Severity};
use std::ops::Range;

/// The related objects that actions have named for one object.
pub(crate) struct BlockActionResult {
    /// Its number in the index.
    pub(crate) number: u32,
    pub(crate) object: ObjectKey,
    pub(crate) related: Vec<ObjectKey>,
}

/// Asks about the objects with these numbers, some at once. An error is told, and the object goes without.
pub(crate) async fn ask_item_block_actions(
    new: Range<usize>,
    intake: &ActionLaneIntake,
) -> Result<Vec<BlockActionResult>, StageError> {
    if intake.scope.lane.item_block.is_empty() {
        return Ok(Vec::new());
    }
    let asked = futures::stream::iter(new).map(|number| about(number, intake)).buffered(intake.scope.lane.workers);
    let named = asked.filter_map(|named| async { named }).collect();
    tokio::select! {
        () = intake.env.operation.cancel.cancelled() => Err(StageError::OperationEnded),
        named = named => Ok(named),
    }
}

async fn about(number: usize, intake: &ActionLaneIntake) -> Option<BlockActionResult> {
    let scope = &intake.scope;
    let record = intake.index.records().get(number)?;
    let resource = record.resource.group_resource();
    if !scope.lane.item_block.iter().any(|action| action.covers_type(&resource)) {
        return None;
    }
    let item = intake.read(number).await?;
    let actions: Vec<_> = scope.lane.item_block.iter().filter(|action| action.applies(&resource, &item.head)).collect();
    if actions.is_empty() {
        return None;
    }
    // What cannot be read is told when it is saved.
    let object = whole(&item.resource, &item.body).ok()?;
    let mut related = Vec::new();
    for action in actions {
        let cancel = &intake.env.operation.cancel;
        let asked = call(cancel, || caught(action.action.related_items(&object, &scope.backup)));
        match asked.await {
            Ok(keys) => related.extend(keys),
            Err(e) => tell(&item, action.action.name(), &e, intake),
        }
    }
    (!related.is_empty()).then(|| BlockActionResult {
        number: u32::try_from(number).unwrap_or(u32::MAX),
        object: item.key(),
        related,
    })
}

fn tell(item: &Item, action: &str, error: &ActionError, intake: &ActionLaneIntake) {
    let error = format!("{action}: {error}");
    intake.env.operation.journal.item(Severity::Error, &item.key(), "Error getting related items", Some(&error));
}

impl BlockActionResult {
    pub(crate) fn digests(&self) -> Vec<Digest> {
        self.related.iter().map(ObjectKey::digest).collect()
    }
}
