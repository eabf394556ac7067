//! Groups of a backup that are set to retain their snapshots in the storage.

use crate::method::lock::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::OnceCell;

/// Groups that are to be set to retain their snapshots, by the names of their contents.
#[derive(Debug, Default)]
pub(crate) struct KeptGroups {
    all: Mutex<BTreeMap<String, Arc<KeptGroup>>>,
}

#[derive(Debug, Default)]
struct KeptGroup {
    is_told: OnceCell<()>,
    /// The last failure.
    failure: Mutex<Option<UnretainedGroup>>,
}

/// A group that could not be set so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnretainedGroup {
    /// Its namespace.
    pub(crate) namespace: String,
    /// The name of its VolumeGroupSnapshot.
    pub(crate) group: String,
    /// The reason.
    pub(crate) why: String,
}

impl KeptGroups {
    /// Does this work for a group, unless that was done: once, however many of its members ask for it. After a failure
    /// the next member that asks tries again.
    pub(crate) async fn tell(&self, content: &str, telling: impl Future<Output = Result<(), UnretainedGroup>>) {
        let group = Arc::clone(lock(&self.all).entry(content.to_owned()).or_default());
        if let Err(e) = group.is_told.get_or_try_init(|| telling).await {
            *lock(&group.failure) = Some(e);
        }
    }

    /// Groups that could not be told, however often it was tried.
    pub(crate) fn unkept(&self) -> Vec<UnretainedGroup> {
        let all = lock(&self.all);
        let untold = all.values().filter(|group| !group.is_told.initialized());
        untold.filter_map(|group| lock(&group.failure).clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_group_is_told_once_and_again_only_after_a_failure() {
        let unkept = |group: &str, why: &str| UnretainedGroup {
            namespace: "shop".to_owned(),
            group: group.to_owned(),
            why: why.to_owned(),
        };
        let (groups, asked) = (KeptGroups::default(), Mutex::new(Vec::new()));
        for (member, content, answer) in [
            ("a-1", "a", Err(unkept("a", "busy"))),
            ("a-2", "a", Ok(())),
            ("a-3", "a", Ok(())),
            ("b-1", "b", Err(unkept("b", "busy"))),
            ("b-2", "b", Err(unkept("b", "forbidden"))),
            ("c-1", "c", Ok(())),
            ("c-2", "c", Err(unkept("c", "busy"))),
        ] {
            let telling = async {
                asked.lock().unwrap().push(member);
                answer
            };
            groups.tell(content, telling).await;
        }
        assert_eq!(*asked.lock().unwrap(), ["a-1", "a-2", "b-1", "b-2", "c-1"]);
        assert_eq!(groups.unkept(), [unkept("b", "forbidden")]);
    }
}
