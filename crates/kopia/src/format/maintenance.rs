//! The schedule of maintenance, `kopia.maintenance`, and its parameters, a manifest (kopia: repo/maintenance).

use super::FormatError;
use super::json::{ArrayWriter, ObjectWriter, Reader};
use super::repository::RepositoryFormat;
use super::time::{HOUR, UnixNanos};
use crate::crypto::aead::{CipherAlgorithm, NONCE_LENGTH};
use std::collections::BTreeMap;

const SCHEDULE: &str = "schedule of maintenance";
const PARAMETERS: &str = "parameters of maintenance";
const ASSOCIATED: &[u8] = b"maintenance";
/// The zero time of Go, which stands for no time.
const NO_TIME: &str = "0001-01-01T00:00:00Z";
/// The most runs of a task that are kept.
const MAX_RUNS: usize = 50;

/// The times at which maintenance is due, and its last runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// The time at which full maintenance is due; `None` where it never ran.
    pub next_full: Option<UnixNanos>,
    /// The time at which quick maintenance is due.
    pub next_quick: Option<UnixNanos>,
    /// The last runs of each task, the newest first.
    pub runs: BTreeMap<String, Vec<MaintenanceRun>>,
}

/// A run of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MaintenanceRun {
    /// The beginning; `None` for no time.
    pub start: Option<UnixNanos>,
    /// The end.
    pub end: Option<UnixNanos>,
    /// True where it succeeded.
    pub success: bool,
    /// The error, empty for none.
    pub error: String,
    /// Figures for people, as the JSON that stands there.
    pub extra: Option<String>,
}

impl Schedule {
    /// Decrypts the blob.
    ///
    /// # Errors
    /// Bytes that do not authenticate; other bytes than a schedule.
    pub fn open(format: &RepositoryFormat, stored: &[u8]) -> Result<Self, FormatError> {
        let key = format.maintenance_key()?;
        let plain = CipherAlgorithm::Aes256GcmHmacSha256
            .open(key.as_bytes(), ASSOCIATED, stored)?
            .ok_or_else(|| FormatError::new(SCHEDULE, "the encrypted bytes do not authenticate"))?;
        Self::parse(&plain)
    }
    /// Encrypts the blob; the nonce must be random.
    ///
    /// # Errors
    /// None for the lengths that are used here.
    pub fn seal(&self, format: &RepositoryFormat, nonce: [u8; NONCE_LENGTH]) -> Result<Vec<u8>, FormatError> {
        let key = format.maintenance_key()?;
        CipherAlgorithm::Aes256GcmHmacSha256.seal(key.as_bytes(), ASSOCIATED, nonce, &self.write())
    }
    /// Puts a run before the others of its task and forgets the oldest.
    pub fn record(&mut self, task: &str, run: MaintenanceRun) {
        let runs = self.runs.entry(task.to_owned()).or_default();
        runs.insert(0, run);
        runs.truncate(MAX_RUNS);
    }
    /// Reads the plain document.
    ///
    /// # Errors
    /// Other bytes.
    pub fn parse(plain: &[u8]) -> Result<Self, FormatError> {
        let mut schedule = Self::default();
        let mut reader = Reader::new(SCHEDULE, plain);
        reader.object::<FormatError>(|reader, key| {
            match key {
                "nextfullmaintenance" => schedule.next_full = read_time(reader)?,
                "nextquickmaintenance" => schedule.next_quick = read_time(reader)?,
                "runs" => reader.map::<FormatError>(|reader, task| {
                    let mut runs = Vec::new();
                    reader.array::<FormatError>(|reader| {
                        runs.push(read_run(reader)?);
                        Ok(())
                    })?;
                    schedule.runs.insert(task, runs);
                    Ok(())
                })?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        reader.end()?;
        Ok(schedule)
    }
    /// Writes the plain document.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = ObjectWriter::begin(&mut out);
        write_time(&mut object, "nextFullMaintenance", self.next_full);
        write_time(&mut object, "nextQuickMaintenance", self.next_quick);
        if self.runs.is_empty() {
            object.plain("runs", "null");
        } else {
            let mut tasks = ObjectWriter::begin(object.key("runs"));
            for (task, runs) in &self.runs {
                let mut list = ArrayWriter::begin(tasks.key(task));
                for run in runs {
                    write_run(list.item(), run);
                }
                list.end();
            }
            tasks.end();
        }
        object.end();
        out
    }
}

fn read_time(reader: &mut Reader<&[u8]>) -> Result<Option<UnixNanos>, FormatError> {
    let text = reader.string()?;
    if text == NO_TIME {
        return Ok(None);
    }
    UnixNanos::parse_saturating(&text).map(Some)
}

fn write_time(object: &mut ObjectWriter<'_>, name: &str, time: Option<UnixNanos>) {
    match time {
        Some(time) => object.quoted(name, time),
        None => object.quoted(name, NO_TIME),
    }
}

fn read_run(reader: &mut Reader<&[u8]>) -> Result<MaintenanceRun, FormatError> {
    let mut run = MaintenanceRun::default();
    reader.object::<FormatError>(|reader, key| {
        match key {
            "start" => run.start = read_time(reader)?,
            "end" => run.end = read_time(reader)?,
            "success" => run.success = reader.boolean()?,
            "error" => run.error = reader.string()?,
            "extra" => run.extra = Some(reader.raw()?),
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(run)
}

fn write_run(out: &mut Vec<u8>, run: &MaintenanceRun) {
    let mut object = ObjectWriter::begin(out);
    write_time(&mut object, "start", run.start);
    write_time(&mut object, "end", run.end);
    if run.success {
        object.plain("success", true);
    }
    object.string_unless_empty("error", &run.error);
    if let Some(extra) = &run.extra {
        object.plain("extra", extra);
    }
    object.end();
}

/// The parameters of maintenance, the document of the manifest of type `maintenance`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceParameters {
    /// The `user@host` who alone maintains the repository; empty for nobody.
    pub owner: String,
    /// Quick maintenance.
    pub quick: Cycle,
    /// Full maintenance.
    pub full: Cycle,
    /// The logs that are kept.
    pub log_retention: LogRetention,
    /// True where full maintenance renews object locks.
    pub extend_object_locks: bool,
    /// The number of listings at once; 0 for the default.
    pub list_parallelism: i64,
}

/// A kind of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cycle {
    /// True where it runs.
    pub enabled: bool,
    /// The time from one run to the next, in nanoseconds.
    pub interval: i64,
}

/// The logs that are kept. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogRetention {
    /// The most bytes.
    pub max_total_size: i64,
    /// The most blobs.
    pub max_count: i64,
    /// The longest age in nanoseconds.
    pub max_age: i64,
}

/// The parameters of a repository without such a manifest: nobody owns its maintenance.
impl Default for MaintenanceParameters {
    fn default() -> Self {
        Self {
            owner: String::new(),
            quick: Cycle { enabled: true, interval: HOUR },
            full: Cycle { enabled: true, interval: 24 * HOUR },
            log_retention: LogRetention { max_total_size: 1 << 30, max_count: 10_000, max_age: 30 * 24 * HOUR },
            extend_object_locks: false,
            list_parallelism: 0,
        }
    }
}

impl MaintenanceParameters {
    /// Reads the document of the manifest.
    ///
    /// # Errors
    /// Another document.
    pub fn parse(data: &str) -> Result<Self, FormatError> {
        let mut parameters = Self {
            quick: Cycle::default(),
            full: Cycle::default(),
            log_retention: LogRetention::default(),
            ..Self::default()
        };
        let mut reader = Reader::new(PARAMETERS, data.as_bytes());
        reader.object::<FormatError>(|reader, key| {
            match key {
                "owner" => parameters.owner = reader.string()?,
                "quick" => parameters.quick = read_cycle(reader)?,
                "full" => parameters.full = read_cycle(reader)?,
                "logretention" => parameters.log_retention = read_log_retention(reader)?,
                "extendobjectlocks" => parameters.extend_object_locks = reader.boolean()?,
                "listparallelism" => parameters.list_parallelism = reader.integer()?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        reader.end()?;
        Ok(parameters)
    }
    /// Writes the document of the manifest.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = ObjectWriter::begin(&mut out);
        object.string("owner", &self.owner);
        for (name, cycle) in [("quick", self.quick), ("full", self.full)] {
            let mut part = ObjectWriter::begin(object.key(name));
            part.plain("enabled", cycle.enabled);
            part.plain("interval", cycle.interval);
            part.end();
        }
        let mut logs = ObjectWriter::begin(object.key("logRetention"));
        logs.plain("maxTotalSize", self.log_retention.max_total_size);
        logs.plain("maxCount", self.log_retention.max_count);
        logs.plain("maxAge", self.log_retention.max_age);
        logs.end();
        object.plain("extendObjectLocks", self.extend_object_locks);
        object.plain("listParallelism", self.list_parallelism);
        object.end();
        out
    }
}

fn read_cycle(reader: &mut Reader<&[u8]>) -> Result<Cycle, FormatError> {
    let mut cycle = Cycle::default();
    reader.object::<FormatError>(|reader, key| {
        match key {
            "enabled" => cycle.enabled = reader.boolean()?,
            "interval" => cycle.interval = reader.integer()?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(cycle)
}

fn read_log_retention(reader: &mut Reader<&[u8]>) -> Result<LogRetention, FormatError> {
    let mut logs = LogRetention::default();
    reader.object::<FormatError>(|reader, key| {
        match key {
            "maxtotalsize" => logs.max_total_size = reader.integer()?,
            "maxcount" => logs.max_count = reader.integer()?,
            "maxage" => logs.max_age = reader.integer()?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_schedule_has_no_times_and_no_runs() {
        let empty = r#"{"nextFullMaintenance":"0001-01-01T00:00:00Z","nextQuickMaintenance":"0001-01-01T00:00:00Z","runs":null}"#;
        assert_eq!(String::from_utf8(Schedule::default().write()).as_deref(), Ok(empty));
        assert_eq!(Schedule::parse(empty.as_bytes()), Ok(Schedule::default()));
    }

    #[test]
    fn runs_are_kept_with_their_figures_and_the_case_of_their_tasks() {
        let text = r#"{"nextFullMaintenance":"2024-01-03T00:00:00Z","nextQuickMaintenance":"2024-01-02T04:00:00Z","runs":{"Task":[{"start":"2024-01-02T03:04:05Z","end":"2024-01-02T03:04:06Z","success":true,"extra":[{"kind":"x","data":null}]},{"start":"2024-01-01T03:04:05Z","end":"0001-01-01T00:00:00Z","error":"no"}]}}"#;
        let schedule = Schedule::parse(text.as_bytes()).expect("a schedule");
        assert_eq!(schedule.runs["Task"][1].error, "no");
        assert_eq!(String::from_utf8(schedule.write()).as_deref(), Ok(text));
    }

    #[test]
    fn fifty_runs_of_a_task_are_kept_the_newest_first() {
        let mut schedule = Schedule::default();
        for number in 0..60 {
            schedule.record("t", MaintenanceRun { start: Some(UnixNanos(number)), ..MaintenanceRun::default() });
        }
        let starts: Vec<_> = schedule.runs["t"].iter().filter_map(|run| run.start).collect();
        assert_eq!(starts, (10..60).rev().map(UnixNanos).collect::<Vec<_>>());
    }

    #[test]
    fn the_default_parameters_are_those_of_kopia_but_for_the_owner() {
        let text = r#"{"owner":"default@default","quick":{"enabled":true,"interval":3600000000000},"full":{"enabled":true,"interval":86400000000000},"logRetention":{"maxTotalSize":1073741824,"maxCount":10000,"maxAge":2592000000000000},"extendObjectLocks":false,"listParallelism":0}"#;
        let owned = MaintenanceParameters { owner: "default@default".to_owned(), ..MaintenanceParameters::default() };
        assert_eq!(MaintenanceParameters::parse(text), Ok(owned.clone()));
        assert_eq!(String::from_utf8(owned.write()).as_deref(), Ok(text));
    }

    #[test]
    fn other_documents_are_refused() {
        for text in ["", "[]", r#"{"runs":[]}"#, r#"{"runs":{"t":{}}}"#, r#"{"nextFullMaintenance":7}"#] {
            assert!(Schedule::parse(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["", r#"{"quick":{"interval":1.5}}"#, r#"{"owner":1}"#, r#"{"listParallelism":"1"}"#] {
            assert!(MaintenanceParameters::parse(text).is_err(), "{text}");
        }
    }
}
