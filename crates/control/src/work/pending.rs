//! Backups and restores whose actions have begun asynchronous operations: they are looked after until none goes on, and ended
//! then. Nothing runs for them between.

pub(crate) mod backup;
pub(crate) mod restore;

use super::running::{Phased, until_written};
use super::{Context, Effect, StepError};
use lifeboat_api::well_known::ANNOTATION_UNREACHABLE;
use lifeboat_api::{Duration, ObjectMeta, Time};
use lifeboat_lifecycle::phase::pending::{Patience, patience};

/// The result of opening a pending object.
enum Reached<T> {
    /// It can be gone on with.
    Ready(T),
    /// It could not be opened and has ended for that, with these effects.
    Ended(Vec<Effect>),
}

/// Decides about a pending object when the bucket or the plugins that it needs cannot be reached, for this reason.
/// Returns the reason to end it when that has lasted for too long; `begun` and `timeout` are those of [`patience`].
///
/// # Errors
/// The reason: it is tried again later.
async fn given_up<T: Phased>(
    context: &Context,
    pending: &T,
    begun: Option<Time>,
    timeout: Duration,
    why: StepError,
) -> Result<String, StepError> {
    // What a server fails at that is told to stop, or leads no more, says nothing.
    if context.leadership.check().is_err() || context.env.cancel.is_cancelled() {
        return Err(why);
    }
    match patience(pending.meta(), begun, timeout, context.env.now()) {
        Patience::Wait => Err(why),
        Patience::End(since) => Ok(format!("{why}; it has been so since {since}")),
        Patience::Note(now) => {
            let note = |object: &mut T| {
                object.meta_mut().annotations.insert(ANNOTATION_UNREACHABLE.to_owned(), now.to_string());
            };
            until_written(context, pending, note).await?;
            Err(why)
        }
    }
}

/// Notes that everything that a pending object needs was reached.
fn note_reached(meta: &mut ObjectMeta) {
    meta.annotations.remove(ANNOTATION_UNREACHABLE);
}

#[cfg(test)]
mod tests;
