//! Objects that are not in a backup because they were being deleted when it looked at them.

use lifeboat_object::{Item, ResultScope, first_names};
use lifeboat_operation::Journal;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most names that are remembered.
const REMEMBERED: usize = 1000;

/// Names of objects that are being deleted and that nobody makes anew. Objects with an owner are left out: a controller
/// makes and deletes them all the time, so that their end is no news.
#[derive(Debug, Default)]
pub(crate) struct TerminatingObjects(Mutex<BTreeSet<String>>);

impl TerminatingObjects {
    /// Notes an object that is being deleted.
    pub(crate) fn note(&self, item: &Item) {
        let mut all = self.lock();
        if item.head.owner_uids.is_empty() && all.len() < REMEMBERED {
            all.insert(item.key().to_string());
        }
    }

    /// Warns of them, if there are any.
    pub(crate) fn tell(&self, journal: &Journal) {
        let all = self.lock();
        let names = first_names(&all.iter().collect::<Vec<_>>());
        let text = match all.len() {
            0 => return,
            1 => format!("1 object was being deleted when the backup looked at it, and is not in it: {names}"),
            REMEMBERED => format!(
                "{REMEMBERED} objects or more were being deleted when the backup looked at them, and are not in it: {names}"
            ),
            count => {
                format!("{count} objects were being deleted when the backup looked at them, and are not in it: {names}")
            }
        };
        journal.warn(&ResultScope::Velero, text);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::test_env;
    use lifeboat_object::ApiResource;
    use std::sync::Arc;

    #[tokio::test]
    async fn objects_being_deleted_without_an_owner_are_named_once_each() {
        let resource = Arc::new(ApiResource::new("", "v1", "configmaps", "ConfigMap"));
        let item = |number: usize, owner: &str| {
            let metadata = format!(r#""name":"m{number:02}","namespace":"a","ownerReferences":[{owner}]"#);
            Item::parse(Arc::clone(&resource), format!(r#"{{"metadata":{{{metadata}}}}}"#).into()).unwrap()
        };
        let names =
            |count: usize| (0..count).map(|number| format!("configmaps/a/m{number:02}")).collect::<Vec<_>>().join(", ");
        let were = "were being deleted when the backup looked at them, and are not in it:";
        for (count, expected) in [
            (0, None),
            (
                1,
                Some(
                    "1 object was being deleted when the backup looked at it, and is not in it: configmaps/a/m00"
                        .to_owned(),
                ),
            ),
            (2, Some(format!("2 objects {were} {}", names(2)))),
            (11, Some(format!("11 objects {were} {} and 1 more", names(10)))),
        ] {
            let (env, going) = (test_env().await, TerminatingObjects::default());
            going.note(&item(99, r#"{"uid":"u"}"#));
            for number in (0..count).chain(0..count) {
                going.note(&item(number, ""));
            }
            going.tell(&env.operation.journal);
            let results = env.operation.journal.close().results;
            assert_eq!(results.warnings.messages().next().map(str::to_owned), expected);
        }
    }
}
