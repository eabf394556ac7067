//! Work on threads beside the asynchronous ones.

use crate::ResticError;

/// Runs work that takes long on a thread of its own. Work whose caller is gone ends and is forgotten.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ResticError> + Send + 'static,
) -> Result<T, ResticError> {
    join(tokio::task::spawn_blocking(work).await)
}

/// The result of a task. A panic in it goes on in the caller.
pub(crate) fn join<T>(result: Result<Result<T, ResticError>, tokio::task::JoinError>) -> Result<T, ResticError> {
    match result {
        Ok(result) => result,
        Err(e) => match e.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends.
            Err(_) => Err(ResticError::Cancelled),
        },
    }
}
