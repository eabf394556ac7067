//! A bucket at a plugin, and the errors of its failed calls.

use crate::caller::PluginCaller;
use crate::failure::{CallFailure, Cause};
use crate::identity::PluginName;
use lifeboat_bucket::{BucketError, ErrorKind};
use std::sync::Arc;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

/// A bucket at a plugin.
#[derive(Clone, Debug)]
pub(crate) struct RemoteBucket {
    /// Makes its calls.
    pub(crate) caller: Arc<PluginCaller>,
    /// The plugin.
    pub(crate) name: PluginName,
    /// The bucket.
    pub(crate) bucket: String,
}

impl RemoteBucket {
    /// The name of the bucket in messages.
    pub(crate) fn describe(&self) -> String {
        format!("the bucket {} of the plugin {}", self.bucket, self.name)
    }

    /// Calls the plugin.
    ///
    /// # Errors
    /// The failure of the call.
    pub(crate) async fn call<T, F>(&self, make: impl FnOnce(Channel) -> F + Send) -> Result<T, CallFailure>
    where
        F: Future<Output = Result<Response<T>, Status>> + Send,
    {
        self.caller.call(&self.name, make).await
    }

    /// An error of an operation.
    pub(crate) fn error(
        &self,
        kind: ErrorKind,
        operation: &'static str,
        key: &str,
        message: impl Into<String>,
    ) -> BucketError {
        let (key, store, message) = (key.to_owned(), self.describe(), message.into());
        BucketError { kind, operation, key, store, message, source: None }
    }

    /// A call that failed, by what the caller does next.
    pub(crate) fn failed(&self, operation: &'static str, key: &str, failure: CallFailure) -> BucketError {
        self.error(kind(&failure), operation, key, failure.text)
    }
}

/// Classifies a failed call by what the caller can do about it. Texts such as "does not exist" decide nothing: they may
/// be about the bucket, or about the key with which it is encrypted.
pub(crate) fn kind(failure: &CallFailure) -> ErrorKind {
    match failure.cause {
        Cause::NoProcess | Cause::Gone | Cause::Broken | Cause::Late | Cause::Passing => ErrorKind::Transient,
        Cause::Refused => ErrorKind::Other,
        Cause::Said(Code::NotFound) => ErrorKind::NotFound,
        Cause::Said(Code::PermissionDenied | Code::Unauthenticated) => ErrorKind::Denied,
        Cause::Said(Code::ResourceExhausted) => ErrorKind::Throttled,
        Cause::Said(Code::DeadlineExceeded) => ErrorKind::Transient,
        Cause::Said(_) => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;

    #[test]
    fn a_failure_says_what_can_be_done() {
        for (status, expected) in [
            (Status::unknown("NoSuchKey: the specified key does not exist"), ErrorKind::Other),
            (Status::unknown("NotFoundException: Key 'arn:aws:kms:...' does not exist"), ErrorKind::Other),
            (Status::not_found("x"), ErrorKind::NotFound),
            (Status::permission_denied("x"), ErrorKind::Denied),
            (Status::unauthenticated("x"), ErrorKind::Denied),
            (Status::resource_exhausted("x"), ErrorKind::Throttled),
            (Status::unavailable("x"), ErrorKind::Transient),
            (Status::unknown("x"), ErrorKind::Other),
            (Status::aborted("plugin panicked: x"), ErrorKind::Other),
        ] {
            assert_eq!(kind(&CallFailure::said(&status)), expected, "{status}");
        }
        assert_eq!(kind(&CallFailure::late("x")), ErrorKind::Transient);
        assert_eq!(kind(&CallFailure::no_process("x")), ErrorKind::Transient);
        assert_eq!(kind(&CallFailure::refused("x")), ErrorKind::Other);
    }
}
