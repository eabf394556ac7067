//! Policies: what a snapshot leaves out, how it is compressed, how long it is kept (kopia: snapshot/policy).

mod document;
mod effective;
mod target;

pub use document::{CompressionPolicy, ErrorPolicy, FilesPolicy, OtherSections, Policy, RetentionPolicy, UploadPolicy};
pub use effective::effective;
pub use target::PolicyTarget;
