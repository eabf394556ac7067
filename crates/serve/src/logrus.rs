//! Log of a role in the formats of logrus, which tools around Velero read.

use clap::ValueEnum;
use lifeboat_terminal::output::log::without_spans;
use lifeboat_terminal::process::traces::Traces;
use serde_json::{Map, Value};
use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

/// Velero's levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Trace,
    Debug,
    Info,
    Warning,
    Error,
    Fatal,
    Panic,
}

impl LogLevel {
    /// The filter of `tracing` for this level.
    fn directives(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            // Libraries tell, among others, at each look at a location which access key they have found; what they warn of
            // is tried again, or an error of ours.
            Self::Info => "off,lifeboat=info",
            Self::Warning => "off,lifeboat=warn",
            Self::Error | Self::Fatal | Self::Panic => "off,lifeboat=error",
        }
    }
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Starts logging to standard output, as Velero's server does, and sending what traces take; `LIFEBOAT_LOG` overrides the level with a filter of `tracing`.
pub(crate) fn start(level: LogLevel, format: LogFormat, traces: &Traces) {
    let filter = EnvFilter::try_from_env("LIFEBOAT_LOG").unwrap_or_else(|_| EnvFilter::new(level.directives()));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stdout)
        .event_format(Logrus { json: format == LogFormat::Json });
    let lines = lines.with_filter(without_spans(filter));
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(traces.layer()).with(lines));
}

struct Logrus {
    json: bool,
}

impl<S, N> FormatEvent<S, N> for Logrus
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = LogrusFields::default();
        event.record(&mut fields);
        let time = format!("{:.0}", jiff::Timestamp::now());
        writeln!(writer, "{}", line(self.json, &time, event.metadata().level(), &fields))
    }
}

fn line(json: bool, time: &str, level: &Level, fields: &LogrusFields) -> String {
    let level = match *level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    };
    if json {
        let mut out: Map<String, Value> = fields.others.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
        for (key, value) in [("level", level), ("msg", fields.message.as_str()), ("time", time)] {
            out.insert(key.to_owned(), value.into());
        }
        return Value::Object(out).to_string();
    }
    let mut out = format!("time=\"{time}\" level={level} msg={}", quoted(&fields.message, true));
    for (key, value) in &fields.others {
        let _ = write!(out, " {key}={}", quoted(value, false));
    }
    out
}

/// As logrus does it: plain words stay bare, but the message is quoted always.
fn quoted(text: &str, always: bool) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/' | '@' | '^' | '+');
    if !always && !text.is_empty() && text.chars().all(bare) { text.to_owned() } else { format!("{text:?}") }
}

#[derive(Default)]
struct LogrusFields {
    message: String,
    others: Vec<(String, String)>,
}

impl LogrusFields {
    fn add(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            // What an operation's own log has as a field of each line.
            "subject" => match value.split_once('=') {
                Some((key, value)) => self.others.push((key.to_owned(), value.to_owned())),
                None => self.others.push(("subject".to_owned(), value)),
            },
            name => self.others.push((name.to_owned(), value)),
        }
    }
}

impl Visit for LogrusFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::{ObjectKey, ResultScope, Severity};
    use lifeboat_operation::Journal;
    use std::sync::Arc;

    #[test]
    fn the_servers_log_has_the_lines_of_operations() {
        for (level, expected) in [
            (LogLevel::Trace, 3),
            (LogLevel::Debug, 3),
            (LogLevel::Info, 3),
            (LogLevel::Warning, 2),
            (LogLevel::Error, 1),
            (LogLevel::Panic, 1),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            let file = Arc::new(std::fs::File::create(&path).unwrap());
            let lines = tracing_subscriber::fmt().with_env_filter(level.directives()).with_writer(file);
            let lines = lines.event_format(Logrus { json: true }).finish();
            tracing::subscriber::with_default(lines, || {
                let journal = Journal::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), "backup=velero/b", folder.path());
                journal.info("begins", &[]);
                journal.warn(&ResultScope::Velero, "warns");
                let key = ObjectKey::new(lifeboat_object::GroupResource::new("", "pods"), Some("n"), "p");
                journal.item(Severity::Error, &key, "fails", None);
            });
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), expected, "{level:?}");
        }
    }

    #[test]
    fn lines_are_those_of_logrus() {
        let fields = LogrusFields {
            message: "backup \"b\" begins".into(),
            others: vec![
                ("backup".into(), "velero/b".into()),
                ("error".into(), "no such\nthing".into()),
                ("n".into(), String::new()),
            ],
        };
        let time = "2026-11-22T01:02:03Z";
        assert_eq!(
            line(false, time, &Level::WARN, &fields),
            r#"time="2026-11-22T01:02:03Z" level=warning msg="backup \"b\" begins" backup=velero/b error="no such\nthing" n="""#
        );
        assert_eq!(
            line(true, time, &Level::ERROR, &fields),
            r#"{"backup":"velero/b","error":"no such\nthing","level":"error","msg":"backup \"b\" begins","n":"","time":"2026-11-22T01:02:03Z"}"#
        );
    }
}
