//! Whose turn it is on the node: that of many tests, or of one that takes something from all of them.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static NODE: RwLock<()> = RwLock::new(());

/// Held as long as a test uses the node.
pub(super) enum Turn {
    Beside { _others: RwLockReadGuard<'static, ()> },
    Alone { _on_the_node: RwLockWriteGuard<'static, ()> },
}

impl Turn {
    pub(super) fn beside_others() -> Self {
        Self::Beside { _others: NODE.read().unwrap_or_else(PoisonError::into_inner) }
    }

    /// While no other test runs on the node: for what takes definitions or controllers away.
    pub(super) fn alone() -> Self {
        Self::Alone { _on_the_node: NODE.write().unwrap_or_else(PoisonError::into_inner) }
    }
}
