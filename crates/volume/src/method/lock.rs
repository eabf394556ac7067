//! Locking of a mutex whose holder may have panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock. A task that panicked while it held the lock has left the value whole: each change is one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
