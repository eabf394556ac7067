use super::ground::Ground;
use crate::config::NodeAgentConfig;
use crate::resources;
use crate::transfer::TransferKind::{DataDownload, DataUpload};
use serde_json::{Value, json};

fn config(text: &Value) -> NodeAgentConfig {
    NodeAgentConfig::parse("c", &[("k".to_owned(), text.to_string())].into()).unwrap().config
}

/// A pod of the user that mounts the claim `shop/data`.
async fn user_pod(ground: &Ground, more: Value) {
    let mut spec = json!({
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}],
        "containers": [{"name": "db", "image": "db:1", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "shop"}, "spec": spec});
    ground.create(&resources::pods(), pod).await;
}

#[tokio::test]
async fn a_download_without_privilege_waits_for_the_pod_that_tells_its_user() {
    let mut ground = Ground::start().await;
    ground.config = config(&json!({"movers": {"podSecurity": "restricted"}}));
    ground.target_claim(json!({"resources": {"requests": {"storage": "8Mi"}}})).await;
    ground.download("dd").await;
    ground.agent();
    let told = |found: Option<&Value>| {
        let message = found.and_then(|found| found["status"]["message"].as_str()).unwrap_or_default();
        message.contains("nothing says as which user the mover of the claim shop/data runs")
    };
    ground.until(&DataDownload.resource(), Some("velero"), "dd", told).await;
    user_pod(&ground, json!({"securityContext": {"runAsUser": 70, "fsGroup": 72}})).await;
    let mover = ground.there(&resources::pods(), "velero", "dd").await;
    let context = &mover["spec"]["securityContext"];
    assert_eq!((&context["runAsUser"], &context["fsGroup"]), (&json!(70), &json!(72)));
}

#[tokio::test]
async fn an_upload_without_privilege_and_without_a_user_fails_with_the_reason() {
    let mut ground = Ground::start().await;
    ground.config = config(&json!({"movers": {"podSecurity": "restricted"}}));
    ground.snapshot(true).await;
    user_pod(&ground, json!({})).await;
    ground.upload("du").await;
    ground.agent();
    let failed = ground.phase(DataUpload, "du", "Failed").await;
    let message = failed["status"]["message"].as_str().unwrap();
    assert!(message.contains("set movers.runAsUser in the ConfigMap of the node agent"), "{message}");
}

#[tokio::test]
async fn a_download_that_waits_for_no_pod_runs_where_the_pod_there_may_run() {
    let mut ground = Ground::start().await;
    ground.config = config(&json!({"restorePVC": {"ignoreDelayBinding": true}}));
    ground.target_claim(json!({"resources": {"requests": {"storage": "8Mi"}}})).await;
    user_pod(&ground, json!({"nodeSelector": {"disk": "fast"}})).await;
    ground.download("dd").await;
    ground.agent();
    let mover = ground.there(&resources::pods(), "velero", "dd").await;
    assert_eq!(mover["spec"]["nodeSelector"], json!({"disk": "fast"}));
}
