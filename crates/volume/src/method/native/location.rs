//! The snapshotter of a location, and how it is called.

use crate::priority::{Priority, PrioritySlots};
use lifeboat_action::{ActionError, ActionErrorKind, LocatedSnapshotter, VolumeSnapshotter, call, caught};
use lifeboat_operation::Fence;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Calls of one snapshotter at once, of each priority.
pub(crate) const AT_ONCE: usize = 16;
/// The longest time for a question, and for a deletion. An implementation that calls programs has a shorter limit of
/// its own, and ends programs that hang.
const ANSWER: Duration = Duration::from_secs(3600);

/// A location with its snapshotter.
pub(crate) struct SnapshotterLocation {
    pub(crate) name: String,
    pub(crate) snapshotter: Arc<dyn VolumeSnapshotter>,
    places: PrioritySlots,
}

/// A snapshot or volume that was not made, as far as it is known.
#[derive(Debug)]
pub(crate) struct NotMade {
    pub(crate) error: ActionError,
    /// True when it may be there all the same: nobody said that it is not.
    pub(crate) may_exist: bool,
}

impl SnapshotterLocation {
    pub(crate) fn of(located: &LocatedSnapshotter) -> Self {
        Self {
            name: located.location.clone(),
            snapshotter: Arc::clone(&located.snapshotter),
            places: PrioritySlots::new(AT_ONCE),
        }
    }

    /// Its name for people.
    pub(crate) fn called(&self) -> String {
        format!("{} of the location {}", self.snapshotter.name(), self.name)
    }

    /// Waits for a place among the calls; `None` when the operation ends before.
    pub(crate) async fn place(&self, priority: Priority, stop: &CancellationToken) -> Option<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            place = self.places.take(priority) => place.ok(),
        }
    }

    /// Asks the snapshotter something, again as long as that can help. The question has no effect, or the same one
    /// twice.
    pub(crate) async fn ask<T, F>(
        &self,
        priority: Priority,
        stop: &CancellationToken,
        question: impl Fn(Arc<dyn VolumeSnapshotter>) -> F,
    ) -> Result<T, ActionError>
    where
        F: Future<Output = Result<T, ActionError>>,
    {
        let asking = call(stop, || async {
            let Some(_place) = self.place(priority, stop).await else { return Err(ended()) };
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
        stop: &CancellationToken,
        fence: &Fence,
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

impl Debug for SnapshotterLocation {
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

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use lifeboat_action::{VolumeFacts, VolumeRequest};
    use serde_json::Value;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// The result of a call; `None` for one that never answers.
    type Answer = Option<Result<&'static str, ActionError>>;

    /// Answers each call so, the last one for ever.
    struct Scripted {
        answers: Vec<Answer>,
        calls: Mutex<usize>,
    }

    impl Scripted {
        async fn answer(&self) -> Result<String, ActionError> {
            let answer = {
                let mut calls = self.calls.lock().unwrap();
                *calls += 1;
                self.answers[(*calls).min(self.answers.len()) - 1].clone()
            };
            match answer {
                Some(answer) => answer.map(str::to_owned),
                None => std::future::pending().await,
            }
        }
    }

    #[async_trait]
    impl VolumeSnapshotter for Scripted {
        fn name(&self) -> &str {
            "test/scripted"
        }

        async fn volume_id(&self, _: &Value) -> Result<Option<String>, ActionError> {
            self.answer().await.map(Some)
        }

        async fn volume_facts(&self, _: &str, _: &str) -> Result<VolumeFacts, ActionError> {
            Ok(VolumeFacts::default())
        }

        async fn create_snapshot(&self, _: &str, _: &str, _: &BTreeMap<String, String>) -> Result<String, ActionError> {
            self.answer().await
        }

        async fn create_volume(&self, _: &VolumeRequest) -> Result<String, ActionError> {
            self.answer().await
        }

        async fn set_volume_id(&self, volume: Value, _: &str) -> Result<Value, ActionError> {
            Ok(volume)
        }

        async fn delete_snapshot(&self, _: &str) -> Result<(), ActionError> {
            self.answer().await.map(drop)
        }
    }

    fn location(answers: &[Answer]) -> (SnapshotterLocation, Arc<Scripted>) {
        let scripted = Arc::new(Scripted { answers: answers.to_vec(), calls: Mutex::default() });
        let snapshotter = Arc::clone(&scripted) as Arc<dyn VolumeSnapshotter>;
        (SnapshotterLocation::of(&LocatedSnapshotter { location: "east".to_owned(), snapshotter }), scripted)
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_made_is_not_asked_for_again() {
        let (passing, gone) = (|| Some(Err(ActionError::passing("busy"))), || Some(Err(ActionError::gone("killed"))));
        let silent = "it did not answer within 60 s";
        for (answers, expected, calls) in [
            (vec![Some(Ok("snap-1"))], Ok("snap-1"), 1),
            (vec![passing(), passing(), Some(Ok("snap-1"))], Ok("snap-1"), 3),
            (vec![Some(Err(ActionError::item("no quota"))), Some(Ok("snap-1"))], Err(("no quota", false)), 1),
            (vec![gone(), Some(Ok("snap-1"))], Err(("killed", true)), 1),
            (vec![passing(), gone(), Some(Ok("snap-1"))], Err(("killed", true)), 2),
            (vec![None, Some(Ok("snap-1"))], Err((silent, true)), 1),
            (vec![Some(Ok("")), Some(Ok("snap-1"))], Err(("it answered without a name", true)), 1),
        ] {
            let (location, scripted) = location(&answers);
            let fence: Fence = Arc::new(|| Ok(()));
            let stop = CancellationToken::new();
            let made = location.make(&stop, &fence, Duration::from_secs(60), |snapshotter| async move {
                snapshotter.create_snapshot("", "", &BTreeMap::new()).await
            });
            let made = made.await.map_err(|not_made| (not_made.error.message, not_made.may_exist));
            let expected = expected.map(str::to_owned).map_err(|(why, may_exist)| (why.to_owned(), may_exist));
            assert_eq!((made, *scripted.calls.lock().unwrap()), (expected, calls), "{answers:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_ends_with_the_operation_and_has_a_deadline() {
        let ask = |location: SnapshotterLocation, stop: CancellationToken| async move {
            location
                .ask(Priority::Normal, &stop, |snapshotter| async move { snapshotter.volume_id(&Value::Null).await })
                .await
        };
        let (hanging, _) = location(&[None]);
        let stop = CancellationToken::new();
        let (asked, ()) = tokio::join!(ask(hanging, stop.clone()), async { stop.cancel() });
        assert_eq!(asked, Err(ended()));
        let (hanging, _) = location(&[None]);
        assert_eq!(ask(hanging, CancellationToken::new()).await, Err(silent(ANSWER)));
        let (gone, scripted) = location(&[Some(Err(ActionError::gone("killed"))), Some(Ok("vol-1"))]);
        assert_eq!(ask(gone, CancellationToken::new()).await, Ok(Some("vol-1".to_owned())));
        assert_eq!(*scripted.calls.lock().unwrap(), 2);
    }
}
