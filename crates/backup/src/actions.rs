//! Velero's built-in backup item actions (velero: pkg/backup/actions), and the facts by which their objects belong
//! together.
//!
//! They work on untyped objects, so that fields that no action knows survive, and ask the cluster nothing. That claims,
//! volumes, pods and bindings share a block is known from the index of the action lane, without a call of an action.

pub(crate) mod pod;
pub(crate) mod pv;
pub(crate) mod read;
pub(crate) mod service_account;

use lifeboat_action::BackupItemAction;
use lifeboat_volume::Verdicts;
use lifeboat_volume::csi::{self, CsiSnapshots};
use service_account::Bindings;
use std::sync::Arc;

/// The types that these actions, and the blocks that they make, look into.
pub(crate) const TYPES: [(&str, &str); 5] = [
    ("", "pods"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "serviceaccounts"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
];

/// The names of the actions on single objects, in the order in which they are called; after them come those of CSI snapshots.
pub const BUILT_IN_ACTIONS: [&str; 3] = ["velero.io/pod", "velero.io/pv", "velero.io/service-account"];
/// The names of what says in Velero which objects are saved together.
pub const BUILT_IN_BLOCK_ACTIONS: [&str; 3] = ["velero.io/pod", "velero.io/pvc", "velero.io/service-account"];

/// Context that the built-in actions use, beside the object itself.
#[derive(Clone, Default)]
pub(crate) struct ActionContext {
    pub(crate) bindings: Arc<Bindings>,
    /// Takes CSI snapshots; `None` where none are taken.
    pub(crate) csi: Option<CsiSnapshots>,
    pub(crate) verdicts: Arc<Verdicts>,
}

/// The actions in the order in which they are called.
pub(crate) fn built_in(known: &ActionContext) -> Vec<Arc<dyn BackupItemAction>> {
    let bindings = Arc::clone(&known.bindings);
    let mut all: Vec<Arc<dyn BackupItemAction>> =
        vec![Arc::new(pod::Pod), Arc::new(pv::Pv), Arc::new(service_account::ServiceAccount { bindings })];
    if let Some(csi) = &known.csi {
        all.extend(csi::actions(csi, &known.verdicts));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_actions_are_those_that_are_told() {
        let all = built_in(&ActionContext::default());
        assert_eq!(all.iter().map(|action| action.name()).collect::<Vec<_>>(), BUILT_IN_ACTIONS);
    }
}
