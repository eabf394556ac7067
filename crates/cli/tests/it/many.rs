//! Makes and changes many objects quickly: over many connections, past all proxies.

use lifeboat_cluster::{Cluster, ConnectOptions, MergePatch, PaceOptions, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Requests in flight.
const AT_ONCE: usize = 32;

/// The request that is made for each object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Create,
    /// The object is a merge patch for the one that it names.
    Patch,
}

/// Creates objects of types whose plural is their kind with an `s`.
pub(crate) fn create(kubeconfig: &Path, objects: Vec<Value>) {
    perform(kubeconfig, objects, Deed::Create);
}

/// Applies merge patches, each of which has the type, namespace and name of its object.
pub(crate) fn patch(kubeconfig: &Path, patches: Vec<Value>) {
    perform(kubeconfig, patches, Deed::Patch);
}

fn perform(kubeconfig: &Path, objects: Vec<Value>, deed: Deed) {
    let pace = PaceOptions { most: u32::try_from(AT_ONCE).expect("a small number"), ..PaceOptions::default() };
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        user_agent: "lifeboat-tests".to_owned(),
        pace,
        ..ConnectOptions::default()
    };
    Runtime::new().expect("a runtime").block_on(async {
        let cluster = Cluster::connect(&options).await.expect("the cluster");
        let objects = Arc::new(objects);
        let mut workers = JoinSet::new();
        for first in 0..AT_ONCE {
            let (cluster, objects) = (cluster.clone(), Arc::clone(&objects));
            workers.spawn(async move {
                for object in objects.iter().skip(first).step_by(AT_ONCE) {
                    one(&cluster, object, deed).await;
                }
            });
        }
        while let Some(ended) = workers.join_next().await {
            ended.expect("a worker");
        }
    });
}

async fn one(cluster: &Cluster, object: &Value, deed: Deed) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (name, namespace) = (text("/metadata/name").expect("a name"), text("/metadata/namespace"));
    let (version, kind) = (text("/apiVersion").expect("a version"), text("/kind").expect("a kind"));
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let mut resource = ApiResource::new(group, version, format!("{}s", kind.to_lowercase()), kind);
    resource.namespaced = namespace.is_some();
    let body = object.to_string().into();
    let done = match deed {
        Deed::Create => cluster.create(&resource, namespace, name, WriteBody::of(body)).await,
        Deed::Patch => cluster.patch(&resource, namespace, name, MergePatch::of(body)).await,
    };
    done.unwrap_or_else(|e| panic!("{kind} {name}: {e}"));
}
