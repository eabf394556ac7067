//! Services that servers expect of every plugin of go-plugin (hashicorp/go-plugin).

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use lifeboat_plugin_proto::plugin::grpc_broker_server::GrpcBroker;
use lifeboat_plugin_proto::plugin::grpc_controller_server::GrpcController;
use lifeboat_plugin_proto::plugin::grpc_stdio_server::GrpcStdio;
use lifeboat_plugin_proto::plugin::{ConnInfo, Empty, StdioData};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

/// Lets the server end this plugin.
pub(crate) struct Controller {
    pub(crate) ended: CancellationToken,
}

#[tonic::async_trait]
impl GrpcController for Controller {
    async fn shutdown(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        self.ended.cancel();
        Ok(Response::new(Empty {}))
    }
}

/// Would carry what the plugin prints. Nothing is caught here: what is printed goes to the standard error, which the server reads as well.
pub(crate) struct Stdio {
    pub(crate) ended: CancellationToken,
}

#[tonic::async_trait]
impl GrpcStdio for Stdio {
    type StreamStdioStream = BoxStream<'static, Result<StdioData, Status>>;

    async fn stream_stdio(&self, _: Request<()>) -> Result<Response<Self::StreamStdioStream>, Status> {
        Ok(Response::new(silent(self.ended.clone().cancelled_owned())))
    }
}

/// Would make further connections. No call of Velero needs one.
pub(crate) struct Broker {
    pub(crate) ended: CancellationToken,
}

#[tonic::async_trait]
impl GrpcBroker for Broker {
    type StartStreamStream = BoxStream<'static, Result<ConnInfo, Status>>;

    async fn start_stream(
        &self,
        request: Request<Streaming<ConnInfo>>,
    ) -> Result<Response<Self::StartStreamStream>, Status> {
        let (mut offers, ended) = (request.into_inner(), self.ended.clone());
        let until = async move {
            let passed_over = async { while let Ok(Some(_)) = offers.message().await {} };
            tokio::select! {
                () = passed_over => {}
                () = ended.cancelled() => {}
            }
        };
        Ok(Response::new(silent(until)))
    }
}

/// Says nothing, and ends then.
fn silent<T: Send + 'static>(until: impl Future<Output = ()> + Send + 'static) -> BoxStream<'static, T> {
    stream::once(until).flat_map(|()| stream::empty()).boxed()
}
