//! Waits for the resource: until its transfer may begin, and until it is to stop.

use super::failure::Failure;
use super::resource::MoverResource;
use super::transfer::{MoverEnv, Transfer};
use lifeboat_api::DataPathPhase;
use lifeboat_client::{Follow, FollowedObject};
use lifeboat_mover::protocol::SIGHT_LIMIT;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The longest time without a change of a resource that is not prepared yet, and without a look at one that is.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// The longest time without a change of a resource that is prepared: the node agent notes on it every ten minutes that others move, and ends
/// those that move nothing after an hour.
const TURN_PATIENCE: Duration = Duration::from_secs(3 * 60 * 60);
/// The time between two looks at a resource that waits for its turn, beside the states that a watch brings.
const BETWEEN_TURN_LOOKS: Duration = Duration::from_secs(5 * 60);
/// The time between two looks at the resource, beside those that a watch brings.
const BETWEEN_LOOKS: Duration = Duration::from_secs(30);
/// The longest time for one look.
const LOOK_LIMIT: Duration = Duration::from_secs(10);
/// The time between two looks at the clock: a node that was suspended goes on without noticing it.
const TICK: Duration = Duration::from_secs(5);

/// Waits until the resource is in progress, and gives it. One that is prepared may have to wait for others of its node as long as those take.
pub(super) async fn until_in_progress<R: MoverResource>(
    env: &MoverEnv,
    follow: &mut Follow<R>,
    transfer: &Transfer,
) -> Result<R, Failure> {
    let (kind, name, begun) = (R::KIND, &transfer.name, Instant::now());
    let mut turn = TurnWait::default();
    let mut uid: Option<String> = None;
    loop {
        let next = timeout(BETWEEN_TURN_LOOKS, follow.next()).await;
        let found = match next {
            Ok(Ok(FollowedObject::Is(resource))) => {
                uid = Some(resource.meta().uid.clone());
                turn.note_change(begun.elapsed(), resource.phase());
                Some(resource)
            }
            Ok(Ok(FollowedObject::Gone)) => return Err(Failure::Failed(format!("{kind} {name} was deleted"))),
            Ok(Err(error)) => return Err(Failure::new(&format!("read {kind} {name}"), error)),
            Err(_) => {
                let found = look::<R>(env, transfer, uid.as_deref()).await;
                if let Some(resource) = &found {
                    turn.note_look(begun.elapsed(), resource.phase());
                }
                found
            }
        };
        if let Some(resource) = found {
            if let Some(stop) = stop_of(&resource, transfer) {
                return Err(stop.failure(|| "nothing was moved".to_owned()));
            }
            if resource.phase() == DataPathPhase::InProgress {
                return Ok(resource);
            }
        }
        if turn.is_over(begun.elapsed()) {
            return Err(turn.failure(begun.elapsed(), &format!("{kind} {name}")));
        }
    }
}

/// Reads the resource that is followed; `None` where it cannot be read. Another one of its name is left to the watch, which tells of it.
async fn look<R: MoverResource>(env: &MoverEnv, transfer: &Transfer, uid: Option<&str>) -> Option<R> {
    let (kind, name) = (R::KIND, &transfer.name);
    match timeout(LOOK_LIMIT, env.client.get::<R>(name)).await {
        Ok(Ok(found)) => found.filter(|found| uid == Some(found.meta().uid.as_str())),
        Ok(Err(error)) => {
            tracing::warn!(%error, "{kind} {name} cannot be looked at");
            None
        }
        Err(_) => {
            tracing::warn!("{kind} {name} could not be looked at within {} s", LOOK_LIMIT.as_secs());
            None
        }
    }
}

/// The wait of a mover for its turn, and its limit. Times are counted from its begin. Pure.
#[derive(Debug, Default)]
struct TurnWait {
    /// The last time at which the resource was seen, in a phase in which it may have to wait.
    renewed: Duration,
    /// The last time at which it had changed.
    changed: Duration,
    /// The phase that was seen last.
    phase: Option<DataPathPhase>,
}

impl TurnWait {
    /// Takes a state that the resource has got.
    fn note_change(&mut self, now: Duration, phase: DataPathPhase) {
        (self.renewed, self.changed, self.phase) = (now, now, Some(phase));
    }

    /// Takes the phase of a resource that has not changed. One that is prepared has nothing to do but to wait.
    fn note_look(&mut self, now: Duration, phase: DataPathPhase) {
        if phase == DataPathPhase::Prepared {
            self.renewed = now;
        }
        self.phase = Some(phase);
    }

    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.renewed) >= PATIENCE || self.has_no_turn(now)
    }

    /// Returns true if nothing moves before it.
    fn has_no_turn(&self, now: Duration) -> bool {
        now.saturating_sub(self.changed) >= TURN_PATIENCE
    }

    /// The failure of a wait that is over now, for a resource of this kind and name.
    fn failure(&self, now: Duration, of: &str) -> Failure {
        if now.saturating_sub(self.renewed) < PATIENCE {
            return Failure::NoTurn;
        }
        // Its reads would have renewed the wait.
        if self.phase == Some(DataPathPhase::Prepared) {
            return Failure::LostTurn;
        }
        let minutes = PATIENCE.as_secs() / 60;
        Failure::Failed(format!(
            "{of} has not come to phase InProgress, and did not change for {minutes} minutes: look at the log of the node agent of this node"
        ))
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
        DataPathPhase::Prepared | DataPathPhase::InProgress | DataPathPhase::Canceling if resource.is_canceled() => {
            Some(Stop::Canceled)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataPathPhase::{Accepted, Prepared};

    fn minutes(n: u64) -> Duration {
        Duration::from_secs(60 * n)
    }

    #[test]
    fn a_mover_waits_for_its_turn_as_long_as_its_resource_is_prepared() {
        let mut turn = TurnWait::default();
        turn.note_change(minutes(0), Prepared);
        // The transfer before it takes two days, and moves bytes.
        for minute in (0..2880).step_by(5) {
            turn.note_look(minutes(minute), Prepared);
            if minute % 10 == 0 {
                turn.note_change(minutes(minute), Prepared);
            }
            assert!(!turn.is_over(minutes(minute + 29)), "{minute}");
        }
        // Then the API server does not answer.
        assert!(turn.is_over(minutes(2875 + 30)));
        assert_eq!(turn.failure(minutes(2905), "DataUpload d-1"), Failure::LostTurn);
        let told = format!("for {} minutes", PATIENCE.as_secs() / 60);
        assert!(Failure::LostTurn.text().contains(&told), "{told}");
    }

    #[test]
    fn a_mover_gives_up_its_turn_when_nothing_moves_before_it() {
        let mut turn = TurnWait::default();
        turn.note_change(minutes(0), Prepared);
        for minute in (5..180).step_by(5) {
            turn.note_look(minutes(minute), Prepared);
            assert!(!turn.is_over(minutes(minute)), "{minute}");
        }
        assert!(turn.is_over(minutes(180)));
        assert_eq!(turn.failure(minutes(180), "DataUpload d-1"), Failure::NoTurn);
        let told = format!("for {} hours", TURN_PATIENCE.as_secs() / 3600);
        assert!(Failure::NoTurn.text().contains(&told), "{told}");
    }

    #[test]
    fn a_mover_whose_resource_does_not_become_prepared_gives_up() {
        let mut turn = TurnWait::default();
        turn.note_change(minutes(1), Accepted);
        for minute in [5, 10, 15, 20, 25, 30] {
            turn.note_look(minutes(minute), Accepted);
            assert!(!turn.is_over(minutes(minute)), "{minute}");
        }
        assert!(turn.is_over(minutes(31)));
        let expected = "DataUpload d-1 has not come to phase InProgress, and did not change for 30 minutes: look at the log of the node agent of this node";
        assert_eq!(turn.failure(minutes(31), "DataUpload d-1"), Failure::Failed(expected.to_owned()));
        // One that nobody could read at all.
        assert!(TurnWait::default().is_over(minutes(30)));
    }
}
