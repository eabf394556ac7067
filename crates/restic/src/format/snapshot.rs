//! Files of `snapshots/`.

use super::FormatError;
use crate::Id;
use jiff::Timestamp;
use serde::Deserialize;

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SnapshotDocument {
    /// The time at which it was taken.
    pub time: Timestamp,
    /// Its root directory.
    pub tree: Id,
    /// The paths that were saved. Their entries lie in the root directory; those of Velero are the entries of the volume.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub paths: Vec<String>,
    /// The host; `velero` in the repositories of Velero.
    #[serde(default)]
    pub hostname: String,
    /// The user.
    #[serde(default)]
    pub username: String,
    /// Tags; those of Velero have the form `KEY=VALUE`.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub tags: Vec<String>,
    /// Numbers that restic has kept since 0.17.
    #[serde(default)]
    pub summary: Option<SnapshotSummary>,
}

/// Numbers of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SnapshotSummary {
    /// The end of the backup.
    #[serde(default)]
    pub backup_end: Option<Timestamp>,
    /// The files in the snapshot.
    #[serde(default)]
    pub total_files_processed: u64,
    /// Their bytes.
    #[serde(default)]
    pub total_bytes_processed: u64,
}

fn null_as_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl SnapshotDocument {
    /// Reads the plain file.
    ///
    /// # Errors
    /// Other JSON.
    pub fn parse(plain: &[u8]) -> Result<Self, FormatError> {
        Ok(serde_json::from_slice(plain)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_of_any_version_is_read() {
        let tree = "ab".repeat(32);
        let old = format!(
            r#"{{"time":"2022-08-25T19:55:00.123456789+02:00","tree":"{tree}","paths":["/host_pods/1/volumes/x"],
                "hostname":"velero","username":"root","tags":["ns=shop","pod=web-0"]}}"#
        );
        let expected = SnapshotDocument {
            time: "2022-08-25T17:55:00.123456789Z".parse().unwrap(),
            tree: tree.parse().unwrap(),
            paths: vec!["/host_pods/1/volumes/x".to_owned()],
            hostname: "velero".to_owned(),
            username: "root".to_owned(),
            tags: vec!["ns=shop".to_owned(), "pod=web-0".to_owned()],
            summary: None,
        };
        assert_eq!(SnapshotDocument::parse(old.as_bytes()), Ok(expected));
        let new = format!(
            r#"{{"time":"2026-07-05T07:52:50Z","tree":"{tree}","paths":null,"program_version":"restic 0.19.1",
                "summary":{{"backup_start":"2026-07-05T07:52:50Z","backup_end":"2026-07-05T07:52:51Z",
                "total_files_processed":3,"total_bytes_processed":70}}}}"#
        );
        let new = SnapshotDocument::parse(new.as_bytes()).unwrap();
        let end = Some("2026-07-05T07:52:51Z".parse().unwrap());
        assert_eq!(
            new.summary,
            Some(SnapshotSummary { backup_end: end, total_files_processed: 3, total_bytes_processed: 70 })
        );
        assert!(new.paths.is_empty() && new.tags.is_empty());
        assert!(SnapshotDocument::parse(b"{}").is_err());
    }
}
