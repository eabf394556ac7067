//! Makes sure that the namespace of an object exists before the object is restored (velero: pkg/restore/restore.go).

use crate::object::refused::Missing;
use crate::state::attempt::{Attempt, Obstacle};
use crate::state::item_result::ItemResult;
use crate::walk::context::RestoreContext;
use crate::walk::scope::RestoreScope;
use futures::future::join_all;
use lifeboat_archive::index::Row;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_store::StoreError;
use serde_json::Value;
use std::collections::BTreeSet;

/// Restores a namespace object: its target is ensured. The resource list gets it from the namespaces that were made; one
/// that was there is left untouched and not listed.
pub(crate) async fn restore(context: &RestoreContext, key: &ObjectKey, object: Value, last: bool) -> Attempt {
    let target = context.scope.namespace(&key.name);
    let namespaces = &context.state.namespaces;
    let done = |action| Attempt::Done { action, listed: false, settled: action != ItemResult::Failed };
    match namespaces.ensure(target, async { Ok(Some(object)) }, &context.env).await {
        Ok(made) => done(if made { ItemResult::Created } else { ItemResult::Skipped }),
        Err(Missing::ForNow) if !last => Attempt::Later(Obstacle::NamespaceMissing),
        Err(_) => {
            namespaces.give_up(target).await;
            done(ItemResult::Failed)
        }
    }
}

/// Makes sure that the target of a namespace of the backup is there.
pub(crate) async fn ensure(context: &RestoreContext, needed: &str) -> Result<(), Missing> {
    let in_backup = in_backup(context, needed);
    context.state.namespaces.ensure(context.scope.namespace(needed), in_backup, &context.env).await.map(drop)
}

/// Ends an object whose namespace does not come: the namespace has the error.
pub(crate) async fn give_up(context: &RestoreContext, row: &Row) -> Attempt {
    let Some(needed) = RestoreScope::namespace_needed(row) else { return Attempt::FAILED };
    let (namespaces, target) = (&context.state.namespaces, context.scope.namespace(needed));
    namespaces.give_up(target).await;
    if row.namespace().is_none() {
        return Attempt::Done { action: ItemResult::Failed, listed: false, settled: false };
    }
    namespaces.count_unrestored(target);
    Attempt::FAILED
}

/// Makes sure that the targets of these namespaces of the backup are there; gives those that are not.
pub(crate) async fn ensure_all<'a>(context: &RestoreContext, needed: BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    missing(needed, |name| ensure(context, name)).await
}

/// A namespace as the backup has it. compat: one that cannot be parsed counts as missing.
async fn in_backup(context: &RestoreContext, name: &str) -> Result<Option<Value>, StoreError> {
    let key = ObjectKey::new(GroupResource::namespaces(), None, name);
    let Some(row) = context.scope.find(&key) else { return Ok(None) };
    Ok(serde_json::from_slice(&context.reader.load_to_restore(row).await?).ok())
}

/// Returns the namespaces that cannot be ensured. All are ensured side by side, so that a wait for one does not delay
/// the others; the client's rate limit bounds the number of concurrent requests.
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
    use crate::state::wait::{WaitBudget, Waited, poll};
    use std::time::Duration;
    use tokio::time::{Instant, sleep};
    use tokio_util::sync::CancellationToken;

    #[tokio::test(start_paused = true)]
    async fn terminating_namespaces_are_waited_for_side_by_side() {
        let names: Vec<String> = (0..160).map(|n| n.to_string()).collect();
        let (cancel, together) = (&CancellationToken::new(), &WaitBudget::new(Duration::from_secs(600)));
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
