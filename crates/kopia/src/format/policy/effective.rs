//! The policy of a source: the nearest one that says something decides, field by field.

use super::document::{OtherSections, Policy};

/// Merges the policies of a source, the nearest first, and the defaults after the last. One that has no parent ends the
/// merge, and the defaults do not count then either. Where a target has several manifests, the oldest of them comes first.
pub fn effective<'a>(nearest_first: impl IntoIterator<Item = &'a Policy>) -> Policy {
    let mut merged = Policy::default();
    for policy in nearest_first {
        merge(&mut merged, policy);
        if policy.no_parent {
            merged.no_parent = true;
            return merged;
        }
    }
    merge(&mut merged, &defaults());
    merged
}

/// The defaults of kopia.
fn defaults() -> Policy {
    let mut policy = Policy::default();
    policy.retention.keep_latest = Some(10);
    policy.retention.keep_hourly = Some(48);
    policy.retention.keep_daily = Some(7);
    policy.retention.keep_weekly = Some(4);
    policy.retention.keep_monthly = Some(24);
    policy.retention.keep_annual = Some(3);
    policy.files.dot_ignore_files = vec![".kopiaignore".to_owned()];
    policy.errors.ignore_unknown_types = Some(true);
    policy.compression.compressor = "none".to_owned();
    policy.metadata_compressor = "zstd-fastest".to_owned();
    policy.upload.parallel_upload_above_size = Some(2 << 30);
    policy
}

fn merge(into: &mut Policy, from: &Policy) {
    let (to, retention) = (&mut into.retention, &from.retention);
    or(&mut to.keep_latest, retention.keep_latest);
    or(&mut to.keep_hourly, retention.keep_hourly);
    or(&mut to.keep_daily, retention.keep_daily);
    or(&mut to.keep_weekly, retention.keep_weekly);
    or(&mut to.keep_monthly, retention.keep_monthly);
    or(&mut to.keep_annual, retention.keep_annual);
    or(&mut to.ignore_identical_snapshots, retention.ignore_identical_snapshots);

    let (to, files) = (&mut into.files, &from.files);
    if to.ignore.is_empty() && !to.no_parent_ignore {
        to.ignore.clone_from(&files.ignore);
        to.no_parent_ignore = files.no_parent_ignore;
    }
    if to.dot_ignore_files.is_empty() && !to.no_parent_dot_files {
        to.dot_ignore_files.clone_from(&files.dot_ignore_files);
        to.no_parent_dot_files = files.no_parent_dot_files;
    }
    or(&mut to.ignore_cache_dirs, files.ignore_cache_dirs);
    or_number(&mut to.max_file_size, files.max_file_size);
    or(&mut to.one_file_system, files.one_file_system);

    let (to, errors) = (&mut into.errors, &from.errors);
    or(&mut to.ignore_file_errors, errors.ignore_file_errors);
    or(&mut to.ignore_directory_errors, errors.ignore_directory_errors);
    or(&mut to.ignore_unknown_types, errors.ignore_unknown_types);

    let (to, compression) = (&mut into.compression, &from.compression);
    or_name(&mut to.compressor, &compression.compressor);
    unite(&mut to.only_compress, to.no_parent_only_compress, &compression.only_compress);
    to.no_parent_only_compress |= compression.no_parent_only_compress;
    unite(&mut to.never_compress, to.no_parent_never_compress, &compression.never_compress);
    to.no_parent_never_compress |= compression.no_parent_never_compress;
    or_number(&mut to.min_size, compression.min_size);
    or_number(&mut to.max_size, compression.max_size);

    or_name(&mut into.metadata_compressor, &from.metadata_compressor);
    or_name(&mut into.splitter, &from.splitter);
    let (to, upload) = (&mut into.upload, &from.upload);
    or(&mut to.max_parallel_snapshots, upload.max_parallel_snapshots);
    or(&mut to.max_parallel_file_reads, upload.max_parallel_file_reads);
    or(&mut to.parallel_upload_above_size, upload.parallel_upload_above_size);
    if into.others == OtherSections::default() {
        into.others.clone_from(&from.others);
    }
}

fn or<T>(into: &mut Option<T>, from: Option<T>) {
    if into.is_none() {
        *into = from;
    }
}

fn or_number(into: &mut i64, from: i64) {
    if *into == 0 {
        *into = from;
    }
}

fn or_name(into: &mut String, from: &str) {
    if into.is_empty() {
        from.clone_into(into);
    }
}

/// Extensions are the only lists that are united.
fn unite(into: &mut Vec<String>, is_complete: bool, from: &[String]) {
    if !is_complete {
        into.extend_from_slice(from);
        into.sort();
        into.dedup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        Policy::parse(text).expect("a policy")
    }

    #[test]
    fn the_nearest_policy_decides_field_by_field_and_the_defaults_last() {
        let near = policy(r#"{"retention":{"keepLatest":5},"compression":{"compressorName":"none"}}"#);
        let far = policy(
            r#"{"retention":{"keepLatest":7,"keepDaily":0},"compression":{"compressorName":"zstd","minSize":9},"files":{"ignoreCacheDirs":false}}"#,
        );
        let mut expected = defaults();
        expected.retention.keep_latest = Some(5);
        expected.retention.keep_daily = Some(0);
        expected.compression.min_size = 9;
        expected.files.ignore_cache_dirs = Some(false);
        assert_eq!(effective([&near, &far]), expected);
        assert_eq!(effective([]), defaults());
    }

    #[test]
    fn a_policy_without_parent_ends_the_merge_and_has_no_defaults_either() {
        let near = policy(r#"{"retention":{"keepLatest":5},"noParent":true}"#);
        let far = policy(r#"{"retention":{"keepDaily":3}}"#);
        assert_eq!(effective([&near, &far]), near);
    }

    #[test]
    fn extensions_are_united_and_all_other_lists_replaced() {
        let near = policy(r#"{"files":{"ignore":["a"]},"compression":{"neverCompress":[".z",".a"]}}"#);
        let middle = policy(
            r#"{"files":{"ignore":["b"],"ignoreDotFiles":[".x"]},"compression":{"neverCompress":[".b",".a"],"noParentNeverCompress":true}}"#,
        );
        let far = policy(r#"{"compression":{"neverCompress":[".c"]}}"#);
        let merged = effective([&near, &middle, &far]);
        assert_eq!((merged.files.ignore, merged.files.dot_ignore_files), (vec!["a".to_owned()], vec![".x".to_owned()]));
        assert_eq!(merged.compression.never_compress, [".a", ".b", ".z"]);
    }
}
