//! The policies of a source: what counts for each directory and file below it.

use crate::MoverError;
use lifeboat_kopia::compression::Compression;
use lifeboat_kopia::format::manifest::ManifestEntry;
use lifeboat_kopia::format::policy::{OtherSections, Policy, PolicyTarget, effective};
use lifeboat_kopia::format::snapshot::Source;
use lifeboat_kopia::manifest::Manifests;
use lifeboat_kopia::object::writer::ObjectOptions;
use lifeboat_kopia::splitter::SplitterAlgorithm;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A policy, with its names read.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) policy: Policy,
    compression: Option<Compression>,
    metadata_compression: Option<Compression>,
    splitter: Option<SplitterAlgorithm>,
    /// The length of the parts of files that are longer.
    pub(super) part: Option<u64>,
}

/// The policy of a source, and those of paths below it.
#[derive(Debug)]
pub(super) struct Policies {
    pub(super) root: Arc<Settings>,
    /// By the path below the source, which begins with a slash.
    below: BTreeMap<String, Arc<Settings>>,
    /// Parts of them that do not count here.
    pub(super) told: Vec<String>,
}

impl Policies {
    /// Reads those that a source has.
    ///
    /// # Errors
    /// A manifest that is no policy; compressions that cannot be written.
    pub(super) fn load(manifests: &Manifests, source: &Source) -> Result<Self, MoverError> {
        let mut nearest_first = Vec::new();
        for target in PolicyTarget::of_source(source) {
            for entry in manifests.find(&target.labels()) {
                nearest_first.push(parse(entry)?);
            }
        }
        let policy = effective(&nearest_first);
        let mut told = Vec::new();
        if policy.others.actions != OtherSections::default().actions {
            told.push("the policy has actions before or after a snapshot: they are not run".to_owned());
        }
        if policy.retention.ignore_identical_snapshots == Some(true) {
            told.push("the policy asks for no snapshot where nothing has changed: one is made all the same".to_owned());
        }
        let root = Arc::new(Settings::new(policy, &mut told)?);
        let mut below = BTreeMap::new();
        let labels = PolicyTarget::Path(source.clone()).labels();
        let of_user: BTreeMap<String, String> = labels.into_iter().filter(|(key, _)| key != "path").collect();
        for entry in manifests.find(&of_user) {
            let path = entry.labels.get("path").and_then(|path| path.strip_prefix(source.path.trim_end_matches('/')));
            if let Some(path) = path.filter(|path| path.len() > 1 && path.starts_with('/')) {
                // compat: the policy of a path below the source is not merged with those above it.
                below.insert(path.to_owned(), Arc::new(Settings::new(parse(entry)?, &mut told)?));
            }
        }
        Ok(Self { root, below, told })
    }

    /// The policy of its own that a path below the source has.
    pub(super) fn at(&self, path: impl FnOnce() -> String) -> Option<&Arc<Settings>> {
        if self.below.is_empty() { None } else { self.below.get(&path()) }
    }
}

fn parse(entry: &ManifestEntry) -> Result<Policy, MoverError> {
    Policy::parse(entry.data.get()).map_err(|e| MoverError::Refused(format!("policy {} cannot be read: {e}", entry.id)))
}

impl Settings {
    fn new(policy: Policy, told: &mut Vec<String>) -> Result<Self, MoverError> {
        let splitter = match policy.splitter.as_str() {
            "" => None,
            name => SplitterAlgorithm::parse(name).ok().or_else(|| {
                // compat: a name that is not known stands for the repository's own.
                told.push(format!("the splitter {name:?} of a policy is not known: the repository's is taken"));
                None
            }),
        };
        let part = policy.upload.parallel_upload_above_size.and_then(|size| u64::try_from(size).ok());
        Ok(Self {
            compression: compression(&policy.compression.compressor)?,
            metadata_compression: compression(&policy.metadata_compressor)?,
            splitter,
            part: part.filter(|size| *size > 0),
            policy,
        })
    }

    /// The options of a file.
    pub(super) fn of_file(&self, name: &[u8], size: u64) -> ObjectOptions {
        ObjectOptions {
            prefix: None,
            compression: self.compression.filter(|_| self.compresses(name, size)),
            metadata_compression: self.metadata_compression,
            splitter: self.splitter,
        }
    }

    /// The options of the target of a symlink.
    pub(super) fn of_symlink(&self) -> ObjectOptions {
        ObjectOptions { metadata_compression: self.metadata_compression, ..ObjectOptions::default() }
    }

    /// The options of a directory.
    pub(super) fn of_directory(&self) -> ObjectOptions {
        ObjectOptions {
            prefix: Some(b'k'),
            compression: self.metadata_compression,
            metadata_compression: self.metadata_compression,
            splitter: None,
        }
    }

    fn compresses(&self, name: &[u8], size: u64) -> bool {
        let policy = &self.policy.compression;
        let limit = |limit: i64| u64::try_from(limit).ok().filter(|limit| *limit > 0);
        if limit(policy.min_size).is_some_and(|least| size < least)
            || limit(policy.max_size).is_some_and(|most| size > most)
        {
            return false;
        }
        let extension =
            name.iter().rposition(|byte| *byte == b'.').and_then(|point| name.get(point..)).unwrap_or_default();
        let is_in = |list: &[String]| list.iter().any(|known| known.as_bytes() == extension);
        // Those of the first list are compressed even where the second has them, too; others are not left out by it.
        is_in(&policy.only_compress) || !is_in(&policy.never_compress)
    }
}

fn compression(name: &str) -> Result<Option<Compression>, MoverError> {
    match name {
        "" | "none" => Ok(None),
        name => match Compression::from_name(name).filter(|compression| compression.is_writable()) {
            Some(compression) => Ok(Some(compression)),
            None => Err(MoverError::Refused(format!(
                "the compression {name:?} of a policy cannot be written: set another one there"
            ))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_kopia::format::time::UnixNanos;
    use serde_json::value::RawValue;

    fn source() -> Source {
        Source { host: "h".to_owned(), user: "u".to_owned(), path: "/srv/data".to_owned() }
    }

    fn manifests(policies: &[(PolicyTarget, &str)]) -> Manifests {
        Manifests::from_entries(policies.iter().enumerate().map(|(n, (target, data))| ManifestEntry {
            id: format!("{n:032x}"),
            labels: target.labels(),
            modified: UnixNanos(n as i64),
            is_deleted: false,
            data: RawValue::from_string((*data).to_owned()).unwrap(),
        }))
    }

    fn at(path: &str) -> PolicyTarget {
        PolicyTarget::Path(Source { path: path.to_owned(), ..source() })
    }

    #[test]
    fn without_policies_nothing_but_metadata_is_compressed() {
        let policies = Policies::load(&manifests(&[]), &source()).unwrap();
        let settings = policies.root;
        assert_eq!((settings.of_file(b"a", 1).compression, settings.part), (None, Some(2 << 30)));
        let directory = settings.of_directory();
        assert_eq!((directory.prefix, directory.compression), (Some(b'k'), Some(Compression::ZstdFastest)));
        assert!(policies.told.is_empty());
    }

    #[test]
    fn files_are_compressed_by_length_and_extension() {
        let compression = r#"{"compression":{"compressorName":"zstd","minSize":10,"maxSize":100,"onlyCompress":[".b"],"neverCompress":[".a",".b"]}}"#;
        let policies = Policies::load(&manifests(&[(PolicyTarget::Global, compression)]), &source()).unwrap();
        let is_compressed = |name: &str, size| policies.root.of_file(name.as_bytes(), size).compression.is_some();
        let cases = [("x", 9), ("x", 10), ("x", 100), ("x", 101), ("x.a", 50), ("x.b", 50), ("x.a.c", 50), (".a", 50)];
        let expected = [false, true, true, false, false, true, true, false];
        assert_eq!(cases.map(|(name, size)| is_compressed(name, size)), expected);
    }

    #[test]
    fn a_path_below_has_its_own_policy_and_others_of_the_user_do_not_count() {
        let zstd = r#"{"compression":{"compressorName":"zstd"}}"#;
        let policies = manifests(&[
            (at("/srv/data/deep/er"), zstd),
            (at("/srv/database"), zstd),
            (at("/srv"), r#"{"files":{"ignore":["x"]}}"#),
        ]);
        let policies = Policies::load(&policies, &source()).unwrap();
        assert_eq!(policies.below.keys().collect::<Vec<_>>(), ["/deep/er"]);
        assert_eq!(policies.root.policy.files.ignore, ["x"]);
        let deep = policies.at(|| "/deep/er".to_owned()).unwrap();
        assert_eq!(
            (deep.of_file(b"a", 1).compression, deep.of_directory().compression),
            (Some(Compression::Zstd), None)
        );
    }

    #[test]
    fn what_does_not_count_is_told_and_what_cannot_be_written_is_refused() {
        let odd = r#"{"actions":{"beforeFolder":{"path":"x"}},"splitter":{"algorithm":"X"},"retention":{"ignoreIdenticalSnapshots":true}}"#;
        let policies = Policies::load(&manifests(&[(PolicyTarget::Global, odd)]), &source()).unwrap();
        assert_eq!(policies.told.len(), 3);
        for bad in
            [r#"{"compression":{"compressorName":"lz4"}}"#, r#"{"metadataCompression":{"compressorName":"x"}}"#, "[]"]
        {
            assert!(Policies::load(&manifests(&[(at("/srv/data"), bad)]), &source()).is_err(), "{bad}");
        }
    }
}
