//! The claim: one run of maintenance at a time, also where all share one identity, as `default@default` of Velero.
//!
//! Kopia knows no lock in the storage; two of its maintainers at once can lose data. A run of ours puts a blob with a random
//! name, then lists all of them. It gives way to every other one that has shown a sign of life: of two at once at least one
//! sees the other, perhaps both do. Kopia ignores the name: it begins with none of the letters by which kopia lists. The time
//! at which the blob was stored is the clock of the run.

use super::storage_clock::StorageClock;
use crate::KopiaError;
use crate::blobs::{BlobInfo, Blobs};
use crate::format::time::{MINUTE, UnixNanos};
use crate::maintenance::delays::in_words;
use crate::options::{Random, random_bytes};
use std::time::Duration;

/// The beginning of the names of claims.
pub const PREFIX: &str = "io.lifeboat.maintenance.";
/// The first words in a claim.
const FORMAT: &str = "lifeboat.io/maintenance-claim/v1";

/// The time after which a claim without a sign of life counts no more.
const LASTS: i64 = 30 * MINUTE;
/// The time after which a run gives up its own claim, before others may take it for dead.
const GIVEN_UP: i64 = 20 * MINUTE;
/// The difference of clocks that is no mistake.
const TOLERANCE: i64 = 5 * MINUTE;
/// The time between two signs of life.
const RENEWED: Duration = Duration::from_secs(4 * 60);

/// A claim that is held. A run that is dropped leaves it, and others are refused until it counts no more.
#[derive(Debug)]
pub struct Claim {
    blobs: Blobs,
    clock: StorageClock,
    name: String,
    text: String,
    begun: UnixNanos,
    renewed: std::sync::atomic::AtomicI64,
}

impl Claim {
    /// Takes the claim and puts the clock right.
    ///
    /// # Errors
    /// Another run; a storage that tells no times; those of the bucket.
    pub async fn take(
        blobs: &Blobs,
        identity: &str,
        random: &Random,
        clock: &StorageClock,
    ) -> Result<Self, KopiaError> {
        let name = format!("{PREFIX}{}", hex::encode(random_bytes::<16>(random)));
        let text = format!("{FORMAT} {identity}\n");
        let mut claim = Self {
            blobs: blobs.clone(),
            clock: clock.clone(),
            name,
            text,
            begun: UnixNanos(0),
            renewed: std::sync::atomic::AtomicI64::new(0),
        };
        let taken = claim.put(None).await;
        match taken {
            Ok(now) => {
                claim.begun = now;
                Ok(claim)
            }
            Err(error) => {
                // It may be there or not.
                let _ = claim.release().await;
                Err(error)
            }
        }
    }

    /// Tells the time of the storage when the claim was taken.
    pub fn begun(&self) -> UnixNanos {
        self.begun
    }

    /// Puts the claim, looks for others, and gives the time of the storage. `expected` is the time that it should be.
    async fn put(&self, expected: Option<UnixNanos>) -> Result<UnixNanos, KopiaError> {
        self.blobs.put(&self.name, self.text.clone().into()).await?;
        let claims = self.blobs.list_all(PREFIX).await?;
        let own = claims.iter().find(|blob| blob.name == self.name).and_then(|blob| blob.modified);
        let Some(now) = own else {
            let why = format!(
                "{} does not tell when a blob was stored, so that nothing can be taken for old enough",
                self.blobs.location()
            );
            return Err(KopiaError::NotMaintained { why });
        };
        if let Some(expected) = expected.filter(|expected| expected.0.abs_diff(now.0) > TOLERANCE.unsigned_abs()) {
            let why = format!("the clock has jumped: it says {expected}, the storage {now}; run it again");
            return Err(KopiaError::NotMaintained { why });
        }
        let mut dead = Vec::new();
        for other in claims.iter().filter(|blob| blob.name != self.name) {
            match silence(other, now) {
                Some(silence) if silence > LASTS => dead.push(other.name.clone()),
                silence => return Err(others_turn(silence)),
            }
        }
        if !dead.is_empty() {
            self.blobs.delete(&dead).await?;
        }
        self.clock.set(now);
        self.renewed.store(now.0, std::sync::atomic::Ordering::SeqCst);
        Ok(now)
    }

    /// Does work and shows signs of life meanwhile.
    ///
    /// # Errors
    /// Errors of the work; a claim that was lost, which ends the work.
    pub async fn during<T>(&self, work: impl Future<Output = Result<T, KopiaError>>) -> Result<T, KopiaError> {
        self.check()?;
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep(RENEWED) => {
                    self.check()?;
                    self.put(Some(self.clock.now())).await?;
                }
                result = &mut work => return result,
            }
        }
    }

    /// Fails where the last sign of life is so old that others may take it for dead: this process has slept.
    fn check(&self) -> Result<(), KopiaError> {
        let renewed = self.renewed.load(std::sync::atomic::Ordering::SeqCst);
        let silent = self.clock.now().0.saturating_sub(renewed);
        if silent > GIVEN_UP {
            let why =
                format!("this run was silent for {}, and another one may have begun: run it again", in_words(silent));
            return Err(KopiaError::NotMaintained { why });
        }
        Ok(())
    }

    /// Gives the claim back.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub async fn release(&self) -> Result<(), KopiaError> {
        self.blobs.delete(std::slice::from_ref(&self.name)).await
    }
}

/// Refuses to begin beside another run. For a run that cannot put a claim of its own and only deletes.
///
/// # Errors
/// Another run; those of the bucket.
pub async fn refuse_beside_others(blobs: &Blobs, now: UnixNanos) -> Result<(), KopiaError> {
    for other in blobs.list_all(PREFIX).await? {
        match silence(&other, now) {
            Some(silence) if silence > LASTS => {}
            silence => return Err(others_turn(silence)),
        }
    }
    Ok(())
}

fn silence(claim: &BlobInfo, now: UnixNanos) -> Option<i64> {
    Some(now.0.saturating_sub(claim.modified?.0))
}

fn others_turn(silence: Option<i64>) -> KopiaError {
    let since = silence.map_or("at an unknown time".to_owned(), |silence| format!("{} ago", in_words(silence)));
    let why = format!(
        "another run shows signs of life, the last {since}: try again when it has ended, or {} after that sign where it was \
         killed",
        in_words(LASTS)
    );
    KopiaError::MaintainedByOthers { why }
}
