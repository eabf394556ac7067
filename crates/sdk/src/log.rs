//! Lets the server write what this plugin logs (velero: pkg/plugin/clientmgmt/process/logrus_adapter.go).
//!
//! A server reads the standard error of its plugins: each line that is a JSON object becomes a line of its own log, or of the log of the
//! backup or restore that the plugin works for.

mod fields;
mod line;

use fields::LogFields;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Scope};
use tracing_subscriber::{Layer, Registry};

/// The libraries that carry the calls: their lines are about bytes on the wire, many a call.
const TRANSPORT: [&str; 5] = ["h2", "hyper", "hyper_util", "tonic", "tower"];

/// Writes lines at this level and above, with the fields of the spans around them.
pub(crate) fn subscriber(level: LevelFilter, writer: impl Write + Send + 'static) -> impl Subscriber + Send + Sync {
    let mut filter = Targets::new().with_default(level);
    if level != LevelFilter::TRACE {
        filter = filter.with_targets(TRANSPORT.map(|library| (library, level.min(LevelFilter::WARN))));
    }
    Registry::default().with(LineWriter { writer: Mutex::new(writer) }.with_filter(filter))
}

struct LineWriter<W> {
    writer: Mutex<W>,
}

impl<S, W> Layer<S> for LineWriter<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Write + Send + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = LogFields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<LogFields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<LogFields>() {
                fields.extend(of_span);
            }
        }
        // Its own come last, so that they stand for those of the same name around it.
        event.record(&mut fields);
        let metadata = event.metadata();
        let place = metadata.file().map(|file| (file, metadata.line().unwrap_or_default()));
        let line = line::line(*metadata.level(), place, fields);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody is left who could be told that the server does not read any more.
        let _ = writer.write_all(line.as_bytes()).and_then(|()| writer.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::io;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that are written at this level, without the places that they come from.
    fn lines(level: LevelFilter, log: impl FnOnce()) -> Vec<Value> {
        let written = Written::default();
        tracing::subscriber::with_default(subscriber(level, written.clone()), log);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let without_place = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let place = line.as_object_mut().unwrap().remove("logSource").unwrap();
            assert!(place.as_str().unwrap().starts_with("crates/sdk/src/log.rs:"), "{place}");
            line
        };
        text.lines().map(without_place).collect()
    }

    fn line(message: &str, level: (&str, &str), others: Value) -> Value {
        let mut line = json!({"@message": message, "@level": level.0, "level": level.1, "@logSourceSetBy": "plugin"});
        line.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
        line
    }

    #[test]
    fn a_line_has_the_keys_that_servers_know() {
        let written = lines(LevelFilter::TRACE, || {
            tracing::error!(error = "no space", "it failed");
            tracing::warn!(count = 3, "some are left");
            tracing::info!(is_first = true, name = %"x", kind = ?Some(1), "begun");
            tracing::debug!(size = -1.5, "looked");
            tracing::trace!("line\nbreak \"quoted\"");
        });
        let expected = [
            line("it failed", ("error", "error"), json!({"error": "no space"})),
            line("some are left", ("warn", "warning"), json!({"count": 3})),
            line("begun", ("info", "info"), json!({"is_first": true, "name": "x", "kind": "Some(1)"})),
            line("looked", ("debug", "debug"), json!({"size": -1.5})),
            line("line\nbreak \"quoted\"", ("trace", "trace"), json!({})),
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn lines_below_the_level_and_details_of_the_transport_are_not_written() {
        let log = || {
            tracing::debug!("ours");
            tracing::info!(target: "h2::codec", "frame");
            tracing::warn!(target: "h2::codec", "odd frame");
            tracing::error!("wrong");
        };
        let messages = |level| -> Vec<String> {
            lines(level, log).iter().map(|line| line["@message"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(messages(LevelFilter::TRACE), ["ours", "frame", "odd frame", "wrong"]);
        assert_eq!(messages(LevelFilter::DEBUG), ["ours", "odd frame", "wrong"]);
        assert_eq!(messages(LevelFilter::ERROR), ["wrong"]);
        assert_eq!(messages(LevelFilter::OFF), Vec::<String>::new());
    }

    #[test]
    fn fields_of_spans_are_fields_of_the_lines_in_them() {
        let written = lines(LevelFilter::INFO, || {
            let outer = tracing::info_span!("outer", item = "pods/x", step = 1, late = tracing::field::Empty);
            let _outer = outer.enter();
            outer.record("late", 7);
            let _inner = tracing::info_span!("inner", step = 2).entered();
            tracing::info!(item = "pods/y", "done");
        });
        assert_eq!(written, [line("done", ("info", "info"), json!({"item": "pods/y", "step": 2, "late": 7}))]);
    }
}
