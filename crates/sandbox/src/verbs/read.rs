//! Get and list.

use crate::encoding::error::ApiError;
use crate::encoding::pages::ListPages;
use crate::encoding::render::Renderer;
use crate::encoding::response::{Body, HandlerResult, answer};
use crate::encoding::selector::Selector;
use crate::encoding::token::ContinueToken;
use crate::server::shared::Server;
use crate::store::object_store::{ListPage, ListQuery, StoreError};
use crate::verbs::call::ObjectRequest;
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use lifeboat_object::chain;

/// A list leaves in pieces of about this size, so that no list is in memory as a whole.
const PIECE: usize = 64 << 10;

impl Server {
    pub(crate) async fn get(&self, call: &ObjectRequest) -> HandlerResult {
        let renderer = self.renderer(call)?;
        let key = call.key(call.place.name.as_deref().unwrap_or_default());
        let object = self.store.get(&key).await?.ok_or_else(|| ApiError::not_found(&key))?;
        Ok(answer(StatusCode::OK, "application/json", renderer.object(&object)))
    }

    pub(crate) async fn list(&self, call: &ObjectRequest) -> HandlerResult {
        let renderer = self.renderer(call)?;
        let query = self.list_query(call)?;
        Ok(list_answer(renderer, self.begin(call, query).await?))
    }

    /// Begins a list. When the continue token has expired, the refusal holds a token with which the list can go on.
    async fn begin(&self, call: &ObjectRequest, query: ListQuery) -> Result<ListPages, ApiError> {
        let goes_on = query.after.is_some();
        match ListPages::begin(&self.store, query).await {
            Err(StoreError::Expired { asked, newest, .. }) if asked <= newest && goes_on => {
                let message = "the continue token is too old: its list can no longer be shown as it was. Begin the list \
                               again, or go on with the token in this answer; the rest is then of a later revision";
                let mut error = ApiError::new(410, "Expired", message);
                if let Some(token) = ContinueToken::decode(call.query.text("continue")) {
                    error.continue_token = ContinueToken { revision: None, ..token }.encode();
                }
                Err(error)
            }
            other => Ok(other?),
        }
    }

    fn list_query(&self, call: &ObjectRequest) -> Result<ListQuery, ApiError> {
        let mut query = ListQuery {
            resource: call.resource.group_resource(),
            namespace: call.place.namespace.clone(),
            selector: selector(call)?,
            after: None,
            limit: usize::try_from(number(call, "limit")?.unwrap_or(0)).unwrap_or(usize::MAX),
            revision: None,
        };
        let asked = number(call, "resourceVersion")?.unwrap_or(0);
        let token = call.query.text("continue");
        if !token.is_empty() {
            if asked > 0 {
                return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
            }
            let token = ContinueToken::decode(token)
                .ok_or_else(|| ApiError::bad_request("continue key is not valid: it is not of this server"))?;
            query.revision = token.revision;
            query.after = Some((token.namespace, token.name));
            return Ok(query);
        }
        match call.query.text("resourceVersionMatch") {
            "" | "NotOlderThan" => {
                let newest = *self.store.revisions().borrow();
                if asked > newest {
                    return Err(ApiError::too_new(asked, newest));
                }
            }
            "Exact" if asked > 0 => query.revision = Some(asked),
            other => {
                let message = format!("resourceVersionMatch {other:?} is not known, or needs a resourceVersion");
                return Err(ApiError::bad_request(message));
            }
        }
        Ok(query)
    }

    /// Everything that the request selects, now.
    pub(crate) async fn select_all(&self, call: &ObjectRequest) -> Result<ListPage, ApiError> {
        let query = ListQuery { limit: 0, after: None, revision: None, ..self.list_query(call)? };
        Ok(self.store.list(&query).await?)
    }
}

pub(crate) fn selector(call: &ObjectRequest) -> Result<Selector, ApiError> {
    let (labels, fields) = (call.query.text("labelSelector"), call.query.text("fieldSelector"));
    Ok(Selector::parse(&call.resource.resource, labels, fields)?)
}

pub(crate) fn number(call: &ObjectRequest, name: &str) -> Result<Option<u64>, ApiError> {
    call.query.number(name).map_err(ApiError::bad_request)
}

pub(crate) fn list_answer(renderer: Renderer, pages: ListPages) -> Response<Body> {
    let token = pages.ends_after.clone().map_or_else(String::new, |(namespace, name)| {
        ContinueToken { revision: Some(pages.revision), namespace, name }.encode()
    });
    let out = BytesMut::from(renderer.list_start(pages.revision, &token).as_bytes());
    let list = Listing { renderer, pages, out, is_first: true, is_over: false };
    let pieces = stream::unfold(list, |mut list| async move {
        let piece = list.piece().await?;
        Some((piece.map(Frame::data), list))
    });
    let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A list that is being written.
struct Listing {
    renderer: Renderer,
    pages: ListPages,
    out: BytesMut,
    is_first: bool,
    is_over: bool,
}

impl Listing {
    /// The next piece; `None` at the end, and after an error.
    async fn piece(&mut self) -> Option<Result<Bytes, StoreError>> {
        if self.is_over {
            return None;
        }
        while self.out.len() < PIECE {
            match self.pages.next().await {
                Ok(Some(object)) => {
                    if !std::mem::take(&mut self.is_first) {
                        self.out.extend_from_slice(b",");
                    }
                    self.renderer.element(&object, &mut self.out);
                }
                Ok(None) => {
                    self.is_over = true;
                    self.out.extend_from_slice(b"]}");
                    break;
                }
                Err(error) => {
                    let resource = self.renderer.resource.group_resource();
                    tracing::warn!(%resource, error = chain(&error), "a list broke off in the middle");
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        Some(Ok(self.out.split().freeze()))
    }
}
