//! The places of snapshots that are taken at once.

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

/// The queue in which the snapshot of a volume waits for its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// The queue of all others.
    #[default]
    Common,
    /// The queue for pods that stand still meanwhile: they do not wait behind those that harm nobody by waiting.
    Frozen,
}

/// The places of both lines, as many of each.
#[derive(Debug)]
pub(crate) struct PrioritySlots {
    common: Semaphore,
    frozen: Semaphore,
}

impl PrioritySlots {
    pub(crate) fn new(count: usize) -> Self {
        Self { common: Semaphore::new(count), frozen: Semaphore::new(count) }
    }

    /// Waits for a place, which is given back when the permit is dropped.
    pub(crate) async fn take(&self, line: Priority) -> Result<SemaphorePermit<'_>, AcquireError> {
        match line {
            Priority::Common => self.common.acquire().await,
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
        let _common = places.take(Priority::Common).await.unwrap();
        assert!(places.take(Priority::Common).now_or_never().is_none());
        let frozen = places.take(Priority::Frozen).now_or_never();
        assert!(frozen.is_some());
        assert!(places.take(Priority::Frozen).now_or_never().is_none());
        drop(frozen);
        assert!(places.take(Priority::Frozen).now_or_never().is_some());
    }
}
