//! Object storage behind one small trait.
//!
//! [`BlobStore`] is what Lifeboat asks of a bucket; [`Directory`] and [`Memory`] are two that need nothing else, the
//! cloud providers are rooms of their own. [`Prefixed`] puts a store below a prefix. Every implementation passes
//! [`conformance::run`].
//!
//! Keys are strings exactly as the bucket has them. Errors are classified by what the caller does next
//! ([`ErrorKind`]). Start reading at [`BlobStore`].

mod attempts;
pub mod conformance;
mod directory;
mod error;
mod key;
mod memory;
mod page;
mod prefixed;
mod store;

pub use attempts::{Attempts, PATIENCE, retry};
pub use directory::Directory;
pub use error::{BucketError, ErrorKind};
pub use memory::Memory;
pub use prefixed::Prefixed;
pub use store::{BlobStore, Body, ByteStream, Entry, ListOptions, ObjectInfo, Page, PutOptions, collect};
