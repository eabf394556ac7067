//! The log of one operation: one call adds the typed result, the line of the uploaded log and the tracing event.

use crate::log::{self, LineSpace, Log, LogWriter};
use crate::{Clock, Trace};
use lifeboat_object::{ObjectKey, ResultScope, Results, Severity};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The target of the tracing events of all journals, by which they can be told from others. It begins as those of all our
/// rooms do, so that a filter that lets us be heard lets them be heard too.
pub const LOG_TARGET: &str = "lifeboat::journal";
/// Longest message that is kept whole, in bytes; an API server may answer with megabytes.
const MAX_MESSAGE: usize = 8 << 10;
/// Bytes of most lines.
const LINE: usize = 256;
/// Bytes that a result takes beside its text.
const RESULT: usize = 64;

/// Limits on what an operation may keep in its journal.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Bytes of results of each severity; beyond it they are counted and the log has them.
    results: usize,
    /// The compressed log; beyond it lines are counted.
    log: log::Limits,
}

/// The limits of every journal. The part of the log that is in memory is there twice while it is stored.
const LIMITS: Limits =
    Limits { results: 4 << 20, log: log::Limits { memory: 2 << 20, without_file: 32 << 20, all: 1 << 30 } };

/// The log of one operation. Clones write to the same log.
///
/// Lines have logrus' text shape, as Velero's logs have: `time="…" level=info msg="…" key=value`.
/// Warnings and errors are counted from results, never from log levels.
#[derive(Clone)]
pub struct Journal {
    clock: Clock,
    subject: Arc<str>,
    /// Bytes of results of each severity.
    most_results: usize,
    trace: Trace,
    inner: Arc<Mutex<JournalState>>,
}

struct JournalState {
    log: LogWriter,
    results: Results,
    warnings: Count,
    errors: Count,
}

/// Results of one severity.
#[derive(Clone, Copy, Default)]
struct Count {
    all: u64,
    kept: u64,
    /// Bytes of the kept ones.
    bytes: usize,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("subject", &self.subject).finish_non_exhaustive()
    }
}

/// The contents of a journal that is closed.
#[derive(Debug)]
pub struct ClosedJournal {
    /// The gzip-compressed log.
    pub log: Log,
    /// Warnings and errors per object.
    pub results: Results,
    /// The number of warnings.
    pub warnings: u64,
    /// The number of errors.
    pub errors: u64,
}

impl Journal {
    /// An empty log. `subject` is the field every line carries, such as `backup=velero/nightly`; `scratch` is the folder for
    /// what of it memory cannot hold.
    #[must_use]
    pub fn new(clock: Clock, subject: &str, scratch: &Path) -> Self {
        Self::within(LIMITS, clock, subject, scratch)
    }

    fn within(limits: Limits, clock: Clock, subject: &str, scratch: &Path) -> Self {
        let inner = JournalState {
            log: LogWriter::new(limits.log, scratch),
            results: Results::default(),
            warnings: Count::default(),
            errors: Count::default(),
        };
        Self {
            clock,
            subject: subject.into(),
            most_results: limits.results,
            trace: Trace::default(),
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// The spans that its warnings and errors are events of.
    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// A step that an operator recognises. `fields` are key and value pairs, written in the given order.
    pub fn info(&self, message: &str, fields: &[(&str, &str)]) {
        let details: String = fields.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        tracing::info!(target: LOG_TARGET, parent: self.trace.id(), subject = &*self.subject, "{message}{details}");
        self.line("info", message, fields);
    }

    /// A line of the log of the operation, of which there are many: the process's own log has it only when it tells all.
    pub fn detail(&self, message: &str, fields: &[(&str, &str)]) {
        tracing::debug!(target: LOG_TARGET, parent: self.trace.id(), subject = &*self.subject, ?fields, "{message}");
        self.line("info", message, fields);
    }

    /// A warning about an object or, without one, about the operation. Counted.
    pub fn warn(&self, place: &ResultScope, message: impl Into<String>) {
        self.result(Severity::Warning, place, None, message.into());
    }

    /// An error about an object or, without one, about the operation. Counted.
    pub fn error(&self, place: &ResultScope, message: impl Into<String>) {
        self.result(Severity::Error, place, None, message.into());
    }

    /// A warning or error about one object of a backup, in Velero's wording
    /// ` resource: /<GR> name: /<name> message: /<msg> error: /<err>`.
    pub fn item(&self, severity: Severity, key: &ObjectKey, message: &str, error: Option<&str>) {
        let mut text = format!(" resource: /{} name: /{} message: /{message}", key.resource, key.name);
        if let Some(error) = error {
            let _ = write!(text, " error: /{error}");
        }
        self.result(severity, &ResultScope::of(key.namespace.as_deref()), Some((key, message, error)), text);
    }

    /// A line that another program has logged, such as a plugin, with its own fields. A warning or error counts as one about the
    /// operation; without a severity it is a step like those of [`Self::info`].
    pub fn relay(&self, severity: Option<Severity>, message: &str, fields: &[(&str, &str)]) {
        let Some(severity) = severity else { return self.info(message, fields) };
        let level = self.emit(severity, message);
        self.line(level, &cut(message), fields);
        self.count(severity, &ResultScope::Velero, cut(message).into_owned());
    }

    fn result(
        &self,
        severity: Severity,
        place: &ResultScope,
        item: Option<(&ObjectKey, &str, Option<&str>)>,
        text: String,
    ) {
        let text = cut(&text).into_owned();
        let level = self.emit(severity, &text);
        match item {
            Some((key, message, error)) => {
                let resource = key.resource.to_string();
                let mut fields = vec![("name", key.name.as_str()), ("resource", resource.as_str())];
                if let Some(namespace) = &key.namespace {
                    fields.push(("namespace", namespace));
                }
                if let Some(error) = error {
                    fields.push(("error", error));
                }
                self.line(level, message, &fields);
            }
            None => {
                let namespace = match place {
                    ResultScope::Namespace(n) => Some(("namespace", n.as_str())),
                    _ => None,
                };
                self.line(level, &text, namespace.as_slice());
            }
        }
        self.count(severity, place, text);
    }

    /// Emits the tracing event of a result, and gives the name of its level.
    fn emit(&self, severity: Severity, text: &str) -> &'static str {
        match severity {
            Severity::Warning => {
                tracing::warn!(target: LOG_TARGET, parent: self.trace.id(), subject = &*self.subject, "{text}");
                "warning"
            }
            Severity::Error => {
                tracing::error!(target: LOG_TARGET, parent: self.trace.id(), subject = &*self.subject, "{text}");
                "error"
            }
        }
    }

    fn count(&self, severity: Severity, place: &ResultScope, text: String) {
        let mut inner = self.lock();
        let count = match severity {
            Severity::Warning => &mut inner.warnings,
            Severity::Error => &mut inner.errors,
        };
        count.all += 1;
        // One after the other: a short one does not slip in behind others that are left out.
        if count.kept + 1 == count.all && count.bytes + text.len() + RESULT <= self.most_results {
            count.kept += 1;
            count.bytes += text.len() + RESULT;
            inner.results.add(severity, place, text);
        }
    }

    /// Warnings and errors so far.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.warnings.all, inner.errors.all)
    }

    /// Everything up to now as whole files. What is logged later is in those of the next call, behind the same.
    #[must_use]
    pub fn close(&self) -> ClosedJournal {
        let mut inner = self.lock();
        if let Some(text) = inner.log.lacks() {
            inner.log.append(&self.format("warning", &text, &[]));
        }
        let log = inner.log.snapshot();
        let mut results = inner.results.clone();
        for (severity, count) in [(Severity::Warning, inner.warnings), (Severity::Error, inner.errors)] {
            if count.all > count.kept {
                results.add(
                    severity,
                    &ResultScope::Velero,
                    format!("and {} more, see the log", count.all - count.kept),
                );
            }
        }
        let (warnings, errors) = (inner.warnings.all, inner.errors.all);
        ClosedJournal { log, results, warnings, errors }
    }

    fn line(&self, level: &str, message: &str, fields: &[(&str, &str)]) {
        let line = self.format(level, message, fields);
        let room = if level == "info" { LineSpace::Most } else { LineSpace::All };
        self.lock().log.add(&line, room);
    }

    fn format(&self, level: &str, message: &str, fields: &[(&str, &str)]) -> String {
        let mut line = String::with_capacity(LINE);
        let _ = write!(line, "time=\"{:.0}\" level={level} msg=", (self.clock)());
        quote(&mut line, message);
        let _ = write!(line, " {}", self.subject);
        for (key, value) in fields {
            let _ = write!(line, " {key}=");
            quote(&mut line, value);
        }
        line.push('\n');
        line
    }

    fn lock(&self) -> MutexGuard<'_, JournalState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// RFC 3339 in UTC with whole seconds, as every time of Velero's files.
/// Adds a value to a line. logrus quotes those that hold anything beside letters, digits and `-._/@^+`.
fn quote(line: &mut String, value: &str) {
    let value = cut(value);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'/' | b'@' | b'^' | b'+');
    let stands_as_it_is = |b: u8| (b' '..=b'~').contains(&b) && !matches!(b, b'"' | b'\\');
    if !value.is_empty() && value.bytes().all(is_plain) {
        line.push_str(&value);
    } else if value.bytes().all(stands_as_it_is) {
        // Most values: there is a line for each object, and escaping looks at each character.
        line.push('"');
        line.push_str(&value);
        line.push('"');
    } else {
        let _ = write!(line, "{value:?}");
    }
}

/// A text of bearable length.
fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_MESSAGE {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_MESSAGE)]).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use lifeboat_object::GroupResource;

    #[test]
    fn one_call_writes_the_line_and_counts_the_result() {
        let journal =
            Journal::new(Arc::new(|| "2026-11-21T07:33:54.9Z".parse().unwrap()), "backup=velero/b", Path::new("."));
        journal.info("Summary for skipped PVs: []", &[("logSource", "x.go:1")]);
        let key = ObjectKey::new(GroupResource::new("apps", "deployments"), Some("shop"), "web");
        journal.item(Severity::Error, &key, "Error backing up item", Some("no\nluck"));
        journal.warn(&ResultScope::Velero, "w");
        assert_eq!(journal.counts(), (1, 1));
        let closed = journal.close();
        assert_eq!(
            closed.log.text(1 << 20),
            "time=\"2026-11-21T07:33:54Z\" level=info msg=\"Summary for skipped PVs: []\" backup=velero/b logSource=\"x.go:1\"\n\
             time=\"2026-11-21T07:33:54Z\" level=error msg=\"Error backing up item\" backup=velero/b name=web resource=deployments.apps namespace=shop error=\"no\\nluck\"\n\
             time=\"2026-11-21T07:33:54Z\" level=warning msg=w backup=velero/b\n"
        );
        let mut expected = Results::default();
        expected.add(
            Severity::Error,
            &ResultScope::of(Some("shop")),
            " resource: /deployments.apps name: /web message: /Error backing up item error: /no\nluck",
        );
        expected.add(Severity::Warning, &ResultScope::Velero, "w");
        assert_eq!((&closed.results, closed.warnings, closed.errors), (&expected, 1, 1));

        // An end that failed: the log goes on.
        journal.error(&ResultScope::Velero, "e");
        let again = journal.close();
        let last = "time=\"2026-11-21T07:33:54Z\" level=error msg=e backup=velero/b\n";
        assert_eq!(again.log.text(1 << 20), closed.log.text(1 << 20) + last);
        expected.add(Severity::Error, &ResultScope::Velero, "e");
        assert_eq!((again.results, again.warnings, again.errors), (expected, 1, 2));
    }

    #[test]
    fn a_line_of_another_program_has_its_fields_and_counts_by_its_level() {
        let journal = journal(LIMITS);
        let fields = [("cmd", "/plugins/p"), ("pluginName", "p")];
        for severity in [None, Some(Severity::Warning), Some(Severity::Error)] {
            journal.relay(severity, "it said so", &fields);
        }
        let closed = journal.close();
        let line = |level: &str| {
            format!(
                "time=\"1970-01-01T00:00:00Z\" level={level} msg=\"it said so\" backup=velero/b cmd=/plugins/p pluginName=p\n"
            )
        };
        assert_eq!(closed.log.text(1 << 20), ["info", "warning", "error"].map(line).concat());
        let mut expected = Results::default();
        expected.add(Severity::Warning, &ResultScope::Velero, "it said so");
        expected.add(Severity::Error, &ResultScope::Velero, "it said so");
        assert_eq!((closed.results, closed.warnings, closed.errors), (expected, 1, 1));
    }

    fn journal(limits: Limits) -> Journal {
        Journal::within(limits, Arc::new(|| Timestamp::UNIX_EPOCH), "backup=velero/b", &std::env::temp_dir())
    }

    #[test]
    fn many_long_results_take_no_more_than_their_share_and_are_all_counted() {
        let journal = journal(Limits { results: 1000, log: log::Limits { all: 1 << 20, ..LIMITS.log } });
        for n in 0..50 {
            journal.warn(&ResultScope::Velero, format!("w{n}: {}", "x".repeat(100)));
        }
        journal.warn(&ResultScope::Velero, "short");
        // Warnings take nothing from errors.
        journal.error(&ResultScope::Cluster, "e");
        let closed = journal.close();
        assert_eq!((closed.warnings, closed.errors), (51, 1));
        let mut expected = Results::default();
        for n in 0..5 {
            expected.add(Severity::Warning, &ResultScope::Velero, format!("w{n}: {}", "x".repeat(100)));
        }
        expected.add(Severity::Warning, &ResultScope::Velero, "and 46 more, see the log");
        expected.add(Severity::Error, &ResultScope::Cluster, "e");
        assert_eq!(closed.results, expected);
        let log = closed.log.text(1 << 20);
        assert_eq!(log.lines().count(), 52, "the log has them all");
    }

    #[test]
    fn a_log_that_is_too_long_says_how_many_lines_it_lacks() {
        let journal = journal(Limits { results: 1000, log: log::Limits { all: 1 << 20, ..LIMITS.log } });
        // What hardly compresses.
        let line = |n: u64| {
            (0..500).map(|i| format!("{:x}", (n * 500 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect::<String>()
        };
        for n in 0..1000 {
            journal.info(&line(n), &[]);
        }
        journal.error(&ResultScope::Velero, "in the end");
        let closed = journal.close();
        assert!((700 << 10..900 << 10).contains(&closed.log.length()), "{} bytes", closed.log.length());
        let log = closed.log.text(1 << 20);
        let lines: Vec<&str> = log.lines().collect();
        let left_out = 1000 - (lines.len() - 2);
        let prefix = "time=\"1970-01-01T00:00:00Z\" level";
        assert_eq!(
            lines[lines.len() - 2..],
            [
                format!("{prefix}=error msg=\"in the end\" backup=velero/b"),
                format!(
                    "{prefix}=warning msg=\"{left_out} more lines are left out: the log of one operation holds 1 MiB\" \
                     backup=velero/b"
                )
            ]
        );
        assert_eq!((closed.warnings, closed.errors), (0, 1), "no result is made of it");
    }

    #[test]
    fn a_line_is_of_bearable_length() {
        let journal = journal(LIMITS);
        let key = ObjectKey::new(GroupResource::new("", "pods"), None, "p");
        journal.item(Severity::Error, &key, "m", Some(&"é".repeat(1 << 20)));
        let closed = journal.close();
        let log = closed.log.text(1 << 20);
        assert!(log.len() < MAX_MESSAGE + 200, "{} bytes", log.len());
        assert_eq!(closed.results.errors.messages().map(str::len).sum::<usize>(), MAX_MESSAGE + '…'.len_utf8());
    }
}
