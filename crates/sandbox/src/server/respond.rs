//! Takes a request, checks its token, and hands it to the function that answers it.

use crate::encoding::error::ApiError;
use crate::encoding::path;
use crate::encoding::path::{Query, ResourcePath, Route};
use crate::encoding::render::Accept;
use crate::encoding::response::{Body, HandlerResult, answer, json_answer, refuse};
use crate::server::shared::Server;
use crate::types::discovery;
use crate::types::known::{READING, is_review};
use crate::types::open_api_v2::open_api_v2;
use crate::verbs::call::ObjectRequest;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The largest body of a request.
const LARGEST_BODY: usize = 16 << 20;
/// Time limit for a body to arrive.
const BODY_DEADLINE: Duration = Duration::from_secs(60);

impl Server {
    /// Answers a request. A refusal is an answer too.
    pub(crate) async fn respond<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let answer = match self.admit(&head.headers) {
            Ok(()) => self.route(&head, body).await,
            Err(error) => Err(error),
        };
        answer.unwrap_or_else(|error| refuse(&error))
    }

    fn admit(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let token = text(headers, AUTHORIZATION).strip_prefix("Bearer ").map(str::trim).unwrap_or_default();
        if !is_same(token.as_bytes(), self.options.token.as_bytes()) {
            return Err(ApiError::new(401, "Unauthorized", "Unauthorized"));
        }
        Ok(())
    }

    async fn route<B>(&self, head: &http::request::Parts, body: B) -> HandlerResult
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let route = path::parse(head.uri.path()).ok_or_else(ApiError::no_such_path)?;
        let is_read = [Method::GET, Method::HEAD].contains(&head.method);
        if route == Route::OpenApiV2 && is_read {
            return open_api_v2(text(&head.headers, ACCEPT));
        }
        let accept = Accept::parse(text(&head.headers, ACCEPT)).ok_or_else(|| {
            ApiError::new(
                406,
                "NotAcceptable",
                "only application/json can be answered, and the request does not accept it",
            )
        })?;
        let query = Query::parse(head.uri.query().unwrap_or_default())
            .ok_or_else(|| ApiError::bad_request("the query string cannot be decoded"))?;
        if let Route::Objects(place) = route {
            let (resource, is_custom) = self.resource(&place)?;
            let body = match head.method {
                Method::GET | Method::HEAD => Bytes::new(),
                _ => read_body(body).await?,
            };
            let call = ObjectRequest {
                place,
                resource,
                is_custom,
                query,
                accept,
                user_agent: text(&head.headers, USER_AGENT).to_owned(),
                content_type: media_type(text(&head.headers, CONTENT_TYPE)),
                body,
            };
            return self.objects(&head.method, &call).await;
        }
        if !is_read {
            return Err(ApiError::method());
        }
        self.document(route, &accept).await
    }

    /// Answers a request that is not for objects: discovery, schemas, health and version.
    async fn document(&self, route: Route, accept: &Accept) -> HandlerResult {
        let types = self.store.types();
        let document = match route {
            Route::Root => Some(
                json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}),
            ),
            Route::Health => return Ok(answer(StatusCode::OK, "text/plain; charset=utf-8", Bytes::from_static(b"ok"))),
            Route::Version => Some(version(&self.options.version)),
            Route::CoreGroup if accept.is_aggregated() => return Ok(aggregated(&discovery::aggregated(&types, true))),
            Route::Groups if accept.is_aggregated() => return Ok(aggregated(&discovery::aggregated(&types, false))),
            Route::CoreGroup => Some(discovery::core_versions(&self.address)),
            Route::Groups => Some(discovery::groups(&types)),
            Route::Group(group) => discovery::group(&types, &group),
            Route::GroupVersion { group, version } => discovery::resources(&types, &group, &version),
            Route::OpenApiV2 => return open_api_v2(""),
            Route::OpenApi => Some(self.open_api_index()),
            Route::OpenApiOf { group, version } => self.open_api(&group, &version).await?,
            Route::Objects(_) => None,
        };
        document.map(|d| json_answer(StatusCode::OK, &d)).ok_or_else(ApiError::no_such_path)
    }

    fn resource(&self, place: &ResourcePath) -> Result<(Arc<ApiResource>, bool), ApiError> {
        let types = self.store.types();
        let found = types.find(&place.group, &place.version, &place.resource).ok_or_else(ApiError::no_such_path)?;
        // An object of a namespaced type has a namespace in its path, one of a cluster-scoped type has none.
        let fits = if found.namespaced {
            place.name.is_none() || place.namespace.is_some()
        } else {
            place.namespace.is_none()
        };
        if !fits {
            return Err(ApiError::no_such_path());
        }
        Ok((found.clone(), types.is_custom(found)))
    }

    async fn objects(&self, method: &Method, call: &ObjectRequest) -> HandlerResult {
        if let Some(subresource) = call.place.subresource.as_deref() {
            let first = subresource.split('/').next().unwrap_or_default();
            if !call.resource.has_subresource(first) {
                return Err(ApiError::no_such_path());
            }
            let is_served = subresource == "status" || (subresource == "finalize" && method == Method::PUT);
            if !is_served {
                let what = format!("the subresource {first} of {}", call.resource.resource);
                return Err(match self.store.read_only() {
                    Some(why) => ApiError::nothing_runs(&what, why),
                    None => ApiError::not_served(&what),
                });
            }
        }
        let has_name = call.place.name.is_some();
        let is_watch = call.query.is_set("watch");
        let verb = match (method.as_str(), has_name) {
            ("GET" | "HEAD", true) => "get",
            ("GET" | "HEAD", false) if is_watch => "watch",
            ("GET" | "HEAD", false) => "list",
            ("POST", false) => "create",
            ("PUT", true) => "update",
            ("PATCH", true) => "patch",
            ("DELETE", true) => "delete",
            ("DELETE", false) => "deletecollection",
            _ => return Err(ApiError::method()),
        };
        let writes = !READING.contains(&verb) && !is_review(&call.resource);
        if let Some(why) = self.store.read_only().filter(|_| writes) {
            return Err(ApiError::read_only(verb, &call.resource, why));
        }
        if !call.resource.can(verb) {
            return Err(ApiError::method());
        }
        match verb {
            "get" => self.get(call).await,
            "watch" => self.watch(call).await,
            "list" => self.list(call).await,
            "create" => self.create(call).await,
            "update" => self.update(call).await,
            "patch" => self.patch(call).await,
            "delete" => self.delete(call).await,
            _ => self.delete_collection(call).await,
        }
    }
}

async fn read_body<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let read = timeout(BODY_DEADLINE, Limited::new(body, LARGEST_BODY).collect()).await;
    match read.map_err(|_| ApiError::new(408, "Timeout", "the body did not arrive in time"))? {
        Ok(all) => Ok(all.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => {
            let message = format!("the body is larger than {LARGEST_BODY} bytes");
            Err(ApiError::new(413, "RequestEntityTooLarge", message))
        }
        Err(e) => Err(ApiError::bad_request(format!("the body cannot be read: {e}"))),
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

fn media_type(header: &str) -> String {
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns true if two texts are the same. The comparison takes the same time wherever they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

fn aggregated(document: &Value) -> Response<Body> {
    let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    answer(StatusCode::OK, content_type, document.to_string().into())
}

fn version(text: &str) -> Value {
    let mut numbers = text.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    json!({
        "major": major, "minor": minor, "gitVersion": text, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
