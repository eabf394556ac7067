//! Facts about pods, claims and volumes that decide about volumes. Fields of another shape than the API's count as
//! absent.

mod claim;
mod object_name;
mod pod;
mod pod_volume_name;
mod source;
mod volume;
mod volume_claim;

pub(crate) use claim::BLOCK;
pub use claim::Claim;
pub use object_name::{claim_object_key, name_of_object, pod_object_key};
pub use pod::{Pod, PodVolume};
pub use pod_volume_name::PodVolumeName;
pub use volume::PersistentVolume;
pub use volume_claim::{VolumeClaim, claim_of_volume, is_ephemeral};
