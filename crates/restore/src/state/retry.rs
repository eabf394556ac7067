//! Tells errors that can pass by themselves from final ones. Pure.

use lifeboat_cluster::ClusterError;
use lifeboat_store::StoreError;

/// Returns true if creating the object again a little later can succeed: a webhook or a parent that is itself being
/// restored, a namespace that is being deleted, a server that is overloaded or fails itself. Every other error (too
/// large, invalid, not allowed) is final: no wait changes it.
pub(crate) fn can_pass(error: &ClusterError) -> bool {
    // No answer at all was tried for long enough by the client.
    let Some(status) = error.status() else { return false };
    let says = |text: &str| status.message.contains(text);
    match status.code {
        // The namespace or the type is not there yet.
        404 | 429 | 502 | 503 | 504 => true,
        // Its definition is going away, and may be one that the restore makes anew.
        405 => says("custom resource definition is terminating"),
        409 => status.reason != "AlreadyExists",
        403 => {
            says("being terminated")
                || says("error looking up service account")
                || says("no PriorityClass with name")
                || says("not yet ready to handle request")
                // A quota that was just made: its controller counts what there is first.
                || says("status unknown for quota")
        }
        500 => status.reason != "Invalid" && !status.is_too_large(),
        _ => false,
    }
}

/// Returns true if a webhook, or the connection to it, has failed: the API server has not carried the request out then.
fn is_of_webhook(message: &str) -> bool {
    message.contains("failed calling webhook") || message.contains("conversion webhook")
}

/// Returns true if a write that ended with this error may have been carried out all the same: no answer came from a
/// server that could know.
pub(crate) fn may_be_done(error: &ClusterError) -> bool {
    let Some(status) = error.status() else { return true };
    matches!(status.code, 502 | 504)
        || (status.code == 500 && !is_of_webhook(&status.message) && !status.is_too_large())
}

/// Returns true if reading an object of the archive again a little later can succeed: damaged objects stay damaged.
pub(crate) fn can_be_read_later(error: &StoreError) -> bool {
    matches!(error, StoreError::Bucket(_) | StoreError::Scratch { .. } | StoreError::Stopped | StoreError::Worker(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_archive::index::IndexError;
    use lifeboat_cluster::{ApiStatus, Failure};

    #[test]
    fn what_is_wrong_for_good_is_not_tried_again() {
        for (code, reason, message, passes) in [
            (422, "Invalid", "spec.x is immutable", false),
            (409, "AlreadyExists", "it exists", false),
            (409, "Conflict", "try again", true),
            (404, "NotFound", "namespaces \"a\" not found", true),
            (403, "Forbidden", "unable to create new content in namespace a because it is being terminated", true),
            (403, "Forbidden", "pods \"a\" is forbidden: error looking up service account a/b", true),
            (403, "Forbidden", "User \"x\" cannot create resource", false),
            (403, "Forbidden", "exceeded quota", false),
            (403, "Forbidden", "pods \"a\" is forbidden: status unknown for quota: q, resources: pods", true),
            (500, "InternalError", "failed calling webhook \"a\"", true),
            (500, "InternalError", "boom", true),
            (500, "Invalid", "boom", false),
            (500, "", "etcdserver: request is too large", false),
            (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", false),
            (400, "BadRequest", "the object provided is unrecognized", false),
            (405, "MethodNotAllowed", "the server does not allow this method on the requested resource", false),
            (405, "MethodNotAllowed", "create not allowed while custom resource definition is terminating", true),
            (502, "", "Bad Gateway", true),
            (503, "", "", true),
        ] {
            let status = ApiStatus { code, reason: reason.into(), message: message.into(), ..ApiStatus::default() };
            let error = ClusterError { verb: "create", what: String::new(), failure: Failure::Api(Box::new(status)) };
            assert_eq!(can_pass(&error), passes, "{code} {message}");
        }
    }

    #[test]
    fn a_write_is_done_or_not_when_the_api_server_itself_says_so() {
        let error = |failure| ClusterError { verb: "delete", what: String::new(), failure };
        for (code, message, expected) in [
            (403, "User \"x\" cannot delete resource", false),
            (409, "it has changed", false),
            (429, "too many requests", false),
            (500, "failed calling webhook \"a\"", false),
            (500, "etcdserver: request timed out", true),
            (500, "etcdserver: request is too large", false),
            (502, "", true),
            (503, "", false),
            (504, "Timeout: request did not complete within requested timeout", true),
        ] {
            let status = ApiStatus { code, message: message.into(), ..ApiStatus::default() };
            assert_eq!(may_be_done(&error(Failure::Api(Box::new(status)))), expected, "{code} {message}");
        }
        assert!(may_be_done(&error(Failure::Connection { message: "reset".into() })));
        assert!(may_be_done(&error(Failure::Timeout(std::time::Duration::from_secs(180)))));
    }

    #[test]
    fn what_is_damaged_is_not_read_again() {
        let damaged = StoreError::Index { key: "k".into(), source: IndexError::Mismatch("x".into()) };
        let full = StoreError::Scratch { place: "/tmp".into(), source: std::io::Error::other("boom") };
        assert_eq!([damaged, full].map(|e| can_be_read_later(&e)), [false, true]);
    }
}
