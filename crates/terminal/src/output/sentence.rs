//! Formats log events as sentences for people: warnings and errors, for users who have not asked for a log.

use lifeboat_object::printable;
use std::fmt::{self, Debug, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Formats each event as a sentence, like all messages of commands: without its time and its place in the program.
pub(crate) struct Sentences;

impl<S, N> FormatEvent<S, N> for Sentences
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut parts = Parts::default();
        event.record(&mut parts);
        let level = match *event.metadata().level() {
            Level::ERROR => "error: ",
            Level::WARN => "warning: ",
            _ => "",
        };
        writeln!(writer, "{level}{}", printable(parts.sentence()))
    }
}

/// The message of an event, its cause, and the objects that it is about.
#[derive(Default)]
struct Parts {
    message: String,
    cause: String,
    of: Vec<String>,
}

impl Parts {
    fn sentence(&self) -> String {
        let Self { message, cause, of } = self;
        let of = if of.is_empty() { String::new() } else { format!(" ({})", of.join(", ")) };
        let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
        format!("{message}{of}{cause}")
    }
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "error" | "why" => write!(self.cause, "{value:?}"),
            name => {
                self.of.push(format!("{name} {value:?}"));
                Ok(())
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::sync::Arc;

    #[test]
    fn a_warning_on_a_terminal_is_a_sentence() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Arc::new(File::options().append(true).open(file.path()).unwrap());
        let lines = tracing_subscriber::fmt().event_format(Sentences).with_writer(writer).finish();
        tracing::subscriber::with_default(lines, || {
            let error = std::io::Error::other("no route to \u{1b}[2Jhost");
            tracing::warn!(%error, "the bucket fails; it is tried for {} s in all", 180);
            tracing::warn!("the kubeconfig says insecure-skip-tls-verify");
            tracing::error!(name = "r", why = "it is gone", "lost sight");
        });
        assert_eq!(
            std::fs::read_to_string(file.path()).unwrap(),
            "warning: the bucket fails; it is tried for 180 s in all: no route to \\u{1b}[2Jhost\n\
             warning: the kubeconfig says insecure-skip-tls-verify\n\
             error: lost sight (name r): it is gone\n"
        );
    }
}
