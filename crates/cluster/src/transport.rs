//! HTTP/1.1 to the API server, without tasks of its own: the caller that waits for an answer drives its connection.
//!
//! A client with a task per connection wakes another thread for every piece of every answer, and TLS reads four
//! kilobytes at a time; on a machine with few processors the two cost as much as everything else that a backup does
//! to a list. Here a piece goes from the socket to the caller within one task, and a socket is read in large pieces.

use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, HttpConnector};
use hyper_util::rt::TokioIo;
use kube::client::{Body, ConfigExt};
use lifeboat_object::chain;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tower::{BoxError, Layer, Service, ServiceExt};

/// Time limit for opening a connection, its TLS handshake included.
const CONNECT: Duration = Duration::from_secs(10);
/// After so long without a word, the other end of a connection is asked whether it is there: a watch may say nothing for minutes,
/// and one whose connection was lost in silence would show what was as what is.
const QUIET: Duration = Duration::from_secs(15);
/// Between two such questions.
const PROBE: Duration = Duration::from_secs(5);
/// So many without an answer, and the connection has failed: half a minute after the last word.
const PROBES: u32 = 3;
/// Bytes read from a socket at once.
const SOCKET_READ: usize = 128 << 10;
/// Connections kept for the next request; as many as writes are ever in flight.
const MOST_IDLE: usize = 128;
/// A connection unused for so long is closed: load balancers forget it about then.
const LONGEST_IDLE: Duration = Duration::from_secs(50);

type ServerStream = <hyper_rustls::HttpsConnector<Buffered> as Service<Uri>>::Response;

/// A request that was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    /// There was no connection to send it over.
    #[error("the server cannot be reached")]
    Unreachable(#[source] BoxError),
    /// The connection ended first.
    #[error("the connection broke before the answer")]
    Broken(#[source] hyper::Error),
}

/// Makes a client of one server. Through a proxy, the library's own transport is used, whose connections ask nobody whether he is
/// still there.
pub(crate) fn client(config: kube::Config) -> Result<kube::Client, kube::Error> {
    if config.proxy_url.is_some() {
        return kube::Client::try_from(config);
    }
    let connector = config.rustls_https_connector_with_connector(Buffered(tcp()))?;
    let transport = Transport { connector, idle: Arc::default() };
    let headers = config.extra_headers_layer()?.layer(transport);
    let base = config.base_uri_layer();
    Ok(match config.auth_layer()? {
        Some(auth) => {
            kube::Client::new(base.layer(auth.layer(headers.map_err(BoxError::from))), config.default_namespace)
        }
        None => kube::Client::new(base.layer(headers), config.default_namespace),
    })
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(QUIET));
    tcp.set_keepalive_interval(Some(PROBE));
    tcp.set_keepalive_retries(Some(PROBES));
    tcp
}

/// Opens TCP connections that are read in large pieces.
#[derive(Clone)]
struct Buffered(HttpConnector);

/// A TCP connection that is read in large pieces.
struct Socket(TokioIo<BufReader<TcpStream>>);

impl Service<Uri> for Buffered {
    type Response = Socket;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Socket, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let opening = self.0.call(server);
        Box::pin(async move {
            let tcp = opening.await?.into_inner();
            Ok(Socket(TokioIo::new(BufReader::with_capacity(SOCKET_READ, tcp))))
        })
    }
}

impl hyper_util::client::legacy::connect::Connection for Socket {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Sends requests. Each has a connection to itself until it is answered; the next request takes the connection over.
#[derive(Clone)]
struct Transport {
    connector: hyper_rustls::HttpsConnector<Buffered>,
    idle: Arc<Idle>,
}

impl Service<Request<Body>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let transport = self.clone();
        Box::pin(async move { transport.send(request).await })
    }
}

impl Transport {
    async fn send(self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let server = request.uri().clone();
        let mut request = origin_form(request)?;
        loop {
            let (mut link, fresh) = match self.idle.take() {
                Some(link) => (link, false),
                None => (self.open(&server).await.map_err(Unanswered::Unreachable)?, true),
            };
            match link.send(request).await {
                Ok(response) => {
                    let idle = Arc::clone(&self.idle);
                    return Ok(response.map(|body| ResponseBody { body, link: Some(link), idle }));
                }
                Err(mut refused) => match refused.take_message() {
                    // The server had closed it meanwhile, and nothing was sent.
                    Some(unsent) if !fresh => request = unsent,
                    _ => return Err(Unanswered::Broken(refused.into_error()).into()),
                },
            }
        }
    }

    async fn open(&self, server: &Uri) -> Result<Link, BoxError> {
        let mut connector = self.connector.clone();
        let opening = async {
            let stream = connector.ready().await?.call(server.clone()).await?;
            let (sender, connection) = handshake(stream).await?;
            Ok::<_, BoxError>(Link { sender, connection: Some(connection), since: Instant::now() })
        };
        match timeout(CONNECT, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(format!("connecting took longer than {} s", CONNECT.as_secs()).into()),
        }
    }
}

/// An HTTP/1.1 request names its server in a header, not in its first line.
fn origin_form(mut request: Request<Body>) -> Result<Request<Body>, BoxError> {
    let uri = request.uri();
    if let Some(authority) = uri.authority() {
        let host = match (uri.scheme_str(), authority.port_u16()) {
            (Some("https"), Some(443)) | (Some("http"), Some(80)) | (_, None) => authority.host(),
            _ => authority.as_str().rsplit('@').next().unwrap_or_default(),
        };
        let host = HeaderValue::from_str(host)?;
        request.headers_mut().entry(HOST).or_insert(host);
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse()?;
    Ok(request)
}

/// Connections without a request, the last used one first.
#[derive(Default)]
struct Idle(Mutex<Vec<Link>>);

impl Idle {
    fn take(&self) -> Option<Link> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut link) = links.pop() {
            if link.since.elapsed() < LONGEST_IDLE && link.is_open() {
                return Some(link);
            }
        }
        None
    }

    fn put(&self, mut link: Link) {
        link.since = Instant::now();
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if links.len() < MOST_IDLE {
            links.push(link);
        }
    }
}

struct Link {
    sender: SendRequest<Body>,
    /// `None` once the connection is closed.
    connection: Option<Connection<ServerStream, Body>>,
    since: Instant,
}

impl Link {
    fn is_open(&mut self) -> bool {
        drive(&mut self.connection, &mut Context::from_waker(std::task::Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }

    async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, hyper::client::conn::TrySendError<Request<Body>>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let connection = &mut self.connection;
        poll_fn(|cx| {
            if let Poll::Ready(done) = answer.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            drive(connection, cx);
            answer.as_mut().poll(cx)
        })
        .await
    }
}

/// Lets a connection do what it can; takes it away when it is closed.
fn drive(connection: &mut Option<Connection<ServerStream, Body>>, cx: &mut Context<'_>) {
    if let Some(open) = connection
        && let Poll::Ready(ended) = Pin::new(open).poll(cx)
    {
        if let Err(e) = ended {
            tracing::debug!(error = chain(&e), "a connection ended");
        }
        *connection = None;
    }
}

/// The body of an answer; reading it drives the connection, and reading it to its end frees the connection.
struct ResponseBody {
    body: Incoming,
    link: Option<Link>,
    idle: Arc<Idle>,
}

impl HttpBody for ResponseBody {
    type Data = bytes::Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, BoxError>>> {
        let this = &mut *self;
        let mut frame = Pin::new(&mut this.body).poll_frame(cx);
        if frame.is_pending()
            && let Some(link) = &mut this.link
        {
            drive(&mut link.connection, cx);
            frame = Pin::new(&mut this.body).poll_frame(cx);
        }
        if matches!(frame, Poll::Ready(None))
            && let Some(link) = this.link.take()
        {
            this.idle.put(link);
        }
        frame.map_err(BoxError::from)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::SockRef;

    #[tokio::test]
    async fn a_silent_connection_is_probed_three_times_within_half_a_minute() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("https://{}", server.local_addr().unwrap()).parse::<Uri>().unwrap();
        let stream = tcp().oneshot(uri).await.unwrap().into_inner();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        let (quiet, probe) = (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap());
        assert_eq!(quiet + probe * socket.tcp_keepalive_retries().unwrap(), Duration::from_secs(30));
    }
}
