//! The tasks that run, and what each of them works on.

use super::key::{Key, Subject};
use crate::work::{Finished, Unfinished};
use std::collections::HashMap;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// A task that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) key: Key,
    /// How to stop it.
    pub(super) stop: CancellationToken,
}

/// At most one task a subject; one that panics has failed, and keeps nothing.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    set: JoinSet<(Key, Finished)>,
    keys: HashMap<Id, Key>,
    running: HashMap<Subject, Running>,
}

impl Tasks {
    pub(super) fn spawn(
        &mut self,
        key: Key,
        stop: CancellationToken,
        task: impl Future<Output = Finished> + Send + 'static,
    ) {
        self.running.insert(key.subject(), Running { key: key.clone(), stop });
        let ended = key.clone();
        let handle = self.set.spawn(async move { (ended, task.await) });
        self.keys.insert(handle.id(), key);
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &Running> {
        self.running.values()
    }

    /// The next task that ends; `None` when none runs. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<(Key, Finished)> {
        let done = self.set.join_next_with_id().await?;
        Some(self.ended(done))
    }

    /// A task that has ended already.
    pub(super) fn next_now(&mut self) -> Option<(Key, Finished)> {
        let done = self.set.try_join_next_with_id()?;
        Some(self.ended(done))
    }

    /// Ends all tasks where they are.
    pub(super) async fn shutdown(&mut self) {
        self.set.shutdown().await;
    }

    fn ended(&mut self, done: Result<(Id, (Key, Finished)), JoinError>) -> (Key, Finished) {
        let (key, finished) = match done {
            Ok((id, ended)) => {
                self.keys.remove(&id);
                ended
            }
            Err(e) => {
                // Every task has its key.
                let key = self.keys.remove(&e.id()).unwrap_or_else(|| Key::Status(String::new()));
                (key, Err(Unfinished::Because(format!("its task died: {e}"))))
            }
        };
        self.running.remove(&key.subject());
        (key, finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[allow(clippy::panic, reason = "it is what is tested")]
    async fn who_panics_has_failed_and_makes_room() {
        let mut tasks = Tasks::default();
        let key = Key::Backup("b".into());
        tasks.spawn(key.clone(), CancellationToken::new(), async { panic!("a defect") });
        assert_eq!(tasks.running().map(|running| &running.key).collect::<Vec<_>>(), [&key]);
        let (ended, finished) = tasks.next().await.unwrap();
        assert_eq!(ended, key);
        let why = finished.unwrap_err().to_string();
        assert!(why.starts_with("its task died: ") && why.contains("a defect"), "{why}");
        assert!(tasks.running().next().is_none() && tasks.keys.is_empty());
        assert!(tasks.next().await.is_none());
    }
}
