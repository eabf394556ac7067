//! The server of a plugin: from the socket to the end (hashicorp/go-plugin).

use crate::catalog::Catalog;
use crate::handshake;
use crate::launch::Launch;
use crate::request_body::trusted;
use crate::service::backup_item::BackupItems;
use crate::service::delete_item::DeleteItems;
use crate::service::go_plugin::{Broker, Controller, Stdio};
use crate::service::item_block::ItemBlocks;
use crate::service::lister::Lister;
use crate::service::object_store::ObjectStores;
use crate::service::restore_item::RestoreItems;
use crate::service::volume_snapshotter::VolumeSnapshotters;
use crate::socket::{self, SocketError};
use crate::upload::Uploads;
use futures::{Stream, stream};
use lifeboat_plugin_proto::generated::delete_item_action_server::DeleteItemActionServer;
use lifeboat_plugin_proto::generated::object_store_server::ObjectStoreServer;
use lifeboat_plugin_proto::generated::plugin_lister_server::PluginListerServer;
use lifeboat_plugin_proto::generated::volume_snapshotter_server::VolumeSnapshotterServer;
use lifeboat_plugin_proto::plugin::grpc_broker_server::GrpcBrokerServer;
use lifeboat_plugin_proto::plugin::grpc_controller_server::GrpcControllerServer;
use lifeboat_plugin_proto::plugin::grpc_stdio_server::GrpcStdioServer;
use lifeboat_plugin_proto::v1::item_block_action_server::ItemBlockActionServer;
use lifeboat_plugin_proto::v2::backup_item_action_server::BackupItemActionServer;
use lifeboat_plugin_proto::v2::restore_item_action_server::RestoreItemActionServer;
use std::io::{self, Write};
use std::os::unix::process::parent_id;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tower::util::MapRequestLayer;

/// Largest message in either direction: as much as Velero's own side allows.
const LARGEST: usize = i32::MAX as usize;
/// Largest amounts of unread data on the way, of one stream and of all.
const WINDOWS: (u32, u32) = (1 << 20, 4 << 20);
/// Time that calls have to end when the plugin is to end: a server waits two seconds for that.
const GRACE: Duration = Duration::from_secs(1);
/// Interval at which the plugin checks that the server still runs.
const LOOK: Duration = Duration::from_secs(1);
/// Pause before connections are accepted again after an error, which may be one of too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Reasons for which a plugin does not serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("the server that started this plugin does not read where to find it: {0}")]
    Handshake(io::Error),
    #[error("the signals of the process cannot be watched: {0}")]
    Signals(io::Error),
    #[error("the calls of the server cannot be answered: {0}")]
    Serve(tonic::transport::Error),
}

/// Serves until the server says that this plugin is to end, or is gone: `parent` is the process that has started this one.
pub(crate) async fn serve(catalog: Catalog, launch: &Launch, parent: u32) -> Result<(), ServeError> {
    // Who stops a server by hand stops all processes of the terminal: the server says itself when its plugins are to end.
    let _ignored = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let ended = CancellationToken::new();
    let uploads = Arc::new(Uploads::new(ended.clone()));
    let routes = routes(Arc::new(catalog), &launch.command, &uploads, &ended).await;
    let (listener, path) = socket::listen(&launch.folder, launch.group.as_deref())?;
    let server = Server::builder().initial_stream_window_size(WINDOWS.0).initial_connection_window_size(WINDOWS.1);
    let mut server = server.layer(MapRequestLayer::new(trusted));
    let serving = server.add_routes(routes).serve_with_incoming_shutdown(connections(listener), ended.cancelled());
    tracing::debug!(network = "unix", address = %path.display(), "plugin address");
    let line = handshake::line(&path, launch.is_multiplexing_asked);
    let mut output = io::stdout().lock();
    output.write_all(line.as_bytes()).and_then(|()| output.flush()).map_err(ServeError::Handshake)?;
    drop(output);
    // compat: Velero reads a first line there, and hangs a program up that writes a very long one. The standard error it reads to the
    // end, and shows as details what is no line of the log.
    if let Err(why) = rustix::stdio::dup2_stdout(io::stderr()) {
        tracing::debug!(%why, "what is printed is not logged");
    }
    let mut serving = pin!(async {
        let served = serving.await;
        uploads.finish().await;
        served
    });
    let served = tokio::select! {
        served = &mut serving => Some(served),
        () = ended.cancelled() => None,
        _ = terminated.recv() => None,
        () = left_alone(parent) => None,
    };
    ended.cancel();
    let served = match served {
        Some(served) => served,
        // What goes on after that is broken off.
        None => timeout(GRACE, serving).await.unwrap_or(Ok(())),
    };
    served.map_err(ServeError::Serve)
}

async fn routes(catalog: Arc<Catalog>, command: &str, uploads: &Arc<Uploads>, ended: &CancellationToken) -> Routes {
    macro_rules! sized {
        ($service:expr) => {
            $service.max_decoding_message_size(LARGEST).max_encoding_message_size(LARGEST)
        };
    }
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status("plugin", ServingStatus::Serving).await;
    let of = || catalog.clone();
    let stores = ObjectStores { catalog: of(), uploads: uploads.clone() };
    Routes::new(health_service)
        .add_service(PluginListerServer::new(Lister::new(command, catalog.identities())))
        .add_service(sized!(BackupItemActionServer::new(BackupItems(of()))))
        .add_service(sized!(VolumeSnapshotterServer::new(VolumeSnapshotters(of()))))
        .add_service(sized!(ObjectStoreServer::new(stores)))
        .add_service(sized!(RestoreItemActionServer::new(RestoreItems(of()))))
        .add_service(sized!(DeleteItemActionServer::new(DeleteItems(of()))))
        .add_service(sized!(ItemBlockActionServer::new(ItemBlocks(of()))))
        .add_service(GrpcControllerServer::new(Controller { ended: ended.clone() }))
        .add_service(GrpcStdioServer::new(Stdio { ended: ended.clone() }))
        .add_service(GrpcBrokerServer::new(Broker { ended: ended.clone() }))
}

fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(connection, _)| connection);
        if accepted.is_err() {
            sleep(PAUSE).await;
        }
        Some((accepted, listener))
    })
}

/// Waits until the process that has started this one is gone: somebody else is its parent then.
async fn left_alone(parent: u32) {
    while parent_id() == parent {
        sleep(LOOK).await;
    }
}
