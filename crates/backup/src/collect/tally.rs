//! Counts objects where they come in and where it is decided what becomes of them: the two must be the same.

use crate::error::BackupError;
use std::sync::atomic::{AtomicU64, Ordering};

/// The two counts of one backup. Stages add to it as objects pass.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    came: AtomicU64,
    settled: AtomicU64,
}

impl Tally {
    /// Counts objects that came from the cluster.
    pub(crate) fn came(&self, objects: usize) {
        self.came.fetch_add(objects as u64, Ordering::Relaxed);
    }

    /// Counts objects that stand in the archive, were left out with a reason, came twice, or are errors in the results.
    pub(crate) fn settled(&self, objects: usize) {
        self.settled.fetch_add(objects as u64, Ordering::Relaxed);
    }

    /// Asks, when every stage has ended, whether it is known of each object what became of it.
    pub(crate) fn balance(&self) -> Result<(), BackupError> {
        let (came, settled) = (self.came.load(Ordering::Relaxed), self.settled.load(Ordering::Relaxed));
        if came == settled { Ok(()) } else { Err(BackupError::Unaccounted { came, settled }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_got_lost_fails_the_backup() {
        let tally = Tally::default();
        tally.came(3);
        tally.settled(2);
        let message = "of 3 objects that came from the cluster it is known of 2 what became of them: nothing of this backup \
                       is visible in the bucket; this is a mistake of Lifeboat, please report it";
        assert_eq!(tally.balance().unwrap_err().to_string(), message);
        tally.settled(1);
        assert!(tally.balance().is_ok());
    }
}
