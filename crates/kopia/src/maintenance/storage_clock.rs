//! The clock of the storage: that of this machine, which may be wrong by days, put right by the time at which the storage
//! has stored a blob.

use crate::Clock;
use crate::format::time::UnixNanos;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The clock of the storage.
#[derive(Clone)]
pub struct StorageClock {
    local: Clock,
    ahead: Arc<AtomicI64>,
}

impl fmt::Debug for StorageClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageClock").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

impl StorageClock {
    /// Begins with the time of this machine.
    pub fn new(local: Clock) -> Self {
        Self { local, ahead: Arc::default() }
    }

    /// The time of the storage, as far as is known.
    pub fn now(&self) -> UnixNanos {
        UnixNanos((self.local)().0.saturating_add(self.ahead.load(Ordering::SeqCst)))
    }

    /// It as a clock that others are given.
    pub fn clock(&self) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }

    /// Puts it right: the storage has stored something at `stored`, just now.
    pub fn set(&self, stored: UnixNanos) {
        self.ahead.store(stored.0.saturating_sub((self.local)().0), Ordering::SeqCst);
    }
}
