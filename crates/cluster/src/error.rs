//! Errors of API calls.

use crate::transport::Unanswered;
use hyper_util::client::legacy;
use lifeboat_object::{chain, error_and_causes};
use serde::Deserialize;
use std::error::Error;
use std::time::Duration;

/// A call to the API server that failed and is not tried again.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {what}: {failure}")]
pub struct ClusterError {
    /// The verb of the request, such as `create`.
    pub verb: &'static str,
    /// On what, such as `configmaps/shop/settings`.
    pub what: String,
    /// The reason of the failure.
    pub failure: Failure,
}

/// Reasons for which a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server answered with an error.
    #[error("{0}")]
    Api(Box<ApiStatus>),
    /// There was no connection to the server, so it has not seen the request.
    #[error("{message}")]
    Unreachable {
        /// The error with all its causes.
        message: String,
    },
    /// The connection broke.
    #[error("{message}")]
    Connection {
        /// The error with all its causes.
        message: String,
    },
    /// The server did not answer in time.
    #[error("no answer within {} s", .0.as_secs_f64().round())]
    Timeout(Duration),
    /// The answer is not what the API promises.
    #[error("the answer is not valid: {0}")]
    Invalid(String),
}

/// The `Status` that came with an error answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiStatus {
    /// HTTP status code.
    pub code: u16,
    /// Reason such as `AlreadyExists`; empty when the body was no Status.
    pub reason: String,
    /// The server's message to the user.
    pub message: String,
    /// The object that the answer is about; empty when it names none.
    pub name: String,
    /// The causes that the server names.
    pub causes: Vec<Cause>,
    /// The token with which a list can go on after 410; empty when the server offers none.
    pub continue_token: String,
    /// The wait that the server asks for; `None` when it names none.
    pub retry_after: Option<Duration>,
}

/// A cause of an error response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The field that it is about, such as `spec.ports[0].port`; empty when it is about none.
    pub field: String,
    /// The server's message.
    pub message: String,
}

impl std::fmt::Display for ApiStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.message.is_empty() { write!(f, "HTTP {}", self.code) } else { f.write_str(&self.message) }
    }
}

impl ApiStatus {
    pub(crate) fn parse(code: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Raw {
            reason: String,
            message: String,
            details: Option<Details>,
            metadata: Meta,
        }
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Details {
            name: String,
            causes: Vec<RawCause>,
            retry_after_seconds: u64,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct RawCause {
            field: String,
            message: String,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Meta {
            r#continue: String,
        }
        let raw: Raw = serde_json::from_slice(body).unwrap_or_else(|_| Raw {
            message: String::from_utf8_lossy(&body[..body.len().min(300)]).trim().to_owned(),
            ..Raw::default()
        });
        let details = raw.details.unwrap_or_default();
        let in_details = (details.retry_after_seconds > 0).then(|| Duration::from_secs(details.retry_after_seconds));
        Self {
            code,
            reason: raw.reason,
            message: raw.message,
            name: details.name,
            causes: details.causes.into_iter().map(|RawCause { field, message }| Cause { field, message }).collect(),
            continue_token: raw.metadata.r#continue,
            retry_after: retry_after.or(in_details),
        }
    }

    /// Returns true if the object is larger than the API server, or etcd behind it, ever takes: the first says so with
    /// 413, the other in a text.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        const SAID: [&str; 3] = ["request is too large", "message larger than max", "Request entity too large"];
        self.code == 413 || SAID.iter().any(|said| self.message.contains(said))
    }
}

impl ClusterError {
    /// The status that the server answered with; `None` when it did not answer.
    #[must_use]
    pub fn status(&self) -> Option<&ApiStatus> {
        match &self.failure {
            Failure::Api(status) => Some(status),
            _ => None,
        }
    }

    fn is(&self, code: u16) -> bool {
        self.status().is_some_and(|s| s.code == code)
    }

    /// Returns true if the server answered 404: there is no such object or type.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.is(404)
    }

    /// Returns true if the server answered 404 without naming an object: it does not serve the type.
    #[must_use]
    pub fn is_unserved(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404 && status.name.is_empty())
    }

    /// Returns true if the same request may succeed later: the server could not be reached, is overloaded, or failed
    /// itself.
    #[must_use]
    pub fn can_pass(&self) -> bool {
        let is_passing = |status: &ApiStatus| {
            status.code == 429 || (status.code >= 500 && status.code != 501 && !status.is_too_large())
        };
        self.status().is_none_or(is_passing)
    }

    /// Returns true if the object is larger than the server ever takes.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.status().is_some_and(ApiStatus::is_too_large)
    }

    /// Returns true if the server answered 409 because an object of that name exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|s| s.code == 409 && s.reason == "AlreadyExists")
    }

    /// The fields, such as `spec.cancel`, that an object has and the cluster's definition of its type lacks, when the server
    /// refused it for that.
    #[must_use]
    pub fn unknown_fields(&self) -> Vec<String> {
        let Some(status) = self.status().filter(|status| status.code == 400) else { return Vec::new() };
        let Some((_, said)) = status.message.split_once("strict decoding error: ") else { return Vec::new() };
        let fields = said.split("unknown field \"").skip(1).filter_map(|rest| rest.split('"').next());
        fields.map(str::to_owned).collect()
    }

    /// Returns true if the server answered 409 because the object has changed meanwhile.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|s| s.code == 409 && s.reason == "Conflict")
    }

    /// Returns true if the server answered 401 or 403: the client may not do this.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.is(401) || self.is(403)
    }

    /// Returns true if the server answered 403: the client lacks a right.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.is(403)
    }

    /// Returns true if the server answered 410: a continue token or resource version is too old.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.is(410)
    }
}

impl Failure {
    /// Says in words for the user why a request was not answered, or not to its end.
    pub(crate) fn connection(error: &(dyn Error + 'static), url: &str) -> Self {
        let known = error_and_causes(error).find_map(|link| {
            if let Some(unanswered) = link.downcast_ref::<Unanswered>() {
                let is_unseen = matches!(unanswered, Unanswered::Unreachable(_));
                return Some((is_unseen, unanswered.to_string(), unanswered.source()));
            }
            // An error of the library, which speaks for us through proxies.
            let client = link.downcast_ref::<legacy::Error>()?;
            let is_unseen = client.is_connect();
            let what = match is_unseen {
                true => "the server cannot be reached",
                false => "the connection broke before the answer",
            };
            Some((is_unseen, what.to_owned(), client.source()))
        });
        let Some((is_unseen, what, why)) = known else {
            return Self::Connection { message: format!("{} ({url})", chain(error)) };
        };
        let why = why.map_or_else(String::new, |why| format!(": {}", chain(why)));
        // The TLS library ends some of its messages with a link into its own manual.
        let why = why.split(": https://docs.rs/").next().unwrap_or_default();
        let message = format!("{what}{why} ({url})");
        if is_unseen { Self::Unreachable { message } } else { Self::Connection { message } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_a_definition_lacks_are_named() {
        let fields = |code, message: &str| {
            let status = ApiStatus { code, message: message.to_owned(), ..ApiStatus::default() };
            let failure = Failure::Api(Box::new(status));
            ClusterError { verb: "create", what: String::new(), failure }.unknown_fields()
        };
        let said = "Restore in version \"v1\" cannot be handled as a Restore: strict decoding error: unknown field \"spec.a\", unknown field \"spec.b[0].c\"";
        assert_eq!(fields(400, said), ["spec.a", "spec.b[0].c"]);
        assert_eq!(fields(422, said), [""; 0]);
        assert_eq!(fields(400, "unknown field \"spec.a\""), [""; 0]);
    }

    #[test]
    fn a_status_is_read_from_what_came_even_when_it_is_none() {
        let named = Some(Duration::from_secs(7));
        let body = br#"{"kind":"Status","reason":"Invalid","message":"no","metadata":{"continue":"t"},
            "details":{"name":"web","retryAfterSeconds":3,"causes":[{"field":"spec.a","message":"bad","reason":"x"}]}}"#;
        let cause = Cause { field: "spec.a".into(), message: "bad".into() };
        let whole = ApiStatus {
            code: 422,
            reason: "Invalid".into(),
            message: "no".into(),
            name: "web".into(),
            causes: vec![cause],
            continue_token: "t".into(),
            retry_after: Some(Duration::from_secs(3)),
        };
        assert_eq!(ApiStatus::parse(422, None, body), whole);
        assert_eq!(ApiStatus::parse(422, named, body), ApiStatus { retry_after: named, ..whole });
        let text = |message: &str| ApiStatus { code: 502, message: message.to_owned(), ..ApiStatus::default() };
        assert_eq!(ApiStatus::parse(502, None, b" bad gateway\n"), text("bad gateway"));
        assert_eq!(ApiStatus::parse(502, None, &b"x".repeat(1000)), text(&"x".repeat(300)));
        assert_eq!(text("").to_string(), "HTTP 502");
    }

    #[test]
    fn an_error_can_pass_when_the_server_was_away_busy_or_broken() {
        let answered = |code, message: &str| {
            Failure::Api(Box::new(ApiStatus { code, message: message.to_owned(), ..ApiStatus::default() }))
        };
        for (failure, expected) in [
            (Failure::Timeout(Duration::from_secs(1)), true),
            (Failure::Unreachable { message: String::new() }, true),
            (Failure::Connection { message: String::new() }, true),
            (answered(429, ""), true),
            (answered(500, "etcdserver: leader changed"), true),
            (answered(500, "etcdserver: request is too large"), false),
            (answered(501, ""), false),
            (answered(503, ""), true),
            (answered(409, ""), false),
            (answered(403, ""), false),
        ] {
            let error = ClusterError { verb: "get", what: String::new(), failure };
            assert_eq!(error.can_pass(), expected, "{error:?}");
        }
    }

    #[test]
    fn answers_are_told_from_each_other_by_code_and_reason() {
        let told = |code, reason: &str, name: &str| {
            let status = ApiStatus { code, reason: reason.into(), name: name.into(), ..ApiStatus::default() };
            let error = ClusterError { verb: "get", what: String::new(), failure: Failure::Api(Box::new(status)) };
            let all = [
                (error.is_not_found(), "not found"),
                (error.is_unserved(), "unserved"),
                (error.is_already_exists(), "exists"),
                (error.is_conflict(), "conflict"),
                (error.is_denied(), "denied"),
                (error.is_forbidden(), "forbidden"),
                (error.is_expired(), "expired"),
                (error.is_too_large(), "too large"),
            ];
            all.into_iter().filter_map(|(is, word)| is.then_some(word)).collect::<Vec<_>>().join(", ")
        };
        for (code, reason, name, expected) in [
            (404, "NotFound", "web", "not found"),
            (404, "NotFound", "", "not found, unserved"),
            (409, "AlreadyExists", "web", "exists"),
            (409, "Conflict", "web", "conflict"),
            (409, "", "web", ""),
            (401, "Unauthorized", "", "denied"),
            (403, "Forbidden", "web", "denied, forbidden"),
            (410, "Expired", "", "expired"),
            (413, "", "", "too large"),
            (500, "", "", ""),
        ] {
            assert_eq!(told(code, reason, name), expected, "{code} {reason}");
        }
    }
}
