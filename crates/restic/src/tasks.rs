//! Work on threads beside the asynchronous ones.

use crate::ResticError;
use lifeboat_bucket::joined;
use tokio::task::JoinError;

/// Runs work that takes long on a thread of its own. Work whose caller is gone ends and is forgotten.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ResticError> + Send + 'static,
) -> Result<T, ResticError> {
    join(tokio::task::spawn_blocking(work).await)?
}

/// The result of a task. A panic in it goes on in the caller.
pub(crate) fn join<T>(ended: Result<T, JoinError>) -> Result<T, ResticError> {
    // It is missing only when the runtime ends.
    joined(ended).ok_or(ResticError::Cancelled)
}
