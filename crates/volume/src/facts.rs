//! Facts about pods, claims and volumes that decide about volumes. Fields of another shape than the API's count as
//! absent.

mod claim;
mod pod;
mod source;
mod volume;
mod volume_claim;

pub(crate) use claim::BLOCK;
pub use claim::{Claim, ClaimKey};
pub use pod::{Pod, PodVolume};
pub use volume::PersistentVolume;
pub use volume_claim::{VolumeClaim, claim_of_volume, is_ephemeral};
