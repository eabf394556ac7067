//! A server that gives fixed answers, for the actions that ask the cluster.

use lifeboat_cluster::{Cluster, ConnectOptions};
use lifeboat_testbed::{ScriptedResponse, ScriptedServer};
use serde_json::Value;

/// Response to requests whose path begins with this.
pub(crate) struct FixedResponse {
    path: String,
    response: ScriptedResponse,
}

impl FixedResponse {
    pub(crate) fn object(path: impl Into<String>, body: &Value) -> Self {
        Self { path: path.into(), response: ScriptedResponse::json(200, body) }
    }

    pub(crate) fn list(path: impl Into<String>, items: &[Value]) -> Self {
        Self { path: path.into(), response: ScriptedResponse::list(items) }
    }

    pub(crate) fn status(path: impl Into<String>, code: u16, reason: &str, message: &str) -> Self {
        Self { path: path.into(), response: ScriptedResponse::status(code, reason, message) }
    }
}

/// Answers until it is dropped; what it does not know is 404.
pub(crate) struct TestServer {
    pub(crate) cluster: Cluster,
    server: ScriptedServer,
}

impl TestServer {
    pub(crate) async fn start(responses: Vec<FixedResponse>) -> Self {
        let server = ScriptedServer::start(move |request| {
            let fixed = responses.iter().find(|one| request.path.starts_with(&one.path));
            let absent = || ScriptedResponse::status(404, "NotFound", "not found");
            std::future::ready(fixed.map_or_else(absent, |one| one.response.clone()))
        });
        let server = server.await.unwrap();
        Self { cluster: connect(&server).await, server }
    }

    /// The paths that were asked for, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.server.requests().into_iter().map(|request| request.path).collect()
    }
}

/// A client of this API server.
pub(crate) async fn connect(server: &ScriptedServer) -> Cluster {
    let kubeconfig = server.kubeconfig().unwrap();
    let path = Some(kubeconfig.path().to_owned());
    let options = ConnectOptions { kubeconfig: path, user_agent: "test".to_owned(), ..ConnectOptions::default() };
    Cluster::connect(&options).await.unwrap()
}
