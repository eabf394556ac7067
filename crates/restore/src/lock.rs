//! A lock whose holder may have died.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock. Who died holding it has left the value whole: nothing is changed in more than one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
