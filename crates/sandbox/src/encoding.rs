//! Forms in which objects, lists and requests are on the wire.

pub(crate) mod error;
pub(crate) mod messages;
pub(crate) mod pages;
pub(crate) mod path;
pub(crate) mod protobuf;
pub(crate) mod render;
pub(crate) mod response;
pub(crate) mod selector;
pub(crate) mod table;
pub(crate) mod table_writer;
pub(crate) mod token;
pub(crate) mod wire;
