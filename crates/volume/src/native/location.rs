//! The snapshotter of a location, and how it is called.

use lifeboat_action::{ActionError, ActionErrorKind, LocatedSnapshotter, VolumeSnapshotter, call, caught};
use lifeboat_operation::Fence;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Calls of one snapshotter at once.
pub(crate) const AT_ONCE: usize = 16;
/// How long a question may take, and a deletion.
const ANSWER: Duration = Duration::from_secs(300);

/// A location with its snapshotter.
pub(crate) struct Location {
    pub(crate) name: String,
    pub(crate) snapshotter: Arc<dyn VolumeSnapshotter>,
    room: Semaphore,
}

/// A snapshot or volume that was not made, as far as is known.
#[derive(Debug)]
pub(crate) struct NotMade {
    pub(crate) error: ActionError,
    /// Whether it may be there all the same: nobody said that it is not.
    pub(crate) may_exist: bool,
}

impl Location {
    pub(crate) fn of(located: &LocatedSnapshotter) -> Self {
        Self {
            name: located.location.clone(),
            snapshotter: Arc::clone(&located.snapshotter),
            room: Semaphore::new(AT_ONCE),
        }
    }

    /// What people call it.
    pub(crate) fn called(&self) -> String {
        format!("{} of the location {}", self.snapshotter.name(), self.name)
    }

    /// Waits for a place among the calls; `None` when the operation ends before.
    pub(crate) async fn place(&self, stop: &CancellationToken) -> Option<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            place = self.room.acquire() => place.ok(),
        }
    }

    /// Asks it something, again as long as that can help. What it is asked has no effect, or the same one twice.
    pub(crate) async fn ask<T, F>(
        &self,
        stop: &CancellationToken,
        question: impl Fn(Arc<dyn VolumeSnapshotter>) -> F,
    ) -> Result<T, ActionError>
    where
        F: Future<Output = Result<T, ActionError>>,
    {
        let asking = call(stop, || async {
            let Some(_place) = self.place(stop).await else { return Err(ended()) };
            let answer = caught(question(Arc::clone(&self.snapshotter)));
            timeout(ANSWER, answer).await.unwrap_or_else(|_| Err(silent(ANSWER)))
        });
        tokio::select! {
            biased;
            answer = asking => answer,
            () = stop.cancelled() => Err(ended()),
        }
    }

    /// Lets it make something, and gives the name of that; again as long as it says that nothing was made. The caller has a place, and
    /// has noted what may exist.
    pub(crate) async fn make<F>(
        &self,
        (stop, fence): (&CancellationToken, &Fence),
        within: Duration,
        make: impl Fn(Arc<dyn VolumeSnapshotter>) -> F,
    ) -> Result<String, NotMade>
    where
        F: Future<Output = Result<String, ActionError>>,
    {
        let may_exist = AtomicBool::new(false);
        let unknown = |message: String| {
            may_exist.store(true, Ordering::Relaxed);
            // The call is not made again: that might make a second one.
            Err(ActionError::item(message))
        };
        let made = call(stop, || async {
            fence().map_err(ActionError::item)?;
            let has_answered = AtomicBool::new(false);
            let making = caught(async {
                let made = make(Arc::clone(&self.snapshotter)).await;
                has_answered.store(true, Ordering::Relaxed);
                made
            });
            match timeout(within, making).await {
                Err(_) => unknown(silent(within).message),
                Ok(Ok(name)) if name.is_empty() => unknown("it answered without a name".to_owned()),
                Ok(Err(e)) if e.kind == ActionErrorKind::Gone || !has_answered.load(Ordering::Relaxed) => {
                    unknown(e.message)
                }
                Ok(made) => made,
            }
        });
        let made = made.await;
        made.map_err(|error| NotMade { error, may_exist: may_exist.load(Ordering::Relaxed) })
    }
}

impl Debug for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location").field("name", &self.name).finish_non_exhaustive()
    }
}

fn silent(within: Duration) -> ActionError {
    ActionError::item(format!("it did not answer within {} s", within.as_secs()))
}

fn ended() -> ActionError {
    ActionError::item("the operation ended before it answered")
}
