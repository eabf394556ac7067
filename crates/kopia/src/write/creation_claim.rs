//! The claim of a creation, in buckets where of two puts the later one counts: each creation puts a blob with a random name,
//! then lists all of them. Of two at least one sees the other, perhaps both do, and whoever sees one gives way.

use crate::KopiaError;
use crate::blobs::{BlobInfo, Blobs};
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

/// The listings after which a claim that none of them has is given up.
const LISTINGS: u32 = 5;
/// The pause before the second listing; each later one is longer.
const LISTING_PAUSE: Duration = Duration::from_millis(500);

/// The other creations, as listings show them.
enum Others {
    None,
    Some,
    /// No listing has even the own claim.
    NotShown,
}

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
            match claim.others(blobs).await {
                Ok(Others::None) => return Ok(claim),
                Ok(Others::Some) => claim.release(blobs).await,
                Ok(Others::NotShown) => {
                    claim.release(blobs).await;
                    let why = "the bucket does not list what was put into it a moment ago, so that two creations at once could \
                               not see each other: try again later, or make it in a bucket whose listings are up to date";
                    return Err(KopiaError::refused("make a repository", why));
                }
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

    /// Looks for other claims. Those of creations that were killed are deleted. A listing without the own claim says nothing
    /// about others: it is older than the put.
    async fn others(&self, blobs: &Blobs) -> Result<Others, KopiaError> {
        for listing in 1..=LISTINGS {
            let claims = blobs.list_all(CREATION_CLAIM).await?;
            if let Some(own) = claims.iter().find(|claim| claim.name == self.name) {
                let now = own.modified;
                return self.others_in(blobs, &claims, now).await;
            }
            if listing < LISTINGS {
                tokio::time::sleep(LISTING_PAUSE * listing).await;
            }
        }
        Ok(Others::NotShown)
    }

    async fn others_in(
        &self,
        blobs: &Blobs,
        claims: &[BlobInfo],
        now: Option<UnixNanos>,
    ) -> Result<Others, KopiaError> {
        let is_dead =
            |stored: Option<UnixNanos>| stored.zip(now).is_some_and(|(stored, now)| now.since(stored) > LASTS);
        let others = claims.iter().filter(|claim| claim.name != self.name);
        let (dead, alive): (Vec<_>, Vec<_>) = others.partition(|claim| is_dead(claim.modified));
        if !dead.is_empty() {
            let names: Vec<String> = dead.into_iter().map(|claim| claim.name.clone()).collect();
            blobs.delete(&names).await?;
        }
        Ok(if alive.is_empty() { Others::None } else { Others::Some })
    }

    /// Gives it back. Where that fails it counts for an hour, and harms nothing beside a repository.
    pub(super) async fn release(&self, blobs: &Blobs) {
        let _ = blobs.delete(std::slice::from_ref(&self.name)).await;
    }
}
