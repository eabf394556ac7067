//! The providers of object storage that are built in: their names, the keys of their configuration, the URLs that name
//! their buckets, and how these are opened.
//!
//! [`built_in`] lists them, [`find`] looks one up by the name that a location has in `spec.provider`, [`parse_url`] reads
//! the URL of a flag. A new provider is a [`Provider`] of its own and a line in [`built_in`]; the server, the commands that
//! take a URL, the checks of an installation and the documentation go by that list.
//!
//! Start reading at [`Provider`].

mod directory;
mod provider;
mod registry;
mod s3;
mod url;

pub use provider::{Provider, ProviderSettings};
pub use registry::{below_prefix, built_in, find, names, open_location, parse_url, plugin_names, portable};
pub use url::{PortableBucket, UrlBucket, UrlError};
