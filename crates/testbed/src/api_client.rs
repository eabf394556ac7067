//! Requests to an API server without a process for each.
//!
//! kubectl takes 70 ms of processor time, and a test that waits looks many times. What is asked here is asked as kubectl does it,
//! and given as it prints it; kubectl itself stays for what is tested with it.

mod resource_type;

use crate::https::{HttpsClient, https_client};
use crate::pause::pause;
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use resource_type::{ResourceType, path_of, types_of};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The longest time for one request.
const PATIENCE: Duration = Duration::from_secs(60);

/// The list of all types in one document.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The form of the body of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchType {
    /// `kubectl patch --type=merge`.
    Merge,
    /// `kubectl apply --server-side --force-conflicts`.
    Apply,
}

/// A client of one API server with the rights of a kubeconfig.
#[derive(Clone)]
pub struct ApiClient {
    shared: Arc<Shared>,
}

struct Shared {
    url: String,
    authorization: String,
    client: HttpsClient<Full<Bytes>>,
    /// As they were served when one was missing.
    types: Mutex<Vec<ResourceType>>,
}

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiClient").field("url", &self.shared.url).finish_non_exhaustive()
    }
}

impl ApiClient {
    /// A client for a server by its URL, its authority (PEM) and a bearer token.
    ///
    /// # Errors
    /// When the authority is no certificate.
    pub fn new(url: &str, authority: &str, token: &str) -> Result<Self> {
        let client = https_client(Some(authority))?;
        let authorization = format!("Bearer {token}");
        let shared = Shared { url: url.to_owned(), authorization, client, types: Mutex::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A client for a kubeconfig as control planes of this test bed write it.
    ///
    /// # Errors
    /// When it cannot be read or has another form.
    pub fn of_kubeconfig(kubeconfig: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
        let given = |key: &str| {
            let (_, rest) = text.split_once(&format!("{key}: "))?;
            rest.trim_start_matches('"').split(['"', '}', ',', '\n']).next()
        };
        let field = |key: &str| given(key).with_context(|| format!("{} has no {key}", kubeconfig.display()));
        let authority = match given("certificate-authority-data") {
            Some(data) => STANDARD.decode(data).context("the authority of the API server")?,
            None => {
                let path = field("certificate-authority")?;
                std::fs::read(path).with_context(|| format!("read {path}"))?
            }
        };
        let authority = String::from_utf8(authority).context("the authority of the API server")?;
        Self::new(field("server")?, &authority, field("token")?)
    }

    /// An object, `None` where there is none: `kubectl get TYPE NAME --ignore-not-found --output=json`. The namespace does not count for
    /// types of the cluster.
    ///
    /// # Errors
    /// When no such type is served, or the server refuses.
    pub fn get(&self, of_type: &str, name: &str, namespace: &str) -> Result<Option<Value>> {
        let path = self.path(of_type, Some(namespace), Some(name))?;
        let (status, mut object) = self.send(Method::GET, &path, None)?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let object = checked(&path, status, object.take())?;
        Ok(Some(without_managers(object)))
    }

    /// The objects of a type, in one namespace or in all.
    ///
    /// # Errors
    /// When no such type is served, or the server refuses.
    pub fn list(&self, of_type: &str, namespace: Option<&str>) -> Result<Vec<Value>> {
        let found = self.served(|one| one.is_called(of_type))?;
        let found = found.with_context(|| format!("the server has no type {of_type}"))?;
        Ok(self.items(&found, namespace)?.into_iter().map(without_managers).collect())
    }

    /// All objects of the types whose objects can be made and listed, with their managers: `kubectl get` of them all. The function says
    /// of each name of a type, such as `deployments.apps`, if it is wanted.
    ///
    /// # Errors
    /// When the server refuses a list.
    pub fn everything(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Value>> {
        let (mut objects, mut seen) = (Vec::new(), BTreeSet::new());
        // The preferred version of a group comes first.
        for one in self.discover()?.iter().filter(|one| one.has_objects() && is_wanted(&one.name())) {
            if !seen.insert(one.name()) {
                continue;
            }
            objects.extend(self.items(one, None)?);
        }
        Ok(objects)
    }

    /// The objects of a list, each with version and kind, which it says once for all of them.
    fn items(&self, of_type: &ResourceType, namespace: Option<&str>) -> Result<Vec<Value>> {
        let path = path_of(of_type, namespace, None);
        let Value::Array(mut items) = self.read(&path)?["items"].take() else { bail!("GET {path}: no list") };
        for object in &mut items {
            object["apiVersion"] = of_type.api_version.clone().into();
            object["kind"] = of_type.kind.clone().into();
        }
        Ok(items)
    }

    /// Forgets which types are served: the server is asked again.
    pub(crate) fn forget_types(&self) {
        self.shared.types.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The document at a path: `kubectl get --raw PATH`.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn read(&self, path: &str) -> Result<Value> {
        let (status, body) = self.send(Method::GET, path, None)?;
        checked(path, status, body)
    }

    /// Makes an object, or each of a List: `kubectl create --filename`.
    ///
    /// # Errors
    /// When its type is not served, or the server refuses it.
    pub fn create(&self, object: &Value) -> Result<()> {
        if let Some(items) = object["items"].as_array().filter(|_| object["kind"] == "List") {
            return items.iter().try_for_each(|item| self.create(item));
        }
        let path = self.path_of_object(object, false)?;
        let path = format!("{path}?fieldManager=kubectl-create&fieldValidation=Strict");
        let (status, body) = self.send(Method::POST, &path, Some(("application/json", object)))?;
        checked(&path, status, body).map(drop)
    }

    /// Writes an object, new or not: `kubectl apply --server-side --force-conflicts`.
    ///
    /// # Errors
    /// When its type is not served, or the server refuses it.
    pub fn apply(&self, object: &Value) -> Result<()> {
        let path = self.path_of_object(object, true)?;
        self.send_patch(&path, PatchType::Apply, object)
    }

    /// Changes an object by a patch of this type.
    ///
    /// # Errors
    /// When there is no such object, or the server refuses it.
    pub fn merge(&self, of_type: &str, name: &str, namespace: &str, patch: &Value) -> Result<()> {
        let path = self.path(of_type, Some(namespace), Some(name))?;
        self.send_patch(&path, PatchType::Merge, patch)
    }

    fn send_patch(&self, path: &str, of_type: PatchType, patch: &Value) -> Result<()> {
        let (content, query) = match of_type {
            PatchType::Merge => ("application/merge-patch+json", ""),
            PatchType::Apply => {
                ("application/apply-patch+yaml", "?fieldManager=kubectl&force=true&fieldValidation=Strict")
            }
        };
        let path = format!("{path}{query}");
        let (status, body) = self.send(Method::PATCH, &path, Some((content, patch)))?;
        checked(&path, status, body).map(drop)
    }

    fn path(&self, of_type: &str, namespace: Option<&str>, name: Option<&str>) -> Result<String> {
        let found = self.served(|one| one.is_called(of_type))?;
        Ok(path_of(&found.with_context(|| format!("the server has no type {of_type}"))?, namespace, name))
    }

    fn path_of_object(&self, object: &Value, is_there: bool) -> Result<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let found = self.served(|one| one.api_version == version && one.kind == kind)?;
        let found = found.with_context(|| format!("the server has no kind {kind} of {version}"))?;
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        let namespace = if namespace.is_empty() { "default" } else { &namespace };
        Ok(path_of(&found, Some(namespace), is_there.then_some(&name)))
    }

    /// The type that is asked for. The server is asked again where it was not served before.
    fn served(&self, is_it: impl Fn(&ResourceType) -> bool) -> Result<Option<ResourceType>> {
        let known = || self.shared.types.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().iter().find(|one| is_it(one)).cloned();
        if found.is_some() {
            return Ok(found);
        }
        let types = self.discover()?;
        let found = types.iter().find(|one| is_it(one)).cloned();
        *known() = types;
        Ok(found)
    }

    /// The types that are served now.
    fn discover(&self) -> Result<Vec<ResourceType>> {
        let mut types = Vec::new();
        for path in ["/api", "/apis"] {
            let (status, document) = self.send_accepting(Method::GET, path, None, DISCOVERY)?;
            types.extend(types_of(&checked(path, status, document)?));
        }
        Ok(types)
    }

    /// Sends a request, and again while the server has no time for it, as kubectl does: it says so of a type that is new.
    fn send(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<(StatusCode, Value)> {
        let end = Instant::now() + PATIENCE;
        loop {
            let (status, answer) = self.send_accepting(method.clone(), path, body, "application/json")?;
            if status != StatusCode::TOO_MANY_REQUESTS || Instant::now() > end {
                return Ok((status, answer));
            }
            pause();
        }
    }

    /// Sends a request and waits for the answer. The runtime is its own: tests call from threads with and without one.
    fn send_accepting(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
        accept: &str,
    ) -> Result<(StatusCode, Value)> {
        let what = format!("{method} {path}");
        let request = Request::builder().method(method).uri(format!("{}{path}", self.shared.url));
        let request = request.header(AUTHORIZATION, &self.shared.authorization).header(ACCEPT, accept);
        let request = match body {
            Some((content, value)) => {
                request.header(CONTENT_TYPE, content).body(Full::new(Bytes::from(value.to_string())))
            }
            None => request.body(Full::default()),
        };
        let request = request.with_context(|| what.clone())?;
        let (sender, receiver) = sync_channel(1);
        let client = self.shared.client.clone();
        runtime()?.spawn(async move {
            let answered = async {
                let response = client.request(request).await?;
                let status = response.status();
                Ok::<_, anyhow::Error>((status, response.into_body().collect().await?.to_bytes()))
            };
            let _ = sender.send(answered.await);
        });
        let answered = receiver.recv_timeout(PATIENCE).with_context(|| format!("{what}: no answer"))?;
        let (status, bytes) = answered.with_context(|| what.clone())?;
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_else(|_| text())))
    }
}

/// The runtime of all clients of this process.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let begun = RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("api-client").enable_all().build()
    });
    begun.as_ref().map_err(|e| anyhow::anyhow!("start the runtime of API clients: {e}"))
}

fn checked(path: &str, status: StatusCode, body: Value) -> Result<Value> {
    if status.is_success() {
        return Ok(body);
    }
    let message = body["message"].as_str().map_or_else(|| body.to_string(), str::to_owned);
    bail!("{path}: {status}: {message}")
}

/// An object without the part that kubectl does not print.
fn without_managers(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}
