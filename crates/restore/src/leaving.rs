//! Objects of the cluster that are being deleted (restore.md 2.13): what is there does not count, for it goes. Pure.

use lifeboat_object::ObjectKey;
use serde_json::Value;
use std::time::Duration;

/// An object that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    since: String,
    /// Who holds it back.
    finalizers: Vec<String>,
}

impl Leaving {
    /// What is known of the deletion of this object; `None` when it is not being deleted.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let since = metadata["deletionTimestamp"].as_str()?.to_owned();
        let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
        Some(Self { since, finalizers: finalizers.filter_map(|f| Some(f.as_str()?.to_owned())).collect() })
    }

    /// That it was waited for in vain, for people.
    pub(crate) fn stays(&self, key: &ObjectKey, waited: Duration) -> String {
        let held = match self.finalizers.as_slice() {
            [] => String::new(),
            [one] => format!(", held by the finalizer {one}"),
            some => format!(", held by the finalizers {}", some.join(", ")),
        };
        format!(
            "could not restore {key}: the one in the cluster is being deleted since {}{held}, and was still there after {} s; \
             when it is gone, run the restore again",
            self.since,
            waited.as_secs()
        )
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
        let said = |finalizers: Value| {
            let object = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}});
            Leaving::of(&object).map(|leaving| leaving.stays(&key, Duration::from_secs(9)))
        };
        let expected = |held: &str| {
            Some(format!(
                "could not restore configmaps/n/a: the one in the cluster is being deleted since 2026-01-01T00:00:00Z{held}, \
                 and was still there after 9 s; when it is gone, run the restore again"
            ))
        };
        assert_eq!(said(json!(null)), expected(""));
        assert_eq!(said(json!(["e.com/a"])), expected(", held by the finalizer e.com/a"));
        assert_eq!(said(json!(["e.com/a", "b"])), expected(", held by the finalizers e.com/a, b"));
        assert_eq!(Leaving::of(&json!({"metadata": {"name": "a", "finalizers": ["b"]}})), None);
    }
}
