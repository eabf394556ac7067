//! Objects that an earlier run has restored into a namespace that was deleted and made again since. They are restored
//! again, even if the checkpoint marks them as done.

use crate::state::checkpoint::Checkpoint;
use crate::state::env::Env;
use crate::walk::scope::RestoreScope;
use futures::future::join_all;
use lifeboat_archive::index::Row;
use lifeboat_object::{ApiResource, Head};
use std::collections::{BTreeMap, BTreeSet};

/// Resets the objects that an earlier run has restored into a namespace which has another UID than the checkpoint
/// notes, is gone, or cannot be read. Objects without a namespace stay done.
pub(crate) async fn look_again(checkpoint: &mut Checkpoint, scope: &RestoreScope, resource: &ApiResource, env: &Env) {
    let mut done: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, row) in scope.archive.rows().enumerate() {
        if checkpoint.done(number).is_some()
            && let Some(namespace) = namespace_of(row)
        {
            done.entry(scope.namespace(namespace)).or_default().push(number);
        }
    }
    let noted = checkpoint.namespaces().all();
    let is_same = |name: &str| {
        let (noted, name) = (noted.get(name).cloned(), name.to_owned());
        async move { noted.is_some() && noted == uid_of(&name, resource, env).await }
    };
    let names: BTreeSet<String> = done.keys().map(|name| (*name).to_owned()).collect();
    let same = join_all(names.iter().map(|name| is_same(name))).await;
    for (name, _) in names.iter().zip(same).filter(|(_, is_same)| !is_same) {
        let rows = done.remove(name.as_str()).unwrap_or_default();
        let text = "Looking again at what an earlier run has restored, because its namespace may be another one now";
        env.operation.journal.info(text, &[("namespace", name), ("items", &rows.len().to_string())]);
        rows.into_iter().for_each(|row| checkpoint.forget(row));
    }
}

/// The namespace of the backup that an object is in, or is.
fn namespace_of(row: &Row) -> Option<&str> {
    if row.resource.is_namespaces() { Some(&row.name) } else { row.namespace() }
}

async fn uid_of(name: &str, resource: &ApiResource, env: &Env) -> Option<String> {
    let found = env.cluster.get(resource, None, name).await.ok()??;
    Head::parse(&found).ok().map(|head| head.uid)
}
