//! Errors, as a server sees them.

use crate::calls::{execute, item};
use crate::process::Plugin;
use lifeboat_plugin_proto::generated::delete_item_action_client::DeleteItemActionClient;
use lifeboat_plugin_proto::generated::object_store_client::ObjectStoreClient;
use lifeboat_plugin_proto::generated::volume_snapshotter_client::VolumeSnapshotterClient;
use lifeboat_plugin_proto::generated::{
    DeleteItemActionAppliesToRequest, DeleteSnapshotRequest, ObjectExistsRequest, Stack,
};
use lifeboat_plugin_proto::v1::ItemBlockActionAppliesToRequest;
use lifeboat_plugin_proto::v1::item_block_action_client::ItemBlockActionClient;
use lifeboat_plugin_proto::v2::backup_item_action_client::BackupItemActionClient;
use lifeboat_plugin_proto::v2::restore_item_action_client::RestoreItemActionClient;
use lifeboat_plugin_proto::v2::{BackupItemActionAppliesToRequest, ExecuteRequest, RestoreItemActionAppliesToRequest};
use prost::Message;
use tonic::{Code, Status};

fn told(error: &Status) -> (Code, &str) {
    (error.code(), error.message())
}

#[tokio::test]
async fn an_error_is_told_with_its_text() {
    let plugin = Plugin::start(&[]).await;
    let channel = plugin.connect().await;
    for (name, code, text) in [
        ("fail", Code::Unknown, "there is no space for \"fail\""),
        ("passing", Code::Unavailable, "the storage is busy"),
        ("no-object", Code::Unknown, "the plugin answers with what is no object: it has no kind"),
    ] {
        let error = execute(channel.clone(), "example.io/odd", &item(name)).await.unwrap_err();
        assert_eq!(told(&error), (code, text));
    }
    // All of it would be more than a client takes as a header.
    let error = execute(channel.clone(), "example.io/odd", &item("long-error")).await.unwrap_err();
    assert!(error.message().ends_with("ä… (37952 bytes more are in the log)"), "{error}");
    execute(channel, "example.io/odd", &item("plain")).await.unwrap();
    let left = plugin.shut_down().await;
    let [line] = &left.log[..] else { panic!("{:?}", left.log) };
    assert_eq!((line["@level"].as_str(), line["error"].as_str()), (Some("info"), Some(&*"ä".repeat(20_000))));
}

#[tokio::test]
async fn a_panic_is_an_error_of_its_call_with_the_place() {
    let plugin = Plugin::start(&[]).await;
    let channel = plugin.connect().await;
    let error = execute(channel.clone(), "example.io/odd", &item("panic")).await.unwrap_err();
    assert_eq!(told(&error), (Code::Aborted, "plugin panicked: panic is odd"));
    // google.rpc.Status: its third field has the details, whose second one has the bytes.
    let details = DetailsOfStatus::decode(error.details()).unwrap();
    let [detail] = &details.details[..] else { panic!("{details:?}") };
    assert_eq!(detail.type_url, "type.googleapis.com/generated.Stack");
    let stack = Stack::decode(&detail.value[..]).unwrap();
    let [frame] = &stack.frames[..] else { panic!("{stack:?}") };
    assert!(frame.file.ends_with("examples/all-kinds/actions.rs") && frame.line > 0, "{frame:?}");
    execute(channel, "example.io/odd", &item("plain")).await.unwrap();
    // It is told once, as the answer.
    assert_eq!(plugin.shut_down().await.log, Vec::<serde_json::Value>::new());
}

#[derive(Clone, PartialEq, Message)]
struct DetailsOfStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

#[tokio::test]
async fn a_name_that_is_not_there_is_told_with_its_kind() {
    let plugin = Plugin::start(&[]).await;
    let (channel, name) = (plugin.connect().await, "example.io/none".to_owned());
    let errors = [
        BackupItemActionClient::new(channel.clone())
            .applies_to(BackupItemActionAppliesToRequest { plugin: name.clone() })
            .await
            .map(drop),
        RestoreItemActionClient::new(channel.clone())
            .applies_to(RestoreItemActionAppliesToRequest { plugin: name.clone() })
            .await
            .map(drop),
        DeleteItemActionClient::new(channel.clone())
            .applies_to(DeleteItemActionAppliesToRequest { plugin: name.clone() })
            .await
            .map(drop),
        ItemBlockActionClient::new(channel.clone())
            .applies_to(ItemBlockActionAppliesToRequest { plugin: name.clone() })
            .await
            .map(drop),
        VolumeSnapshotterClient::new(channel.clone())
            .delete_snapshot(DeleteSnapshotRequest { plugin: name.clone(), snapshot_id: String::new() })
            .await
            .map(drop),
        ObjectStoreClient::new(channel)
            .object_exists(ObjectExistsRequest { plugin: name, ..ObjectExistsRequest::default() })
            .await
            .map(drop),
    ];
    let kinds = [
        "BackupItemActionV2",
        "RestoreItemActionV2",
        "DeleteItemAction",
        "ItemBlockAction",
        "VolumeSnapshotter",
        "ObjectStore",
    ];
    for (error, kind) in errors.into_iter().zip(kinds) {
        let expected = format!("{kind} plugin: example.io/none was not found or has an invalid name format");
        assert_eq!(told(&error.unwrap_err()), (Code::Unknown, &*expected));
    }
}

#[tokio::test]
async fn what_a_server_sends_and_is_not_understood_is_told() {
    let plugin = Plugin::start(&[]).await;
    let mut client = BackupItemActionClient::new(plugin.connect().await);
    for (item, backup, text) in [
        ("", "{}", "the object that the server sent cannot be read: EOF while parsing a value at line 1 column 0"),
        ("{}", "{", "the Backup that the server sent cannot be read: EOF while parsing an object at line 1 column 1"),
    ] {
        let (item, backup) = (item.as_bytes().to_vec(), backup.as_bytes().to_vec());
        let request = ExecuteRequest { plugin: "example.io/odd".to_owned(), item, backup };
        let error = client.execute(request).await.unwrap_err();
        assert_eq!(told(&error), (Code::Unknown, text));
    }
}

#[tokio::test]
async fn a_store_without_a_configuration_is_told() {
    let plugin = Plugin::start(&[]).await;
    let request = ObjectExistsRequest { plugin: "example.io/files".to_owned(), ..ObjectExistsRequest::default() };
    let error = ObjectStoreClient::new(plugin.connect().await).object_exists(request).await.unwrap_err();
    let text = "the plugin has no configuration yet: the server must call Init first";
    assert_eq!(told(&error), (Code::Unknown, text));
}
