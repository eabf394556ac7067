//! Reasons why an object was not written.

use crate::object::apply::PrepareError;
use crate::state::terminating::TerminatingObject;
use lifeboat_cluster::ClusterError;

/// The reason why an object was not written.
pub(crate) enum Refused {
    /// The journal has it.
    Reported,
    /// Actions did not make it; the journal does not have that yet.
    Unprepared(PrepareError),
    /// The API server refused it; the journal does not have that yet.
    Because(Box<ClusterError>),
    /// Its namespace is not there; the journal does not have that yet.
    Namespace(Missing),
    /// The object in the cluster is being deleted; the journal does not have that yet.
    Leaving(TerminatingObject),
    /// An object of its name is there and could not be brought in line, for a reason that can pass; the journal does
    /// not have that yet.
    Unequal {
        /// The message for the case that it does not pass.
        told: String,
        /// True when that is an error, false when it is a warning.
        is_error: bool,
    },
    /// The restore ends early, and an object that it needs is missing.
    Stopped,
    /// It needs to wait for others, and too many do.
    Crowded,
    /// A claim that it mounts is being filled through another pod.
    Filling,
}

/// Describes, for people, the reason why the API server has refused an object, and its consequences.
pub(crate) fn error_text(error: &ClusterError) -> String {
    let why = &error.failure;
    match error.is_too_large() {
        true => format!(
            "it is larger than this API server, or etcd behind it, takes, and no later attempt changes that ({why}); save it in parts, \
             or raise the limit of etcd (--max-request-bytes), and run the restore again"
        ),
        false if why.to_string().contains("custom resource definition is terminating") => {
            format!(
                "the definition of its type is being deleted ({why}); when it is gone, or there anew, run the restore again"
            )
        }
        false => why.to_string(),
    }
}

/// A namespace that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It may come in a later round.
    ForNow,
    /// It does not come in this restore.
    ForGood,
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_cluster::{ApiStatus, Failure};

    #[test]
    fn who_reads_a_refusal_is_told_what_it_means() {
        let said = |code, message: &str| {
            let status = ApiStatus { code, message: message.to_owned(), ..ApiStatus::default() };
            error_text(&ClusterError { verb: "create", what: String::new(), failure: Failure::Api(Box::new(status)) })
        };
        let terminating = "create not allowed while custom resource definition is terminating";
        for (code, message, begins) in [
            (422, "it is odd", "it is odd"),
            (500, "etcdserver: request is too large", "it is larger than this API server, or etcd behind it, takes"),
            (
                413,
                "Request entity too large: limit is 3145728",
                "it is larger than this API server, or etcd behind it, takes",
            ),
            (405, terminating, "the definition of its type is being deleted"),
        ] {
            let said = said(code, message);
            assert!(said.starts_with(begins) && said.contains(message), "{said}");
        }
    }
}
