//! Names of the volumes of pods.

use lifeboat_api::NamespacedName;
use std::fmt;

/// The name of a volume of a pod: its pod, and its own name there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodVolumeName {
    /// The pod.
    pub pod: NamespacedName,
    /// The name of the volume in the pod.
    pub volume: String,
}

/// `shop/web-0:cache`.
impl fmt::Display for PodVolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pod, self.volume)
    }
}
