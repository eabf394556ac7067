//! Get and list.

use crate::answer::{Answer, Body, answer};
use crate::call::Call;
use crate::error::ApiError;
use crate::render::Renderer;
use crate::selector::Selector;
use crate::server::Server;
use crate::store::{ListPage, ListQuery, StoreError};
use crate::stored::StoredObject;
use crate::token::ContinueToken;
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use std::convert::Infallible;
use std::sync::Arc;

/// A list leaves in pieces of about this size, so that no list is in memory as a whole.
const PIECE: usize = 64 << 10;

impl Server {
    pub(crate) async fn get(&self, call: &Call) -> Answer {
        let renderer = self.renderer(call)?;
        let key = call.key(call.place.name.as_deref().unwrap_or_default());
        let object = self.store.get(&key).await?.ok_or_else(|| ApiError::not_found(&key))?;
        Ok(answer(StatusCode::OK, "application/json", renderer.object(&object)))
    }

    pub(crate) async fn list(&self, call: &Call) -> Answer {
        let renderer = self.renderer(call)?;
        let query = self.list_query(call)?;
        let page = self.page(call, &query).await?;
        let token = match page.objects.last() {
            Some(last) if page.more => token_after(last, Some(page.revision)).encode(),
            _ => String::new(),
        };
        Ok(list_answer(renderer, page, &token))
    }

    /// Reads one page. When the continue token has expired, the refusal holds a token with which the list can go on.
    async fn page(&self, call: &Call, query: &ListQuery) -> Result<ListPage, ApiError> {
        match self.store.list(query).await {
            Err(StoreError::Expired { asked, newest, .. }) if asked <= newest && query.after.is_some() => {
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

    fn list_query(&self, call: &Call) -> Result<ListQuery, ApiError> {
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
    pub(crate) async fn select_all(&self, call: &Call) -> Result<ListPage, ApiError> {
        let query = ListQuery { limit: 0, after: None, revision: None, ..self.list_query(call)? };
        Ok(self.store.list(&query).await?)
    }
}

pub(crate) fn selector(call: &Call) -> Result<Selector, ApiError> {
    let (labels, fields) = (call.query.text("labelSelector"), call.query.text("fieldSelector"));
    Ok(Selector::parse(&call.resource.resource, labels, fields)?)
}

pub(crate) fn number(call: &Call, name: &str) -> Result<Option<u64>, ApiError> {
    call.query.number(name).map_err(ApiError::bad_request)
}

fn token_after(last: &StoredObject, revision: Option<u64>) -> ContinueToken {
    let key = &last.key;
    ContinueToken { revision, namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() }
}

pub(crate) fn list_answer(renderer: Renderer, page: ListPage, token: &str) -> Response<Body> {
    let mut first = BytesMut::new();
    first.extend_from_slice(renderer.list_start(page.revision, token).as_bytes());
    let rest = page.objects.into_iter().enumerate();
    let pieces = stream::unfold(Some((first, rest)), move |state| {
        let piece = state.map(|(out, rest)| next_piece(&renderer, out, rest));
        async move { piece.map(|(piece, state)| (Ok::<_, Infallible>(Frame::data(piece)), state)) }
    });
    let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

type Rest = std::iter::Enumerate<std::vec::IntoIter<Arc<StoredObject>>>;

fn next_piece(renderer: &Renderer, mut out: BytesMut, mut rest: Rest) -> (Bytes, Option<(BytesMut, Rest)>) {
    while out.len() < PIECE {
        let Some((index, object)) = rest.next() else {
            out.extend_from_slice(b"]}");
            return (out.freeze(), None);
        };
        if index > 0 {
            out.extend_from_slice(b",");
        }
        renderer.element(&object, &mut out);
    }
    (out.freeze(), Some((BytesMut::new(), rest)))
}
