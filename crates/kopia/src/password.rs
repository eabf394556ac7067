//! A change of the password of a repository: the steps of a plan, performed until nothing is left to do.

use crate::blobs::Blobs;
use crate::crypto::Password;
use crate::format::blob_name::{BLOB_CONFIG, FORMAT, PASSWORD_NOTE as NOTE};
use crate::format::repository::{
    OpenFormatError, PasswordChange, PasswordChangeError, PasswordKeys, PasswordPlan, PasswordStage, PasswordStep,
    StoredPasswordBlobs, plan_password_change,
};
use crate::guard::Clock;
use crate::object_lock::object_lock;
use crate::options::{Random, random_bytes};
use crate::tasks::blocking;
use crate::{KopiaError, Repository};
use bytes::Bytes;
use lifeboat_bucket::{BlobStore, PutOptions};
use std::sync::Arc;

/// The most bytes of each blob.
const MAX_BLOB: u64 = 1 << 20;
/// The looks at the blobs: before, after, and after another change at the same time has left its settings.
const MOST_ROUNDS: usize = 3;

/// A change of the password.
#[derive(Clone)]
pub struct PasswordRequest {
    /// The password until now.
    pub old: Password,
    /// The password from now on.
    pub new: Password,
    /// The source of nonces.
    pub random: Random,
    /// The clock, for locks of upgrades and object locks.
    pub clock: Clock,
}

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordChanged {
    /// The password was changed.
    Now,
    /// A change that was cut off was finished.
    Finished,
    /// The repository had the new password already.
    Before,
}

impl Repository {
    /// Changes the password of the repository in a bucket. At every moment one of the two passwords opens it; a change that
    /// was cut off is finished by the same call. Whoever has it open with the old password can go on for a quarter of an
    /// hour.
    ///
    /// # Errors
    /// No repository, a wrong password, a repository of version 1, an upgrade, another change at the same time, those of the
    /// bucket.
    pub async fn change_password(
        store: Arc<dyn BlobStore>,
        request: &PasswordRequest,
    ) -> Result<PasswordChanged, KopiaError> {
        let blobs = Blobs::open(store).await?;
        let format = read_format(&blobs).await?;
        let (old, new) = (request.old.clone(), request.new.clone());
        let derived = blocking(move || Ok(PasswordKeys::derive(&format, &old, &new))).await?;
        let keys = derived.map_err(|error| refused(&blobs, error))?;
        change(&blobs, &keys, &request.random, &request.clock).await
    }
}

/// Plans and performs, until nothing is left to do.
async fn change(
    blobs: &Blobs,
    keys: &PasswordKeys,
    random: &Random,
    clock: &Clock,
) -> Result<PasswordChanged, KopiaError> {
    let mut result = None;
    for _ in 0..MOST_ROUNDS {
        let format = read_format(blobs).await?;
        let (config, note) =
            (blobs.read_if_there(BLOB_CONFIG, MAX_BLOB).await?, blobs.read_if_there(NOTE, MAX_BLOB).await?);
        let planned = plan_password_change(&PasswordChange {
            stored: StoredPasswordBlobs { format: &format, config: config.as_deref(), note: note.as_deref() },
            keys,
            nonces: std::array::from_fn(|_| random_bytes(random)),
        });
        let plan = match planned {
            Err(PasswordChangeError::WrongPassword) if result.is_some() => break,
            planned => planned.map_err(|error| refused(blobs, error))?,
        };
        if let Some(lock) = plan.format.upgrade_lock.as_ref().filter(|lock| lock.binds_at(clock())) {
            let (owner, message) = (lock.owner.clone(), lock.message.clone());
            return Err(KopiaError::UpgradeInProgress { owner, message });
        }
        let of_stage = match plan.stage {
            PasswordStage::Begin => PasswordChanged::Now,
            PasswordStage::Unfinished => PasswordChanged::Finished,
            PasswordStage::Done => return Ok(result.unwrap_or(PasswordChanged::Before)),
        };
        result.get_or_insert(of_stage);
        perform(blobs, keys, plan, clock).await?;
    }
    Err(changed_meanwhile(blobs))
}

fn changed_meanwhile(blobs: &Blobs) -> KopiaError {
    let why = "somebody else has changed its password at the same time. Find out which password opens it now, see that nobody else \
               changes it, and change it once more: from that one, to any other. If that is refused because the settings cannot be \
               read, change it from that one to the one that this change was to give it";
    KopiaError::refused(format!("change the password of the repository in {}", blobs.location()), why)
}

/// Performs the steps. Settings are put, and the note with them is deleted, only while the format has the new password: after
/// another change at the same time they belong to that.
async fn perform(blobs: &Blobs, keys: &PasswordKeys, plan: PasswordPlan, clock: &Clock) -> Result<(), KopiaError> {
    let put = async |name: &str, bytes: Vec<u8>| {
        let retention = object_lock(plan.retention.as_ref(), name, clock());
        blobs.put_with(name, bytes.into(), PutOptions { retention, ..PutOptions::default() }).await
    };
    for step in plan.steps {
        if matches!(step, PasswordStep::PutConfig(_) | PasswordStep::DeleteNote) {
            let format = read_format(blobs).await?;
            if !keys.new_opens(&format).map_err(|error| refused(blobs, error))? {
                return Err(changed_meanwhile(blobs));
            }
        }
        match step {
            PasswordStep::PutNote(bytes) => put(NOTE, bytes).await?,
            PasswordStep::DeleteConfig => blobs.delete(&[BLOB_CONFIG.to_owned()]).await?,
            PasswordStep::PutFormat(bytes) => put(FORMAT, bytes).await?,
            PasswordStep::PutConfig(bytes) => put(BLOB_CONFIG, bytes).await?,
            PasswordStep::DeleteNote => blobs.delete(&[NOTE.to_owned()]).await?,
        }
    }
    Ok(())
}

fn refused(blobs: &Blobs, error: PasswordChangeError) -> KopiaError {
    match error {
        PasswordChangeError::WrongPassword => KopiaError::WrongPassword { location: blobs.location() },
        PasswordChangeError::Format(OpenFormatError::Unsupported(what)) => KopiaError::Unsupported { what },
        error => KopiaError::refused(format!("change the password of the repository in {}", blobs.location()), error),
    }
}

async fn read_format(blobs: &Blobs) -> Result<Bytes, KopiaError> {
    let format = blobs.read_if_there(FORMAT, MAX_BLOB).await?;
    format.ok_or_else(|| KopiaError::NotARepository { location: blobs.location() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::crypto::PasswordKdf;
    use crate::format::repository::{
        FormatBlob, NewRepository, Retention, RetentionMode, open_blob_config, open_with_key,
    };
    use crate::testing::faulty::{Faulty, Trouble};
    use crate::testing::{Fixture, keys, password, seeded};
    use lifeboat_bucket::Memory;

    const LOCK: Retention = Retention { mode: RetentionMode::Governance, period: 48 * 3600 * 1_000_000_000 };

    /// A repository whose keys are derived once.
    struct Derived {
        fixture: Fixture,
        keys: PasswordKeys,
    }

    impl Derived {
        async fn of(retention: Option<Retention>) -> Self {
            let new = NewRepository { retention, kdf: PasswordKdf::Pbkdf2, ..NewRepository::default() };
            let fixture = Fixture::new(&new);
            let format = read_format(&Blobs::open(fixture.store().await).await.unwrap()).await.unwrap();
            let keys = PasswordKeys::derive(&format, &password(), &Password::new("new".to_owned())).unwrap();
            Self { fixture, keys }
        }

        async fn change(&self, store: Arc<dyn BlobStore>) -> Result<PasswordChanged, KopiaError> {
            let blobs = Blobs::open(store).await?;
            change(&blobs, &self.keys, &seeded(3), &self.fixture.clock.clock()).await
        }

        /// The object lock as whoever opens the repository with either key reads it; `None` where that does not open it.
        async fn opened(&self, store: &Arc<Memory>) -> [Option<Option<Retention>>; 2] {
            let blobs = Blobs::open(store.clone()).await.unwrap();
            let format = FormatBlob::parse(&read_format(&blobs).await.unwrap()).unwrap();
            let config = blobs.read_if_there(BLOB_CONFIG, MAX_BLOB).await.unwrap();
            [&self.keys.old, &self.keys.new].map(|key| {
                let format = open_with_key(format.clone(), key.clone()).ok()?;
                config.as_ref().map_or(Some(None), |config| open_blob_config(&format, config).ok())
            })
        }
    }

    /// Memory keeps no object from being deleted, so that a lock shows as the refusal of a put.
    #[tokio::test]
    async fn blobs_are_put_with_the_object_lock_of_the_settings() {
        let derived = Derived::of(Some(LOCK)).await;
        let store = derived.fixture.store().await;
        let error = derived.change(store.clone()).await.unwrap_err();
        assert!(error.to_string().contains("nothing here keeps an object from being deleted"), "{error}");
        assert_eq!(derived.opened(&store).await, [Some(None), None]);
        // The settings are away; writers take the lock from the note meanwhile.
        assert!(store.get(BLOB_CONFIG, None).await.is_err());
        let repository = derived.fixture.open(store).await.unwrap();
        assert_eq!(repository.retention().await.unwrap(), Some(LOCK));
    }

    #[tokio::test]
    async fn killed_at_any_call_a_change_leaves_one_password_and_can_be_finished() {
        let derived = Derived::of(None).await;
        let mut killed = Vec::new();
        for at in 0.. {
            let store = derived.fixture.store().await;
            let faulty = Faulty::new(store.clone(), Trouble::Kills, at, true);
            let was_killed = tokio::select! {
                changed = derived.change(faulty.clone()) => {
                    assert_eq!(changed.unwrap(), PasswordChanged::Now);
                    false
                }
                () = faulty.killed.notified() => true,
            };
            let Some(call) = faulty.failed.lock().unwrap().clone().filter(|_| was_killed) else {
                if faulty.is_reached() {
                    // A call for a blob that is not there fails by itself.
                    continue;
                }
                break;
            };
            // Reading changes nothing.
            if call.starts_with("get") || call.starts_with("head") || call.starts_with("list") {
                continue;
            }
            let opens = derived.opened(&store).await;
            assert_eq!(opens.iter().flatten().count(), 1, "{call}");
            let finished = derived.change(store.clone()).await.unwrap();
            let is_done = call.starts_with("delete io.lifeboat");
            let expected = if is_done { PasswordChanged::Before } else { PasswordChanged::Finished };
            assert_eq!(finished, expected, "{call}");
            assert_eq!(derived.opened(&store).await, [None, Some(None)], "{call}");
            assert_eq!(keys(&*store, "").await, [BLOB_CONFIG, FORMAT], "{call}");
            killed.push(call);
        }
        let expected = [
            format!("put {NOTE}"),
            format!("delete {BLOB_CONFIG}"),
            format!("put {FORMAT}"),
            format!("put {BLOB_CONFIG}"),
            format!("delete {NOTE}"),
        ];
        assert_eq!(killed, expected);
    }

    #[tokio::test]
    async fn of_two_changes_at_once_one_counts_with_its_settings() {
        let derived = Derived::of(None).await;
        let store = derived.fixture.store().await;
        let other = {
            let format = read_format(&Blobs::open(store.clone()).await.unwrap()).await.unwrap();
            let keys = PasswordKeys::derive(&format, &password(), &Password::new("other".to_owned())).unwrap();
            Derived { fixture: Fixture::new(&NewRepository::default()), keys }
        };
        let mut at = 0;
        loop {
            let copy = derived.fixture.store().await;
            let faulty = Faulty::new(copy, Trouble::Fails, at, false);
            derived.change(faulty.clone()).await.unwrap_err();
            if faulty.failed.lock().unwrap().as_deref() == Some(&format!("put {FORMAT}")) {
                break;
            }
            at += 1;
        }
        // Both have planned. The other one has stored its format, and goes on when this one has ended.
        let paused = |at, after_effect| Faulty::new(store.clone(), Trouble::Pauses, at, after_effect);
        // The settings are deleted already, so that the other one has a call less.
        let (own, others) = (paused(at, false), paused(at - 1, true));
        let ended = tokio::sync::Notify::new();
        let changed = async {
            own.killed.notified().await;
            let change = other.change(others.clone());
            tokio::pin!(change);
            tokio::select! {
                changed = &mut change => panic!("{changed:?}"),
                () = others.killed.notified() => own.go_on.notify_one(),
            }
            ended.notified().await;
            others.go_on.notify_one();
            change.await
        };
        let own_change = async {
            let changed = derived.change(own.clone()).await;
            ended.notify_one();
            changed
        };
        let (others_changed, changed) = tokio::join!(changed, own_change);
        assert_eq!(changed.unwrap(), PasswordChanged::Now);
        for faulty in [&own, &others] {
            assert_eq!(faulty.failed.lock().unwrap().as_deref(), Some(&*format!("put {FORMAT}")));
        }
        let error = others_changed.unwrap_err().to_string();
        assert!(error.contains("somebody else has changed its password"), "{error}");
        assert_eq!(derived.opened(&store).await, [None, Some(None)]);
    }
}
