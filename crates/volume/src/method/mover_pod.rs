//! Movers that a restore starts itself, where no server and no node agent does so: a pod for each claim, in its namespace, fills the
//! claim from a repository before anything mounts it.
//!
//! A pod knows the bucket, the password and the snapshot from its arguments and from a Secret beside it, and asks the cluster nothing.
//! Both belong to the claim, have names that follow from it, and are removed at the end, however that comes; what a killed restore has
//! left is taken up by the next run, or removed ([`sweep`]). Start reading at [`MoverPods`].

mod fill;
mod objects;
mod settings;
mod state;
mod sweep;

pub use fill::{FilledClaim, MoverPods};
pub use objects::{PASSWORD, SECRET_AT};
pub use settings::{ClaimToFill, MoverPodSettings, SecretFiles};
pub(crate) use state::waits_for;
