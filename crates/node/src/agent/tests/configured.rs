//! Keys of the configuration by their effect.

use super::ground::Ground;
use crate::agent::Agent;
use crate::config::NodeAgentConfig;
use crate::resources;
use crate::start::{Names, StartError, prepare};
use crate::transfer::TransferKind::DataDownload;
use jiff::Timestamp;
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::sync::Arc;

fn config(text: &Value) -> NodeAgentConfig {
    NodeAgentConfig::parse("c", &[("k".to_owned(), text.to_string())].into()).unwrap().config
}

impl Ground {
    /// Makes an object without a namespace.
    async fn of_cluster(&self, resource: &ApiResource, name: &str, rest: Value) {
        let version = match resource.group.as_str() {
            "" => resource.version.clone(),
            group => format!("{group}/{}", resource.version),
        };
        let mut object = rest;
        (object["apiVersion"], object["kind"]) = (json!(version), json!(resource.kind));
        object["metadata"]["name"] = json!(name);
        self.create(resource, object).await;
    }

    async fn config_map(&self, name: &str, data: Value) {
        let metadata = json!({"name": name, "namespace": "velero"});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        self.create(&resources::config_maps(), object).await;
    }

    /// Prepares an agent of a node with these ConfigMaps.
    async fn prepared(&self, node: &str, config: &str, repositories: &str) -> Result<Agent, StartError> {
        let mut settings = self.settings();
        node.clone_into(&mut settings.node);
        let names = Names { config: config.to_owned(), repository_config: repositories.to_owned() };
        prepare(self.kube.0.clone(), settings, &names, Arc::new(Timestamp::now)).await
    }
}

/// The expressions that the nodes of a mover's pod must fulfil.
fn node_expressions(pod: &Value) -> Vec<Value> {
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    affinity["nodeSelectorTerms"][0]["matchExpressions"].as_array().unwrap().clone()
}

fn on_disk(kind: &str) -> Value {
    json!({"key": "disk", "operator": "In", "values": [kind]})
}

#[tokio::test]
async fn the_labels_of_a_node_decide_how_many_transfers_it_runs() {
    let ground = Ground::start().await;
    for (name, size) in [("n1", "s"), ("n2", "l")] {
        ground.of_cluster(&resources::nodes(), name, json!({"metadata": {"labels": {"size": size}}})).await;
    }
    let rules = json!([{"nodeSelector": {"matchLabels": {"size": "s"}}, "number": 2}]);
    let text = json!({"loadConcurrency": {"globalConfig": 4, "perNodeConfig": rules}}).to_string();
    ground.config_map("agents", json!({"k": text})).await;
    ground.config_map("repositories", json!({"kopia": r#"{"cacheLimitMB": 2048}"#})).await;
    let mut seen = Vec::new();
    for (node, repositories) in [("n1", "repositories"), ("n2", ""), ("unknown", "")] {
        let agent = ground.prepared(node, "agents", repositories).await.unwrap();
        seen.push((agent.concurrency, agent.settings.cache_limit_mb));
    }
    assert_eq!(seen, [(2, 2048), (4, 5000), (4, 5000)]);
    assert_eq!(ground.prepared("n1", "", "").await.unwrap().concurrency, 1);
}

#[tokio::test]
async fn what_a_configuration_names_has_to_be_there() {
    let ground = Ground::start().await;
    let Err(missing) = ground.prepared("n1", "absent", "").await else { panic!("it starts without its ConfigMap") };
    let told = "the ConfigMap velero/absent of --node-agent-configmap does not exist; make it, or leave the flag out";
    assert_eq!(missing.to_string(), told);
    ground.config_map("empty", json!({})).await;
    let Err(empty) = ground.prepared("n1", "", "empty").await else { panic!("it starts without its settings") };
    assert_eq!(empty.to_string(), "the ConfigMap empty of --backup-repository-configmap has no data");
    // Classes that are not there, or would keep each cache, are left out.
    let text = json!({"priorityClassName": "high", "cachePVC": {"storageClass": "fast"}}).to_string();
    ground.config_map("agents", json!({"k": text})).await;
    let classes = async || {
        let config = ground.prepared("n1", "agents", "").await.unwrap().config;
        (config.priority_class, config.cache.map(|cache| cache.storage_class))
    };
    assert_eq!(classes().await, (String::new(), None));
    let class = |policy: &str| json!({"provisioner": "d", "reclaimPolicy": policy});
    ground.of_cluster(&resources::priority_classes(), "high", json!({"value": 7})).await;
    ground.of_cluster(&resources::storage_classes(), "fast", class("Retain")).await;
    assert_eq!(classes().await, ("high".to_owned(), None));
    ground.kube.0.delete(&resources::storage_classes(), None, "fast").await.unwrap();
    ground.of_cluster(&resources::storage_classes(), "fast", class("Delete")).await;
    assert_eq!(classes().await, ("high".to_owned(), Some("fast".to_owned())));
}

#[tokio::test]
async fn an_agent_with_the_wrong_directories_of_pods_does_not_start() {
    let ground = Ground::start().await;
    let uid = ground.target_pod("db-0").await;
    ground.target_runs("db-0").await;
    assert!(ground.prepared("n1", "", "").await.is_ok());
    std::fs::remove_dir_all(ground.settings().host_root.join(uid)).unwrap();
    let Err(wrong) = ground.prepared("n1", "", "").await else { panic!("it starts with the wrong directories") };
    assert!(matches!(&wrong, StartError::HostPath { pod, .. } if pod == "shop/db-0"), "{wrong}");
    // Of another node nothing is to be there.
    assert!(ground.prepared("n2", "", "").await.is_ok());
}

#[tokio::test]
async fn the_nodes_of_an_upload_are_those_of_the_class_of_its_claim() {
    let mut ground = Ground::start().await;
    let rule =
        |disk: &str, class: &str| json!({"nodeSelector": {"matchLabels": {"disk": disk}}, "storageClass": class});
    ground.config = config(&json!({
        "loadAffinity": [rule("fast", "fast"), rule("cheap", "cheap")], "backupPVC": {"fast": {"storageClass": "cheap"}},
    }));
    ground.snapshot(true).await;
    ground.upload("du").await;
    ground.agent();
    let pod = ground.there(&resources::pods(), "velero", "du").await;
    let expressions = node_expressions(&pod);
    assert!(expressions.contains(&on_disk("cheap")) && !expressions.contains(&on_disk("fast")), "{expressions:?}");
}

#[tokio::test]
async fn an_upload_with_fast_provisioning_avoids_the_nodes_of_the_source() {
    let mut ground = Ground::start().await;
    let annotations = json!({"csi.vsphere.volume/fast-provisioning": "true"});
    ground.config = config(&json!({"backupPVC": {"fast": {"annotations": annotations}}}));
    ground.snapshot(true).await;
    ground.patch(&resources::claims(), "shop", "data", json!({"spec": {"volumeName": "pv-source"}})).await;
    ground.of_cluster(&resources::volumes(), "pv-source", json!({"spec": {}})).await;
    for (name, volume, node) in [("a1", "pv-source", "n7"), ("a2", "pv-other", "n8")] {
        let spec = json!({"attacher": "d", "nodeName": node, "source": {"persistentVolumeName": volume}});
        ground.of_cluster(&resources::attachments(), name, json!({"spec": spec})).await;
    }
    ground.upload("du").await;
    ground.agent();
    let pod = ground.there(&resources::pods(), "velero", "du").await;
    let avoided = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n7"]});
    assert!(node_expressions(&pod).contains(&avoided), "{:?}", node_expressions(&pod));
}

/// A download into a claim of the class `late`, which is bound when a pod uses it.
async fn late_download(ground: &Ground) {
    let class = json!({"provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"});
    ground.of_cluster(&resources::storage_classes(), "late", class).await;
    let spec = json!({"storageClassName": "late", "resources": {"requests": {"storage": "8Mi"}}});
    ground.target_claim(spec).await;
    ground.download("dd").await;
}

#[tokio::test]
async fn a_download_into_a_class_that_binds_late_waits_for_the_node_of_its_pod() {
    let mut ground = Ground::start().await;
    late_download(&ground).await;
    ground.agent();
    let told = |found: Option<&Value>| {
        let message = found.and_then(|found| found["status"]["message"].as_str()).unwrap_or_default();
        message.starts_with("the target claim waits for a pod that uses it, because its storage class late binds late")
    };
    ground.until(&DataDownload.resource(), Some("velero"), "dd", told).await;
    let chosen = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n5"}}});
    ground.patch(&resources::claims(), "shop", "data", chosen).await;
    let pod = ground.there(&resources::pods(), "velero", "dd").await;
    assert_eq!(pod["spec"]["nodeSelector"], json!({"kubernetes.io/hostname": "n5"}));
}

#[tokio::test]
async fn a_download_that_ignores_late_binding_waits_for_nobody() {
    let mut ground = Ground::start().await;
    let rule = json!({"nodeSelector": {"matchLabels": {"disk": "late"}}, "storageClass": "late"});
    ground.config = config(&json!({"restorePVC": {"ignoreDelayBinding": true}, "loadAffinity": [rule]}));
    late_download(&ground).await;
    ground.agent();
    let pod = ground.there(&resources::pods(), "velero", "dd").await;
    assert_eq!(pod["spec"].get("nodeSelector"), None);
    // By the class of the target.
    assert!(node_expressions(&pod).contains(&on_disk("late")), "{:?}", node_expressions(&pod));
}

#[tokio::test]
async fn what_the_claim_of_a_download_needs_is_copied_and_goes_with_it() {
    let mut ground = Ground::start().await;
    ground.config = config(&json!({
        "restorePVC": {"secretNames": ["key"], "configMapNames": ["settings"]},
        "cachePVC": {"storageClass": "fast", "residentThresholdInMB": 1024},
    }));
    let copies = [(resources::secrets(), "key"), (resources::config_maps(), "settings")];
    for (resource, name) in &copies {
        let metadata = json!({"name": name, "namespace": "shop"});
        let object = json!({"apiVersion": "v1", "kind": resource.kind, "metadata": metadata, "data": {"d": "MQ=="}});
        ground.create(resource, object).await;
    }
    ground.target_claim(json!({"resources": {"requests": {"storage": "8Mi"}}})).await;
    ground.download("dd").await;
    ground.agent();
    let pod = ground.there(&resources::pods(), "velero", "dd").await;
    for (resource, name) in &copies {
        ground.there(resource, "velero", name).await;
    }
    let cache = ground.there(&resources::claims(), "velero", "dd-cache").await;
    assert_eq!(
        (&cache["spec"]["storageClassName"], &cache["spec"]["resources"]["requests"]["storage"]),
        (&json!("fast"), &json!("6Gi"))
    );
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let mounts_cache = |volume: &Value| volume["persistentVolumeClaim"]["claimName"] == "dd-cache";
    assert!(volumes.iter().any(mounts_cache), "{volumes:?}");
    ground.cancel(DataDownload, "dd").await;
    ground.ended(DataDownload, "dd", "Canceled").await;
    for (resource, name) in &copies {
        ground.gone(resource, name).await;
    }
    ground.gone(&resources::claims(), "dd-cache").await;
}
