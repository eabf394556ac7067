//! The log of one operation: one call adds the typed result, the line of the uploaded log and the tracing event.

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use lifeboat_object::{ObjectKey, Place, Results, Severity};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tells the time of log lines; the engines hand in the clock of their `Env`.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Longest message that is kept whole, in bytes; an API server may answer with megabytes.
const MAX_MESSAGE: usize = 8 << 10;
/// Results kept in full; beyond it they are counted and the log has them.
const MAX_RESULTS: usize = 100_000;

/// The log of one operation. Clones write to the same log.
///
/// Lines have logrus' text shape, as Velero's logs have: `time="…" level=info msg="…" key=value`.
/// Warnings and errors are counted from results, never from log levels.
#[derive(Clone)]
pub struct Journal {
    clock: Clock,
    subject: Arc<str>,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    /// What was packed before, member after member.
    packed: Vec<u8>,
    log: GzEncoder<Vec<u8>>,
    results: Results,
    warnings: u64,
    errors: u64,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("subject", &self.subject).finish_non_exhaustive()
    }
}

/// What an operation's journal came to.
#[derive(Debug)]
pub struct Closed {
    /// The gzip-compressed log.
    pub log: Vec<u8>,
    /// What went wrong.
    pub results: Results,
    /// How many warnings there were.
    pub warnings: u64,
    /// How many errors there were.
    pub errors: u64,
}

impl Journal {
    /// An empty log. `subject` is the field every line carries, such as `backup=velero/nightly`.
    #[must_use]
    pub fn new(clock: Clock, subject: &str) -> Self {
        let inner = Inner {
            packed: Vec::new(),
            log: GzEncoder::new(Vec::new(), Compression::new(3)),
            results: Results::default(),
            warnings: 0,
            errors: 0,
        };
        Self { clock, subject: subject.into(), inner: Arc::new(Mutex::new(inner)) }
    }

    /// A step that an operator recognises. `fields` are key and value pairs, written in the given order.
    pub fn info(&self, message: &str, fields: &[(&str, &str)]) {
        let details: String = fields.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        tracing::info!(subject = &*self.subject, "{message}{details}");
        self.line("info", message, fields);
    }

    /// A warning about an object or, without one, about the operation. Counted.
    pub fn warn(&self, place: &Place, message: impl Into<String>) {
        self.result(Severity::Warning, place, None, message.into());
    }

    /// An error about an object or, without one, about the operation. Counted.
    pub fn error(&self, place: &Place, message: impl Into<String>) {
        self.result(Severity::Error, place, None, message.into());
    }

    /// A warning or error about one object of a backup, in Velero's wording
    /// ` resource: /<GR> name: /<name> message: /<msg> error: /<err>` (backup.md 4.7).
    pub fn item(&self, severity: Severity, key: &ObjectKey, message: &str, error: Option<&str>) {
        let mut text = format!(" resource: /{} name: /{} message: /{message}", key.resource, key.name);
        if let Some(error) = error {
            let _ = write!(text, " error: /{error}");
        }
        self.result(severity, &Place::of(key.namespace.as_deref()), Some((key, message, error)), text);
    }

    fn result(&self, severity: Severity, place: &Place, item: Option<(&ObjectKey, &str, Option<&str>)>, text: String) {
        let text = shorten(text);
        let level = match severity {
            Severity::Warning => {
                tracing::warn!(subject = &*self.subject, "{text}");
                "warning"
            }
            Severity::Error => {
                tracing::error!(subject = &*self.subject, "{text}");
                "error"
            }
        };
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
                    Place::Namespace(n) => Some(("namespace", n.as_str())),
                    _ => None,
                };
                self.line(level, &text, namespace.as_slice());
            }
        }
        let mut inner = self.lock();
        let count = match severity {
            Severity::Warning => &mut inner.warnings,
            Severity::Error => &mut inner.errors,
        };
        *count += 1;
        if usize::try_from(*count).unwrap_or(usize::MAX) <= MAX_RESULTS {
            inner.results.add(severity, place, text);
        }
    }

    /// Warnings and errors so far.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.warnings, inner.errors)
    }

    /// Everything up to now as whole files. What is logged later is in those of the next call, behind the same.
    #[must_use]
    pub fn close(&self) -> Closed {
        let mut inner = self.lock();
        let log = std::mem::replace(&mut inner.log, GzEncoder::new(Vec::new(), Compression::new(3)));
        // Compressing into a Vec cannot fail.
        inner.packed.extend(log.finish().unwrap_or_default());
        let mut results = inner.results.clone();
        let (warnings, errors) = (inner.warnings, inner.errors);
        for (severity, count) in [(Severity::Warning, warnings), (Severity::Error, errors)] {
            let kept = match severity {
                Severity::Warning => results.warnings.len(),
                Severity::Error => results.errors.len(),
            } as u64;
            if count > kept {
                results.add(severity, &Place::Velero, format!("and {} more, see the log", count - kept));
            }
        }
        Closed { log: inner.packed.clone(), results, warnings, errors }
    }

    fn line(&self, level: &str, message: &str, fields: &[(&str, &str)]) {
        let time = seconds((self.clock)());
        let mut line = format!("time={} level={level} msg={} {}", quote(&time), quote(message), self.subject);
        for (key, value) in fields {
            let _ = write!(line, " {key}={}", quote(value));
        }
        line.push('\n');
        // Compressing into a Vec cannot fail.
        let _ = self.lock().log.write_all(line.as_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// RFC 3339 in UTC with whole seconds, as every time of Velero's files.
#[must_use]
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// logrus quotes values that hold anything beside letters, digits and `-._/@^+`.
fn quote(value: &str) -> String {
    let plain = !value.is_empty()
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'/' | b'@' | b'^' | b'+'));
    if plain { value.to_owned() } else { format!("{value:?}") }
}

fn shorten(mut text: String) -> String {
    if text.len() > MAX_MESSAGE {
        let mut at = MAX_MESSAGE;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gzip::unpack;
    use lifeboat_object::GroupResource;

    #[test]
    fn one_call_writes_the_line_and_counts_the_result() {
        let journal = Journal::new(Arc::new(|| "2026-11-21T07:33:54.9Z".parse().unwrap()), "backup=velero/b");
        journal.info("Summary for skipped PVs: []", &[("logSource", "x.go:1")]);
        let key = ObjectKey::new(GroupResource::new("apps", "deployments"), Some("shop"), "web");
        journal.item(Severity::Error, &key, "Error backing up item", Some("no\nluck"));
        journal.warn(&Place::Velero, "w");
        assert_eq!(journal.counts(), (1, 1));
        let closed = journal.close();
        assert_eq!(
            String::from_utf8(unpack(&closed.log, 4096).unwrap()).unwrap(),
            "time=\"2026-11-21T07:33:54Z\" level=info msg=\"Summary for skipped PVs: []\" backup=velero/b logSource=\"x.go:1\"\n\
             time=\"2026-11-21T07:33:54Z\" level=error msg=\"Error backing up item\" backup=velero/b name=web resource=deployments.apps namespace=shop error=\"no\\nluck\"\n\
             time=\"2026-11-21T07:33:54Z\" level=warning msg=w backup=velero/b\n"
        );
        let mut expected = Results::default();
        expected.add(
            Severity::Error,
            &Place::of(Some("shop")),
            " resource: /deployments.apps name: /web message: /Error backing up item error: /no\nluck",
        );
        expected.add(Severity::Warning, &Place::Velero, "w");
        assert_eq!((&closed.results, closed.warnings, closed.errors), (&expected, 1, 1));

        // An end that failed: the log goes on.
        journal.error(&Place::Velero, "e");
        let again = journal.close();
        let last = "time=\"2026-11-21T07:33:54Z\" level=error msg=e backup=velero/b\n";
        assert_eq!(unpack(&again.log, 4096).unwrap(), [unpack(&closed.log, 4096).unwrap(), last.into()].concat());
        expected.add(Severity::Error, &Place::Velero, "e");
        assert_eq!((again.results, again.warnings, again.errors), (expected, 1, 2));
    }
}
