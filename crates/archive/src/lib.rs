//! The formats of the objects in a bucket.
//!
//! [`layout`] names the keys (velero: pkg/persistence/object_store_layout.go); [`tarball`] writes the seekable archive
//! of a backup and [`tar_reader`] reads any, ours or Velero's; [`index`] tells the place of each object; [`sidecar`]
//! holds the JSON files beside it, [`volume_info`] and [`native_snapshot`] their records of volumes. Every byte that is
//! ours and not Velero's is described in `docs/formats`.
//!
//! This room is pure: codecs over `std::io`, no runtime, no network, no clock. Archives are untrusted: every size is
//! capped where it is read ([`ReadLimits`]). Start reading at [`tarball`].

mod deflate;
mod entry;
pub mod gojson;
pub mod gzip;
pub mod index;
pub mod layout;
pub mod native_snapshot;
pub mod operations;
pub mod path;
pub mod repository_snapshot;
pub mod restore_claim;
pub mod sidecar;
pub mod tar_header;
pub mod tar_reader;
pub mod tarball;
pub mod unproven;
pub mod volume_info;

pub use path::{ArchivePath, ObjectPath, PathError, VersionDir};
pub use tar_reader::{ReadError, ReadLimits, TarReader};

/// `status.formatVersion` of the backups that we write, and the content of `metadata/version`.
pub const FORMAT_VERSION: &str = "1.1.0";
