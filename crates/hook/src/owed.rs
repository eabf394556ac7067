//! Post hooks that are owed to pods, so that no application stays frozen.

use crate::hook::Hook;
use crate::pod::HookPod;
use lifeboat_api::Time;
use lifeboat_operation::{Records, RecordsError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The start of the keys of these notes.
const PREFIX: &str = "hook-";

/// Notes which pods are owed post hooks. A note is written before the first command runs in a pod and removed after the last,
/// so that a run again, after a crash at any moment, knows what to run first. A post hook may therefore run twice.
#[derive(Clone, Debug)]
pub struct Owed {
    records: Arc<dyn Records>,
}

/// The post hooks that one pod is owed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwedHooks {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
    /// The UID of the pod. Another pod of the name has frozen nothing.
    pub uid: String,
    /// The commands, in the order in which they run.
    pub post: Vec<Hook>,
    /// The time when the commands before them, which may freeze the pod, have ended or have no time left. A command
    /// whose caller died may run until then. `None` in notes of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_by: Option<Time>,
}

impl Owed {
    /// Keeps its notes among those of an operation.
    #[must_use]
    pub fn new(records: Arc<dyn Records>) -> Self {
        Self { records }
    }

    /// Notes that the pod is owed its post hooks, and when its pre hooks have no time left. Once this returns, the note survives
    /// the process.
    ///
    /// # Errors
    /// [`RecordsError`]: no command may run in the pod then, for nothing would undo it after a crash.
    pub async fn owe(&self, pod: &HookPod, post: &[Hook], frozen_by: Time) -> Result<(), RecordsError> {
        let owed = OwedHooks {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            post: post.to_vec(),
            frozen_by: Some(frozen_by),
        };
        let note = serde_json::to_vec(&owed).map_err(|e| RecordsError::Unavailable(e.to_string()))?;
        self.records.write(BTreeMap::from([(key(pod.key().digest()), Some(note.into()))])).await
    }

    /// Removes the note of a pod whose post hooks have run.
    ///
    /// # Errors
    /// [`RecordsError`]: the post hooks run once more then, if the operation is taken up again.
    pub async fn settle(&self, pod: &HookPod) -> Result<(), RecordsError> {
        self.records.write(BTreeMap::from([(key(pod.key().digest()), None)])).await
    }

    /// All pods that are owed post hooks, in the order of their notes' keys. A note that cannot be read is left out and
    /// given by its key.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub async fn all(&self) -> Result<(Vec<OwedHooks>, Vec<String>), RecordsError> {
        let (mut all, mut unreadable) = (Vec::new(), Vec::new());
        for key in self.records.keys().await?.into_iter().filter(|key| key.starts_with(PREFIX)) {
            let Some(note) = self.records.read(&key).await? else { continue };
            match serde_json::from_slice(&note) {
                Ok(owed) => all.push(owed),
                Err(_) => unreadable.push(key),
            }
        }
        Ok((all, unreadable))
    }
}

fn key(digest: [u8; 16]) -> String {
    format!("{PREFIX}{}", hex::encode(digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::{HookSource, effective_timeout};
    use lifeboat_api::Duration;
    use lifeboat_operation::InMemory;

    #[tokio::test]
    async fn post_hooks_are_owed_from_before_the_first_command_until_after_the_last() {
        let records: Arc<dyn Records> = Arc::new(InMemory::default());
        let other =
            BTreeMap::from([("checkpoint".to_owned(), Some("{}".into())), ("hook-x".to_owned(), Some("?".into()))]);
        records.write(other).await.unwrap();
        let owed = Owed::new(Arc::clone(&records));
        let pod = |name: &str| HookPod {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            ..HookPod::default()
        };
        let thaw = Hook {
            name: "db".to_owned(),
            source: HookSource::Spec,
            index: 0,
            container: "c".to_owned(),
            command: vec!["thaw".to_owned()],
            fails_pod: true,
            timeout: effective_timeout(Duration::from_secs(3)),
        };
        let by: Time = "2026-11-25T03:00:00Z".parse().map(Time::new).unwrap();
        owed.owe(&pod("a"), std::slice::from_ref(&thaw), by).await.unwrap();
        owed.owe(&pod("b"), &[], by).await.unwrap();
        owed.owe(&pod("b"), &[thaw.clone(), thaw.clone()], by).await.unwrap();
        owed.settle(&pod("a")).await.unwrap();
        let expected = OwedHooks {
            namespace: "shop".to_owned(),
            name: "b".to_owned(),
            uid: "uid-of-b".to_owned(),
            post: vec![thaw.clone(), thaw],
            frozen_by: Some(by),
        };
        // A later process reads the same notes.
        assert_eq!(Owed::new(Arc::clone(&records)).all().await, Ok((vec![expected], vec!["hook-x".to_owned()])));
        owed.settle(&pod("b")).await.unwrap();
        owed.settle(&pod("c")).await.unwrap();
        assert_eq!(owed.all().await.unwrap().0, []);
    }
}
