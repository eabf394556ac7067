//! Errors as the server is told them (velero: pkg/plugin/framework/common/server_errors.go).

use crate::caught::Panic;
use lifeboat_action::{ActionError, ActionErrorKind};
use lifeboat_plugin_proto::generated::{Stack, StackFrame};
use lifeboat_plugin_proto::{DetailedStatus, STACK_TYPE};
use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

/// Longest text, as it is sent. A response without a result is a header, of which clients take 16 KiB; a panic is in it
/// twice.
const LONGEST: usize = 6 << 10;
/// The status for an error. An error that may pass is `Unavailable`: Velero shows the text and does not call again,
/// Lifeboat does. All others are `Unknown`, as of any plugin: the protocol cannot express that no call of an operation
/// can succeed.
pub(crate) fn of_error(error: &ActionError) -> Status {
    let code = match error.kind {
        ActionErrorKind::Passing => Code::Unavailable,
        ActionErrorKind::Item | ActionErrorKind::Fatal | ActionErrorKind::Gone => Code::Unknown,
    };
    Status::new(code, sendable(&error.message))
}

/// The status for a panic: its message, and where it came about.
pub(crate) fn of_panic(panic: &Panic) -> Status {
    let text = sendable(&format!("plugin panicked: {}", panic.said));
    let Some((file, line)) = &panic.place else {
        return Status::new(Code::Aborted, text);
    };
    let line = i32::try_from(*line).unwrap_or_default();
    let stack = Stack { frames: vec![StackFrame { file: file.clone(), line, function: String::new() }] };
    let details = vec![Any { type_url: STACK_TYPE.to_owned(), value: stack.encode_to_vec() }];
    let detailed = DetailedStatus { code: Code::Aborted as i32, message: text.clone(), details };
    Status::with_details(Code::Aborted, text, detailed.encode_to_vec().into())
}

/// The status for a request, or a result of an action, that is not understood.
pub(crate) fn odd(why: impl Into<String>) -> Status {
    Status::unknown(sendable(&why.into()))
}

/// As much of a text as can be sent; all of it is logged then.
fn sendable(text: &str) -> String {
    let mut sent = 0;
    // What is no letter of ASCII is sent as `%xx`.
    let size = |byte: u8| if matches!(byte, b' '..=b'~') && byte != b'%' { 1 } else { 3 };
    let fits = |byte: &u8| {
        sent += size(*byte);
        sent <= LONGEST
    };
    let length = text.bytes().take_while(fits).count();
    if length == text.len() {
        return text.to_owned();
    }
    tracing::info!(error = text, "An error has more text than the server can be told");
    let start = &text[..text.floor_char_boundary(length)];
    format!("{start}… ({} bytes more are in the log)", text.len() - start.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_its_text() {
        for (error, code) in [
            (ActionError::item("no space"), Code::Unknown),
            (ActionError::fatal("no space"), Code::Unknown),
            (ActionError::gone("no space"), Code::Unknown),
            (ActionError::passing("no space"), Code::Unavailable),
        ] {
            let status = of_error(&error);
            assert_eq!((status.code(), status.message(), status.details()), (code, "no space", &[][..]));
        }
    }

    #[test]
    fn a_panic_says_where_it_came_about() {
        let place = Some(("src/main.rs".to_owned(), 7));
        let status = of_panic(&Panic { said: "odd".to_owned(), place });
        assert_eq!((status.code(), status.message()), (Code::Aborted, "plugin panicked: odd"));
        let detailed = DetailedStatus::decode(status.details()).unwrap();
        assert_eq!((detailed.code, detailed.message.as_str()), (10, "plugin panicked: odd"));
        let [detail] = &detailed.details[..] else { panic!("{:?}", detailed.details) };
        assert_eq!(detail.type_url, STACK_TYPE);
        let frame = StackFrame { file: "src/main.rs".to_owned(), line: 7, function: String::new() };
        assert_eq!(Stack::decode(&detail.value[..]).unwrap(), Stack { frames: vec![frame] });
        let status = of_panic(&Panic { said: "odd".to_owned(), place: None });
        assert_eq!((status.message(), status.details()), ("plugin panicked: odd", &[][..]));
    }

    #[test]
    fn a_text_is_cut_at_what_a_header_holds() {
        assert_eq!(sendable(&"a".repeat(LONGEST)).len(), LONGEST);
        let text = "ä%".repeat(1000);
        let (start, end) = (&"ä%".repeat(682), "ä… (952 bytes more are in the log)");
        assert_eq!(sendable(&text), format!("{start}{end}"));
        let after = sendable(&format!("{}ä", "a".repeat(LONGEST - 3)));
        assert_eq!(after, format!("{}… (2 bytes more are in the log)", "a".repeat(LONGEST - 3)));
    }
}
