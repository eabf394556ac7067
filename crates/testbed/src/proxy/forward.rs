//! Passes requests on, or not.

use super::body::{Stream, full, whole};
use super::exec::{self, Containers};
use super::lock::lock;
use super::script::{Fault, Kill, Rule, Script, Seen};
use crate::certificates::Certificates;
use crate::https::{HttpsClient, https_client, provider};
use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

type Upstream = HttpsClient<Stream>;

/// A running proxy on a free port of the loopback interface. It speaks plain HTTP where the server behind it does, and
/// otherwise TLS with a certificate of an authority of its own. Dropping it ends all its connections.
#[derive(Debug)]
pub struct Proxy {
    // None only when it ends.
    runtime: Option<Runtime>,
    shared: Arc<ProxyState>,
    url: String,
    authority: Option<String>,
}

struct ProxyState {
    upstream: Uri,
    client: Upstream,
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
    victim: Mutex<Option<u32>>,
    named: Condvar,
    containers: Mutex<Option<Containers>>,
    /// Commands that run; the runtime ends them with the proxy.
    commands: Mutex<JoinSet<()>>,
}

impl std::fmt::Debug for ProxyState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProxyState").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

/// Time limit for naming the victim of a request that kills.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit of a hanging request, when the client has more patience than any test.
const HANG: Duration = Duration::from_secs(600);
impl Proxy {
    /// Stands before this URL, `http://host:port` or `https://host:port`; the authority (PEM) is the one of the server
    /// behind. Without rules everything passes.
    ///
    /// # Errors
    /// When the port cannot be opened or the authority is no certificate.
    pub fn start(upstream: &str, authority: Option<&str>) -> Result<Self> {
        Self::launch(Ipv4Addr::LOCALHOST, upstream, authority)
    }

    /// Stands before a URL without TLS as [`Self::start`], on the address of the node, where pods reach it too.
    ///
    /// # Errors
    /// As [`Self::start`]; when no node runs here.
    pub fn start_on_node(upstream: &str) -> Result<Self> {
        Self::launch(crate::node::ADDRESS, upstream, None)
    }

    fn launch(host: Ipv4Addr, upstream: &str, authority: Option<&str>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let upstream: Uri = upstream.parse().context("the URL behind the proxy")?;
        let tls = upstream.scheme_str() == Some("https");
        let client = https_client(authority)?;
        let (acceptor, authority) = if tls { serve_tls().map(|(a, ca)| (Some(a), Some(ca)))? } else { (None, None) };
        let shared = Arc::new(ProxyState {
            upstream,
            client,
            script: Mutex::default(),
            seen: Mutex::default(),
            victim: Mutex::default(),
            named: Condvar::new(),
            containers: Mutex::default(),
            commands: Mutex::default(),
        });
        let listener = std::net::TcpListener::bind((host, 0))?;
        listener.set_nonblocking(true)?;
        let scheme = if tls { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr()?);
        let entered = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        drop(entered);
        runtime.spawn(serve(listener, acceptor, Arc::clone(&shared)));
        Ok(Self { runtime: Some(runtime), shared, url, authority })
    }

    /// Stands before the API server of a kubeconfig that was written by this test bed, and writes the kubeconfig of the
    /// way through the proxy beside it, under this name.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read, or as [`Proxy::start`].
    pub fn before_api_server(kubeconfig: &Path, name: &str) -> Result<(Self, std::path::PathBuf)> {
        let text = std::fs::read_to_string(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
        let field = |key: &str| {
            let found = text.split_once(&format!("{key}: \"")).and_then(|(_, rest)| rest.split('"').next());
            found.with_context(|| format!("{} has no {key}", kubeconfig.display()))
        };
        let (server, authority) = (field("server")?, field("certificate-authority")?);
        let pem = std::fs::read_to_string(authority).with_context(|| format!("read {authority}"))?;
        let proxy = Self::start(server, Some(&pem))?;
        let folder = kubeconfig.parent().context("the folder of the kubeconfig")?;
        let through = folder.join(name);
        let own = folder.join(format!("{name}.crt"));
        std::fs::write(&own, proxy.authority().unwrap_or_default())?;
        std::fs::write(&through, text.replace(server, proxy.url()).replace(authority, &own.display().to_string()))?;
        Ok((proxy, through))
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The authority of its certificate, PEM; none for plain HTTP.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// A kubeconfig for the API server behind it, as seen through this proxy, by this bearer token.
    #[must_use]
    pub fn kubeconfig(&self, token: &str) -> String {
        let authority = STANDARD.encode(self.authority().unwrap_or_default());
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: proxy\n\
             clusters: [{{name: proxy, cluster: {{server: \"{}\", certificate-authority-data: {authority}}}}}]\n\
             users: [{{name: user, user: {{token: \"{token}\"}}}}]\n\
             contexts: [{{name: proxy, context: {{cluster: proxy, user: user}}}}]\n",
            self.url
        )
    }

    /// Replaces the script; counting begins anew.
    pub fn script(&self, rules: Vec<Rule>) {
        *lock(&self.shared.script) = Script::new(rules);
    }

    /// Runs the commands that clients want to run in containers, in place of a node. Rules come first: a command whose request
    /// is cut before, does not run.
    pub fn run_commands_by(&self, containers: Containers) {
        *lock(&self.shared.containers) = Some(containers);
    }

    /// Returns true if a rule of the script has met a request, which may still be on its way.
    #[must_use]
    pub fn is_met(&self) -> bool {
        lock(&self.shared.script).met
    }

    /// Names the process that [`Fault::Kill`] kills. A request that kills waits for this.
    pub fn victim(&self, pid: u32) {
        *lock(&self.shared.victim) = Some(pid);
        self.shared.named.notify_all();
    }

    /// Forgets the process.
    pub fn no_victim(&self) {
        *lock(&self.shared.victim) = None;
    }

    /// All requests that came by since the last call, in the order of their ends. One is here before its client
    /// sees its end; one whose client gave up comes when that is noticed.
    #[must_use]
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut lock(&self.shared.seen))
    }
}

impl Drop for Proxy {
    /// Also in a test that is itself asynchronous, where waiting for threads is not allowed.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn serve_tls() -> Result<(TlsAcceptor, String)> {
    let certificates = Certificates::for_loopback()?;
    let chain = vec![CertificateDer::from_pem_slice(certificates.certificate.as_bytes()).map_err(|e| anyhow!("{e}"))?];
    let key = PrivateKeyDer::from_pem_slice(certificates.key.as_bytes()).map_err(|e| anyhow!("{e}"))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), certificates.authority))
}

async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<ProxyState>) {
    // The runtime of the proxy ends them all.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            // An error is no failure of the proxy: the script or the client has cut the connection.
            let _ = connection(stream, acceptor, shared).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, shared: Arc<ProxyState>) -> Result<()> {
    stream.set_nodelay(true)?;
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { shared.answer(request).await }
    });
    let http = hyper::server::conn::http1::Builder::new();
    match acceptor {
        Some(acceptor) => {
            http.serve_connection(TokioIo::new(acceptor.accept(stream).await?), service).with_upgrades().await?;
        }
        None => http.serve_connection(TokioIo::new(stream), service).with_upgrades().await?,
    }
    Ok(())
}

impl ProxyState {
    /// An error closes the connection without an answer.
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Stream>> {
        let method = request.method().to_string();
        let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
        let accept = request.headers().get("accept").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let fault = lock(&self.script).next(&method, &path);
        let seen = Seen { method, path, accept, status: 0, met: fault.is_some() };
        let mut entry = Entry { log: &self.seen, seen: Some(seen) };
        let answer = self.faulty(request, fault).await;
        if let (Some(seen), Ok(answer)) = (&mut entry.seen, &answer) {
            seen.status = answer.status().as_u16();
        }
        answer
    }

    async fn faulty(&self, request: Request<Incoming>, fault: Option<Fault>) -> Result<Response<Stream>> {
        match fault {
            None => self.unbroken(request).await,
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                self.unbroken(request).await
            }
            Some(Fault::Answer { status, headers, body }) => {
                // A client that is still sending must not find its connection closed.
                let _ = request.into_body().collect().await;
                let mut response = text(status, body)?;
                for (name, value) in headers {
                    response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_str(&value)?);
                }
                Ok(response)
            }
            Some(Fault::CutBefore) => bail!("cut before the request"),
            Some(Fault::CutWithin(most)) => {
                self.pass(request.map(|body| truncated(body, most))).await?;
                bail!("cut within the request")
            }
            Some(Fault::CutAfter) => {
                self.effect(request).await?;
                bail!("cut after the request")
            }
            Some(Fault::AnswerAfter { status, body }) => {
                self.effect(request).await?;
                text(status, body)
            }
            Some(Fault::Truncate(most)) => Ok(self.pass(request.map(whole)).await?.map(|body| truncated(body, most))),
            Some(Fault::Shorten(most)) => {
                let (mut parts, body) = self.pass(request.map(whole)).await?.into_parts();
                let bytes = body.collect().await?.to_bytes();
                let bytes = bytes.slice(..most.min(bytes.len()));
                parts.headers.remove("transfer-encoding");
                parts.headers.insert("content-length", bytes.len().into());
                Ok(Response::from_parts(parts, full(bytes)))
            }
            Some(Fault::Hang) => {
                tokio::time::sleep(HANG).await;
                bail!("hung until the end")
            }
            Some(Fault::Kill(Kill::Before)) => {
                self.kill()?;
                bail!("killed before the request")
            }
            Some(Fault::Kill(Kill::After)) => {
                self.effect(request).await?;
                self.kill()?;
                bail!("killed after the request")
            }
        }
    }

    async fn unbroken(&self, request: Request<Incoming>) -> Result<Response<Stream>> {
        match self.command(&request) {
            Some((command, containers)) => exec::answer(request, command, containers, &self.commands).await,
            None if request.headers().contains_key("upgrade") => self.tunnel(request).await,
            None => self.pass(request.map(whole)).await.map(|answer| answer.map(whole)),
        }
    }

    /// Passes on a request that asks for another protocol, and then the bytes of that protocol both ways.
    async fn tunnel(&self, mut request: Request<Incoming>) -> Result<Response<Stream>> {
        let client = hyper::upgrade::on(&mut request);
        let mut answer = self.pass(request.map(whole)).await?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let server = hyper::upgrade::on(&mut answer);
            lock(&self.commands).spawn(async move {
                if let (Ok(client), Ok(server)) = (client.await, server.await) {
                    // An error is the end of one of them, which the other one sees.
                    let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(server)).await;
                }
            });
        }
        Ok(answer.map(whole))
    }

    /// The command that a request wants to run, and what runs it.
    fn command(&self, request: &Request<Incoming>) -> Option<(exec::ContainerCommand, Containers)> {
        let containers = lock(&self.containers).clone()?;
        Some((exec::command(request.uri().path_and_query()?.as_str())?, containers))
    }

    async fn pass(&self, request: Request<Stream>) -> Result<Response<Incoming>> {
        let (mut parts, body) = request.into_parts();
        let mut uri = self.upstream.clone().into_parts();
        uri.path_and_query = parts.uri.path_and_query().cloned();
        // The Host header stays as the client signed it.
        parts.uri = Uri::from_parts(uri)?;
        Ok(self.client.request(Request::from_parts(parts, body)).await?)
    }

    /// Passes a request on and waits until all of its answer is there.
    async fn effect(&self, request: Request<Incoming>) -> Result<()> {
        if let Some((command, containers)) = self.command(&request) {
            tokio::task::spawn_blocking(move || containers(&command)).await?;
            return Ok(());
        }
        let mut answer = self.pass(request.map(whole)).await?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            // The server ends the connection when the command has ended.
            let mut server = TokioIo::new(hyper::upgrade::on(&mut answer).await?);
            tokio::io::copy(&mut server, &mut tokio::io::sink()).await?;
            return Ok(());
        }
        answer.into_body().collect().await?;
        Ok(())
    }

    fn kill(&self) -> Result<()> {
        let victim = lock(&self.victim);
        let (victim, _) =
            self.named.wait_timeout_while(victim, PATIENCE, |v| v.is_none()).unwrap_or_else(PoisonError::into_inner);
        let pid = victim.context("nobody named the process to kill")?;
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).context("a process id")?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
        Ok(())
    }
}

/// A request on its way into the log: it comes there also when the client has gone before its end.
struct Entry<'a> {
    log: &'a Mutex<Vec<Seen>>,
    seen: Option<Seen>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        lock(self.log).extend(self.seen.take());
    }
}

/// Ends a body early, by an error that closes the connection.
fn truncated(body: Incoming, most: usize) -> Stream {
    let stream = futures::stream::unfold((body, most), |(mut body, left)| async move {
        if left == 0 {
            // What went before is flushed only when the body has nothing to give.
            tokio::task::yield_now().await;
            return Some((Err(std::io::Error::other("truncated")), (body, 0)));
        }
        let frame = match body.frame().await? {
            Ok(frame) => frame,
            Err(e) => return Some((Err(std::io::Error::other(e)), (body, 0))),
        };
        let Ok(data) = frame.into_data() else { return Some((Ok(Frame::data(Bytes::new())), (body, left))) };
        let data = data.slice(..left.min(data.len()));
        let left = left - data.len();
        Some((Ok(Frame::data(data)), (body, left)))
    });
    StreamBody::new(stream).boxed_unsync()
}

fn text(status: u16, body: String) -> Result<Response<Stream>> {
    let mut response = Response::new(full(body.into()));
    *response.status_mut() = StatusCode::from_u16(status)?;
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
    Ok(response)
}
