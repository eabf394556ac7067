//! The format of an open repository, looked at again every 15 minutes: an upgrade locks all others out.

use crate::KopiaError;
use crate::blobs::{Blobs, is_not_found};
use crate::crypto::Password;
use crate::format::blob_name::FORMAT;
use crate::format::repository::{OpenFormatError, RepositoryFormat, open_format};
use crate::format::time::{MINUTE, UnixNanos};
use crate::tasks::blocking;
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The clock of the caller.
pub type Clock = Arc<dyn Fn() -> UnixNanos + Send + Sync>;

/// The age at which the format is read again, in nanoseconds.
const RELOAD_AFTER: i64 = 15 * MINUTE;
/// The most bytes of a format blob.
const MAX_FORMAT: u64 = 1 << 20;

/// The format, and the time of the last look at it.
pub(crate) struct FormatGuard {
    blobs: Blobs,
    password: Password,
    clock: Clock,
    state: Mutex<State>,
    /// Held while the format is read again, so that only one task reads it.
    reloading: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct State {
    blob: Bytes,
    format: Arc<RepositoryFormat>,
    seen: UnixNanos,
}

impl std::fmt::Debug for FormatGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FormatGuard").field("blobs", &self.blobs).finish_non_exhaustive()
    }
}

impl FormatGuard {
    /// Reads the format. A lock that binds is an error.
    pub(crate) async fn open(blobs: Blobs, password: Password, clock: Clock) -> Result<Self, KopiaError> {
        let seen = clock();
        let blob = blobs.read(FORMAT, MAX_FORMAT).await.map_err(|e| no_repository(e, &blobs))?;
        let format = decrypt(&blobs, blob.clone(), password.clone()).await?;
        let state = State { blob, format: Arc::new(format), seen };
        let guard = Self { blobs, password, clock, state: Mutex::new(state), reloading: tokio::sync::Mutex::default() };
        guard.refuse_lock(&guard.format())?;
        Ok(guard)
    }

    /// A format that is known already.
    #[cfg(test)]
    pub(crate) fn known(blobs: Blobs, blob: Bytes, format: RepositoryFormat, clock: Clock) -> Self {
        let state = State { blob, format: Arc::new(format), seen: clock() };
        let password = Password::new(String::new());
        Self { blobs, password, clock, state: Mutex::new(state), reloading: tokio::sync::Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The format as it was read last.
    pub(crate) fn format(&self) -> Arc<RepositoryFormat> {
        self.lock().format.clone()
    }

    /// The bytes of the format blob as they were read last.
    pub(crate) fn blob(&self) -> Bytes {
        self.lock().blob.clone()
    }

    /// True where index blobs are chosen by epochs.
    pub(crate) fn has_epochs(&self) -> bool {
        self.format().epochs.enabled
    }

    /// The time for which a choice of index blobs is good, in nanoseconds.
    pub(crate) fn refresh_frequency(&self) -> Option<i64> {
        let epochs = &self.format().epochs;
        Some(epochs.epoch_refresh_frequency).filter(|frequency| epochs.enabled && *frequency > 0)
    }

    fn is_old(&self) -> bool {
        // A clock that was set back says nothing of the age.
        !(0..=RELOAD_AFTER).contains(&(self.clock)().0.saturating_sub(self.lock().seen.0))
    }

    /// Reads the format again where it is old. A lock that binds is an error, also one that was seen before and binds since
    /// then.
    pub(crate) async fn check(&self) -> Result<(), KopiaError> {
        if self.is_old() {
            let _turn = self.reloading.lock().await;
            // Somebody else may have looked while this one waited.
            if self.is_old() {
                self.reload().await?;
            }
        }
        self.refuse_lock(&self.format())
    }

    /// Reads the format again, however young it is. A lock that binds is an error.
    pub(crate) async fn look_again(&self) -> Result<(), KopiaError> {
        let _turn = self.reloading.lock().await;
        self.reload().await?;
        self.refuse_lock(&self.format())
    }

    async fn reload(&self) -> Result<(), KopiaError> {
        let seen = (self.clock)();
        let blob = self.blobs.read(FORMAT, MAX_FORMAT).await.map_err(|e| no_repository(e, &self.blobs))?;
        let known = self.lock().clone();
        if blob == known.blob {
            self.lock().seen = seen;
            return Ok(());
        }
        let format = decrypt(&self.blobs, blob.clone(), self.password.clone()).await?;
        let is_another = format.unique_id != known.format.unique_id
            || format.master_key.as_bytes() != known.format.master_key.as_bytes()
            || format.secret.as_bytes() != known.format.secret.as_bytes();
        if is_another {
            let why = "the repository was replaced by another one since it was opened: open it again";
            return Err(KopiaError::damaged(format!("blob {FORMAT}"), why));
        }
        *self.lock() = State { blob, format: Arc::new(format), seen };
        Ok(())
    }

    fn refuse_lock(&self, format: &RepositoryFormat) -> Result<(), KopiaError> {
        match &format.upgrade_lock {
            Some(lock) if lock.binds_at((self.clock)()) => {
                Err(KopiaError::UpgradeInProgress { owner: lock.owner.clone(), message: lock.message.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// Derives the key, on a thread: it takes a large part of a second on purpose.
async fn decrypt(blobs: &Blobs, blob: Bytes, password: Password) -> Result<RepositoryFormat, KopiaError> {
    let location = blobs.location();
    blocking(move || {
        open_format(&blob, &password).map_err(|e| match e {
            OpenFormatError::WrongPassword => KopiaError::WrongPassword { location },
            OpenFormatError::Unsupported(what) => KopiaError::Unsupported { what },
            OpenFormatError::Format(e) => KopiaError::damaged(format!("blob {FORMAT}"), e),
        })
    })
    .await
}

/// The error of a format blob that could not be read.
fn no_repository(error: KopiaError, blobs: &Blobs) -> KopiaError {
    if is_not_found(&error) { KopiaError::NotARepository { location: blobs.location() } } else { error }
}
