//! Object storage behind one small trait.
//!
//! [`BlobStore`] is what Lifeboat asks of a bucket; [`Directory`] and [`Memory`] are two that need nothing else, the
//! cloud providers are rooms of their own. Every implementation passes [`conformance::run`].
//!
//! A store is wrapped to get an ability: [`Prefixed`] shows the part below a prefix, [`Retried`] repeats calls that failed
//! for a reason that can pass, [`Deadlined`] ends calls that hang, [`Limited`] limits calls at once and bytes a second, and
//! [`Measured`] tells of each call. For tests, those in [`faults`] fail where they are told to.
//!
//! Keys are strings exactly as the bucket has them. Errors are classified by what the caller does next
//! ([`ErrorKind`]). Start reading at [`BlobStore`].

mod access;
mod attempts;
pub mod conformance;
mod deadline;
mod directory;
mod error;
pub mod faults;
mod gate;
mod joined;
mod key;
mod limited;
mod marker;
mod measured;
mod memory;
mod page;
mod prefixed;
mod retried;
pub mod sequential;
mod store;

pub use access::StorageAccess;
pub use attempts::{Attempts, PATIENCE, retry};
pub use deadline::{Deadlined, Deadlines};
pub use directory::Directory;
pub use error::{BucketError, ErrorKind};
pub use gate::{Gate, GateThreadDied, Gates};
pub use joined::joined;
pub use limited::{Limited, Limits};
pub use marker::{BucketNotes, MARKER, Marked, put_marker, read_marker};
pub use measured::{Measured, MeasuredCall, Meter};
pub use memory::Memory;
pub use prefixed::Prefixed;
pub use retried::Retried;
pub use store::{
    BlobStore, Body, ByteStream, Entry, ListOptions, Listed, ObjectInfo, Page, PutOptions, Retention, RetentionMode,
    collect,
};
