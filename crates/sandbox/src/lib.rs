//! An embedded Kubernetes API server.
//!
//! [`Sandbox`] speaks the protocol of a Kubernetes API server on a socket, with TLS and a token, over any
//! [`ObjectStore`]; [`MemoryStore`] is one. kubectl and every client-go tool work against it. It serves discovery
//! (legacy and aggregated), create, read, update, patch (JSON and merge), delete, lists with pages and selectors,
//! watches with bookmarks, `status`, dry runs, metadata-only answers, tables with the columns of a cluster, and the schemas of
//! custom types. It does for objects what the server itself does (uids, revisions, conflicts, generated names, finalizers)
//! and three things that controllers do: it ends namespaces, establishes CustomResourceDefinitions and collects dependents
//! whose owners are gone.
//!
//! It speaks JSON. It also reads the few bodies that kubectl always sends as protobuf.
//!
//! It knows no meaning of any kind: it sets no defaults, validates nothing, admits everything and allocates nothing. It
//! answers strategic merge patch and server-side apply with 415, and subresources that need a behaviour with 501.
//!
//! Bounds: bodies of 16 MiB, JSON nested 128 deep, 1024 connections, a history of 10,000 changes or 64 MiB. A request for an
//! older revision is answered with 410. A list without limit holds 500 objects at once, of a store that cannot be written to.
//! Start reading at [`ObjectStore`], then `server/respond.rs`.

mod encoding;
mod server;
mod store;
mod types;
mod verbs;

pub use encoding::selector::{Selector, SelectorError};
pub use server::options::SandboxOptions;
pub use server::sandbox::{Sandbox, SandboxError};
pub use store::memory::MemoryStore;
pub use store::object_store::{ChangeKind, Changes, ListPage, ListQuery, ObjectStore, StoreChange, StoreError};
pub use store::stored::{Owner, StoredObject};
pub use types::served::{Column, CustomType, ServedTypes};
