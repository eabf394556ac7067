//! The messages and services of the plugin protocol, as Rust (velero: pkg/plugin/proto; hashicorp/go-plugin).
//!
//! The modules go by the packages of the protocol, which are part of each method's path: [`plugin`] is go-plugin's,
//! [`generated`] has Velero's first services and what all share, [`v1`] the item block action, [`v2`] the actions that may
//! begin operations. They are made from `proto/` when the crate is built; each has a client and a server of each service.
//!
//! Beside them stands what both sides of the protocol must say alike: the rule of names, the versions of the handshake, the
//! details of a status, and the time that stands for none.

mod handshake;
mod name;
mod status;
mod time;

pub use handshake::{CORE_VERSION, PROTOCOL_VERSION};
pub use name::check_name;
pub use status::{DetailedStatus, STACK_TYPE};
pub use time::NO_TIME_SECONDS;

/// go-plugin's own services.
#[allow(missing_docs, clippy::all, clippy::pedantic, unused_qualifications, reason = "made by the generator")]
pub mod plugin {
    tonic::include_proto!("plugin");
}

/// The services of the first plugins, and what all share.
#[allow(missing_docs, clippy::all, clippy::pedantic, unused_qualifications, reason = "made by the generator")]
pub mod generated {
    tonic::include_proto!("generated");
}

/// The item block action.
#[allow(missing_docs, clippy::all, clippy::pedantic, unused_qualifications, reason = "made by the generator")]
pub mod v1 {
    tonic::include_proto!("v1");
}

/// The actions that may begin operations.
#[allow(missing_docs, clippy::all, clippy::pedantic, unused_qualifications, reason = "made by the generator")]
pub mod v2 {
    tonic::include_proto!("v2");
}
