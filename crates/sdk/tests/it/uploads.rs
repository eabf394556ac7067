//! Objects on their way into a store.

use crate::process::{PATIENCE, Plugin, messages};
use bytes::Bytes;
use futures::{StreamExt, stream};
use lifeboat_plugin_proto::generated::object_store_client::ObjectStoreClient;
use lifeboat_plugin_proto::generated::{GetObjectRequest, ObjectStoreInitRequest, PutObjectRequest};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::Code;
use tonic::transport::Channel;

/// The error that a store gets when the server breaks off.
const BROKEN: &str = "the server does not send the rest: it has broken the call off";
const STORE: &str = "example.io/files";

async fn store(plugin: &Plugin) -> ObjectStoreClient<Channel> {
    let mut client = ObjectStoreClient::new(plugin.connect().await);
    let config = HashMap::from([("bucket".to_owned(), "b".to_owned()), ("prefix".to_owned(), String::new())]);
    client.init(ObjectStoreInitRequest { plugin: STORE.to_owned(), config }).await.unwrap();
    client
}

fn piece(key: &str, body: Bytes) -> PutObjectRequest {
    PutObjectRequest { plugin: STORE.to_owned(), bucket: "b".to_owned(), key: key.to_owned(), body }
}

async fn get(client: &mut ObjectStoreClient<Channel>, key: &str) -> Result<Vec<u8>, tonic::Status> {
    let request = GetObjectRequest { plugin: STORE.to_owned(), bucket: "b".to_owned(), key: key.to_owned() };
    let mut pieces = client.get_object(request).await?.into_inner();
    let mut object = Vec::new();
    while let Some(piece) = pieces.message().await? {
        object.extend(piece.data);
    }
    Ok(object)
}

/// Waits until the plugin has the first piece of the object `half`.
async fn until_begun(client: &mut ObjectStoreClient<Channel>) {
    let begun = async {
        while get(client, "half-begun").await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, begun).await.unwrap();
}

#[tokio::test]
async fn an_object_comes_back_as_it_was() {
    let plugin = Plugin::start(&[]).await;
    let mut client = store(&plugin).await;
    let large: Vec<u8> = (0..3_000_001_u32).map(|n| n.to_le_bytes()[0]).collect();
    let pieces: Vec<PutObjectRequest> =
        large.chunks(16384).map(|chunk| piece("large", Bytes::copy_from_slice(chunk))).collect();
    client.put_object(stream::iter(pieces)).await.unwrap();
    client.put_object(stream::iter([piece("empty", Bytes::new())])).await.unwrap();
    assert!(get(&mut client, "large").await.unwrap() == large);
    assert_eq!(get(&mut client, "empty").await.unwrap(), Vec::<u8>::new());
    let error = get(&mut client, "none").await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::Unknown, "none was not found in b"));
}

#[tokio::test]
async fn a_server_that_breaks_off_leaves_no_object() {
    let plugin = Plugin::start(&[]).await;
    let mut client = store(&plugin).await;
    let pieces = stream::iter([piece("half", Bytes::from("x"))]).chain(stream::pending());
    let mut other = client.clone();
    tokio::select! {
        put = other.put_object(pieces) => panic!("it has ended: {put:?}"),
        () = until_begun(&mut client) => {}
    }
    let given_up = ("warn".to_owned(), "given up".to_owned());
    let error = get(&mut client, "half").await.unwrap_err();
    assert_eq!(error.message(), "half was not found in b");
    let left = plugin.shut_down().await;
    assert_eq!(messages(&left.log), [given_up]);
    assert_eq!(left.log[0]["error"].as_str(), Some(BROKEN));
}

#[tokio::test]
async fn an_upload_that_goes_on_sees_the_end_of_the_plugin() {
    let plugin = Plugin::start(&[]).await;
    let mut client = store(&plugin).await;
    let mut other = client.clone();
    let pieces = stream::iter([piece("half", Bytes::from("x"))]).chain(stream::pending());
    let (put, left) = tokio::join!(client.put_object(pieces), async {
        until_begun(&mut other).await;
        plugin.shut_down().await
    });
    let why = "the server does not send the rest: the plugin is to end";
    assert_eq!(put.unwrap_err().message(), why);
    assert_eq!(left.log[0]["error"].as_str(), Some(why));
    assert_eq!(left.status.code(), Some(0));
}

#[tokio::test]
async fn what_a_store_refuses_is_told_and_nothing_is_a_question() {
    let plugin = Plugin::start(&[]).await;
    let mut client = store(&plugin).await;
    let pieces: Vec<PutObjectRequest> = (0..1000).map(|_| piece("refused", Bytes::from(vec![0; 16384]))).collect();
    let error = client.put_object(stream::iter(pieces)).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::Unknown, "the quota is used up"));
    let error = client.put_object(stream::empty()).await.unwrap_err();
    let text =
        "the server has sent nothing, so that nobody knows where it belongs: Velero does so with an empty object";
    assert_eq!((error.code(), error.message()), (Code::Unknown, text));
}

#[tokio::test]
async fn an_object_passes_through_in_a_bounded_part_of_memory() {
    pass_through(100).await;
}

#[tokio::test]
#[ignore = "it takes its time: make test-long"]
async fn long_an_object_of_a_gibibyte_passes_through_in_bounded_memory() {
    pass_through(1024).await;
}

/// Memory limit of the process of a plugin, in KiB.
const MOST: u64 = 64 << 10;

/// Sends an object of this size through a plugin that hands it on, and reads one of that size.
async fn pass_through(mebibytes: u64) {
    let plugin = Plugin::start(&[]).await;
    let mut client = store(&plugin).await;
    let body = Bytes::from(vec![7; 1 << 20]);
    let pieces = stream::iter(0..mebibytes).map(move |_| piece("counted", body.clone()));
    client.put_object(pieces).await.unwrap();
    assert_eq!(get(&mut client, "counted").await.unwrap(), (mebibytes << 20).to_string().into_bytes());
    let key = format!("mebibytes-{mebibytes}");
    let request = GetObjectRequest { plugin: STORE.to_owned(), bucket: "b".to_owned(), key };
    let mut pieces = client.get_object(request).await.unwrap().into_inner();
    let mut read = 0;
    while let Some(piece) = pieces.message().await.unwrap() {
        read += piece.data.len() as u64;
    }
    assert_eq!(read, mebibytes << 20);
    let peak = peak(plugin.child.id().unwrap());
    assert!(peak < MOST, "{peak} KiB");
}

/// The most memory that a process had, in KiB.
fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
