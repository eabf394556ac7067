//! Snapshot manifests (kopia: snapshot/manifest.go, snapshot/stats.go).

use super::FormatError;
use super::directory::{self, DirectoryEntry, Summary};
use super::json::{ArrayWriter, ObjectWriter, Reader};
use super::manifest::{read_map, write_map};
use super::time::UnixNanos;
use std::collections::BTreeMap;

const STRUCTURE: &str = "snapshot";

/// The source of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Source {
    /// The host.
    pub host: String,
    /// The user.
    pub user: String,
    /// The path; Velero's are made up, such as `snapshot-data-upload-download/kopia/ns/claim`.
    pub path: String,
}

/// The counters of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the format's own names")]
pub struct Stats {
    pub total_size: i64,
    pub excluded_total_size: i64,
    pub file_count: i32,
    pub cached_files: i32,
    pub non_cached_files: i32,
    pub dir_count: i32,
    pub excluded_file_count: i32,
    pub excluded_dir_count: i32,
    pub ignored_error_count: i32,
    pub error_count: i32,
}

/// The document of a snapshot manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotDocument {
    /// The source.
    pub source: Source,
    /// The description.
    pub description: String,
    /// The beginning.
    pub start: UnixNanos,
    /// The end.
    pub end: UnixNanos,
    /// The counters.
    pub stats: Stats,
    /// The reason for which it is not complete: `canceled`, `checkpoint` or `limit reached`.
    pub incomplete: Option<String>,
    /// The root; `None` in a manifest that is damaged or of a failed snapshot.
    pub root: Option<DirectoryEntry>,
    /// The tags.
    pub tags: BTreeMap<String, String>,
    /// The pins, which keep it from retention.
    pub pins: Vec<String>,
}

impl SnapshotDocument {
    /// Reads the document of a manifest with the strictness of kopia's own types: what kopia cannot read is an error here,
    /// so that nobody takes a snapshot for absent that is there.
    ///
    /// # Errors
    /// No snapshot; numbers with a fraction or out of range.
    pub fn parse(data: &str) -> Result<Self, FormatError> {
        let mut document = Self {
            source: Source::default(),
            description: String::new(),
            start: UnixNanos::default(),
            end: UnixNanos::default(),
            stats: Stats::default(),
            incomplete: None,
            root: None,
            tags: BTreeMap::new(),
            pins: Vec::new(),
        };
        let mut reader = Reader::new(STRUCTURE, data.as_bytes());
        reader.object::<FormatError>(|reader, key| {
            match key {
                "source" => document.source = read_source(reader)?,
                "description" => document.description = reader.string()?,
                "starttime" => document.start = UnixNanos::parse(&reader.string()?)?,
                "endtime" => document.end = UnixNanos::parse(&reader.string()?)?,
                "stats" => document.stats = read_stats(reader)?,
                "incomplete" => {
                    document.incomplete = Some(reader.string()?).filter(|why| !why.is_empty());
                }
                "rootentry" => document.root = Some(directory::read_entry(reader)?),
                "tags" => document.tags = read_map(reader)?,
                "pins" => reader.array(|reader| {
                    document.pins.push(reader.string()?);
                    Ok::<_, FormatError>(())
                })?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        reader.end()?;
        Ok(document)
    }

    /// The number of entries that could not be read when the snapshot was taken, those that a policy passed over among them.
    pub fn unread_entries(&self) -> u64 {
        let summary = self.root.as_ref().and_then(|root| root.summary.as_ref());
        let below = summary.map_or(0, Summary::unread_entries);
        let errors = i64::from(self.stats.error_count).saturating_add(i64::from(self.stats.ignored_error_count));
        below.max(u64::try_from(errors).unwrap_or(0))
    }

    /// Writes the document as kopia writes it.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = ObjectWriter::begin(&mut out);
        // The ID of the manifest is the snapshot's; kopia leaves this one empty.
        object.string("id", "");
        let mut source = ObjectWriter::begin(object.key("source"));
        source.string("host", &self.source.host);
        source.string("userName", &self.source.user);
        source.string("path", &self.source.path);
        source.end();
        object.string("description", &self.description);
        object.quoted("startTime", self.start);
        object.quoted("endTime", self.end);
        write_stats(object.key("stats"), &self.stats);
        object.string_unless_empty("incomplete", self.incomplete.as_deref().unwrap_or_default());
        match &self.root {
            Some(root) => directory::write_entry(object.key("rootEntry"), root),
            None => object.plain("rootEntry", "null"),
        }
        if !self.tags.is_empty() {
            write_map(object.key("tags"), &self.tags);
        }
        if !self.pins.is_empty() {
            let mut pins = ArrayWriter::begin(object.key("pins"));
            for pin in &self.pins {
                super::json::write_string(pins.item(), pin.as_bytes());
            }
            pins.end();
        }
        object.end();
        out
    }
}

fn read_source(reader: &mut Reader<&[u8]>) -> Result<Source, FormatError> {
    let mut source = Source::default();
    reader.object::<FormatError>(|reader, key| {
        match key {
            "host" => source.host = reader.string()?,
            "username" => source.user = reader.string()?,
            "path" => source.path = reader.string()?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(source)
}

fn read_stats(reader: &mut Reader<&[u8]>) -> Result<Stats, FormatError> {
    let mut stats = Stats::default();
    reader.object::<FormatError>(|reader, key| {
        match key {
            "totalsize" => stats.total_size = reader.integer()?,
            "excludedtotalsize" => stats.excluded_total_size = reader.integer()?,
            "filecount" => stats.file_count = reader.integer()?,
            "cachedfiles" => stats.cached_files = reader.integer()?,
            "noncachedfiles" => stats.non_cached_files = reader.integer()?,
            "dircount" => stats.dir_count = reader.integer()?,
            "excludedfilecount" => stats.excluded_file_count = reader.integer()?,
            "excludeddircount" => stats.excluded_dir_count = reader.integer()?,
            "ignorederrorcount" => stats.ignored_error_count = reader.integer()?,
            "errorcount" => stats.error_count = reader.integer()?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(stats)
}

fn write_stats(out: &mut Vec<u8>, stats: &Stats) {
    let mut object = ObjectWriter::begin(out);
    object.plain("totalSize", stats.total_size);
    object.plain("excludedTotalSize", stats.excluded_total_size);
    object.plain("fileCount", stats.file_count);
    object.plain("cachedFiles", stats.cached_files);
    object.plain("nonCachedFiles", stats.non_cached_files);
    object.plain("dirCount", stats.dir_count);
    object.plain("excludedFileCount", stats.excluded_file_count);
    object.plain("excludedDirCount", stats.excluded_dir_count);
    object.plain("ignoredErrorCount", stats.ignored_error_count);
    object.plain("errorCount", stats.error_count);
    object.end();
}

#[cfg(test)]
mod tests {
    use super::SnapshotDocument;

    const FULL: &str = r#"{"id":"","source":{"host":"h","userName":"u","path":"/p"},"description":"\u003ctext\u003e","startTime":"2026-11-27T13:28:13.727379676Z","endTime":"1970-01-01T00:00:00Z","stats":{"totalSize":9223372036854775807,"excludedTotalSize":-1,"fileCount":2147483647,"cachedFiles":1,"nonCachedFiles":2,"dirCount":3,"excludedFileCount":4,"excludedDirCount":5,"ignoredErrorCount":6,"errorCount":-2147483648},"incomplete":"checkpoint","rootEntry":{"name":"p","type":"d","mode":"0755","obj":"k00"},"tags":{"A":"1","b":"2"},"pins":["x","y"]}"#;

    #[test]
    fn everything_that_a_snapshot_can_have_is_read_and_written_again() {
        let document = SnapshotDocument::parse(FULL).expect("a snapshot");
        assert_eq!(String::from_utf8(document.write()).as_deref(), Ok(FULL));
        assert_eq!(document.incomplete.as_deref(), Some("checkpoint"));
    }

    #[test]
    fn numbers_that_kopia_cannot_hold_make_the_snapshot_unreadable() {
        for (from, to) in [
            ("\"fileCount\":2147483647", "\"fileCount\":2147483648"),
            ("\"fileCount\":2147483647", "\"fileCount\":1.5"),
            ("\"fileCount\":2147483647", "\"fileCount\":\"7\""),
            ("\"totalSize\":9223372036854775807", "\"totalSize\":9223372036854775808"),
            ("\"errorCount\":-2147483648", "\"errorCount\":-2147483649"),
            ("\"startTime\":\"2026-11-27T13:28:13.727379676Z\"", "\"startTime\":5"),
            ("\"pins\":[\"x\",\"y\"]", "\"pins\":\"x\""),
            ("\"tags\":{\"A\":\"1\",\"b\":\"2\"}", "\"tags\":[]"),
        ] {
            assert!(FULL.contains(from), "{from}");
            assert!(SnapshotDocument::parse(&FULL.replace(from, to)).is_err(), "{to}");
        }
        for text in ["", "null", "[]", "{} {}"] {
            assert!(SnapshotDocument::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn entries_that_could_not_be_read_are_counted_by_whoever_counts_them() {
        let unread = |stats: &str, summary: &str| {
            let root = format!(r#"{{"name":"p","type":"d","obj":"k00","summ":{summary}}}"#);
            let text = format!(r#"{{"stats":{stats},"rootEntry":{root}}}"#);
            SnapshotDocument::parse(&text).expect("a snapshot").unread_entries()
        };
        assert_eq!(unread("{}", "{}"), 0);
        assert_eq!(unread("{}", r#"{"numFailed":2,"numIgnoredErrors":1}"#), 3);
        assert_eq!(unread(r#"{"errorCount":1,"ignoredErrorCount":4}"#, r#"{"numFailed":2}"#), 5);
        assert_eq!(unread(r#"{"errorCount":-1}"#, "{}"), 0);
    }

    #[test]
    fn a_snapshot_without_root_is_read_as_one() {
        let document = SnapshotDocument::parse("{}").expect("a snapshot");
        assert_eq!((document.root, document.incomplete), (None, None));
    }
}
