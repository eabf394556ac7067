//! Passes the log lines of a plugin process to the operations that use it.

use crate::stderr::{Level, StderrLine};
use lifeboat_object::Severity;
use lifeboat_operation::Journal;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The listeners to the log lines of one program's processes: the operations that use them.
///
/// A line goes into the journals of the operations that have a call in the process at that moment, or else of all that
/// use it; each journal makes an event of it. A line without a listener, or one for developers, becomes an event alone.
#[derive(Debug)]
pub(crate) struct Audience {
    /// The path of the program, and its last part, as each line names it.
    command: String,
    name: String,
    listeners: Mutex<Listeners>,
}

#[derive(Debug, Default)]
struct Listeners {
    next: u64,
    all: BTreeMap<u64, Listener>,
}

#[derive(Debug)]
struct Listener {
    journal: Journal,
    /// The number of its calls in the process.
    calls: usize,
}

/// The place of one operation in an audience, until it is dropped.
#[derive(Debug)]
pub(crate) struct AudienceSeat {
    audience: Arc<Audience>,
    number: u64,
}

/// A call that is in the process, until it is dropped.
#[derive(Debug)]
pub(crate) struct Calling {
    seat: Arc<AudienceSeat>,
}

impl Audience {
    /// Nobody hears this program yet.
    pub(crate) fn of(program: &Path) -> Self {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { command: program.display().to_string(), name, listeners: Mutex::default() }
    }

    /// The path of the program.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// A place for an operation.
    pub(crate) fn seat(self: &Arc<Self>, journal: &Journal) -> AudienceSeat {
        let mut listeners = self.lock();
        let number = listeners.next;
        listeners.next += 1;
        listeners.all.insert(number, Listener { journal: journal.clone(), calls: 0 });
        AudienceSeat { audience: Arc::clone(self), number }
    }

    /// Lets a line be heard.
    pub(crate) fn hear(&self, line: StderrLine) {
        if line.level == Level::Debug {
            return self.emit(&line);
        }
        let journals = self.listening();
        if journals.is_empty() {
            return self.emit(&line);
        }
        self.write(line, &journals);
    }

    fn write(&self, line: StderrLine, journals: &[Journal]) {
        let line = line.with("cmd", &*self.command).with("pluginName", &*self.name);
        let fields: Vec<(&str, &str)> = line.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let severity = match line.level {
            Level::Error => Some(Severity::Error),
            Level::Warn => Some(Severity::Warning),
            Level::Info | Level::Debug => None,
        };
        for journal in journals {
            journal.relay(severity, &line.message, &fields);
        }
    }

    /// Text that was printed past all logs, for developers alone.
    pub(crate) fn overhear(&self, stream: &str, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        tracing::debug!(cmd = self.command, stream, "{text}");
    }

    fn listening(&self) -> Vec<Journal> {
        let listeners = self.lock();
        let calling = listeners.all.values().any(|listener| listener.calls > 0);
        let heard = listeners.all.values().filter(|listener| !calling || listener.calls > 0);
        heard.map(|listener| listener.journal.clone()).collect()
    }

    fn emit(&self, line: &StderrLine) {
        let (cmd, message) = (&self.command, &line.message);
        let fields: String = line.fields.iter().map(|(name, value)| format!(" {name}={value:?}")).collect();
        match line.level {
            Level::Debug => tracing::debug!(cmd, "{message}{fields}"),
            Level::Info => tracing::info!(cmd, "{message}{fields}"),
            Level::Warn => tracing::warn!(cmd, "{message}{fields}"),
            Level::Error => tracing::error!(cmd, "{message}{fields}"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AudienceSeat {
    /// Notes that a call of this operation goes into the process.
    pub(crate) fn calling(self: &Arc<Self>) -> Calling {
        self.count(|calls| calls + 1);
        Calling { seat: Arc::clone(self) }
    }

    /// Writes a line into the journal of this operation alone.
    pub(crate) fn tell(&self, line: StderrLine) {
        let journal = self.audience.lock().all.get(&self.number).map(|listener| listener.journal.clone());
        self.audience.write(line, journal.as_slice());
    }

    fn count(&self, change: impl FnOnce(usize) -> usize) {
        if let Some(listener) = self.audience.lock().all.get_mut(&self.number) {
            listener.calls = change(listener.calls);
        }
    }
}

impl Drop for AudienceSeat {
    fn drop(&mut self) {
        self.audience.lock().all.remove(&self.number);
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.seat.count(|calls| calls.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn journal(name: &str) -> Journal {
        Journal::new(Arc::new(|| Timestamp::UNIX_EPOCH), &format!("backup=velero/{name}"), &std::env::temp_dir())
    }

    fn log(journal: &Journal) -> String {
        let log = journal.close().log;
        let packed = log.read_at(0, usize::try_from(log.length()).unwrap()).unwrap();
        let text = String::from_utf8(lifeboat_archive::gzip::unpack(&packed, 1 << 20).unwrap()).unwrap();
        text.replace("time=\"1970-01-01T00:00:00Z\" ", "")
    }

    #[test]
    fn lines_go_to_those_with_a_call_in_the_process_or_else_to_all() {
        let audience = Arc::new(Audience::of(Path::new("/plugins/p")));
        let (a, b) = (journal("a"), journal("b"));
        let seats = [&a, &b].map(|journal| Arc::new(audience.seat(journal)));
        let hear = |text: &str| audience.hear(StderrLine::new(Level::Info, text));
        hear("to-both");
        let calling = seats[1].calling();
        hear("to-b");
        let second = seats[1].calling();
        drop(calling);
        hear("to-b-still");
        drop(second);
        drop(seats);
        hear("to-nobody");
        let line = |level: &str, text: &str, name: &str| {
            format!("level={level} msg={text} backup=velero/{name} cmd=/plugins/p pluginName=p\n")
        };
        assert_eq!(log(&a), line("info", "to-both", "a"));
        assert_eq!(log(&b), ["to-both", "to-b", "to-b-still"].map(|text| line("info", text, "b")).concat());
    }

    #[test]
    fn a_line_counts_by_its_level_and_has_its_fields_by_name() {
        let audience = Arc::new(Audience::of(Path::new("/plugins/p")));
        let journal = journal("a");
        let _seat = audience.seat(&journal);
        audience.hear(StderrLine::new(Level::Debug, "unheard"));
        audience.hear(StderrLine::new(Level::Warn, "odd").with("logSource", "a.go:7").with("a", "b c"));
        audience.hear(StderrLine::new(Level::Error, "bad").with("pluginName", "another"));
        assert_eq!(
            log(&journal),
            "level=warning msg=odd backup=velero/a a=\"b c\" cmd=/plugins/p logSource=\"a.go:7\" pluginName=p\n\
             level=error msg=bad backup=velero/a cmd=/plugins/p pluginName=p\n"
        );
        assert_eq!(journal.counts(), (1, 1));
    }
}
