//! Keeps objects from being deleted, by the protocol's object lock.

use crate::error::Failures;
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::{ObjectLockEnabled, ObjectLockMode, ObjectLockRetention, ObjectLockRetentionMode};
use lifeboat_bucket::{BucketError, ErrorKind, Retention, RetentionMode};
use std::time::{Duration, SystemTime};
use tokio::sync::OnceCell;

/// Codes of servers that have no object lock, or not in this bucket.
const NO_LOCK: [&str; 3] = ["ObjectLockConfigurationNotFoundError", "NotImplemented", "MethodNotAllowed"];

/// The object lock of a bucket.
#[derive(Debug)]
pub(crate) struct Locks {
    client: Client,
    failures: Failures,
    /// Set once the bucket was seen to have object lock, which it never loses.
    is_enabled: OnceCell<()>,
}

/// The fields for retention in the request that stores an object.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Lock {
    pub(crate) mode: Option<ObjectLockMode>,
    pub(crate) until: Option<DateTime>,
}

impl Locks {
    pub(crate) fn new(client: Client, failures: Failures) -> Self {
        Self { client, failures, is_enabled: OnceCell::new() }
    }

    /// Refuses retention in a bucket without object lock, before this key is stored: some servers store the object first,
    /// others know nothing of retention and store it without.
    pub(crate) async fn check(&self, key: &str) -> Result<(), BucketError> {
        self.check_for("put", key).await
    }

    async fn check_for(&self, operation: &'static str, key: &str) -> Result<(), BucketError> {
        self.is_enabled.get_or_try_init(|| self.ask(operation, key)).await?;
        Ok(())
    }

    async fn ask(&self, operation: &'static str, key: &str) -> Result<(), BucketError> {
        let answer = self.client.get_object_lock_configuration().bucket(&self.failures.bucket).send().await;
        let code = answer.as_ref().err().and_then(|e| e.as_service_error()).and_then(|e| e.meta().code());
        let has_none = code.is_some_and(|code| NO_LOCK.contains(&code));
        let answer = match answer {
            Err(e) if !has_none => {
                let mut error = self.failures.of(operation, key, e);
                if !error.is_retryable() {
                    error.message.push_str(
                        "; retention needs to know whether the bucket has object lock: allow \
                         s3:GetBucketObjectLockConfiguration",
                    );
                }
                return Err(error);
            }
            answer => answer.ok().and_then(|answer| answer.object_lock_configuration),
        };
        if answer.is_some_and(|lock| lock.object_lock_enabled == Some(ObjectLockEnabled::Enabled)) {
            return Ok(());
        }
        let message = format!(
            "the bucket {:?} has no object lock, so nothing keeps an object from being deleted: enable object lock, or put \
             it without retention",
            self.failures.bucket
        );
        Err(self.failures.own(ErrorKind::Invalid, operation, key, message))
    }

    /// Keeps an object that is there until then, unless it is kept longer already.
    pub(crate) async fn extend(&self, key: &str, retention: Retention) -> Result<(), BucketError> {
        self.check_for("retain", key).await?;
        let Lock { mode, until } = self.of(key, Some(retention))?;
        let kept = self.client.head_object().bucket(&self.failures.bucket).key(key).send().await;
        let kept = kept.map_err(|e| self.failures.of("retain", key, e))?;
        // Servers refuse a shorter time of some modes and take that of others.
        let before = kept.object_lock_retain_until_date().map(DateTime::secs);
        if before.is_some_and(|before| until.is_some_and(|until| before >= until.secs())) {
            return Ok(());
        }
        // No server takes a stronger mode back, and it would refuse the later time together with a weaker one.
        let mode = if kept.object_lock_mode() == Some(&ObjectLockMode::Compliance) {
            Some(ObjectLockRetentionMode::Compliance)
        } else {
            mode.map(|mode| ObjectLockRetentionMode::from(mode.as_str()))
        };
        let wanted = ObjectLockRetention::builder().set_mode(mode).set_retain_until_date(until).build();
        let request = self.client.put_object_retention().bucket(&self.failures.bucket).key(key).retention(wanted);
        let sent = request.send().await;
        sent.map(drop).map_err(|e| self.failures.of("retain", key, e))
    }

    /// The fields for retention in the request that stores this key.
    pub(crate) fn of(&self, key: &str, retention: Option<Retention>) -> Result<Lock, BucketError> {
        let Some(retention) = retention else { return Ok(Lock::default()) };
        lock_of(retention).ok_or_else(|| {
            let message = format!("{:?} is no time until which an object can be kept", retention.until);
            self.failures.own(ErrorKind::Invalid, "put", key, message)
        })
    }
}

/// Times of the protocol are whole seconds: nothing ends early.
fn lock_of(retention: Retention) -> Option<Lock> {
    let since = retention.until.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let seconds = since.checked_add(Duration::from_nanos(999_999_999))?.as_secs();
    let mode = match retention.mode {
        RetentionMode::Governance => ObjectLockMode::Governance,
        RetentionMode::Compliance => ObjectLockMode::Compliance,
    };
    Some(Lock { mode: Some(mode), until: Some(DateTime::from_secs(i64::try_from(seconds).ok()?)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_ends_no_second_early() {
        let lock = |mode, millis| {
            let until = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            lock_of(Retention { mode, until })
        };
        let expected = |mode, seconds| Some(Lock { mode: Some(mode), until: Some(DateTime::from_secs(seconds)) });
        assert_eq!(lock(RetentionMode::Governance, 5_000), expected(ObjectLockMode::Governance, 5));
        assert_eq!(lock(RetentionMode::Compliance, 5_001), expected(ObjectLockMode::Compliance, 6));
        let until = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(lock_of(Retention { mode: RetentionMode::Governance, until }), None);
    }
}
