//! The `velero.io` resources of one namespace, read and written typed.
//!
//! [`Client`] reads, lists, creates, changes and deletes them through `cluster`; a change sends what differs, on condition
//! that nobody else has changed the object meanwhile. Start reading there.

mod client;
mod identity;
mod leader;

pub use client::{Client, Object, api_resource, is_refused};
pub use identity::{Identity, NamespacedName};
pub use leader::SERVER_LEASE;
