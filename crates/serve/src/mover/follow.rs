//! Waits for the resource: until its transfer may begin, and until it is to stop.

use super::failure::Failure;
use super::resource::MoverResource;
use super::transfer::{MoverEnv, Transfer};
use lifeboat_api::DataPathPhase;
use lifeboat_client::{Follow, FollowedObject};
use lifeboat_mover::protocol::SIGHT_LIMIT;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The longest time without a change of a resource that is not in progress yet.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// The time between two looks at the resource, beside those that a watch brings.
const BETWEEN_LOOKS: Duration = Duration::from_secs(30);
/// The longest time for one look.
const LOOK_LIMIT: Duration = Duration::from_secs(10);
/// The time between two looks at the clock: a node that was suspended goes on without noticing it.
const TICK: Duration = Duration::from_secs(5);

/// Waits until the resource is in progress, and gives it.
pub(super) async fn until_in_progress<R: MoverResource>(
    follow: &mut Follow<R>,
    transfer: &Transfer,
) -> Result<R, Failure> {
    let (kind, name) = (R::KIND, &transfer.name);
    loop {
        let next = timeout(PATIENCE, follow.next()).await;
        let next = next.map_err(|_| {
            let minutes = PATIENCE.as_secs() / 60;
            let text =
                format!("{kind} {name} has not come to phase InProgress, and did not change for {minutes} minutes");
            Failure::Failed(format!("{text}: look at the log of the node agent of this node"))
        })?;
        match next.map_err(|e| Failure::new(&format!("read {kind} {name}"), e))? {
            FollowedObject::Is(resource) => {
                if let Some(stop) = stop_of(&resource, transfer) {
                    return Err(stop.failure(|| "nothing was moved".to_owned()));
                }
                if resource.phase() == DataPathPhase::InProgress {
                    return Ok(resource);
                }
            }
            FollowedObject::Gone => return Err(Failure::Failed(format!("{kind} {name} was deleted"))),
        }
    }
}

/// Waits until a transfer that goes on is to stop, and says why.
pub(super) async fn until_stopped<R: MoverResource>(
    env: &MoverEnv,
    follow: &mut Follow<R>,
    transfer: &Transfer,
    resource: &R,
) -> Stop {
    tokio::select! {
        stop = until_told(follow, transfer) => stop,
        stop = until_out_of_sight(env, transfer, resource) => stop,
    }
}

/// Follows the resource until it says that its transfer is to stop.
async fn until_told<R: MoverResource>(follow: &mut Follow<R>, transfer: &Transfer) -> Stop {
    let (kind, name) = (R::KIND, &transfer.name);
    loop {
        match follow.next().await {
            Ok(FollowedObject::Is(resource)) => {
                if let Some(stop) = stop_of(&resource, transfer) {
                    return stop;
                }
            }
            Ok(FollowedObject::Gone) => return Stop::Ended(format!("{kind} {name} was deleted")),
            Err(error) => {
                // The looks beside the watch go on.
                tracing::warn!(%error, "{kind} {name} cannot be followed: a cancellation is seen late, or not at all");
                return std::future::pending().await;
            }
        }
    }
}

/// Looks at the resource again and again, until it could not be seen for so long that another mover may have begun: nobody could end this one
/// before, where its node is cut off. A watch that is silent shows nothing of that.
async fn until_out_of_sight<R: MoverResource>(env: &MoverEnv, transfer: &Transfer, resource: &R) -> Stop {
    let (kind, name) = (R::KIND, &transfer.name);
    let mut seen = (env.clock)();
    let mut looked = seen;
    loop {
        sleep(TICK).await;
        let now = (env.clock)();
        let since = |then: jiff::Timestamp| Duration::try_from(now.duration_since(then)).unwrap_or_default();
        if since(seen) >= SIGHT_LIMIT {
            return Stop::OutOfSight;
        }
        if since(looked) < BETWEEN_LOOKS {
            continue;
        }
        looked = now;
        match timeout(LOOK_LIMIT, env.client.get::<R>(name)).await {
            Ok(Ok(Some(found))) if found.meta().uid != resource.meta().uid => {
                return Stop::Ended(format!("{kind} {name} was deleted, and is another one now"));
            }
            Ok(Ok(Some(found))) => match stop_of(&found, transfer) {
                Some(stop) => return stop,
                // As it was when it was asked for.
                None => seen = now,
            },
            Ok(Ok(None)) => return Stop::Ended(format!("{kind} {name} was deleted")),
            Ok(Err(error)) => tracing::warn!(%error, "{kind} {name} cannot be looked at"),
            Err(_) => tracing::warn!("{kind} {name} could not be looked at within {} s", LOOK_LIMIT.as_secs()),
        }
    }
}

/// The reason to stop a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The user or the server has asked for it.
    Canceled,
    /// The resource has ended by itself.
    Ended(String),
    /// The resource is at a later attempt.
    Replaced,
    /// It could not be seen for too long.
    OutOfSight,
}

impl Stop {
    /// The failure of a transfer that stops for this reason; `moved` says how much was moved.
    pub(super) fn failure(self, moved: impl FnOnce() -> String) -> Failure {
        match self {
            Self::Canceled => Failure::Canceled(moved()),
            Self::Ended(why) => Failure::Failed(why),
            Self::Replaced => Failure::Replaced,
            Self::OutOfSight => Failure::LostSight,
        }
    }
}

/// The reason to stop that a state of the resource gives.
fn stop_of<R: MoverResource>(resource: &R, transfer: &Transfer) -> Option<Stop> {
    let (kind, name, phase) = (R::KIND, &transfer.name, resource.phase());
    match phase {
        DataPathPhase::Canceled | DataPathPhase::Completed | DataPathPhase::Failed => {
            Some(Stop::Ended(format!("{kind} {name} is in phase {phase:?} already: there is nothing to do for it")))
        }
        _ if transfer.attempt.is_some_and(|attempt| attempt < resource.attempt()) => Some(Stop::Replaced),
        DataPathPhase::InProgress | DataPathPhase::Canceling if resource.is_canceled() => Some(Stop::Canceled),
        _ => None,
    }
}
