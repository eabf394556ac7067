//! Makes a call again when that can help.

use crate::{ActionError, ActionErrorKind};
use backon::{BackoffBuilder, ExponentialBuilder};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Time during which a call is repeated while its error can pass, pauses included.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first pause; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// The number of times that the process of a plugin is started anew for one call.
const RESTARTS: u32 = 1;

/// Calls an action, and again as long as its error can pass: for a minute, and once after the plugin's process has ended.
/// The calls of one object come one after the other.
///
/// # Errors
/// The action's last one. When `cancel` is set during a pause, the error before it.
pub async fn call<T, F>(cancel: &CancellationToken, mut action: impl FnMut() -> F) -> Result<T, ActionError>
where
    F: Future<Output = Result<T, ActionError>>,
{
    let began = Instant::now();
    let mut restarts = 0;
    let pauses = ExponentialBuilder::default().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
    let mut pauses = pauses.without_max_times().build();
    loop {
        let error = match action().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
        let again = match error.kind {
            ActionErrorKind::Passing => began.elapsed() + pause <= PATIENCE,
            ActionErrorKind::Gone => restarts < RESTARTS,
            ActionErrorKind::Item | ActionErrorKind::Fatal => false,
        };
        if !again {
            return Err(error);
        }
        restarts += u32::from(error.kind == ActionErrorKind::Gone);
        tokio::select! {
            () = sleep(pause) => {}
            () = cancel.cancelled() => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Calls an action that gives these errors, the last one for ever: the answer, the number of calls and the seconds.
    async fn calls(errors: &[Option<ActionError>]) -> (Result<(), ActionError>, usize, u64) {
        let (made, began) = (Cell::new(0), Instant::now());
        let action = || {
            let error = errors[made.get().min(errors.len() - 1)].clone();
            made.set(made.get() + 1);
            async { error.map_or(Ok(()), Err) }
        };
        let answer = call(&CancellationToken::new(), action).await;
        (answer, made.get(), began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_says_whether_the_call_is_made_again() {
        let (passing, gone) = (ActionError::passing("busy"), ActionError::gone("killed"));
        let (item, fatal) = (ActionError::item("odd"), ActionError::fatal("no licence"));
        assert_eq!(calls(&[None]).await, (Ok(()), 1, 0));
        assert_eq!(calls(&[Some(passing.clone()), Some(passing.clone()), None]).await, (Ok(()), 3, 3));
        assert_eq!(calls(&[Some(passing.clone())]).await, (Err(passing.clone()), 8, 60));
        assert_eq!(calls(&[Some(gone.clone()), None]).await, (Ok(()), 2, 1));
        assert_eq!(calls(&[Some(gone.clone())]).await, (Err(gone), 2, 1));
        assert_eq!(calls(&[Some(item.clone())]).await, (Err(item), 1, 0));
        assert_eq!(calls(&[Some(passing), Some(fatal.clone())]).await, (Err(fatal), 2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancel_ends_a_pause() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let answer = call::<(), _>(&cancel, || async { Err(ActionError::passing("busy")) }).await;
        assert_eq!(answer, Err(ActionError::passing("busy")));
    }
}
