//! Tests that only the sandbox can pass: small histories, its token, its bounds, `Sandbox::apply`.

use crate::client::{Api, config_map, names};
use crate::sandbox;
use lifeboat_cluster::{Cluster, ConnectOptions, ListRequest};
use lifeboat_object::GroupResource;
use lifeboat_sandbox::{MemoryStore, SandboxError};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

#[tokio::test]
async fn an_expired_list_goes_on_with_the_token_it_is_given() {
    let sandbox = sandbox(MemoryStore::with_history(3)).await;
    let api = Api::connect(&sandbox.kubeconfig()).await;
    let all = api.config_maps();
    for n in ["a", "b", "c"] {
        api.post(&all, &config_map(n)).await;
    }
    let (_, first) = api.get(&format!("{all}?limit=1")).await;
    for n in ["d", "e", "f", "g"] {
        api.post(&all, &config_map(n)).await;
    }
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (code, expired) = api.get(&format!("{all}?limit=1&continue={token}")).await;
    assert_eq!((code, &expired["reason"]), (410, &json!("Expired")));
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = api.get(&format!("{all}?continue={token}")).await;
    assert_eq!(
        (names(&first), names(&rest)),
        (vec!["a".into()], ["b", "c", "d", "e", "f", "g", "kube-root-ca.crt"].map(String::from).to_vec())
    );
    let mut watch = api.watch(&format!("{all}?watch=1&resourceVersion=2")).await;
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.next().await, None);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn the_token_is_required_and_bodies_are_bounded() {
    let sandbox = sandbox(MemoryStore::default()).await;
    let api = Api::connect(&sandbox.kubeconfig()).await;
    let strangers = sandbox.kubeconfig().replace("token: ", "token: x");
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&strangers).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    let request = http::Request::get("/api/v1/namespaces").body(kube::client::Body::empty()).unwrap();
    let answer = kube::Client::try_from(config).unwrap().send(request).await.unwrap();
    assert_eq!(answer.status(), 401);

    let headers = [("content-type", "application/json")];
    let large = vec![b' '; (16 << 20) + 1];
    assert_eq!(api.send("POST", &api.config_maps(), &headers, large).await.0, 413);
    let deep = "[".repeat(100_000);
    assert_eq!(api.send("POST", &api.config_maps(), &headers, deep).await.0, 400);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let pods = format!("/api/v1/namespaces/{}/pods", api.namespace);
    api.post(&pods, &pod).await;
    let (code, status) = api.get(&format!("{pods}/p/log")).await;
    assert_eq!((code, &status["reason"]), (501, &json!("NotImplemented")));
    let applied = [("content-type", "application/apply-patch+yaml")];
    assert_eq!(api.send("PATCH", &format!("{pods}/p"), &applied, "{}").await.0, 415);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn applied_objects_keep_status_and_identity() {
    let sandbox = sandbox(MemoryStore::default()).await;
    let api = Api::connect(&sandbox.kubeconfig()).await;
    let object = |kind: &str, name: &str, uid: &str, more: Value| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": kind, "spec": {}, "metadata": {"name": name, "namespace": "shop", "uid": uid}});
        extend(&mut object, more);
        object
    };
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d"}]}});
    let objects = vec![
        object("ReplicaSet", "web-1", "r", owner),
        object("Deployment", "web", "d", json!({"status": {"replicas": 2}})),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
    ];
    for _ in 0..2 {
        sandbox.apply(objects.clone()).await.unwrap();
    }
    let (_, deployment) = api.get("/apis/apps/v1/namespaces/shop/deployments/web").await;
    assert_eq!((&deployment["status"], &deployment["metadata"]["uid"]), (&json!({"replicas": 2}), &json!("d")));
    assert_eq!(api.delete("/apis/apps/v1/namespaces/shop/deployments/web").await.0, 200);
    api.gone("/apis/apps/v1/namespaces/shop/replicasets/web-1").await;
    let refused = sandbox.apply(vec![json!({"apiVersion": "v9", "kind": "X", "metadata": {"name": "n"}})]).await;
    assert!(matches!(refused, Err(SandboxError::Apply { what, .. }) if what == "X n"));
    sandbox.shutdown().await;
}

fn extend(object: &mut Value, more: Value) {
    for (key, value) in more.as_object().unwrap() {
        if let (Some(inner), Some(value)) = (object[key].as_object_mut(), value.as_object()) {
            inner.extend(value.clone());
        } else {
            object[key] = value.clone();
        }
    }
}

#[tokio::test]
async fn a_shutdown_ends_watches() {
    let sandbox = sandbox(MemoryStore::default()).await;
    let api = Api::connect(&sandbox.kubeconfig()).await;
    let mut watch = api.watch(&format!("{}?watch=1&fieldSelector=metadata.name%3Dnone", api.config_maps())).await;
    let address = sandbox.address();
    timeout(Duration::from_secs(10), sandbox.shutdown()).await.unwrap();
    assert_eq!(watch.next().await, None);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn our_own_client_lists_many_objects_through_it() {
    let sandbox = sandbox(MemoryStore::default()).await;
    let objects = (0..3_000).map(|n| {
        let mut object = config_map(&format!("m{n:05}"));
        object["metadata"]["namespace"] = "default".into();
        object
    });
    sandbox.apply(objects.collect()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, sandbox.kubeconfig()).unwrap();
    let options = ConnectOptions { kubeconfig: Some(path), user_agent: "test/1".into(), ..ConnectOptions::default() };
    let cluster = Cluster::connect(&options).await.unwrap();
    let catalog = cluster.discover().await.unwrap();
    assert_eq!(catalog.failures, []);
    let wanted = GroupResource::new("", "configmaps");
    let resource = catalog.all().find(|r| r.group_resource() == wanted).unwrap().clone();
    let request = ListRequest::all(Arc::clone(&resource)).in_namespace("default".to_owned());
    let mut list = cluster.list(request);
    while list.next().await.unwrap().is_some() {}
    // kube-root-ca.crt is one more.
    assert_eq!((list.end().count, list.end().mixed_revisions), (3_001, false));
    assert!(list.end().pages > 5);
    sandbox.shutdown().await;
}
