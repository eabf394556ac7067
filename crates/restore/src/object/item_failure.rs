//! Attempts at objects that were not written: each is tried again later, reported, or ends the restore.

use crate::object::apply::PrepareError;
use crate::object::refused::{self, Missing, Refused};
use crate::object::required_namespaces;
use crate::state::attempt::{Attempt, Obstacle, SourceObject};
use crate::state::retry::can_pass;
use crate::walk::context::RestoreContext;
use lifeboat_archive::index::Row;
use lifeboat_object::{ObjectKey, chain};
use lifeboat_store::StoreError;
use tokio::task::JoinError;

/// Handles an object that was not written: defers it, reports it, or stops the restore.
pub(crate) async fn refused(
    context: &RestoreContext,
    source: &SourceObject,
    target: &ObjectKey,
    refused: Refused,
    last: bool,
) -> Attempt {
    let (state, messages) = (&context.state, &context.state.messages);
    match refused {
        Refused::Reported => {}
        Refused::Unprepared(PrepareError::ForNow(_)) if !last => return Attempt::Later(Obstacle::Passing),
        Refused::Unprepared(PrepareError::Failed(why) | PrepareError::ForNow(why)) => messages.error(target, &why),
        Refused::Unprepared(PrepareError::Fatal(why)) => {
            context.stop.break_off(*why);
            return Attempt::Later(Obstacle::Passing);
        }
        Refused::Stopped | Refused::Unprepared(PrepareError::Stopped) => return Attempt::Later(Obstacle::Passing),
        Refused::Crowded => return Attempt::Later(Obstacle::Crowded),
        Refused::Filling => return Attempt::Later(Obstacle::Filling),
        Refused::Leaving(terminating) => {
            match terminating.warning_after(target, state.attempts.terminating.of(source.row)) {
                None => return Attempt::Later(Obstacle::Leaving),
                Some(warning) => messages.warning(target, &warning),
            }
        }
        Refused::Namespace(Missing::ForNow) if !last => return Attempt::Later(Obstacle::NamespaceMissing),
        Refused::Namespace(_) => {
            let Some(row) = context.row(source.row) else { return Attempt::FAILED };
            return without_namespace(context, row).await;
        }
        Refused::Unequal { told, .. } if !last => {
            tracing::debug!(key = %source.key, told, "not brought in line for now");
            return Attempt::Later(Obstacle::Passing);
        }
        Refused::Unequal { told, is_error } => {
            messages.unequal(target, &told, is_error);
            // It is there: nothing that needs it is lost.
            return Attempt::FAILED;
        }
        Refused::Because(refusal) if !last && can_pass(&refusal) => {
            tracing::debug!(key = %source.key, %refusal, "refused for now");
            return Attempt::Later(Obstacle::Passing);
        }
        Refused::Because(e) => {
            messages.error(target, &format!("error restoring {target}: {}", refused::error_text(&e)));
        }
    }
    state.notes.lost_claims.add(target);
    context.builder.volumes.native.lose(&source.key);
    Attempt::FAILED
}

/// Ends an object whose namespace does not come.
pub(crate) async fn without_namespace(context: &RestoreContext, row: &Row) -> Attempt {
    context.state.notes.lost_claims.add(&context.scope.target_of(&row.key()));
    required_namespaces::give_up(context, row).await
}

/// Ends an object that cannot be read from the backup, with an error.
pub(crate) fn unreadable(context: &RestoreContext, row: usize, error: &StoreError) -> Attempt {
    let why = chain(error);
    failed(context, row, |key| format!("error restoring {key}: it could not be read from the backup: {why}"))
}

/// Ends an object whose task died in the middle.
pub(crate) fn died(context: &RestoreContext, row: usize, error: &JoinError) -> Attempt {
    failed(context, row, |key| format!("error restoring {key}: the task that was at it died: {error}"))
}

fn failed(context: &RestoreContext, row: usize, message: impl Fn(&ObjectKey) -> String) -> Attempt {
    if let Some(row) = context.row(row) {
        let key = context.scope.target_of(&row.key());
        context.state.messages.error(&key, &message(&key));
        context.state.notes.lost_claims.add(&key);
        context.builder.volumes.native.lose(&row.key());
    }
    Attempt::FAILED
}
