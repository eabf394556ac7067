//! Downloads a signed URL: through the proxy of the environment, with a deadline for each part.

#[cfg(test)]
mod tests;

use super::trust::Trust;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HOST, LOCATION, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use lifeboat_object::chain;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower::{BoxError, Service, ServiceExt};

/// Until a connection stands, with its proxy and TLS.
const CONNECT: Duration = Duration::from_secs(10);
/// Redirects that are followed: as many as other clients follow.
const MOST_REDIRECTS: usize = 10;
/// Bytes that are kept of an answer that refuses.
const MOST_REFUSAL: usize = 4 << 10;

/// The reason why a URL could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No answer: refused, unknown, too late, or a certificate that we do not trust. From another place it may work.
    #[error("{server} cannot be reached: {why}")]
    Unreachable {
        /// Host and port.
        server: String,
        /// The reason, for people.
        why: String,
    },
    /// The server answered with something else than the file.
    #[error("request failed: {body} (status {status})")]
    Answered {
        /// The status of the answer.
        status: u16,
        /// The body of the answer, shortened.
        body: String,
    },
    /// The answer broke off.
    #[error("the download broke off: {0}")]
    Broken(String),
    /// The URL is none, or leads nowhere.
    #[error("the server's URL cannot be used: {0}")]
    Invalid(String),
}

/// Gets files from URLs.
pub(crate) struct Fetcher {
    trust: Trust,
    proxies: Matcher,
    agent: String,
    /// Until an answer begins, and between two pieces of it.
    patience: Duration,
}

/// A file that is being read.
pub(crate) struct DownloadBody {
    body: Incoming,
    /// Drives the connection as long as the answer is held.
    _connection: JoinSet<()>,
    patience: Duration,
}

trait IoStream: Read + Write + Unpin + Send {}

impl<T: Read + Write + Unpin + Send> IoStream for T {}

impl Fetcher {
    pub(crate) fn new(trust: Trust, agent: String, patience: Duration) -> Self {
        Self { trust, proxies: Matcher::from_env(), agent, patience }
    }

    /// Begins to read a file; `None` when the server says that there is none.
    ///
    /// # Errors
    /// [`FetchError`].
    pub(crate) async fn get(&self, url: &str) -> Result<Option<DownloadBody>, FetchError> {
        let mut url = parsed(url)?;
        for _ in 0..=MOST_REDIRECTS {
            let (response, connection) = self.ask(&url).await?;
            match response.headers().get(LOCATION).filter(|_| response.status().is_redirection()) {
                Some(target) => url = redirected(&url, target)?,
                None => return self.file(response, connection).await,
            }
        }
        Err(FetchError::Invalid(format!("more than {MOST_REDIRECTS} redirects")))
    }

    /// The same from a server whose answers have this header. Another program at its address counts as unreachable.
    ///
    /// # Errors
    /// [`FetchError`].
    pub(crate) async fn get_marked(&self, url: &str, mark: &str) -> Result<Option<DownloadBody>, FetchError> {
        let url = parsed(url)?;
        let (response, connection) = self.ask(&url).await?;
        if !response.headers().contains_key(mark) {
            let why = "it is another program that answers there".to_owned();
            return Err(FetchError::Unreachable { server: server(&url), why });
        }
        self.file(response, connection).await
    }

    /// The same over a connection that stands already.
    ///
    /// # Errors
    /// [`FetchError`].
    pub(crate) async fn get_over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        url: &str,
    ) -> Result<Option<DownloadBody>, FetchError> {
        let url = parsed(url)?;
        let request = self.request(&url, None).map_err(|e| FetchError::Invalid(e.to_string()))?;
        let (response, connection) = self.exchange(Box::new(TokioIo::new(stream)), request, &url).await?;
        self.file(response, connection).await
    }

    async fn file(
        &self,
        response: Response<Incoming>,
        connection: JoinSet<()>,
    ) -> Result<Option<DownloadBody>, FetchError> {
        let status = response.status();
        let mut answer = DownloadBody { body: response.into_body(), _connection: connection, patience: self.patience };
        match status {
            StatusCode::OK => Ok(Some(answer)),
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(FetchError::Answered { status: status.as_u16(), body: answer.refusal().await }),
        }
    }

    async fn ask(&self, url: &Uri) -> Result<(Response<Incoming>, JoinSet<()>), FetchError> {
        let unreachable = |why: String| FetchError::Unreachable { server: server(url), why };
        let (stream, request) = match timeout(CONNECT, self.open(url)).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(e)) => return Err(unreachable(self.trust.explained(&*e))),
            Err(_) => return Err(unreachable(format!("no connection within {} s", CONNECT.as_secs()))),
        };
        self.exchange(stream, request, url).await
    }

    async fn exchange(
        &self,
        stream: Box<dyn IoStream>,
        request: Request<Empty<Bytes>>,
        url: &Uri,
    ) -> Result<(Response<Incoming>, JoinSet<()>), FetchError> {
        let unreachable = |why: String| FetchError::Unreachable { server: server(url), why };
        let (mut sender, connection) = match http1::handshake::<_, Empty<Bytes>>(stream).await {
            Ok(both) => both,
            Err(e) => return Err(unreachable(chain(&e))),
        };
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // The reader of the answer sees an error of the connection too.
            let _ = connection.await;
        });
        match timeout(self.patience, sender.send_request(request)).await {
            Ok(Ok(response)) => Ok((response, driver)),
            Ok(Err(e)) => Err(unreachable(chain(&e))),
            Err(_) => Err(unreachable(format!("no answer within {} s", self.patience.as_secs()))),
        }
    }

    /// A connection, and the request in the form that belongs on it.
    async fn open(&self, url: &Uri) -> Result<(Box<dyn IoStream>, Request<Empty<Bytes>>), BoxError> {
        let secure = url.scheme() == Some(&Scheme::HTTPS);
        if !secure && url.scheme() != Some(&Scheme::HTTP) {
            return Err(format!("{url} is neither http nor https").into());
        }
        // compat: as in Go, this machine itself is never asked for through a proxy.
        let proxy = self.proxies.intercept(url).filter(|_| !is_local(url));
        let tcp = tcp();
        match proxy {
            None if secure => Ok((connect(self.tls(tcp)?, url).await?, self.request(url, None)?)),
            None => Ok((connect(tcp, url).await?, self.request(url, None)?)),
            Some(proxy) if matches!(proxy.uri().scheme_str(), Some("socks5" | "socks5h")) => {
                let mut socks =
                    SocksV5::new(proxy.uri().clone(), tcp).local_dns(proxy.uri().scheme_str() == Some("socks5"));
                if let Some((user, password)) = proxy.raw_auth() {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                Ok((connect(self.tls(socks)?, url).await?, self.request(url, None)?))
            }
            Some(proxy) if secure => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tls(tcp)?);
                if let Some(auth) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                Ok((connect(self.tls(tunnel)?, url).await?, self.request(url, None)?))
            }
            Some(proxy) if proxy.uri().scheme() == Some(&Scheme::HTTPS) => {
                Ok((connect(self.tls(tcp)?, proxy.uri()).await?, self.request(url, Some(&proxy))?))
            }
            Some(proxy) => Ok((connect(tcp, proxy.uri()).await?, self.request(url, Some(&proxy))?)),
        }
    }

    fn tls<C>(&self, inner: C) -> Result<HttpsConnector<C>, BoxError> {
        let config = self.trust.tls()?;
        Ok(HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().wrap_connector(inner))
    }

    /// The request; for a proxy that forwards it, it has the whole URL.
    fn request(&self, url: &Uri, proxy: Option<&Intercept>) -> Result<Request<Empty<Bytes>>, BoxError> {
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let target = if proxy.is_some() { url.clone() } else { path.parse()? };
        let host = url.authority().map_or("", |authority| authority.as_str().rsplit('@').next().unwrap_or_default());
        // Stores that unpack on the way would otherwise do so: what we read is always packed.
        let mut request = Request::get(target)
            .header(HOST, host)
            .header(USER_AGENT, &self.agent)
            .header(ACCEPT_ENCODING, "gzip")
            .body(Empty::new())?;
        if let Some(auth) = proxy.and_then(Intercept::basic_auth) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, auth.clone());
        }
        Ok(request)
    }
}

impl DownloadBody {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`FetchError::Broken`].
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        loop {
            match timeout(self.patience, self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(piece) => return Ok(Some(piece)),
                    Err(_trailers) => {}
                },
                Ok(Some(Err(e))) => return Err(FetchError::Broken(chain(&e))),
                Err(_) => return Err(FetchError::Broken(format!("nothing came for {} s", self.patience.as_secs()))),
            }
        }
    }

    /// Reads the message of an answer that refuses, shortened.
    async fn refusal(&mut self) -> String {
        let mut text = Vec::new();
        while let Ok(Some(piece)) = self.next().await {
            text.extend_from_slice(&piece[..piece.len().min(MOST_REFUSAL - text.len())]);
            if text.len() == MOST_REFUSAL {
                break;
            }
        }
        String::from_utf8_lossy(&text).trim().to_owned()
    }
}

fn parsed(url: &str) -> Result<Uri, FetchError> {
    url.parse().map_err(|e| FetchError::Invalid(format!("{url}: {e}")))
}

fn server(url: &Uri) -> String {
    url.authority().map(ToString::to_string).unwrap_or_default()
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp
}

async fn connect<C>(connector: C, to: &Uri) -> Result<Box<dyn IoStream>, BoxError>
where
    C: Service<Uri>,
    C::Response: IoStream + 'static,
    C::Error: Into<BoxError>,
{
    let stream = connector.oneshot(to.clone()).await.map_err(Into::into)?;
    Ok(Box::new(stream))
}

pub(crate) fn is_local(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn redirected(from: &Uri, target: &HeaderValue) -> Result<Uri, FetchError> {
    let wrong = |why: String| FetchError::Invalid(format!("a redirect from {from}: {why}"));
    let target: Uri = target.to_str().map_err(|e| wrong(e.to_string()))?.parse().map_err(|e| wrong(format!("{e}")))?;
    if target.scheme().is_some() {
        return Ok(target);
    }
    let mut parts = target.into_parts();
    parts.scheme = from.scheme().cloned();
    parts.authority = parts.authority.or_else(|| from.authority().cloned());
    Uri::from_parts(parts).map_err(|e| wrong(e.to_string()))
}
