//! Calls, as a server makes them.

use crate::process::Plugin;
use lifeboat_plugin_proto::generated::backup_item_action_client::BackupItemActionClient as FirstVersionClient;
use lifeboat_plugin_proto::v2::backup_item_action_client::BackupItemActionClient;
use lifeboat_plugin_proto::v2::{ExecuteRequest, ExecuteResponse};
use lifeboat_plugin_proto::{generated, v2};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Calls an action for an object of this name, beside others.
pub(crate) async fn execute(channel: Channel, plugin: &str, item: &Value) -> Result<ExecuteResponse, Status> {
    let limit = usize::MAX;
    let mut client = BackupItemActionClient::new(channel).max_decoding_message_size(limit);
    let request = ExecuteRequest {
        plugin: plugin.to_owned(),
        item: item.to_string().into_bytes(),
        backup: json!({"metadata": {"name": "b1"}}).to_string().into_bytes(),
    };
    Ok(client.execute(request).await?.into_inner())
}

pub(crate) fn item(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}})
}

#[tokio::test]
async fn it_is_healthy() {
    let plugin = Plugin::start(&[]).await;
    for service in ["plugin", ""] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let health = HealthClient::new(plugin.connect().await).check(request).await.unwrap().into_inner();
        assert_eq!(health.status(), ServingStatus::Serving, "{service}");
    }
}

#[tokio::test]
async fn only_the_second_version_of_actions_is_there() {
    let plugin = Plugin::start(&[]).await;
    let request = generated::BackupItemActionAppliesToRequest { plugin: "example.io/odd".to_owned() };
    let error = FirstVersionClient::new(plugin.connect().await).applies_to(request).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
}

#[tokio::test]
async fn what_an_action_does_not_change_comes_back_byte_by_byte() {
    let plugin = Plugin::start(&[]).await;
    let spaced = br#"{ "kind":"X", "metadata": {"name": "plain"}, "n": 1.50, "n": 1e2 }"#.to_vec();
    let request = ExecuteRequest { plugin: "example.io/odd".to_owned(), item: spaced.clone(), backup: b"{}".to_vec() };
    let answer = BackupItemActionClient::new(plugin.connect().await).execute(request).await.unwrap().into_inner();
    assert_eq!(answer, ExecuteResponse { item: spaced, ..ExecuteResponse::default() });
}

#[tokio::test]
async fn what_an_action_changes_comes_back_with_all_that_it_names() {
    let plugin = Plugin::start(&[]).await;
    let answer = execute(plugin.connect().await, "example.io/Save_1", &item("x")).await.unwrap();
    let changed = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "x", "namespace": "shop", "annotations": {"example.io/saved-by": "b1"}}});
    let key = |group: &str, resource: &str, namespace: &str, name: &str| generated::ResourceIdentifier {
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let expected = ExecuteResponse {
        item: changed.to_string().into_bytes(),
        additional_items: vec![key("apps", "deployments", "shop", "web"), key("", "nodes", "", "n1")],
        operation_id: "b1-x".to_owned(),
        post_operation_items: vec![key("", "secrets", "shop", "later")],
    };
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn messages_may_be_large_in_both_directions() {
    let plugin = Plugin::start(&[]).await;
    let mut large = item("large");
    large["data"] = "x".repeat(16 << 20).into();
    let answer = execute(plugin.connect().await, "example.io/Save_1", &large).await.unwrap();
    assert!(answer.item.len() > 16 << 20, "{}", answer.item.len());
}

#[tokio::test]
async fn calls_go_on_beside_each_other() {
    let plugin = Plugin::start(&[]).await;
    let channel = plugin.connect().await;
    let began = Instant::now();
    let (slow, plain) = (item("slow"), item("plain"));
    let all = (0..64).map(|n| execute(channel.clone(), "example.io/odd", if n % 2 == 0 { &slow } else { &plain }));
    let answers = futures::future::join_all(all).await;
    assert!(answers.iter().all(Result::is_ok));
    // One after the other the slow ones would take 9.6 s.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_the_plugin_prints_does_not_stop_it() {
    let plugin = Plugin::start(&[]).await;
    let channel = plugin.connect().await;
    let loud = item("loud");
    let (answer, left) = tokio::join!(execute(channel, "example.io/odd", &loud), async {
        // The pipes are read from now on, as servers do.
        let channel = plugin.connect().await;
        let reading = plugin.left();
        let end = async {
            let _ = execute(channel.clone(), "example.io/odd", &item("slow")).await;
            let mut client = lifeboat_plugin_proto::plugin::grpc_controller_client::GrpcControllerClient::new(channel);
            client.shutdown(lifeboat_plugin_proto::plugin::Empty {}).await.unwrap();
        };
        tokio::join!(reading, end).0
    });
    answer.unwrap();
    // All of it comes out where servers read whatever there is.
    assert_eq!((left.status.code(), left.output.len(), left.errors), (Some(0), 0, (2 << 20) + 1));
}

#[tokio::test]
async fn the_log_is_lines_with_levels_and_fields() {
    let plugin = Plugin::start(&["--log-level=debug"]).await;
    execute(plugin.connect().await, "example.io/odd", &item("log")).await.unwrap();
    let left = plugin.shut_down().await;
    let mut lines = left.log;
    for line in &mut lines {
        let source = line.as_object_mut().unwrap().remove("logSource").unwrap();
        assert!(source.as_str().unwrap().starts_with("crates/sdk/"), "{source}");
    }
    let line = |level: (&str, &str), message: &str, others: Value| {
        let mut line = json!({
            "@level": level.0, "level": level.1, "@message": message, "@logSourceSetBy": "plugin", "item": "pods/log"});
        line.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
        line
    };
    let expected = [
        line(("error", "error"), "an error", json!({"error": "no space"})),
        line(("warn", "warning"), "a warning", json!({"count": 3})),
        line(("info", "info"), "a step", json!({"is_first": true})),
        line(("debug", "debug"), "a detail", json!({})),
    ];
    assert_eq!(lines[1..5], expected);
    let long = lines[5].to_string();
    assert!(long.contains("… (cut)") && long.len() < 64 << 10, "{}", long.len());
    assert_eq!(lines.len(), 6);
}

#[tokio::test]
async fn a_time_that_is_not_known_is_said_as_servers_know_it() {
    let plugin = Plugin::start(&[]).await;
    let request = v2::BackupItemActionProgressRequest {
        plugin: "example.io/Save_1".to_owned(),
        operation_id: "new".to_owned(),
        backup: b"{\"metadata\":{\"name\":\"b1\"}}".to_vec(),
    };
    let answer = BackupItemActionClient::new(plugin.connect().await).progress(request).await.unwrap().into_inner();
    let unknown = Some(prost_types::Timestamp { seconds: -62_135_596_800, nanos: 0 });
    let expected = generated::OperationProgress {
        completed: false,
        err: String::new(),
        n_completed: 3,
        n_total: 7,
        operation_units: "Bytes".to_owned(),
        description: "of b1".to_owned(),
        started: unknown,
        updated: unknown,
    };
    assert_eq!(answer.progress, Some(expected));
}
