//! Starts and stops the server, and loads objects into it.

use crate::encoding::error::ApiError;
use crate::server::identity::ServerIdentity;
use crate::server::options::SandboxOptions;
use crate::server::serve;
use crate::server::shared::Server;
use crate::store::janitor::Janitor;
use crate::store::memory::MemoryStore;
use crate::store::object_store::ObjectStore;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Namespaces that a cluster has from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The sandbox cannot start, or refuses an object.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The certificates cannot be made.
    #[error("cannot make the certificates of the sandbox: {0}")]
    Certificate(String),
    /// An object was refused.
    #[error("cannot apply {what}: {message}")]
    Apply {
        /// The object.
        what: String,
        /// The message of the server.
        message: String,
    },
}

/// An API server on a socket of its own, with TLS and a token. It ends when it is shut down or dropped.
pub struct Sandbox {
    server: Arc<Server>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Sandbox {
    /// Starts a server over an empty store in memory.
    ///
    /// # Errors
    /// [`SandboxError`].
    pub async fn start(options: SandboxOptions) -> Result<Self, SandboxError> {
        Self::start_over(options, Arc::new(MemoryStore::default())).await
    }

    /// Starts a server over `store`, and creates the namespaces that every cluster has, unless the store is read-only.
    ///
    /// # Errors
    /// [`SandboxError`].
    pub async fn start_over(options: SandboxOptions, store: Arc<dyn ObjectStore>) -> Result<Self, SandboxError> {
        let asked = options.listen;
        let failed = |source| SandboxError::Listen { address: asked, source };
        let listener = TcpListener::bind(asked).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let identity = ServerIdentity::new(address).map_err(|e| SandboxError::Certificate(e.to_string()))?;
        let (stop, stopped) = watch::channel(false);
        let server = Arc::new(Server {
            store,
            options,
            address: reachable(address).to_string(),
            authority_pem: identity.authority_pem,
            stop: stopped,
        });
        let is_read_only = server.store.read_only().is_some();
        for name in NAMESPACES.into_iter().filter(|_| !is_read_only) {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            server.load(namespace.clone()).await.map_err(|e| refused(&namespace, &e))?;
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(serve::accept(listener, identity.config, server.clone()));
        if !is_read_only {
            tasks.spawn(Janitor::new(server.clone()).run());
        }
        Ok(Self { server, address, stop, tasks })
    }

    /// The address that the server listens at.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority that signed the server's certificate, in PEM.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.server.authority_pem
    }

    /// A kubeconfig for this server, which holds authority and token: it gives all rights to its reader.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        let authority = STANDARD.encode(self.authority_pem());
        let options = &self.server.options;
        // JSON texts are YAML, whatever stands in them.
        let [token, name, namespace] =
            [&options.token, &options.name, &options.namespace].map(|t| Value::from(t.as_str()));
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {name}\n\
             clusters:\n- name: {name}\n  cluster:\n    server: https://{}\n    certificate-authority-data: {authority}\n\
             contexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n    namespace: {namespace}\n\
             users:\n- name: {name}\n  user:\n    token: {token}\n",
            self.server.address
        )
    }

    /// Creates or replaces objects as they are, status included: namespaces and definitions first, owners before
    /// their dependents. An object keeps its uid if it has one that is free. Stops at the first one refused.
    ///
    /// # Errors
    /// [`SandboxError::Apply`].
    pub async fn apply(&self, objects: Vec<Value>) -> Result<(), SandboxError> {
        for object in in_order(objects) {
            let what = json!({"kind": object["kind"], "metadata": {"name": object["metadata"]["name"],
                              "namespace": object["metadata"]["namespace"]}});
            self.server.load(object).await.map_err(|e| refused(&what, &e))?;
        }
        Ok(())
    }

    /// The store that the server serves.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.server.store
    }

    /// Stops the server: ends watches, gives open answers two seconds, then closes all connections.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

fn refused(object: &Value, error: &ApiError) -> SandboxError {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let metadata = &object["metadata"];
    let what = match metadata["namespace"].as_str() {
        Some(namespace) => format!("{} {namespace}/{}", text(&object["kind"]), text(&metadata["name"])),
        None => format!("{} {}", text(&object["kind"]), text(&metadata["name"])),
    };
    SandboxError::Apply { what, message: error.message.clone() }
}

/// Sorts objects so that each comes after those that it needs.
fn in_order(objects: Vec<Value>) -> Vec<Value> {
    let owners: HashMap<String, Vec<String>> = objects
        .iter()
        .filter_map(|o| {
            let owners = o["metadata"]["ownerReferences"].as_array()?;
            let owners = owners.iter().filter_map(|r| r["uid"].as_str().map(str::to_owned)).collect();
            Some((o["metadata"]["uid"].as_str()?.to_owned(), owners))
        })
        .collect();
    let mut ranked: Vec<(usize, usize, Value)> = objects
        .into_iter()
        .map(|object| {
            let kind = match (object["kind"].as_str(), object["apiVersion"].as_str()) {
                (Some("Namespace"), Some("v1")) => 0,
                (Some("CustomResourceDefinition"), _) => 1,
                _ => 2,
            };
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            // A dependent without a uid comes after everything that can own it.
            let depth = if uid.is_empty() && !object["metadata"]["ownerReferences"].is_null() {
                usize::MAX
            } else {
                depth(uid, &owners, 16)
            };
            (kind, depth, object)
        })
        .collect();
    ranked.sort_by_key(|(kind, depth, _)| (*kind, *depth));
    ranked.into_iter().map(|(_, _, object)| object).collect()
}

/// The number of generations of owners above an object; a circle ends at `most`.
fn depth(uid: &str, owners: &HashMap<String, Vec<String>>, most: usize) -> usize {
    if most == 0 {
        return 0;
    }
    let above = owners.get(uid).into_iter().flatten().take(16);
    above.map(|owner| 1 + depth(owner, owners, most - 1)).max().unwrap_or(0)
}

/// The address to connect to: a server on all interfaces is reached by loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_after_what_they_need() {
        let object = |kind: &str, uid: &str, owner: Option<&str>| {
            let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"uid": uid}});
            if let Some(owner) = owner {
                object["metadata"]["ownerReferences"] = json!([{"uid": owner}]);
            }
            object
        };
        let objects = vec![
            object("Pod", "", Some("rs")),
            object("Pod", "pod", Some("rs")),
            object("ReplicaSet", "rs", Some("deploy")),
            object("A", "a", Some("b")),
            object("Deployment", "deploy", None),
            object("CustomResourceDefinition", "crd", None),
            object("Namespace", "ns", None),
        ];
        let order: Vec<String> =
            in_order(objects).iter().map(|o| format!("{}", o["metadata"]["uid"]).replace('"', "")).collect();
        assert_eq!(order, ["ns", "crd", "deploy", "rs", "a", "pod", ""]);
    }

    #[test]
    fn owners_in_a_circle_end() {
        let owners = HashMap::from([("a".to_owned(), vec!["b".to_owned()]), ("b".to_owned(), vec!["a".to_owned()])]);
        assert_eq!(depth("a", &owners, 16), 16);
    }

    #[test]
    fn all_interfaces_are_reached_by_loopback() {
        for (address, expected) in [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:1", "10.0.0.1:1")] {
            assert_eq!(reachable(address.parse().unwrap()).to_string(), expected);
        }
    }
}
