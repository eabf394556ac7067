//! Separate slots for objects that wait for others, so that waiting does not hold one of the few slots of objects that
//! can go on.

use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Objects that may wait at once, beside those that are being written: each keeps its content in memory.
const MOST: usize = 1024;

/// Objects that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitSlots {
    count: AtomicUsize,
    changed: Notify,
}

impl WaitSlots {
    /// Lets the caller wait beside the others, until the value is dropped; `None` when too many do so already.
    pub(crate) fn step(&self) -> Option<WaitSlot<'_>> {
        let more = |count: usize| (count < MOST).then_some(count + 1);
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        self.changed.notify_one();
        Some(WaitSlot(self))
    }

    /// The number of objects that wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until another object waits. One return covers all objects that began to wait since the one before.
    pub(crate) async fn grows(&self) {
        self.changed.notified().await;
    }
}

/// An object that waits.
#[derive(Debug)]
pub(crate) struct WaitSlot<'a>(&'a WaitSlots);

impl Drop for WaitSlot<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn so_many_may_wait_and_no_more() {
        let wait_slots = WaitSlots::default();
        let mut all: Vec<_> = (0..MOST).map(|_| wait_slots.step().unwrap()).collect();
        wait_slots.grows().await;
        assert!(wait_slots.step().is_none() && wait_slots.count() == MOST);
        all.pop();
        assert!(wait_slots.count() == MOST - 1 && wait_slots.step().is_some());
        drop(all);
        assert_eq!(wait_slots.count(), 0);
    }
}
