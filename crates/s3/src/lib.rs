//! A bucket of Amazon S3, or of a server that speaks its protocol.
//!
//! [`S3::connect`] turns an [`S3Config`], read from a storage location of Velero or from a URL, into a
//! [`BlobStore`](lifeboat_bucket::BlobStore). One client per location; every attempt has a time limit and the client
//! tries only a few times: whole calls are repeated by whoever uses the store.
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
pub use percent::percent_decoded;
pub use store::S3;
