//! The tasks that run, and what each of them works on.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Names a piece of work.
pub trait TaskKey: Clone + Debug + Send + 'static {
    /// The thing that a task works on. No two tasks work on one subject at the same time.
    type Subject: Clone + Debug + Eq + Hash;

    /// The subject of this piece of work.
    fn subject(&self) -> Self::Subject;
}

/// A task that runs.
#[derive(Debug)]
pub struct RunningTask<K> {
    /// The work.
    pub key: K,
    /// Stops it.
    pub stop: CancellationToken,
}

/// A task that ended by a panic.
#[derive(Debug, thiserror::Error)]
#[error("its task died: {0}")]
pub struct TaskPanic(JoinError);

/// The tasks of a process, at most one for each subject. A task that panics ends as [`TaskPanic`], and frees its subject.
#[derive(Debug)]
pub struct Tasks<K: TaskKey, T> {
    set: JoinSet<(K, T)>,
    keys: HashMap<Id, K>,
    running: HashMap<K::Subject, RunningTask<K>>,
}

impl<K: TaskKey, T: Send + 'static> Default for Tasks<K, T> {
    fn default() -> Self {
        Self { set: JoinSet::new(), keys: HashMap::new(), running: HashMap::new() }
    }
}

impl<K: TaskKey, T: Send + 'static> Tasks<K, T> {
    /// Begins a piece of work. The caller makes sure that no other task runs on its subject.
    pub fn spawn(&mut self, key: K, stop: CancellationToken, task: impl Future<Output = T> + Send + 'static) {
        self.running.insert(key.subject(), RunningTask { key: key.clone(), stop });
        let ended = key.clone();
        let handle = self.set.spawn(async move { (ended, task.await) });
        self.keys.insert(handle.id(), key);
    }

    /// The tasks that run.
    pub fn running(&self) -> impl Iterator<Item = &RunningTask<K>> {
        self.running.values()
    }

    /// Waits for the next task that ends, and gives its key and its result; `None` when no task runs. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Option<(K, Result<T, TaskPanic>)> {
        loop {
            let done = self.set.join_next_with_id().await?;
            if let Some(ended) = self.ended(done) {
                return Some(ended);
            }
        }
    }

    /// Gives a task that has ended already; `None` when all still run.
    pub fn next_now(&mut self) -> Option<(K, Result<T, TaskPanic>)> {
        loop {
            let done = self.set.try_join_next_with_id()?;
            if let Some(ended) = self.ended(done) {
                return Some(ended);
            }
        }
    }

    /// Stops all tasks where they are, and waits until they have ended.
    pub async fn shutdown(&mut self) {
        self.set.shutdown().await;
    }

    /// Takes a task that has ended out of those that run. Each task has a key, so there is one.
    fn ended(&mut self, done: Result<(Id, (K, T)), JoinError>) -> Option<(K, Result<T, TaskPanic>)> {
        let (key, result) = match done {
            Ok((id, (key, result))) => {
                self.keys.remove(&id);
                (key, Ok(result))
            }
            Err(e) => (self.keys.remove(&e.id())?, Err(TaskPanic(e))),
        };
        self.running.remove(&key.subject());
        Some((key, result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl TaskKey for &'static str {
        type Subject = char;

        fn subject(&self) -> char {
            self.chars().next().unwrap_or_default()
        }
    }

    #[tokio::test]
    #[allow(clippy::panic, reason = "it is what is tested")]
    async fn a_task_that_panics_has_failed_and_makes_room() {
        let mut tasks: Tasks<&'static str, ()> = Tasks::default();
        tasks.spawn("backup", CancellationToken::new(), async { panic!("a defect") });
        assert_eq!(tasks.running().map(|running| running.key).collect::<Vec<_>>(), ["backup"]);
        let (ended, result) = tasks.next().await.unwrap();
        assert_eq!(ended, "backup");
        let why = result.unwrap_err().to_string();
        assert!(why.starts_with("its task died: ") && why.contains("a defect"), "{why}");
        assert!(tasks.running().next().is_none() && tasks.keys.is_empty());
        assert!(tasks.next().await.is_none());
    }
}
