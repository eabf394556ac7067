use super::*;
use crate::crypto::derive::PasswordKdf;
use crate::format::repository::{
    FormatRandom, NewRepository, RepositoryBlobs, RetentionMode, create_format, open_blob_config, open_with_key,
};
use std::collections::BTreeMap;
use std::sync::Mutex;

const LOCK: Retention = Retention { mode: RetentionMode::Governance, period: 48 * 3600 * 1_000_000_000 };

const UNIQUE_ID: [u8; 32] = [1; 32];

/// The key of a password. Each is derived once, because that takes long on purpose.
fn key(password: &str) -> Secret {
    static KEYS: Mutex<BTreeMap<String, Secret>> = Mutex::new(BTreeMap::new());
    let derive = || PasswordKdf::Pbkdf2.derive(&Password::new(password.to_owned()), &UNIQUE_ID).unwrap();
    KEYS.lock().unwrap().entry(password.to_owned()).or_insert_with(derive).clone()
}

fn new_repository(retention: Option<Retention>) -> RepositoryBlobs {
    let new = NewRepository { retention, kdf: PasswordKdf::Pbkdf2, ..NewRepository::default() };
    static MADE: Mutex<Vec<(bool, RepositoryBlobs)>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap();
    if let Some((_, blobs)) = made.iter().find(|(is_locked, _)| *is_locked == retention.is_some()) {
        return blobs.clone();
    }
    let blobs = create(&new);
    made.push((retention.is_some(), blobs.clone()));
    blobs
}

fn create(new: &NewRepository) -> RepositoryBlobs {
    let random = FormatRandom {
        unique_id: UNIQUE_ID,
        secret: [2; 32],
        master_key: [3; 32],
        format_nonce: [4; NONCE_LENGTH],
        config_nonce: [5; NONCE_LENGTH],
    };
    create_format(new, &Password::new("old".to_owned()), &random).unwrap()
}

/// The blobs of a repository, as steps change them.
#[derive(Clone)]
struct Bucket {
    format: Vec<u8>,
    config: Option<Vec<u8>>,
    note: Option<Vec<u8>>,
}

impl Bucket {
    fn of(blobs: &RepositoryBlobs) -> Self {
        Self { format: blobs.format_blob.clone(), config: Some(blobs.blob_config.clone()), note: None }
    }

    fn plan(&self, old: &str, new: &str) -> Result<PasswordPlan, PasswordChangeError> {
        plan_password_change(&PasswordChange {
            stored: StoredPasswordBlobs {
                format: &self.format,
                config: self.config.as_deref(),
                note: self.note.as_deref(),
            },
            keys: &PasswordKeys { old: key(old), new: key(new), unique_id: UNIQUE_ID.to_vec() },
            nonces: [[6; NONCE_LENGTH], [7; NONCE_LENGTH], [8; NONCE_LENGTH]],
        })
    }

    fn perform(&mut self, step: PasswordStep) {
        match step {
            PasswordStep::PutNote(bytes) => self.note = Some(bytes),
            PasswordStep::DeleteConfig => self.config = None,
            PasswordStep::PutFormat(bytes) => self.format = bytes,
            PasswordStep::PutConfig(bytes) => self.config = Some(bytes),
            PasswordStep::DeleteNote => self.note = None,
        }
    }

    fn format(&self, with: &str) -> Option<RepositoryFormat> {
        open_with_key(FormatBlob::parse(&self.format).unwrap(), key(with)).ok()
    }

    /// The object lock, as whoever opens it with this password reads it; `None` where it does not open.
    fn open(&self, with: &str) -> Option<Option<Retention>> {
        let format = self.format(with)?;
        self.config.as_ref().map_or(Some(None), |config| open_blob_config(&format, config).ok())
    }
}

#[test]
fn cut_off_after_any_step_one_password_opens_it_and_the_same_change_ends() {
    let begun = Bucket::of(&new_repository(Some(LOCK)));
    let plan = begun.plan("old", "new").unwrap();
    assert_eq!((plan.stage, plan.steps.len(), plan.retention), (PasswordStage::Begin, 5, Some(LOCK)));
    for done in 0..=plan.steps.len() {
        let mut bucket = begun.clone();
        plan.steps.iter().take(done).cloned().for_each(|step| bucket.perform(step));
        let opens = [bucket.open("old"), bucket.open("new")];
        assert_eq!(opens.iter().flatten().count(), 1, "after {done}");
        assert_eq!(opens[0].is_some(), done < 3, "after {done}");
        let rest = bucket.plan("old", "new").unwrap();
        let expected = match done {
            0 => PasswordStage::Begin,
            5 => PasswordStage::Done,
            _ => PasswordStage::Unfinished,
        };
        assert_eq!((rest.stage, rest.retention), (expected, Some(LOCK)), "after {done}");
        rest.steps.into_iter().for_each(|step| bucket.perform(step));
        assert_eq!((bucket.open("old"), bucket.open("new")), (None, Some(Some(LOCK))), "after {done}");
        assert!(bucket.note.is_none(), "after {done}");
        // Another new password after a change that was cut off, by the password that opens the repository then.
        let mut bucket = begun.clone();
        plan.steps.iter().take(done).cloned().for_each(|step| bucket.perform(step));
        let opening = if done < 3 { "old" } else { "new" };
        if let (None, Some(note)) = (&bucket.config, &bucket.note) {
            let lock = retention_of_note(&bucket.format(opening).unwrap(), note).unwrap();
            assert_eq!(lock, Some(LOCK), "writers keep the lock after {done}");
        }
        bucket.plan(opening, "third").unwrap().steps.into_iter().for_each(|step| bucket.perform(step));
        assert_eq!((bucket.open("third"), bucket.note.is_none()), (Some(Some(LOCK)), true), "after {done}");
    }
}

#[test]
fn a_change_of_kopia_that_was_cut_off_is_finished() {
    let mut bucket = Bucket::of(&new_repository(Some(LOCK)));
    let steps = bucket.plan("old", "new").unwrap().steps;
    let config = steps.into_iter().find(|step| matches!(step, PasswordStep::PutConfig(_))).unwrap();
    bucket.perform(config);
    assert_eq!((bucket.open("old"), bucket.open("new")), (None, None));
    bucket.plan("old", "new").unwrap().steps.into_iter().for_each(|step| bucket.perform(step));
    assert_eq!(bucket.open("new"), Some(Some(LOCK)));
}

#[test]
fn a_repository_without_settings_changes_by_one_put() {
    let mut bucket = Bucket { config: None, ..Bucket::of(&new_repository(None)) };
    let plan = bucket.plan("old", "new").unwrap();
    assert_eq!((plan.stage, plan.steps.len(), plan.retention), (PasswordStage::Begin, 1, None));
    plan.steps.into_iter().for_each(|step| bucket.perform(step));
    assert_eq!((bucket.open("old"), bucket.open("new")), (None, Some(None)));
    assert_eq!(bucket.plan("old", "new").unwrap().stage, PasswordStage::Done);
}

#[test]
fn all_that_the_format_holds_stays() {
    let blobs = new_repository(None);
    let mut bucket = Bucket::of(&blobs);
    bucket.plan("old", "new").unwrap().steps.into_iter().for_each(|step| bucket.perform(step));
    let opened = bucket.format("new").unwrap();
    assert_eq!(document::write(&opened), document::write(&blobs.format));
}

#[test]
fn what_cannot_change_is_refused_by_its_reason() {
    let bucket = Bucket::of(&new_repository(None));
    assert!(matches!(bucket.plan("other", "new"), Err(PasswordChangeError::WrongPassword)));
    let first =
        Bucket::of(&create(&NewRepository { version: 1, kdf: PasswordKdf::Pbkdf2, ..NewRepository::default() }));
    assert!(matches!(first.plan("old", "new"), Err(PasswordChangeError::Impossible)));
    for (config, note) in [(Some("not encrypted".to_owned()), None), (None, Some("{}".to_owned()))] {
        let broken =
            Bucket { config: config.map(String::into_bytes), note: note.map(String::into_bytes), ..bucket.clone() };
        let error = broken.plan("old", "new").unwrap_err();
        assert!(matches!(error, PasswordChangeError::Format(OpenFormatError::Format(_))), "{error}");
    }
}
