//! The HTTP endpoints of the server: metrics and health for every client, files for clients with a signed URL, plans
//! for users, profiles for clients on its own machine.

pub(crate) mod download;
pub(crate) mod plan;
pub(crate) mod profile;
mod response;

use crate::health::Health;
use crate::metrics::Metrics;
use download::Downloads;
use http::{Method, Request, StatusCode, header};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use lifeboat_api::well_known::PLAN_PATH;
use plan::Plans;
use profile::Profiles;
use response::{HttpResponse, text};
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections of one listener at once; more wait to be accepted.
const MOST_CONNECTIONS: usize = 64;
/// Time limit for a client to send its request headers, as in Velero.
const HEADERS: Duration = Duration::from_secs(3);
/// Time limit for a connection; the largest archive has to pass within it.
const LONGEST: Duration = Duration::from_secs(3600);
/// Pause after the system has refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The endpoints that a listener serves.
#[derive(Debug)]
pub(crate) enum Site {
    /// `/metrics`, `/healthz`, `/readyz`.
    Status { metrics: Arc<Metrics>, health: Arc<Health> },
    /// Files behind signed URLs, and plans for users.
    Files { downloads: Box<Downloads>, plans: Box<Plans> },
    /// CPU profiles of the process.
    Profiles(Profiles),
}

/// Answers until dropped.
pub(crate) async fn serve(listener: TcpListener, site: Site) {
    let site = Arc::new(site);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(timeout(LONGEST, connection(stream, Arc::clone(&site))));
                }
                Err(e) => {
                    tracing::warn!(error = %e, "a connection could not be accepted");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

async fn connection(stream: TcpStream, site: Arc<Site>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.answer(request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(e) = served {
        tracing::debug!(error = %e, "a connection broke");
    }
}

impl Site {
    async fn answer<B>(&self, request: Request<B>) -> HttpResponse
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        if let Self::Files { plans, .. } = self
            && request.uri().path() == PLAN_PATH
        {
            return match *request.method() {
                Method::POST => plans.answer(request).await,
                _ => text(StatusCode::METHOD_NOT_ALLOWED, "only POST is served\n"),
            };
        }
        if request.method() != Method::GET {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served\n");
        }
        match (self, request.uri().path()) {
            (Self::Status { metrics, .. }, "/metrics") => match metrics.text() {
                Ok(body) => {
                    let mut answer = text(StatusCode::OK, body);
                    let kind = header::HeaderValue::from_static(prometheus::TEXT_FORMAT);
                    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
                    answer
                }
                Err(e) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")),
            },
            (Self::Status { health, .. }, "/healthz") => said(health.is_alive()),
            (Self::Status { health, .. }, "/readyz") => said(health.is_ready()),
            (Self::Profiles(profiles), _) => profiles.answer(request.uri()).await,
            (Self::Files { downloads, .. }, _) => downloads.answer(request.uri()).await,
            _ => text(StatusCode::NOT_FOUND, "there is nothing here\n"),
        }
    }
}

fn said(state: Result<&'static str, &'static str>) -> HttpResponse {
    match state {
        Ok(word) => text(StatusCode::OK, format!("{word}\n")),
        Err(word) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{word}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty};

    async fn ask(site: &Site, method: Method, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(Empty::<Bytes>::new()).unwrap();
        let answer = site.answer(request).await;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn state_is_told_to_whoever_asks() {
        let health = Arc::new(Health::default());
        let site = Site::Status { metrics: Arc::new(Metrics::new().unwrap()), health: Arc::clone(&health) };
        let said = |status, body: &str| (status, body.to_owned());
        assert_eq!(ask(&site, Method::GET, "/readyz").await, said(503, "starting\n"));
        assert_eq!(ask(&site, Method::GET, "/healthz").await, said(200, "ok\n"));
        health.stands_by();
        assert_eq!(ask(&site, Method::GET, "/readyz").await, said(200, "standing by\n"));
        health.leads();
        assert_eq!(ask(&site, Method::GET, "/readyz").await, said(503, "reading the resources\n"));
        health.looked(std::time::Instant::now());
        assert_eq!(ask(&site, Method::GET, "/readyz").await, said(200, "leading\n"));
        assert_eq!(ask(&site, Method::POST, "/metrics").await, said(405, "only GET is served\n"));
        assert_eq!(ask(&site, Method::GET, "/").await, said(404, "there is nothing here\n"));
        let (status, body) = ask(&site, Method::GET, "/metrics").await;
        assert!(status == 200 && body.contains("velero_restore_attempt_total{schedule=\"\"} 0\n"), "{body}");
    }
}
