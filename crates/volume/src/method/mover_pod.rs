//! Movers that a restore starts itself, where no server and no node agent does so: a pod for each claim, in its namespace, fills the
//! claim from a repository before anything mounts it.
//!
//! A pod knows the bucket, the password and the snapshot from its arguments and from a Secret beside it, and asks the cluster nothing.
//! The pod belongs to the claim and the Secret to the pod. Both have names that follow from the claim, and are removed at the end, however
//! that comes; what a killed restore has left is taken up by the next run, or removed ([`sweep`]). Start reading at [`MoverPods`].

mod fill;
mod killed;
mod objects;
mod placement;
mod rights;
mod settings;
mod state;
mod sweep;

pub use fill::{FilledClaim, MoverPods, UnfilledClaim, UnfilledState};
pub use killed::{MOST_ATTEMPTS, MoverEnd};
pub(crate) use objects::pods;
pub use objects::{PASSWORD, SECRET_AT};
pub use placement::{MoverPlacement, ROOM_LIMIT};
pub use rights::{BACKUP_CAPABILITIES, GRACE_SECONDS, RESTORE_CAPABILITIES, container_security};
pub use settings::{ClaimToFill, MoverPodSettings, SecretFiles};
pub(crate) use state::{has_ended, reason_not_started};
pub use sweep::SweptMover;
