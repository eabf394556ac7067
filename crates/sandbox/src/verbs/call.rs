//! A request for objects.

use crate::encoding::error::ApiError;
use crate::encoding::path::{Query, ResourcePath};
use crate::encoding::render::{Accept, RenderForm, RenderOutput, Renderer};
use crate::encoding::table::Printer;
use crate::encoding::table_writer::{Include, TableWriter};
use crate::server::shared::Server;
use bytes::Bytes;
use lifeboat_object::{ApiResource, ObjectKey};
use std::sync::Arc;

/// A request for objects: where they are, what is asked of them, and the body.
pub(crate) struct ObjectRequest {
    pub(crate) place: ResourcePath,
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) is_custom: bool,
    pub(crate) query: Query,
    pub(crate) accept: Accept,
    pub(crate) user_agent: String,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
}

impl ObjectRequest {
    /// The key of the object of this name.
    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.resource.group_resource(), self.place.namespace.as_deref(), name)
    }

    pub(crate) fn is_dry_run(&self) -> Result<bool, ApiError> {
        match self.query.text("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(ApiError::bad_request(format!("invalid value {other:?} of dryRun: only All is known"))),
        }
    }
}

impl Server {
    pub(crate) fn renderer(&self, call: &ObjectRequest) -> Result<Renderer, ApiError> {
        let form = call.accept.form().ok_or_else(|| {
            ApiError::new(406, "NotAcceptable", "none of the forms that the request accepts is served")
        })?;
        let asked = call.query.text("includeObject");
        let include = Include::parse(asked).ok_or_else(|| {
            let message = format!("invalid value {asked:?} of includeObject: it is None, Metadata or Object");
            ApiError::bad_request(message)
        })?;
        Ok(self.renderer_of(call, form, include))
    }

    /// The renderer of the answer to a write. The write is done, so an `Accept` or `includeObject` that cannot be served must not turn the answer
    /// into a refusal.
    pub(crate) fn write_renderer(&self, call: &ObjectRequest) -> Renderer {
        let include = Include::parse(call.query.text("includeObject")).unwrap_or(Include::Metadata);
        self.renderer_of(call, call.accept.form().unwrap_or(RenderForm::Full), include)
    }

    fn renderer_of(&self, call: &ObjectRequest, form: RenderForm, include: Include) -> Renderer {
        let output = match form {
            RenderForm::Full => RenderOutput::Full,
            RenderForm::Metadata => RenderOutput::Metadata,
            RenderForm::Table => {
                let printer = Printer::of(&call.resource, self.store.types().columns(&call.resource));
                RenderOutput::Table(TableWriter { printer, include, now: self.options.now.clone(), declares: true })
            }
        };
        Renderer { resource: call.resource.clone(), output }
    }
}
