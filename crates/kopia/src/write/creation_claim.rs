//! The claim of a creation, in buckets where of two puts the later one counts: each creation puts a blob with a random name,
//! then lists all of them. Of two at least one sees the other, perhaps both do, and whoever sees one gives way.

use crate::KopiaError;
use crate::blobs::Blobs;
use crate::format::blob_name::CREATION_CLAIM;
use crate::format::time::{HOUR, UnixNanos};
use crate::options::{Random, random_bytes};
use bytes::Bytes;
use std::time::Duration;

/// The bytes of a claim.
const TEXT: &[u8] = b"lifeboat.io/creation-claim/v1\n";
/// The age from which a claim is that of a creation which was killed.
const LASTS: i64 = HOUR;
/// The attempts of taking it. Two that have given way to each other try again at different times.
const ATTEMPTS: u32 = 4;

/// A claim that is held. One that is never released counts for an hour.
pub(super) struct CreationClaim {
    name: String,
}

impl CreationClaim {
    /// Takes the claim.
    ///
    /// # Errors
    /// Another creation; those of the bucket.
    pub(super) async fn take(blobs: &Blobs, random: &Random) -> Result<Self, KopiaError> {
        for attempt in 1..=ATTEMPTS {
            let name = format!("{CREATION_CLAIM}{}", hex::encode(random_bytes::<16>(random)));
            let claim = Self { name };
            blobs.put(&claim.name, Bytes::from_static(TEXT)).await?;
            match claim.is_alone(blobs).await {
                Ok(true) => return Ok(claim),
                Ok(false) => claim.release(blobs).await,
                Err(error) => {
                    claim.release(blobs).await;
                    return Err(error);
                }
            }
            let [millis] = random_bytes::<1>(random);
            tokio::time::sleep(Duration::from_millis(u64::from(attempt) * 20 * u64::from(millis))).await;
        }
        let why =
            "another creation goes on in the same place: try again when it has ended, or an hour after it was killed";
        Err(KopiaError::refused("make a repository", why))
    }

    /// True where there is no other claim. Those of creations that were killed are deleted.
    async fn is_alone(&self, blobs: &Blobs) -> Result<bool, KopiaError> {
        let claims = blobs.list_all(CREATION_CLAIM).await?;
        let now = claims.iter().find(|claim| claim.name == self.name).and_then(|claim| claim.modified);
        let is_dead =
            |stored: Option<UnixNanos>| stored.zip(now).is_some_and(|(stored, now)| now.since(stored) > LASTS);
        let others = claims.iter().filter(|claim| claim.name != self.name);
        let (dead, alive): (Vec<_>, Vec<_>) = others.partition(|claim| is_dead(claim.modified));
        if !dead.is_empty() {
            let names: Vec<String> = dead.into_iter().map(|claim| claim.name.clone()).collect();
            blobs.delete(&names).await?;
        }
        Ok(alive.is_empty())
    }

    /// Gives it back. Where that fails it counts for an hour, and harms nothing beside a repository.
    pub(super) async fn release(&self, blobs: &Blobs) {
        let _ = blobs.delete(std::slice::from_ref(&self.name)).await;
    }
}
