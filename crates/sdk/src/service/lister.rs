//! Says what there is.

use lifeboat_plugin_proto::generated::plugin_lister_server::PluginLister;
use lifeboat_plugin_proto::generated::{Empty, ListPluginsResponse, PluginIdentifier};
use tonic::{Request, Response, Status};

/// Reports the plugins of the program to every server that asks.
pub(crate) struct Lister {
    plugins: Vec<PluginIdentifier>,
}

impl Lister {
    /// Tells these kinds and names, of the program that was started by this path.
    pub(crate) fn new(command: &str, identities: Vec<(&'static str, String)>) -> Self {
        let plugin = |(kind, name): (&str, String)| PluginIdentifier {
            command: command.to_owned(),
            kind: kind.to_owned(),
            name,
        };
        Self { plugins: identities.into_iter().map(plugin).collect() }
    }
}

#[tonic::async_trait]
impl PluginLister for Lister {
    async fn list_plugins(&self, _: Request<Empty>) -> Result<Response<ListPluginsResponse>, Status> {
        Ok(Response::new(ListPluginsResponse { plugins: self.plugins.clone() }))
    }
}
