//! Turns what the server or the network said into errors, sorted by what the caller does next.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use hyper_util::client::legacy;
use lifeboat_bucket::{BucketError, ErrorKind};
use std::error::Error as StdError;

/// Makes errors of one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Failures {
    /// Its name.
    pub(crate) bucket: String,
    /// The store as messages name it.
    pub(crate) store: String,
    /// The region that requests are signed for.
    pub(crate) region: String,
}

/// The response of a server that refuses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ErrorResponse<'a> {
    /// HTTP status; zero for the answer about one key of many.
    pub(crate) status: u16,
    /// The code, such as `NoSuchKey`; empty for answers without a body.
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
    pub(crate) request_id: &'a str,
    /// The region of the bucket, when the server says so.
    pub(crate) region: Option<&'a str>,
}

impl Failures {
    /// An error that this room found itself.
    pub(crate) fn own(
        &self,
        kind: ErrorKind,
        operation: &'static str,
        key: &str,
        message: impl Into<String>,
    ) -> BucketError {
        BucketError {
            kind,
            operation,
            key: key.to_owned(),
            store: self.store.clone(),
            message: message.into(),
            source: None,
        }
    }

    /// An error of the client.
    pub(crate) fn of<E>(&self, operation: &'static str, key: &str, error: SdkError<E>) -> BucketError
    where
        E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
    {
        if let SdkError::ServiceError(service) = &error {
            let meta = service.err().meta();
            let raw = service.raw();
            let header = |name: &str| raw.headers().get(name);
            let refusal = ErrorResponse {
                status: raw.status().as_u16(),
                // HEAD has no body; some say the code in a header.
                code: meta.code().or_else(|| header("x-minio-error-code")).unwrap_or_default(),
                message: meta.message().unwrap_or_default(),
                request_id: header("x-amz-request-id").unwrap_or_default(),
                region: header("x-amz-bucket-region"),
            };
            return self.refused(operation, key, refusal);
        }
        let (kind, message) = match &error {
            SdkError::TimeoutError(_) => (ErrorKind::Transient, "no answer in time".to_owned()),
            SdkError::ResponseError(_) if links(&error).any(<dyn StdError>::is::<std::io::Error>) => {
                (ErrorKind::Transient, "the answer broke off".to_owned())
            }
            SdkError::ResponseError(response) => {
                let status = response.raw().status().as_u16();
                let kind = if status >= 500 { ErrorKind::Transient } else { ErrorKind::Other };
                (kind, format!("the answer is none of an S3 server (HTTP {status})"))
            }
            _ => unsent(&error),
        };
        // Only the text of the chain: the client's error repeats the whole answer.
        let source = error.into_source().ok();
        BucketError { kind, operation, key: key.to_owned(), store: self.store.clone(), message, source }
    }

    /// An error of the server.
    pub(crate) fn refused(&self, operation: &'static str, key: &str, refusal: ErrorResponse<'_>) -> BucketError {
        let (kind, mut message) = self.explain(refusal);
        let mut details = Vec::new();
        details.extend((!refusal.code.is_empty()).then(|| refusal.code.to_owned()));
        details.extend((refusal.status != 0).then(|| format!("HTTP {}", refusal.status)));
        details.extend((!refusal.request_id.is_empty()).then(|| format!("request {}", refusal.request_id)));
        if !details.is_empty() {
            message.push_str(&format!(" ({})", details.join(", ")));
        }
        let said = refusal.message.trim().trim_end_matches('.');
        if !said.is_empty() {
            message.push_str(&format!(": {said}"));
        }
        self.own(kind, operation, key, message)
    }

    fn explain(&self, refusal: ErrorResponse<'_>) -> (ErrorKind, String) {
        let bucket = &self.bucket;
        let (kind, text) = match (refusal.code, refusal.status) {
            ("NoSuchBucket", _) => {
                return (ErrorKind::NotFound, format!("the bucket {bucket:?} does not exist; nobody makes it for you"));
            }
            ("AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException", _)
            | ("", 301 | 307 | 308) => return (ErrorKind::Invalid, self.wrong_region(refusal.region)),
            ("NoSuchKey", _) => (ErrorKind::NotFound, "there is no such object"),
            // A sweep has aborted it; the whole put can be done again.
            ("NoSuchUpload", _) => (ErrorKind::Transient, "the upload was aborted from elsewhere"),
            ("PreconditionFailed" | "ConditionalRequestConflict", _) | (_, 412) => {
                (ErrorKind::Exists, "the object exists or is being written")
            }
            // Of MinIO and of Ceph: with 400 and 403, although neither the request nor the rights are wrong.
            ("XMinioStorageFull", _) | ("XMinioAdminBucketQuotaExceeded" | "QuotaExceeded", 400..=409) | (_, 507) => {
                (ErrorKind::Other, "there is no space left: free some, or raise the quota of the bucket or its owner")
            }
            ("NotImplemented", _) | (_, 501) => (ErrorKind::Unsupported, "the server does not know how to do that"),
            ("InvalidAccessKeyId" | "XAdminUserNotFound", _) => (
                ErrorKind::Denied,
                "the access key is not known; check the access key ID and that it belongs to this server",
            ),
            ("SignatureDoesNotMatch", _) => (
                ErrorKind::Denied,
                "the signature does not match; check the secret access key, and proxies that change requests",
            ),
            ("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired", _) => {
                (ErrorKind::Denied, "the session token is no longer valid; get new credentials")
            }
            ("RequestTimeTooSkewed", _) => (ErrorKind::Denied, "the clocks disagree; set the clock of this machine"),
            (
                "SlowDown"
                | "Throttling"
                | "ThrottlingException"
                | "RequestLimitExceeded"
                | "TooManyRequests"
                | "ServiceUnavailable"
                | "BandwidthLimitExceeded"
                | "RequestThrottled",
                _,
            )
            | (_, 429 | 503) => (ErrorKind::Throttled, "the server asks to slow down"),
            ("InternalError" | "RequestTimeout" | "OperationAborted" | "IncompleteBody", _) => {
                (ErrorKind::Transient, "the server failed for now")
            }
            ("InvalidRange", _) | (_, 416) => (ErrorKind::Invalid, "the range is beyond the end"),
            ("AccessDenied" | "AllAccessDisabled" | "AccountProblem" | "Forbidden", _) | (_, 401 | 403) => (
                ErrorKind::Denied,
                "access is denied; check the permissions on the bucket (without the right to list it, missing objects are denied too)",
            ),
            ("" | "NotFound", 404) => (ErrorKind::NotFound, "there is no such object, or no such bucket"),
            (_, 500..=599) => (ErrorKind::Transient, "the server failed for now"),
            (_, 400..=499) => (ErrorKind::Invalid, "the server does not take the request"),
            ("", 200..=299) => (ErrorKind::Other, "the answer is none of an S3 server"),
            _ => (ErrorKind::Other, "the server refused"),
        };
        (kind, text.to_owned())
    }

    fn wrong_region(&self, told: Option<&str>) -> String {
        match told {
            Some(region) => {
                format!("the bucket is in region {region:?}, not {:?}; set region to {region}", self.region)
            }
            None => format!("the region {:?} is not the bucket's; set region", self.region),
        }
    }
}

/// Classifies and explains a request that was not sent, or got no response.
fn unsent<E: StdError + 'static>(error: &SdkError<E>) -> (ErrorKind, String) {
    let (mut broken, mut connected) = (false, false);
    for link in links(error) {
        if let Some(tls) = link.downcast_ref::<rustls::Error>() {
            let message = match tls {
                rustls::Error::InvalidCertificate(_) => {
                    format!("the server's certificate is not trusted ({tls}); give the CA certificate that signed it")
                }
                other => format!("the TLS connection failed: {other}; check that the server speaks TLS at this port"),
            };
            return (ErrorKind::Invalid, message);
        }
        if let Some(credentials) = link.downcast_ref::<CredentialsError>() {
            return missing_credentials(credentials);
        }
        broken |= link.is::<std::io::Error>();
        connected |= link.downcast_ref::<legacy::Error>().is_some_and(|e| !e.is_connect());
    }
    match error {
        SdkError::DispatchFailure(_) if connected => {
            (ErrorKind::Transient, "the connection broke before the answer".to_owned())
        }
        SdkError::DispatchFailure(e) if broken || e.is_io() || e.is_timeout() => {
            (ErrorKind::Transient, "the server cannot be reached".to_owned())
        }
        SdkError::DispatchFailure(_) => (ErrorKind::Transient, "the request could not be sent".to_owned()),
        _ => (ErrorKind::Invalid, "the request cannot be made".to_owned()),
    }
}

fn missing_credentials(error: &CredentialsError) -> (ErrorKind, String) {
    if matches!(error, CredentialsError::ProviderTimedOut(_)) {
        return (ErrorKind::Transient, "nobody gave credentials in time".to_owned());
    }
    let message = "there are no credentials: check the profile and the credentials file, or set AWS_ACCESS_KEY_ID and \
                   AWS_SECRET_ACCESS_KEY";
    (ErrorKind::Denied, message.to_owned())
}

/// An error and its causes, among them those that an I/O error holds without naming them its source.
fn links<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        let error: &'a (dyn StdError + 'static) = *error;
        let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        match held {
            Some(held) => Some(held as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
    // No chain is that long; a bound costs nothing.
    .take(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures() -> Failures {
        Failures { bucket: "b".to_owned(), store: "s3://b".to_owned(), region: "us-east-1".to_owned() }
    }

    #[test]
    fn answers_are_sorted_by_the_next_move() {
        let table: [(u16, &str, ErrorKind); 37] = [
            (404, "NoSuchKey", ErrorKind::NotFound),
            (404, "NoSuchBucket", ErrorKind::NotFound),
            (404, "", ErrorKind::NotFound),
            (404, "NoSuchUpload", ErrorKind::Transient),
            // Not what it looks like: the code is about something else.
            (404, "NoSuchVersion", ErrorKind::Invalid),
            (404, "XAdminUserNotFound", ErrorKind::Denied),
            (200, "", ErrorKind::Other),
            (412, "PreconditionFailed", ErrorKind::Exists),
            (412, "", ErrorKind::Exists),
            (409, "ConditionalRequestConflict", ErrorKind::Exists),
            (409, "OperationAborted", ErrorKind::Transient),
            (403, "AccessDenied", ErrorKind::Denied),
            (403, "", ErrorKind::Denied),
            (401, "", ErrorKind::Denied),
            (403, "InvalidAccessKeyId", ErrorKind::Denied),
            (403, "SignatureDoesNotMatch", ErrorKind::Denied),
            (400, "ExpiredToken", ErrorKind::Denied),
            (403, "RequestTimeTooSkewed", ErrorKind::Denied),
            (503, "SlowDown", ErrorKind::Throttled),
            (503, "", ErrorKind::Throttled),
            (429, "", ErrorKind::Throttled),
            (500, "InternalError", ErrorKind::Transient),
            (502, "", ErrorKind::Transient),
            (504, "", ErrorKind::Transient),
            (400, "RequestTimeout", ErrorKind::Transient),
            (416, "InvalidRange", ErrorKind::Invalid),
            (416, "", ErrorKind::Invalid),
            (400, "AuthorizationHeaderMalformed", ErrorKind::Invalid),
            (301, "PermanentRedirect", ErrorKind::Invalid),
            (301, "", ErrorKind::Invalid),
            (400, "KeyTooLongError", ErrorKind::Invalid),
            (501, "NotImplemented", ErrorKind::Unsupported),
            (507, "XMinioStorageFull", ErrorKind::Other),
            (507, "", ErrorKind::Other),
            (400, "XMinioAdminBucketQuotaExceeded", ErrorKind::Other),
            (403, "QuotaExceeded", ErrorKind::Other),
            (0, "Odd", ErrorKind::Other),
        ];
        for (status, code, expected) in table {
            let error = failures().refused("get", "k", ErrorResponse { status, code, ..ErrorResponse::default() });
            assert_eq!(error.kind, expected, "{status} {code}: {error}");
        }
    }

    #[test]
    fn messages_say_what_to_do() {
        let said = |refusal| failures().refused("get", "k", refusal).to_string();
        let refusal = ErrorResponse {
            status: 404,
            code: "NoSuchBucket",
            message: "The specified bucket does not exist.",
            request_id: "7",
            region: None,
        };
        assert_eq!(
            said(refusal),
            "cannot get \"k\" in s3://b: the bucket \"b\" does not exist; nobody makes it for you \
             (NoSuchBucket, HTTP 404, request 7): The specified bucket does not exist"
        );
        let refusal = ErrorResponse { status: 301, region: Some("eu-west-1"), ..ErrorResponse::default() };
        assert_eq!(
            said(refusal),
            "cannot get \"k\" in s3://b: the bucket is in region \"eu-west-1\", not \"us-east-1\"; set region to \
             eu-west-1 (HTTP 301)"
        );
    }

    #[test]
    fn causes_inside_io_errors_are_found() {
        let inner = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let outer = std::io::Error::other(std::io::Error::other(inner));
        assert!(links(&outer).any(<dyn StdError>::is::<rustls::Error>));
    }
}
