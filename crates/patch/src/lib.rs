//! Patches and comparison of objects. Pure.
//!
//! [`equal`] compares two values, numbers as API servers read them; [`differences`] says where they differ;
//! [`merge_diff`] makes the merge patch between them (RFC 7386) and [`merge`] applies one. [`JsonPatch`] is RFC 6902,
//! [`strategic_merge`] Kubernetes' own. [`restored`] says which fields
//! belong to one life of an object and never come back, so that a restored object can be compared with the one in the
//! backup, [`owned`] which fields of it servers and controllers own.
//! Start reading at [`restored`].

mod difference;
mod equal;
mod json;
mod merge;
pub mod owned;
pub mod restored;
mod strategic;

pub use difference::{Difference, differences, hide_secret, hide_secret_values};
pub use equal::equal;
pub use json::{JsonOperation, JsonPatch, JsonPatchError, holds};
pub use merge::{merge, merge_diff};
pub use strategic::{MergeSchema, StrategicError, strategic_merge};
