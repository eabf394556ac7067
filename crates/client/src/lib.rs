//! The `velero.io` resources of one namespace, read and written typed.
//!
//! [`Client`] reads, lists, creates, changes and deletes them through the room `cluster`. A change sends the fields
//! that differ, and the API server refuses it when another client has changed the object meanwhile. [`Follow`] waits
//! for changes of an object. Start reading at [`Client`].

mod change;
mod client;
mod follow;
mod identity;
mod leader;
mod storage;

pub use change::ChangeResult;
pub use client::{Client, Object, api_resource, is_refused};
pub use follow::{Follow, FollowedObject};
pub use identity::ObjectIdentity;
pub use leader::SERVER_LEASE;
