//! Parses the lines that a plugin writes to stderr (velero: pkg/plugin/clientmgmt/process/logrus_adapter.go).

use crate::lines::LinePiece;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The level of a line. All levels for developers are one here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// For developers.
    Debug,
    /// A step that an operator recognises.
    Info,
    /// Counts as a warning of the operation.
    Warn,
    /// Counts as an error of the operation.
    Error,
}

/// A line as it is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StderrLine {
    /// The level.
    pub(crate) level: Level,
    /// The message.
    pub(crate) message: String,
    /// Its own fields, by name.
    pub(crate) fields: BTreeMap<String, String>,
}

impl StderrLine {
    /// A line without fields.
    pub(crate) fn new(level: Level, message: impl Into<String>) -> Self {
        Self { level, message: message.into(), fields: BTreeMap::new() }
    }

    /// The line with one field more.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }
}

/// Reads one line after the other.
#[derive(Debug, Default)]
pub(crate) struct StderrReader {
    /// Set after a panic was printed: the lines that follow are its stack.
    panics: bool,
}

/// Keys of a line that are no fields of it: how it is marked as a plugin's, and what the log has anyway.
const NO_FIELDS: [&str; 4] = ["@logSourceSetBy", "level", "time", "timestamp"];

/// Beginnings of lines that are no JSON.
const PREFIXES: [(&str, Level); 5] = [
    ("[TRACE]", Level::Debug),
    ("[DEBUG]", Level::Debug),
    ("[INFO]", Level::Info),
    ("[WARN]", Level::Warn),
    ("[ERROR]", Level::Error),
];

impl StderrReader {
    /// Reads a line. Fragments of one that is too long are never parsed.
    pub(crate) fn read(&mut self, piece: LinePiece<'_>) -> StderrLine {
        match piece {
            LinePiece::Fragment(part) => StderrLine::new(Level::Debug, String::from_utf8_lossy(part)),
            LinePiece::Line(line) => {
                let text = String::from_utf8_lossy(line);
                let json: Option<Map<String, Value>> = serde_json::from_str(&text).ok();
                json.and_then(|json| of_json(&text, json)).unwrap_or_else(|| self.of_text(&text))
            }
        }
    }

    fn of_text(&mut self, text: &str) -> StderrLine {
        if let Some((_, level)) = PREFIXES.iter().find(|(prefix, _)| text.starts_with(prefix)) {
            return StderrLine::new(*level, text);
        }
        self.panics |= text.starts_with("panic: ") || text.starts_with("fatal error: ");
        // An empty line says nothing that could be an error.
        let level = if self.panics && !text.trim().is_empty() { Level::Error } else { Level::Debug };
        StderrLine::new(level, text)
    }
}

/// A line in JSON; `None` when its time shows that no library for logs has written it.
fn of_json(text: &str, mut json: Map<String, Value>) -> Option<StderrLine> {
    let (message, level) = (json.remove("@message"), json.remove("@level"));
    if json.remove("@timestamp").is_some_and(|time| !is_time(&time)) {
        return None;
    }
    let level = level.as_ref().and_then(Value::as_str).and_then(|level| match level.trim().to_lowercase().as_str() {
        "trace" | "debug" => Some(Level::Debug),
        "info" => Some(Level::Info),
        "warn" => Some(Level::Warn),
        "error" => Some(Level::Error),
        _ => None,
    });
    // compat: also of the levels `fatal`, `panic` and `warning` go-plugin knows nothing, so they do not count as errors.
    let Some(level) = level else { return Some(StderrLine::new(Level::Debug, text)) };
    let fields = json.into_iter().filter(|(name, _)| !NO_FIELDS.contains(&name.as_str()));
    let fields = fields.map(|(name, value)| (name, as_text(value))).collect();
    Some(StderrLine { level, message: message.map(as_text).unwrap_or_default(), fields })
}

fn as_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Returns true for a time as go-plugin's logs have it: with six digits of the second, and an offset.
fn is_time(value: &Value) -> bool {
    let Some(time) = value.as_str() else { return false };
    let (Some(date), Some(offset)) = (time.get(..26), time.get(26..)) else { return false };
    let shape: String = date.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let offset: String = offset.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00.000000"
        && matches!(offset.as_str(), "Z" | "+00:00" | "-00:00")
        && time.parse::<Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::LineBuffer;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_is_printed_is_read(bytes in prop::collection::vec(any::<u8>(), 0..2000), size in 1usize..100) {
            let (mut lines, mut reader, mut read) = (LineBuffer::default(), StderrReader::default(), 0);
            for part in bytes.chunks(size) {
                lines.feed(part, |piece| { reader.read(piece); read += 1; });
            }
            let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(read, ends);
        }

        #[test]
        fn a_line_of_a_log_is_read_whatever_its_values_are(time in ".{0,40}", level in ".{0,8}", message in ".{0,40}") {
            let line = serde_json::json!({"@timestamp": time, "@level": level, "@message": message}).to_string();
            StderrReader::default().read(LinePiece::Line(line.as_bytes()));
        }
    }

    fn read(text: &str) -> StderrLine {
        StderrReader::default().read(LinePiece::Line(text.as_bytes()))
    }

    #[test]
    fn a_line_in_json_has_its_level_and_fields() {
        let line = read(
            r#"{"@level":"warn","@message":"odd","@timestamp":"2026-08-21T16:47:40.123456Z","level":"warning","time":"x",
                "timestamp":"y","@logSourceSetBy":"plugin","logSource":"pkg/a.go:7","error":"no luck","error.file":"/a.go:3",
                "count":12345678901234567890,"deep":{"a":[1,null]}}"#,
        );
        let expected = StderrLine::new(Level::Warn, "odd")
            .with("logSource", "pkg/a.go:7")
            .with("error", "no luck")
            .with("error.file", "/a.go:3")
            .with("count", "12345678901234567890")
            .with("deep", r#"{"a":[1,null]}"#);
        assert_eq!(line, expected);
        for (level, expected) in [
            ("trace", Level::Debug),
            ("debug", Level::Debug),
            (" INFO ", Level::Info),
            ("warn", Level::Warn),
            ("error", Level::Error),
        ] {
            assert_eq!(read(&format!(r#"{{"@level":"{level}","@message":"m"}}"#)), StderrLine::new(expected, "m"));
        }
    }

    #[test]
    fn what_is_no_line_of_a_log_is_kept_as_it_is_for_developers() {
        for text in [
            r#"{"@level":"fatal","@message":"m"}"#,
            r#"{"@level":"warning","@message":"m"}"#,
            r#"{"@level":"off","@message":"m"}"#,
            r#"{"@level":7,"@message":"m"}"#,
            r#"{"@message":"m"}"#,
            r#"{"@level":"error","@message":"m","@timestamp":"2026-08-21 16:47:40"}"#,
            r#"{"@level":"error","@message":"m","@timestamp":"2026-08-21T16:47:40.123Z"}"#,
            r#"{"@level":"error","@message":"m","@timestamp":"2026-13-21T16:47:40.123456Z"}"#,
            r#"{"@level":"error","@message":"m","@timestamp":7}"#,
            r#"["@level","error"]"#,
            r#"{"@level":"error""#,
            "plain",
            "",
        ] {
            assert_eq!(read(text), StderrLine::new(Level::Debug, text));
        }
    }

    #[test]
    fn a_message_need_not_be_text() {
        assert_eq!(read(r#"{"@level":"info","@message":{"a":1}}"#), StderrLine::new(Level::Info, r#"{"a":1}"#));
        assert_eq!(read(r#"{"@level":"info","@message":null}"#), StderrLine::new(Level::Info, "null"));
        assert_eq!(read(r#"{"@level":"info"}"#), StderrLine::new(Level::Info, ""));
        let time = r#"{"@level":"info","@message":"m","@timestamp":"2026-08-21T16:47:40.123456+02:00"}"#;
        assert_eq!(read(time), StderrLine::new(Level::Info, "m"));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let line = StderrReader::default().read(LinePiece::Line(b"{\"@level\":\"error\",\"@message\":\"a\xffb\"}"));
        assert_eq!(line, StderrLine::new(Level::Error, "a\u{fffd}b"));
        assert_eq!(
            StderrReader::default().read(LinePiece::Line(b"\xff\xfe")),
            StderrLine::new(Level::Debug, "\u{fffd}\u{fffd}")
        );
    }

    #[test]
    fn a_text_may_begin_with_its_level() {
        for (text, level) in [
            ("[TRACE] a", Level::Debug),
            ("[DEBUG] a", Level::Debug),
            ("[INFO] a", Level::Info),
            ("[WARN] a", Level::Warn),
            ("[ERROR] a", Level::Error),
            ("[FATAL] a", Level::Debug),
            (" [ERROR] a", Level::Debug),
        ] {
            assert_eq!(read(text), StderrLine::new(level, text));
        }
    }

    #[test]
    fn after_a_panic_every_plain_line_is_an_error() {
        for begin in ["panic: boom", "fatal error: concurrent map writes"] {
            let mut reader = StderrReader::default();
            let mut level = |text: &str| reader.read(LinePiece::Line(text.as_bytes())).level;
            let levels =
                ["before", begin, "", "goroutine 1 [running]:", "[INFO] still", r#"{"@level":"info"}"#, "main.main()"]
                    .map(&mut level);
            use Level::{Debug, Error, Info};
            assert_eq!(levels, [Debug, Error, Debug, Error, Info, Info, Error]);
            assert_eq!(reader.read(LinePiece::Fragment(b"long")).level, Debug);
        }
    }
}
