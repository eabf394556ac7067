//! Failures of calls, and the errors of actions that they become
//! (velero: pkg/plugin/framework/common/server_errors.go).

use crate::identity::PluginName;
use lifeboat_action::ActionError;
use lifeboat_plugin_proto::{DetailedStatus, STACK_TYPE};
use prost::Message;
use std::error::Error;
use std::time::Duration;
use tonic::{Code, Status};

/// The cause of a failed call, as far as it decides the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// There was no process, and none could be started: the call was not made.
    NoProcess,
    /// The process ended while it was called: whether it has done what it was asked is not known.
    Gone,
    /// The connection broke while the process lived: the same.
    Broken,
    /// Nobody answered in time: the same.
    Late,
    /// The plugin says that it may pass.
    Passing,
    /// The plugin says so, with this code.
    Said(Code),
    /// The host makes no such call.
    Refused,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallFailure {
    /// The cause, which decides the next step.
    pub(crate) cause: Cause,
    /// The text for people: `rpc error: code = … desc = …`, when a call was made.
    pub(crate) text: String,
    /// The place in the plugin's source where it came about, when the plugin names it.
    pub(crate) place: Option<SourcePlace>,
}

/// A place in the source of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourcePlace {
    /// The file and the line.
    pub(crate) file: String,
    /// The function.
    pub(crate) function: String,
}

impl CallFailure {
    /// A call that was not made.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self { cause: Cause::Refused, text: text.into(), place: None }
    }

    /// A call for which there is no process: the next one may find it.
    pub(crate) fn no_process(text: impl Into<String>) -> Self {
        Self { cause: Cause::NoProcess, text: text.into(), place: None }
    }

    /// The failure that the plugin itself reports.
    pub(crate) fn said(status: &Status) -> Self {
        let cause = match status.code() {
            Code::Unavailable => Cause::Passing,
            code => Cause::Said(code),
        };
        Self { cause, text: text(status.code(), status.message()), place: place(status) }
    }

    /// The failure of a broken connection, which Velero's users know by these words.
    pub(crate) fn broken(cause: Cause, why: &str) -> Self {
        let text = text(Code::Unavailable, &format!("error reading from server: EOF ({why})"));
        Self { cause, text, place: None }
    }

    /// The failure when no answer came in time.
    pub(crate) fn late(why: &str) -> Self {
        Self { cause: Cause::Late, text: text(Code::DeadlineExceeded, why), place: None }
    }

    /// The error of a call that makes something, such as a snapshot, which must not be made twice: when it is not known
    /// whether it was made, the kind is `Gone`.
    pub(crate) fn of_creation(self) -> ActionError {
        match self.cause {
            Cause::Gone | Cause::Broken | Cause::Late => ActionError::gone(self.text),
            Cause::NoProcess | Cause::Passing => ActionError::passing(self.text),
            Cause::Said(_) | Cause::Refused => ActionError::item(self.text),
        }
    }
}

impl From<CallFailure> for ActionError {
    fn from(failure: CallFailure) -> Self {
        match failure.cause {
            Cause::NoProcess | Cause::Gone => Self::gone(failure.text),
            Cause::Broken | Cause::Passing => Self::passing(failure.text),
            Cause::Late | Cause::Said(_) | Cause::Refused => Self::item(failure.text),
        }
    }
}

/// The message that a plugin has not answered for so long, and the remedy.
pub(crate) fn unanswered(plugin: &PluginName, limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    format!(
        "{plugin} has not answered within {seconds} s (give it longer by --plugin-call-timeout, or look at its log)"
    )
}

/// Returns true if a call failed on the way, so that nobody has answered it.
pub(crate) fn is_of_transport(status: &Status) -> bool {
    status.source().is_some()
}

/// All that an error on the way says.
pub(crate) fn chain(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = status.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

/// The words of Go's gRPC.
fn text(code: Code, message: &str) -> String {
    let code = match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    };
    format!("rpc error: code = {code} desc = {message}")
}

/// The innermost call of the first stack that comes with a status.
fn place(status: &Status) -> Option<SourcePlace> {
    let details = DetailedStatus::decode(status.details()).ok()?.details;
    let stack = details.iter().find(|detail| detail.type_url == STACK_TYPE)?;
    let stack = lifeboat_plugin_proto::generated::Stack::decode(&*stack.value).ok()?;
    let frame = stack.frames.into_iter().next()?;
    Some(SourcePlace { file: format!("{}:{}", frame.file, frame.line), function: frame.function })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_action::ActionErrorKind;
    use lifeboat_plugin_proto::generated::{Stack, StackFrame};
    use prost_types::Any;

    #[test]
    fn what_a_plugin_says_has_the_words_of_velero_and_its_kind() {
        for (status, kind, text) in [
            (Status::unknown("no luck"), ActionErrorKind::Item, "rpc error: code = Unknown desc = no luck"),
            (Status::unavailable("busy"), ActionErrorKind::Passing, "rpc error: code = Unavailable desc = busy"),
            (
                Status::aborted("plugin panicked: boom"),
                ActionErrorKind::Item,
                "rpc error: code = Aborted desc = plugin panicked: boom",
            ),
            (Status::cancelled("stop"), ActionErrorKind::Item, "rpc error: code = Canceled desc = stop"),
        ] {
            let expected = ActionError { kind, message: text.to_owned() };
            assert_eq!(ActionError::from(CallFailure::said(&status)), expected);
        }
    }

    #[test]
    fn a_creation_with_an_unknown_outcome_is_not_called_again() {
        use ActionErrorKind::{Gone, Item, Passing};
        let broken = |cause| CallFailure::broken(cause, "reset");
        for (failure, call, creation) in [
            (CallFailure::no_process("none"), Gone, Passing),
            (CallFailure::said(&Status::unavailable("busy")), Passing, Passing),
            (CallFailure::said(&Status::unknown("no luck")), Item, Item),
            (CallFailure::said(&Status::deadline_exceeded("of the cloud")), Item, Item),
            (CallFailure::refused("no such plugin"), Item, Item),
            (CallFailure::late("silent"), Item, Gone),
            (broken(Cause::Broken), Passing, Gone),
            (broken(Cause::Gone), Gone, Gone),
        ] {
            let kinds = (ActionError::from(failure.clone()).kind, failure.clone().of_creation().kind);
            assert_eq!(kinds, (call, creation), "{failure:?}");
        }
    }

    #[test]
    fn an_error_knows_where_it_came_about_when_the_plugin_says_so() {
        let frame = |file: &str| StackFrame { file: file.to_owned(), line: 7, function: format!("main.{file}") };
        let any = |type_url: &str, message: Vec<u8>| Any { type_url: type_url.to_owned(), value: message };
        let stack = |file: &str| Stack { frames: vec![frame(file), frame("outer")] }.encode_to_vec();
        let with = |details: Vec<Any>| {
            let details = DetailedStatus { details, ..DetailedStatus::default() }.encode_to_vec();
            CallFailure::said(&Status::with_details(Code::Unknown, "no luck", details.into())).place
        };
        let expected = Some(SourcePlace { file: "inner:7".to_owned(), function: "main.inner".to_owned() });
        assert_eq!(
            with(vec![any("x", vec![7]), any(STACK_TYPE, stack("inner")), any(STACK_TYPE, stack("second"))]),
            expected
        );
        assert_eq!(with(vec![any(STACK_TYPE, Vec::new())]), None);
        assert_eq!(with(vec![any(STACK_TYPE, vec![0xff; 9])]), None);
        assert_eq!(CallFailure::said(&Status::with_details(Code::Unknown, "", vec![0xff; 9].into())).place, None);
    }

    #[test]
    fn an_error_on_the_way_is_told_from_what_a_plugin_says() {
        assert!(!is_of_transport(&Status::unavailable("busy")));
        let broken = Status::from_error(Box::new(std::io::Error::other("reset")));
        assert!(is_of_transport(&broken));
        assert_eq!(chain(&broken), "reset");
    }
}
