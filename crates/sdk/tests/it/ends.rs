//! The end: when the server says so, is gone, or the process is told by a signal.

use crate::process::{PATIENCE, PROGRAM, Plugin, command};
use lifeboat_plugin_proto::generated::Empty;
use lifeboat_plugin_proto::generated::plugin_lister_client::PluginListerClient;
use lifeboat_plugin_proto::plugin::grpc_broker_client::GrpcBrokerClient;
use lifeboat_plugin_proto::plugin::grpc_stdio_client::GrpcStdioClient;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

fn send(plugin: &Plugin, signal: Signal) {
    let pid = Pid::from_raw(plugin.child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[tokio::test]
async fn it_ends_when_the_server_says_so_and_removes_its_socket() {
    let plugin = Plugin::start(&[]).await;
    let channel = plugin.connect().await;
    // Streams that are open as a Velero server holds them do not keep it.
    let _printed = GrpcStdioClient::new(channel.clone()).stream_stdio(()).await.unwrap().into_inner();
    let offers = futures::stream::pending();
    let _brokered = GrpcBrokerClient::new(channel).start_stream(offers).await.unwrap().into_inner();
    let left = plugin.shut_down().await;
    assert_eq!((left.status.code(), left.is_socket_there, left.log), (Some(0), false, vec![]));
}

#[tokio::test]
async fn an_interrupt_is_ignored_and_a_termination_is_an_orderly_end() {
    let plugin = Plugin::start(&[]).await;
    send(&plugin, Signal::INT);
    PluginListerClient::new(plugin.connect().await).list_plugins(Empty {}).await.unwrap();
    send(&plugin, Signal::TERM);
    let left = plugin.left().await;
    assert_eq!((left.status.code(), left.is_socket_there), (Some(0), false));
}

#[tokio::test]
async fn it_does_not_outlive_its_server() {
    let folder = tempfile::tempdir().unwrap();
    // A server that starts it, and is killed.
    let mut server = Command::new("sh");
    let environment: Vec<_> =
        command(folder.path()).as_std().get_envs().map(|(n, v)| (n.to_owned(), v.unwrap().to_owned())).collect();
    server.args(["-c", "\"$0\" & wait", PROGRAM]).envs(environment).kill_on_drop(true);
    server.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut plugin = Plugin::with(server, folder).await;
    assert!(plugin.socket.exists());
    plugin.child.start_kill().unwrap();
    let gone = async {
        while plugin.socket.exists() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
    // The pipes are closed when it is gone.
    assert_eq!(plugin.left().await.output, Vec::<u8>::new());
}
