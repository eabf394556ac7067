//! The contents of an index: facts about its archive, the members of that, and each object.

use lifeboat_object::{GroupResource, ObjectKey};
use std::sync::Arc;

/// Value of `format`.
pub const INDEX_FORMAT: &str = "lifeboat.io/index/v1";

/// Size, hash and number of objects of a finished archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarballSummary {
    /// Bytes of the tar.gz.
    pub size: u64,
    /// SHA-256 of the tar.gz, lower-case hexadecimal.
    pub sha256: String,
    /// Objects in it.
    pub objects: u64,
}

/// The place of a gzip member in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRange {
    /// Offset in the tar.gz.
    pub offset: u64,
    /// Bytes in the tar.gz.
    pub length: u64,
    /// Bytes when decompressed.
    pub tar_length: u64,
}

/// An object of a loaded index; type, namespace and version names are shared between rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its type.
    pub resource: Arc<GroupResource>,
    /// The version it is stored in.
    pub version: Arc<str>,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Box<str>,
    /// True when the version is the preferred one.
    pub preferred: bool,
    /// The number of the archive's member that it stands in.
    pub member: u32,
    /// Offset of its first tar header within the member.
    pub offset: u32,
    /// Bytes of its JSON.
    pub length: u32,
    /// [`entry_hash`](crate::tarball::entry_hash) of its JSON.
    pub hash: [u8; 16],
}

impl Row {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new((*self.resource).clone(), self.namespace(), &*self.name)
    }

    /// The namespace, if it has one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }
}

/// All that an index says.
#[derive(Debug)]
pub(super) struct IndexContent {
    /// The objects, in the order of the archive.
    pub(super) rows: Vec<Row>,
    /// The gzip members of the archive.
    pub(super) members: Vec<MemberRange>,
    /// The archive it belongs to.
    pub(super) tarball: TarballSummary,
}
