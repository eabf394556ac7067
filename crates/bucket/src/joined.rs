//! The end of a task of tokio, for all rooms that read and write buckets in tasks.

use tokio::task::JoinError;

/// The result of a task; `None` where the runtime ended before the task did. A panic of the task goes on in the caller.
pub fn joined<T>(ended: Result<T, JoinError>) -> Option<T> {
    match ended {
        Ok(result) => Some(result),
        Err(e) => match e.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::panic::AssertUnwindSafe;
    use tokio::task::JoinSet;

    #[tokio::test]
    async fn a_panic_goes_on_and_a_task_that_was_ended_has_no_result() {
        assert_eq!(joined(tokio::task::spawn_blocking(|| 1).await), Some(1));
        let mut endless = JoinSet::from_iter([std::future::pending::<()>()]);
        endless.abort_all();
        assert_eq!(endless.join_next().await.and_then(joined), None);
        let panicked = async { joined(tokio::task::spawn_blocking(|| panic!("in the middle")).await) };
        let panic = AssertUnwindSafe(panicked).catch_unwind().await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"in the middle"));
    }
}
