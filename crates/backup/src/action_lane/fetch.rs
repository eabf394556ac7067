//! Reads objects that other objects name.
//!
//! The number of requests does not grow with the objects: a few are read one by one, many by a list.

use crate::collect::parse;
use crate::env::Env;
use crate::request::scope::Scope;
use crate::stage_error::StageError;
use futures::StreamExt;
use lifeboat_cluster::ListRequest;
use lifeboat_object::{ApiResource, GroupResource, Item, ObjectKey, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most objects of a type and namespace that are read one by one.
const ONE_BY_ONE: usize = 32;
/// Reads in flight.
const AT_ONCE: usize = 8;

/// The caller that asks for objects, and takes them as they arrive.
pub(crate) trait ItemReceiver: Send {
    /// Takes one.
    fn take(&mut self, item: Item) -> impl Future<Output = Result<(), StageError>> + Send;

    /// The cluster has no such object.
    fn absent(&mut self, key: ObjectKey);

    /// It could not be read, which stands in the results.
    fn unread(&mut self, key: ObjectKey);
}

/// Reads named objects. Of a type that the cluster does not serve there is none.
pub(crate) async fn named(
    wanted: impl IntoIterator<Item = ObjectKey>,
    scope: &Scope,
    env: &Env,
    taker: &mut impl ItemReceiver,
) -> Result<(), StageError> {
    let mut places: BTreeMap<(GroupResource, Option<String>), BTreeSet<String>> = BTreeMap::new();
    for key in wanted {
        places.entry((key.resource, key.namespace)).or_default().insert(key.name);
    }
    for ((group_resource, namespace), mut names) in places {
        let key = |name: String| ObjectKey::new(group_resource.clone(), namespace.as_deref(), name);
        let Some(resource) = scope.catalog.find(&group_resource) else {
            names.into_iter().for_each(|name| taker.absent(key(name)));
            continue;
        };
        if names.len() > ONE_BY_ONE {
            // A list that was interrupted may bring one twice: the second is none of those that are missing.
            let is_named = |item: &Item| names.remove(&item.head.name);
            let is_whole = pick(resource, namespace.as_deref(), is_named, env, taker).await?;
            for name in names {
                if is_whole { taker.absent(key(name)) } else { taker.unread(key(name)) }
            }
        } else {
            get_all(resource, names.into_iter().map(key), env, taker).await?;
        }
    }
    Ok(())
}

/// Lists a type and gives the wanted objects as they arrive. A list that fails is an error in the journal. Returns true
/// if the list came to its end.
pub(crate) async fn pick(
    resource: &Arc<ApiResource>,
    namespace: Option<&str>,
    mut wanted: impl FnMut(&Item) -> bool,
    env: &Env,
    taker: &mut impl ItemReceiver,
) -> Result<bool, StageError> {
    let request = ListRequest::all(Arc::clone(resource)).in_namespace(namespace.map(str::to_owned));
    let mut list = env.cluster.list(request);
    loop {
        let bodies = tokio::select! {
            () = env.operation.cancel.cancelled() => return Err(StageError::OperationEnded),
            bodies = list.next() => bodies,
        };
        match bodies {
            Ok(Some(bodies)) => {
                for item in parse::items(resource, bodies, &env.operation.journal).into_iter().filter(&mut wanted) {
                    taker.take(item).await?;
                }
            }
            Ok(None) => return Ok(true),
            Err(e) => {
                failed(&ObjectKey::new(resource.group_resource(), namespace, ""), &e, env);
                return Ok(false);
            }
        }
    }
}

/// Reads objects one by one, some at once, and gives them as they arrive.
async fn get_all(
    resource: &Arc<ApiResource>,
    keys: impl Iterator<Item = ObjectKey>,
    env: &Env,
    taker: &mut impl ItemReceiver,
) -> Result<(), StageError> {
    let reads = keys.map(|key| async move { (get(resource, &key, env).await, key) });
    // In their order, so that what is told and what is saved does not depend on which answer comes first.
    let mut found = futures::stream::iter(reads).buffered(AT_ONCE);
    loop {
        let read = tokio::select! {
            () = env.operation.cancel.cancelled() => return Err(StageError::OperationEnded),
            read = found.next() => read,
        };
        match read {
            None => return Ok(()),
            Some((Ok(Some(item)), _)) => taker.take(item).await?,
            Some((Ok(None), key)) => taker.absent(key),
            Some((Err(ReportedError), key)) => taker.unread(key),
        }
    }
}

/// An error that stands in the results.
pub(crate) struct ReportedError;

/// Reads one object.
pub(crate) async fn get(
    resource: &Arc<ApiResource>,
    key: &ObjectKey,
    env: &Env,
) -> Result<Option<Item>, ReportedError> {
    match env.cluster.get(resource, key.namespace.as_deref(), &key.name).await {
        Ok(None) => Ok(None),
        Ok(Some(body)) => match Item::parse(Arc::clone(resource), body) {
            Ok(item) => Ok(Some(item)),
            Err(e) => {
                failed(key, &e, env);
                Err(ReportedError)
            }
        },
        Err(e) => {
            failed(key, &e, env);
            Err(ReportedError)
        }
    }
}

pub(crate) fn failed(key: &ObjectKey, error: &dyn std::error::Error, env: &Env) {
    env.operation.journal.item(Severity::Error, key, "Error getting related items", Some(&error.to_string()));
}

/// Tells that an object is not there that another one needs.
pub(crate) fn tell_absent(key: &ObjectKey, parent: &ObjectKey, env: &Env) {
    let message = format!("an object that {parent} needs was not found");
    env.operation.journal.item(Severity::Warning, key, &message, None);
}
