//! Steps for a PersistentVolume, or the claim that asks for it, before the object is written: the volume that comes back as it
//! is, and the one that is made from a native snapshot.

use crate::object::refused::Refused;
use crate::object::write::ClusterWriter;
use crate::state::attempt::SourceObject;
use crate::state::item_result::ItemResult;
use crate::state::terminating::TerminatingObject;
use crate::volumes::native::{NotPrepared, VolumeDestination};
use crate::volumes::retained::{is_volume, unseen_volume};
use crate::walk::context::RestoreContext;
use lifeboat_object::ObjectKey;
use lifeboat_volume::{RetainedPlan, VolumeRefusal};
use serde_json::Value;

/// Makes sure of the volume that comes back as it is, for its PersistentVolume or its claim. Gives what was done with the object
/// when that is all.
pub(crate) async fn retained_volume(
    context: &RestoreContext,
    key: &ObjectKey,
    desired: &Value,
) -> Result<Option<ItemResult>, Refused> {
    let (retained, env, messages) = (&context.builder.volumes.retained, &context.env, &context.state.messages);
    let is_volume = is_volume(key);
    let planned = match retained.plan(key, desired, &context.scope, env).await {
        Ok(Some(planned)) => planned,
        Ok(None) => return Ok(None),
        Err(e) if e.is_denied() && !is_volume => {
            // It may come here again.
            if !messages.is_open(key) {
                messages.warning(key, &unseen_volume(key, &e));
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
            messages.left_out(key, &why);
            Ok(Some(ItemResult::Skipped))
        }
        RetainedPlan::Refused(VolumeRefusal { why, next }) => {
            let held = if is_volume { "not made" } else { "held back" };
            messages.error(key, &format!("error restoring {key}: {held}, because {why}; {next}"));
            Err(Refused::Reported)
        }
    }
}

/// A PersistentVolume with a new volume behind it; `None` for other objects, and where it is in the cluster already.
pub(crate) async fn prepared_volume(
    context: &RestoreContext,
    source: &SourceObject,
    key: &ObjectKey,
    from_backup: &Value,
    planned: &Value,
) -> Result<Option<Value>, Refused> {
    let native = &context.builder.volumes.native;
    if !native.has(&source.key) {
        return Ok(None);
    }
    let refused = |why: NotPrepared| match why {
        NotPrepared::Refused(refused) => refused,
        NotPrepared::Because(why) => {
            context.state.messages.error(key, &format!("error restoring {key}: {why}"));
            Refused::Reported
        }
    };
    let room = native.room(&source.key, from_backup, &context.scope, &context.env).await;
    let VolumeDestination::Free(name) = room.map_err(refused)? else { return Ok(None) };
    ClusterWriter(context).may_create(key, planned)?;
    native.make(&source.key, planned, &name).await.map(Some).map_err(refused)
}
