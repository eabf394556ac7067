//! Objects of the cluster that are being deleted (velero: pkg/restore/restore.go): a restore waits until they are gone,
//! and then makes them anew.

use crate::state::lock::lock;
use crate::state::wait::{WaitBudget, WaitShare};
use lifeboat_object::ObjectKey;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// An object that is being deleted, or is about to be: why, as a predicate for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TerminatingObject(String);

/// State of the wait for an object that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminationWait {
    /// There is time left.
    GoesOn,
    /// It is over, after this.
    Over(WaitShare),
}

/// The waits for objects that are being deleted: all of a restore have one deadline, which the first of them sets.
#[derive(Debug)]
pub(crate) struct TerminationWaits {
    time: WaitBudget,
    /// Since when each object, by row, is waited for.
    since: Mutex<HashMap<usize, Instant>>,
}

impl TerminationWaits {
    /// So long together.
    pub(crate) fn new(time: Duration) -> Self {
        Self { time: WaitBudget::new(time), since: Mutex::default() }
    }

    /// Returns the state of the wait for an object of the backup; the first call begins the wait.
    pub(crate) fn of(&self, row: usize) -> TerminationWait {
        let now = Instant::now();
        let since = *lock(&self.since).entry(row).or_insert(now);
        if now < self.time.until() { TerminationWait::GoesOn } else { TerminationWait::Over(self.time.from(since)) }
    }
}

impl TerminatingObject {
    /// Describes the deletion of this object; `None` when it is not being deleted.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let since = metadata["deletionTimestamp"].as_str()?;
        let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
        let finalizers: Vec<&str> = finalizers.filter_map(Value::as_str).collect();
        // They hold it back.
        let held = match finalizers.as_slice() {
            [] => String::new(),
            [one] => format!(", held by the finalizer {one}"),
            some => format!(", held by the finalizers {}", some.join(", ")),
        };
        Some(Self(format!("is being deleted since {since}{held}{}", still_to_do(object))))
    }

    /// Describes the deletion of this namespace; `None` when it is not being deleted.
    pub(crate) fn of_namespace(namespace: &Value) -> Option<Self> {
        let is_terminating = || namespace["status"]["phase"] == "Terminating";
        Self::of(namespace).or_else(|| is_terminating().then(|| Self("is being deleted".to_owned())))
    }

    /// The condition for which a restore waits before it makes the object, for people.
    pub(crate) fn awaited_condition(&self) -> String {
        format!("until the one in the cluster is gone, which {}", self.0)
    }

    /// Describes an object that is about to be deleted, for this reason.
    pub(crate) fn soon(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// The reason why it is not restored after this wait, for people; `None` when the wait goes on.
    pub(crate) fn warning_after(&self, key: &ObjectKey, wait: TerminationWait) -> Option<String> {
        let waited = match wait {
            TerminationWait::GoesOn => return None,
            TerminationWait::Over(WaitShare::Some(waited)) => {
                format!("was still there after {:.0} s", waited.as_secs_f64())
            }
            TerminationWait::Over(WaitShare::Nothing(all)) => format!(
                "was not waited for, because the {} s for all such objects of a restore were over",
                all.as_secs()
            ),
        };
        Some(format!(
            "could not restore {key}: the one in the cluster {self}, and {waited}; when it is gone, run the restore again"
        ))
    }
}

/// The progress of the deletion of a definition, from its conditions: its objects go first, each when its finalizers
/// are gone.
fn still_to_do(definition: &Value) -> String {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let mut terminating = conditions.filter(|one| one["type"] == "Terminating" && one["status"] == "True");
    match terminating
        .next()
        .and_then(|one| one["message"].as_str())
        .filter(|_| definition["kind"] == "CustomResourceDefinition")
    {
        Some(said) => format!(" until all objects of its type are gone ({said})"),
        None => String::new(),
    }
}

impl std::fmt::Display for TerminatingObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::GroupResource;
    use serde_json::json;

    #[test]
    fn who_waits_in_vain_is_told_what_holds_the_object() {
        let key = ObjectKey::new(GroupResource::new("", "configmaps"), Some("n"), "a");
        let said = |finalizers: Value, wait| {
            let object = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}});
            TerminatingObject::of(&object)?.warning_after(&key, wait)
        };
        let expected = |held: &str, waited: &str| {
            Some(format!(
                "could not restore configmaps/n/a: the one in the cluster is being deleted since 2026-01-01T00:00:00Z{held}, \
                 and {waited}; when it is gone, run the restore again"
            ))
        };
        let in_vain = TerminationWait::Over(WaitShare::Some(Duration::from_secs(9)));
        let too_late = TerminationWait::Over(WaitShare::Nothing(Duration::from_secs(600)));
        let still = "was still there after 9 s";
        assert_eq!(said(json!(null), in_vain), expected("", still));
        assert_eq!(said(json!(["e.com/a"]), in_vain), expected(", held by the finalizer e.com/a", still));
        assert_eq!(said(json!(["e.com/a", "b"]), in_vain), expected(", held by the finalizers e.com/a, b", still));
        let late = "was not waited for, because the 600 s for all such objects of a restore were over";
        assert_eq!(said(json!(null), too_late), expected("", late));
        assert_eq!(said(json!(null), TerminationWait::GoesOn), None);
        assert_eq!(TerminatingObject::of(&json!({"metadata": {"name": "a", "finalizers": ["b"]}})), None);
        let definition = json!({"kind": "CustomResourceDefinition", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": [{"type": "Terminating", "status": "True", "message": "CustomResource deletion is in progress"}]}});
        let said = TerminatingObject::of(&definition).map(|terminating| terminating.to_string());
        let waits = "is being deleted since 2026-01-01T00:00:00Z until all objects of its type are gone (CustomResource deletion is in progress)";
        assert_eq!(said.as_deref(), Some(waits));
        let namespace = |phase: &str| TerminatingObject::of_namespace(&json!({"status": {"phase": phase}}));
        let said = namespace("Terminating").map(|terminating| terminating.awaited_condition());
        assert_eq!(said.as_deref(), Some("until the one in the cluster is gone, which is being deleted"));
        assert_eq!(namespace("Active"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn objects_being_deleted_share_one_deadline_and_report_their_own_wait() {
        let waits = TerminationWaits::new(Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(waits.of(1), TerminationWait::GoesOn);
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(waits.of(2), TerminationWait::GoesOn);
        tokio::time::advance(Duration::from_secs(60)).await;
        let ended = [1, 2, 3].map(|row| waits.of(row));
        let [ten, three] = [10, 3].map(Duration::from_secs);
        let expected =
            [WaitShare::Some(ten), WaitShare::Some(three), WaitShare::Nothing(ten)].map(TerminationWait::Over);
        assert_eq!(ended, expected);
        assert_eq!(waits.of(3), expected[2], "however often it is asked");
    }
}
