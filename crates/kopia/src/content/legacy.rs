//! The indexes that count in a repository without epochs (kopia: repo/content/indexblob): `n` blobs without the inputs of
//! finished compactions. A pure decision over a listing and the logs of compactions.

use crate::blobs::BlobInfo;
use crate::format::FormatError;
use crate::format::blob_name::{self, BlobKind};
use std::collections::HashSet;

/// The log of a compaction, a blob `m…`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionLog {
    /// The index blobs that were merged.
    #[serde(default, rename = "inputMetadata", deserialize_with = "names")]
    pub inputs: Vec<String>,
    /// The index blobs that were written.
    #[serde(default, rename = "outputMetadata", deserialize_with = "names")]
    pub outputs: Vec<String>,
}

/// Takes the names of a list of blobs.
fn names<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Vec<String>, D::Error> {
    #[derive(serde::Deserialize)]
    struct Named {
        id: String,
    }
    let blobs = <Option<Vec<Named>> as serde::Deserialize>::deserialize(source)?.unwrap_or_default();
    Ok(blobs.into_iter().map(|blob| blob.id).collect())
}

impl CompactionLog {
    /// Reads the plain bytes of a log.
    ///
    /// # Errors
    /// What is no log.
    pub fn parse(plain: &[u8]) -> Result<Self, FormatError> {
        let error = |why: &str| FormatError::new("log of a compaction", why);
        // A list would be taken for the fields in their order.
        if !plain.trim_ascii_start().starts_with(b"{") {
            return Err(error("it is no document"));
        }
        serde_json::from_slice(plain).map_err(|e| error(&e.to_string()))
    }
}

/// The index blobs that count, ordered by name: all but the inputs of each compaction whose outputs are all there.
pub fn index_blobs(listing: &[BlobInfo], logs: &[CompactionLog]) -> Vec<BlobInfo> {
    let is_index = |blob: &&BlobInfo| blob_name::parse(&blob.name) == BlobKind::LegacyIndex;
    let mut blobs: Vec<&BlobInfo> = listing.iter().filter(is_index).collect();
    let present: HashSet<&str> = blobs.iter().map(|blob| blob.name.as_str()).collect();
    let finished = logs.iter().filter(|log| log.outputs.iter().all(|output| present.contains(output.as_str())));
    let replaced: HashSet<&str> = finished.flat_map(|log| log.inputs.iter().map(String::as_str)).collect();
    blobs.retain(|blob| !replaced.contains(blob.name.as_str()));
    blobs.sort_by(|a, b| a.name.cmp(&b.name));
    blobs.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str], logs: &[&str]) -> Vec<String> {
        let blob = |name: &&str| BlobInfo { name: (*name).to_owned(), length: 1, modified: None };
        let listing: Vec<BlobInfo> = names.iter().map(blob).collect();
        let logs: Vec<_> = logs.iter().map(|log| CompactionLog::parse(log.as_bytes()).unwrap()).collect();
        index_blobs(&listing, &logs).into_iter().map(|blob| blob.name).collect()
    }

    #[test]
    fn inputs_of_a_compaction_count_until_all_its_outputs_are_there() {
        let log = r#"{"inputMetadata":[{"id":"n1-s1","length":5,"timestamp":"2026-01-01T00:00:00Z"},{"id":"n2-s2"}],"outputMetadata":[{"id":"n3"},{"id":"n4"}]}"#;
        assert_eq!(chosen(&["n1-s1", "n2-s2", "n3", "n4", "m1", "p5", "xn0_7"], &[log]), ["n3", "n4"]);
        assert_eq!(chosen(&["n2-s2", "n1-s1", "n3", "m1"], &[log]), ["n1-s1", "n2-s2", "n3"]);
        assert_eq!(chosen(&["n5", "n3", "n4"], &[log]), ["n3", "n4", "n5"]);
    }

    #[test]
    fn outputs_of_one_compaction_are_inputs_of_the_next() {
        let first = r#"{"inputMetadata":[{"id":"n1"}],"outputMetadata":[{"id":"n2"}]}"#;
        let second = r#"{"inputMetadata":[{"id":"n2"}],"outputMetadata":[{"id":"n3"}]}"#;
        assert_eq!(chosen(&["n1", "n2", "n3"], &[first, second]), ["n3"]);
        // The first output was deleted, so its inputs count again until their log goes too, as kopia has it.
        assert_eq!(chosen(&["n1", "n3"], &[first, second]), ["n1", "n3"]);
    }

    #[test]
    fn a_log_that_cannot_be_read_is_an_error() {
        for text in ["", "[]", r#"{"inputMetadata":[{}]}"#] {
            assert!(CompactionLog::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(
            CompactionLog::parse(b"{\"inputMetadata\":null}").unwrap(),
            CompactionLog { inputs: vec![], outputs: vec![] }
        );
    }
}
