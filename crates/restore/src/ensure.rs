//! The namespace that an object needs is there before the object (restore.md 2.7).

use crate::action::Action;
use crate::item::{Attempt, Context, Why};
use crate::namespaces::Missing;
use futures::future::join_all;
use lifeboat_archive::index::Row;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_store::StoreError;
use serde_json::Value;
use std::collections::BTreeSet;

impl Context {
    /// A namespace object: its target is ensured. The resource list gets it from the namespaces that were made; one
    /// that was there is left untouched and not listed.
    pub(crate) async fn namespace(&self, key: &ObjectKey, object: Value, last: bool) -> Attempt {
        let target = self.mapped(&key.name);
        let done = |action| Attempt::Done { action, listed: false, settled: action != Action::Failed };
        match self.namespaces.ensure(target, async { Ok(Some(object)) }, &self.env).await {
            Ok(made) => done(if made { Action::Created } else { Action::Skipped }),
            Err(Missing::ForNow) if !last => Attempt::Later(Why::Namespace),
            Err(_) => {
                self.namespaces.give_up(target).await;
                done(Action::Failed)
            }
        }
    }

    /// Makes sure that the target of a namespace of the backup is there.
    pub(crate) async fn ensure_namespace(&self, needed: &str) -> Result<(), Missing> {
        let in_backup = self.namespace_in_backup(needed);
        self.namespaces.ensure(self.mapped(needed), in_backup, &self.env).await.map(drop)
    }

    /// Ends an object whose namespace does not come: the namespace has the error.
    pub(crate) async fn without_namespace(&self, row: &Row) -> Attempt {
        let Some(needed) = self.namespace_needed(row) else { return Attempt::FAILED };
        let target = self.mapped(needed);
        self.namespaces.give_up(target).await;
        if row.namespace().is_none() {
            return Attempt::Done { action: Action::Failed, listed: false, settled: false };
        }
        self.namespaces.miss(target);
        self.lost(&self.target_of(&row.key()));
        Attempt::FAILED
    }

    /// The namespace of the backup that an object needs; a namespace needs itself.
    pub(crate) fn namespace_needed<'a>(&self, row: &'a Row) -> Option<&'a str> {
        let is_namespace = *row.resource == GroupResource::new("", "namespaces");
        row.namespace().or(is_namespace.then_some(&*row.name))
    }

    /// Makes sure that the targets of these namespaces of the backup are there; gives those that are not.
    pub(crate) async fn missing_namespaces<'a>(&self, needed: BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        missing(needed, |name| self.ensure_namespace(name)).await
    }

    /// The target of a namespace of the backup.
    pub(crate) fn mapped<'a>(&'a self, namespace: &'a str) -> &'a str {
        self.restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str)
    }

    /// A namespace as the backup has it. compat: one that cannot be parsed counts as missing.
    async fn namespace_in_backup(&self, name: &str) -> Result<Option<Value>, StoreError> {
        let Some(row) = self.find(&ObjectKey::new(GroupResource::new("", "namespaces"), None, name)) else {
            return Ok(None);
        };
        Ok(serde_json::from_slice(&self.load_to_restore(row).await?).ok())
    }
}

/// Those of these namespaces that cannot be ensured. All are ensured side by side, so that one that is waited for keeps no
/// other one waiting; how many requests there are at the same time is a matter of the client's pace.
async fn missing<'a, F>(needed: BTreeSet<&'a str>, ensure: impl Fn(&'a str) -> F) -> BTreeSet<&'a str>
where
    F: Future<Output = Result<(), Missing>>,
{
    let ensured = join_all(needed.iter().map(|name| ensure(name))).await;
    needed.into_iter().zip(ensured).filter(|(_, ensured)| ensured.is_err()).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{Together, Waited, poll};
    use std::time::Duration;
    use tokio::time::{Instant, sleep};
    use tokio_util::sync::CancellationToken;

    #[tokio::test(start_paused = true)]
    async fn terminating_namespaces_are_waited_for_side_by_side() {
        let names: Vec<String> = (0..160).map(|n| n.to_string()).collect();
        let (cancel, together) = (&CancellationToken::new(), &Together::new(Duration::from_secs(600)));
        let goes_after = |name: &str| Duration::from_secs(if name == "159" { 599 } else { 3600 });
        let began = Instant::now();
        let ensure = |name| async move {
            // The first answer takes a moment.
            sleep(Duration::from_secs(1)).await;
            let is_gone = || async move { Ok((began.elapsed() >= goes_after(name)).then_some(())) };
            match poll(|| together.until(), cancel, is_gone).await {
                Waited::Done(()) => Ok(()),
                _ => Err(Missing::ForGood),
            }
        };
        let missing = missing(names.iter().map(String::as_str).collect(), ensure).await;
        assert_eq!((missing.len(), missing.contains("159")), (159, false));
        assert!(began.elapsed() <= Duration::from_secs(601), "{:?}", began.elapsed());
    }
}
