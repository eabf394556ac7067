//! The slots of snapshots that are taken at once, by priority.

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

/// The priority of the snapshot of a volume among those that wait for a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// All other snapshots.
    #[default]
    Normal,
    /// Snapshots of pods that stand still meanwhile: they do not wait behind those that harm nobody by waiting.
    Frozen,
}

/// The slots of both priorities, as many of each.
#[derive(Debug)]
pub(crate) struct PrioritySlots {
    normal: Semaphore,
    frozen: Semaphore,
}

impl PrioritySlots {
    pub(crate) fn new(count: usize) -> Self {
        Self { normal: Semaphore::new(count), frozen: Semaphore::new(count) }
    }

    /// Waits for a slot, which is given back when the permit is dropped.
    pub(crate) async fn take(&self, priority: Priority) -> Result<SemaphorePermit<'_>, AcquireError> {
        match priority {
            Priority::Normal => self.normal.acquire().await,
            Priority::Frozen => self.frozen.acquire().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn what_is_frozen_does_not_wait_behind_the_others() {
        let places = PrioritySlots::new(1);
        let _normal = places.take(Priority::Normal).await.unwrap();
        assert!(places.take(Priority::Normal).now_or_never().is_none());
        let frozen = places.take(Priority::Frozen).now_or_never();
        assert!(frozen.is_some());
        assert!(places.take(Priority::Frozen).now_or_never().is_none());
        drop(frozen);
        assert!(places.take(Priority::Frozen).now_or_never().is_some());
    }
}
