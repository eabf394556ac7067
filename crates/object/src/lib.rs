//! A Kubernetes object as bytes.
//!
//! Holds all that the rest of Lifeboat knows about an object before it looks inside: which API resource it belongs to
//! ([`ApiResource`], [`GroupResource`]), which object it is ([`ObjectKey`]), the few fields every stage asks for
//! ([`Head`]), and its raw JSON ([`Item`]). [`ListSplitter`] turns the body of a list, arriving in pieces of any size,
//! into such items without ever holding a page. [`Results`] collects what went wrong, per object.
//!
//! This room is pure: no I/O, no runtime, no clock. It never parses a whole object and never drops a field.
//! Start reading at [`Item`].

mod built_in;
mod catalog;
mod chain;
mod container_resources;
mod counted;
mod first_names;
mod head;
mod key;
mod list;
mod nesting;
mod printable;
mod quantity;
mod resource;
mod results;
mod splice;
mod texts;
mod view;
mod words;

pub use built_in::is_built_in;
pub use catalog::{Catalog, DiscoveryFailure};
pub use chain::{chain, error_and_causes};
pub use container_resources::{ResourceTexts, container_resources};
pub use counted::counted;
pub use first_names::{first_names, first_names_of};
pub use head::{Head, HeadError};
pub use key::ObjectKey;
pub use list::{ListEnvelope, ListSplitter, SplitError, SplitLimits};
pub use nesting::{DEEPEST, RESTORABLE, is_too_deep, nesting};
pub use printable::printable;
pub use quantity::Quantity;
pub use resource::{ApiResource, GroupResource, ParseGroupResourceError};
pub use results::{ResultScope, ResultSet, Results, Severity};
pub use splice::{Spliced, splice_type};
pub use texts::{labels, texts};
pub use view::{Text, is_there, view};
pub use words::types_named;

use bytes::Bytes;
use std::sync::Arc;

/// An object as it came from an API server or an archive: its type, its parsed head and its untouched bytes.
#[derive(Clone, Debug)]
pub struct Item {
    /// The API resource the object was listed or stored under.
    pub resource: Arc<ApiResource>,
    /// The parsed head.
    pub head: Head,
    /// The JSON of the object exactly as received. May lack `apiVersion` and `kind` (elements of a typed list do):
    /// see [`splice_type`].
    pub body: Bytes,
}

impl Item {
    /// Parses the head of `body`.
    ///
    /// # Errors
    /// [`HeadError`] when the bytes are not a JSON object with a `metadata.name`.
    pub fn parse(resource: Arc<ApiResource>, body: Bytes) -> Result<Self, HeadError> {
        let head = Head::parse(&body)?;
        Ok(Self { resource, head, body })
    }

    /// The key of this object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            resource: self.resource.group_resource(),
            namespace: self.head.namespace.clone(),
            name: self.head.name.clone(),
        }
    }

    /// [`ObjectKey::digest`] of [`Item::key`].
    #[must_use]
    pub fn digest(&self) -> [u8; 16] {
        key::digest(&self.resource.group, &self.resource.resource, self.head.namespace.as_deref(), &self.head.name)
    }
}
