//! Facts about pods, claims and volumes that decide about volumes. Fields of another shape than the API's count as
//! absent.

mod claim;
mod pod;
mod source;
mod volume;

pub(crate) use claim::BLOCK;
pub use claim::{Claim, ClaimKey};
pub use pod::{Pod, PodVolume, claim_of_volume};
pub use volume::PersistentVolume;
