//! Waits until an action says that the items it has named are ready (velero: pkg/restore/restore.go).

use crate::object::apply::{failed, fatal};
use crate::state::stop::BrokenOff;
use lifeboat_action::{RestoreItemAction, call, caught};
use lifeboat_api::Restore;
use lifeboat_object::ObjectKey;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

/// Pause between two calls of an action.
const PAUSE: Duration = Duration::from_secs(1);

/// Items that an action has named, and that are there.
pub(crate) struct AwaitedItems<'a> {
    pub(crate) action: &'a dyn RestoreItemAction,
    /// By their keys in the cluster.
    pub(crate) items: &'a [ObjectKey],
    /// The object that needs them, in the cluster.
    pub(crate) parent: &'a ObjectKey,
    pub(crate) restore: &'a Restore,
}

/// The outcome of a wait for items.
#[derive(Debug)]
pub(crate) enum Readiness {
    /// They are ready.
    Ready,
    /// They are not, and the wait is over: the error of the object that needs them.
    Unknown(String),
    /// The action ends the restore.
    Fatal(BrokenOff),
    /// The restore ends early.
    Stopped,
}

impl AwaitedItems<'_> {
    /// Asks the action at once and then each second, for this long at most.
    pub(crate) async fn wait(&self, time: Duration, stop: &CancellationToken) -> Readiness {
        let deadline = Instant::now() + time;
        loop {
            let asking = || caught(async { self.action.are_additional_items_ready(self.items, self.restore).await });
            let answer = tokio::select! {
                biased;
                () = stop.cancelled() => return Readiness::Stopped,
                answer = timeout_at(deadline, call(stop, asking)) => answer,
            };
            match answer {
                Ok(Ok(true)) => return Readiness::Ready,
                Ok(Err(e)) if e.is_fatal() => return Readiness::Fatal(fatal(self.action.name(), self.parent, &e)),
                Ok(Err(e)) => {
                    let why = failed(self.action.name(), &e);
                    return Readiness::Unknown(format!("error verifying additional items are ready to use: {why}"));
                }
                Ok(Ok(false)) if Instant::now() + PAUSE <= deadline => {}
                Ok(Ok(false)) | Err(_) => return Readiness::Unknown(self.too_late(time)),
            }
            tokio::select! {
                () = stop.cancelled() => return Readiness::Stopped,
                () = sleep(PAUSE) => {}
            }
        }
    }

    fn too_late(&self, time: Duration) -> String {
        let (parent, action, seconds) = (self.parent, self.action.name(), time.as_secs_f64());
        format!(
            "additional items for {parent} are not ready to use: the action {action} has not said so within {seconds:.0} s; \
             the object is restored all the same"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{Scripted, key};
    use lifeboat_action::ActionError;

    /// Waits ten seconds for an action with these answers, of which the last is repeated. Returns the outcome, the
    /// number of calls, and the seconds after which the wait ended.
    async fn waited(answers: Vec<Result<bool, ActionError>>) -> (Readiness, usize, u64) {
        let (action, begun) = (Scripted::ready(answers), Instant::now());
        let (items, parent) = ([key("configmaps", "b")], key("configmaps", "a"));
        let named = AwaitedItems { action: &action, items: &items, parent: &parent, restore: &Restore::default() };
        let readiness = named.wait(Duration::from_secs(10), &CancellationToken::new()).await;
        (readiness, action.asked_whether_ready(), begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn an_action_is_asked_each_second_until_its_items_are_ready() {
        for (answers, asked, seconds) in [
            (vec![Ok(true)], 1, 0),
            (vec![Ok(false), Ok(false), Ok(true)], 3, 2),
            (vec![Err(ActionError::passing("busy")), Ok(true)], 2, 1),
            (vec![Err(ActionError::gone("killed")), Ok(false), Ok(true)], 3, 2),
        ] {
            let (readiness, was_asked, took) = waited(answers.clone()).await;
            assert!(matches!(readiness, Readiness::Ready), "{readiness:?} {answers:?}");
            assert_eq!((was_asked, took), (asked, seconds), "{answers:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn items_that_are_never_ready_are_an_error_that_says_why() {
        let late = "additional items for configmaps/shop/a are not ready to use: the action test/scripted has not said so within \
                    10 s; the object is restored all the same";
        let error = "error verifying additional items are ready to use: the action test/scripted failed: ";
        for (answer, asked, seconds, expected) in [
            (Ok(false), 11, 10, late.to_owned()),
            (Err(ActionError::passing("busy")), 4, 10, late.to_owned()),
            (Err(ActionError::item("odd")), 1, 0, format!("{error}odd")),
            (Err(ActionError::gone("killed")), 2, 1, format!("{error}killed; it was started anew and asked once more")),
        ] {
            let (readiness, was_asked, took) = waited(vec![answer]).await;
            let Readiness::Unknown(said) = readiness else { panic!("{readiness:?}") };
            assert_eq!((said, was_asked, took), (expected, asked, seconds));
        }
        let (readiness, ..) = waited(vec![Err(ActionError::fatal("no licence"))]).await;
        let Readiness::Fatal(why) = readiness else { panic!("{readiness:?}") };
        let expected = "the action test/scripted says that none of its calls can succeed, asked about configmaps/shop/a: no licence";
        assert_eq!(why.to_string(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_the_wait_for_items() {
        let (action, stop) = (Scripted::ready(vec![Ok(false)]), CancellationToken::new());
        let (items, parent) = ([key("configmaps", "b")], key("configmaps", "a"));
        let named = AwaitedItems { action: &action, items: &items, parent: &parent, restore: &Restore::default() };
        let stopping = async {
            sleep(Duration::from_millis(2500)).await;
            stop.cancel();
        };
        let begun = Instant::now();
        let (readiness, ()) = tokio::join!(named.wait(Duration::from_secs(600), &stop), stopping);
        assert!(matches!(readiness, Readiness::Stopped), "{readiness:?}");
        assert_eq!(begun.elapsed(), Duration::from_millis(2500));
    }
}
