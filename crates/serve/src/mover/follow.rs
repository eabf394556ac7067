//! Waits for the resource: until its transfer may begin, and until it is to stop.

use super::failure::Failure;
use super::resource::MoverResource;
use lifeboat_api::DataPathPhase;
use lifeboat_client::{Follow, FollowedObject};
use std::time::Duration;
use tokio::time::timeout;

/// The longest time without a change of a resource that is not in progress yet.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Waits until the resource is in progress, and gives it.
pub(super) async fn until_in_progress<R: MoverResource>(follow: &mut Follow<R>, name: &str) -> Result<R, Failure> {
    let kind = R::KIND;
    loop {
        let next = timeout(PATIENCE, follow.next()).await;
        let next = next.map_err(|_| {
            let minutes = PATIENCE.as_secs() / 60;
            let text =
                format!("{kind} {name} has not come to phase InProgress, and did not change for {minutes} minutes");
            Failure::Failed(format!("{text}: look at the log of the node agent of this node"))
        })?;
        match next.map_err(|e| Failure::new(&format!("read {kind} {name}"), e))? {
            FollowedObject::Is(resource) => match resource.phase() {
                DataPathPhase::InProgress if resource.is_canceled() => {
                    return Err(Failure::Canceled("nothing was moved".to_owned()));
                }
                DataPathPhase::InProgress => return Ok(resource),
                phase => {
                    if let Some(why) = end_of(kind, name, phase) {
                        return Err(why);
                    }
                }
            },
            FollowedObject::Gone => return Err(Failure::Failed(format!("{kind} {name} was deleted"))),
        }
    }
}

/// Waits until a transfer that goes on is to stop, and says why.
pub(super) async fn until_stopped<R: MoverResource>(follow: &mut Follow<R>, name: &str) -> Stop {
    let kind = R::KIND;
    loop {
        match follow.next().await {
            Ok(FollowedObject::Is(resource)) if resource.is_canceled() => return Stop::Canceled,
            Ok(FollowedObject::Is(resource)) => {
                if let Some(Failure::Failed(why)) = end_of(kind, name, resource.phase()) {
                    return Stop::Ended(why);
                }
            }
            Ok(FollowedObject::Gone) => return Stop::Ended(format!("{kind} {name} was deleted")),
            Err(error) => {
                // The transfer goes on; a cancellation is not seen any more.
                tracing::warn!(%error, "{kind} {name} cannot be followed: a cancellation will not be seen");
                return std::future::pending().await;
            }
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
}

/// The failure of a resource that is in a phase from which none leads back.
fn end_of(kind: &str, name: &str, phase: DataPathPhase) -> Option<Failure> {
    let is_end = matches!(phase, DataPathPhase::Canceled | DataPathPhase::Completed | DataPathPhase::Failed);
    is_end
        .then(|| Failure::Failed(format!("{kind} {name} is in phase {phase:?} already: there is nothing to do for it")))
}
