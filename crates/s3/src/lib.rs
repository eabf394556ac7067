//! A bucket of Amazon S3, or of a server that speaks its protocol.
//!
//! [`S3::connect`] turns an [`S3Config`], read from a storage location of Velero or from a URL, into a
//! [`BlobStore`](lifeboat_bucket::BlobStore). Each location has one client. Every attempt has a time limit, and the client
//! makes few attempts: the store's caller repeats whole calls.
//!
//! It never makes or removes buckets and never follows versions. Start reading at [`S3`].

mod anyone;
mod config;
mod connect;
mod delete;
mod error;
mod list;
mod percent;
mod retention;
mod store;
mod trust;
mod upload;

pub use anyone::tls_trusting_anyone;
pub use config::{CredentialsFile, S3Config};
pub use connect::credentials_file;
pub use percent::percent_decoded;
pub use store::S3;
