//! Policies that kopia sets are followed as kopia follows them.

use crate::ground::{PASSWORD, contents, create, newest, open, source, take_with, writer};
use crate::source::{make_small, noise};
use lifeboat_kopia::compression::Compression;
use lifeboat_kopia::format::policy::PolicyTarget;
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::format::snapshot::Stats;
use lifeboat_testbed::Kopia;
use serde_json::value::RawValue;
use std::fs;
use std::path::Path;

/// Both programs take a snapshot of a tree anew, with the same roots, counters and contents.
async fn check_same(kopia: &Kopia, bucket: &Path, tree: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    kopia.run(&["snapshot", "create", tree.to_str().unwrap(), "--force-hash=100"]).unwrap();
    let repository = open(bucket, scratch.path()).await;
    let theirs = newest(&repository).await;
    let first = contents(&repository).await;
    let ours = take_with(&repository, tree, |options| options.incremental = false).await;
    // Kopia counts what is left out once for each directory whose rules leave it out.
    let stats = Stats {
        excluded_file_count: ours.document.stats.excluded_file_count,
        excluded_total_size: ours.document.stats.excluded_total_size,
        ..theirs.stats
    };
    assert_eq!((ours.document.root, ours.document.stats), (theirs.root, stats));
    assert_eq!(contents(&repository).await, first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_leave_out_what_they_leave_out_in_kopia() {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, tree) = (folder.path().join("repository"), folder.path().join("tree"));
    make_small(&tree);
    for path in ["a/b/c", "a/x", "cache/in", "logs/old", "keep"] {
        fs::create_dir_all(tree.join(path)).unwrap();
        for name in ["f.txt", "f.log", "f.tmp", "special[1]", "f~", "keep.log", "UP", "x1"] {
            fs::write(tree.join(path).join(name), format!("{path} {name}")).unwrap();
        }
    }
    fs::write(tree.join("cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
    fs::write(tree.join("a/.kopiaignore"), "# rules\n!keep.log\n/x/f.txt\nb/**/special*\n[A-Z]?\n").unwrap();
    fs::write(tree.join("logs/.kopiaignore"), "old/\n").unwrap();
    fs::write(tree.join("long"), noise(9, 700_000)).unwrap();
    fs::create_dir(&bucket).unwrap();
    let kopia = Kopia::new("v0.23.1", PASSWORD).unwrap();
    kopia.create(&bucket, &[]).unwrap();
    check_same(&kopia, &bucket, &tree).await;
    let path = tree.to_str().unwrap();
    kopia.run(&["policy", "set", path, "--add-ignore=*.log", "--add-ignore=/keep/x?", "--add-ignore=**/*~"]).unwrap();
    kopia.run(&["policy", "set", "--global", "--max-file-size=650000", "--one-file-system=true"]).unwrap();
    check_same(&kopia, &bucket, &tree).await;
    let below = tree.join("a/b");
    kopia
        .run(&["policy", "set", below.to_str().unwrap(), "--add-ignore=c/*.tmp", "--ignore-cache-dirs=false"])
        .unwrap();
    check_same(&kopia, &bucket, &tree).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_compressed_as_policies_say_and_kopia_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, tree) = (folder.path().join("repository"), folder.path().join("tree"));
    fs::create_dir(&tree).unwrap();
    create(&bucket, &NewRepository::default()).await;
    let kopia = Kopia::new("v0.22.3", PASSWORD).unwrap();
    kopia.connect(&bucket).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(&bucket, scratch.path()).await;
    for compression in Compression::all().filter(|compression| compression.is_writable()) {
        let name = compression.name();
        let below = tree.join(name);
        fs::create_dir(&below).unwrap();
        fs::write(below.join("text"), format!("{name} in many lines\n").repeat(20_000)).unwrap();
        fs::write(below.join("noise"), noise(name.len() as u64, 100_000)).unwrap();
        let labels = PolicyTarget::Path(source(&below)).labels();
        let data = format!(
            r#"{{"compression":{{"compressorName":"{name}"}},"metadataCompression":{{"compressorName":"{name}"}}}}"#
        );
        let writer = writer(&repository).await;
        writer.put_manifest(labels, RawValue::from_string(data).unwrap()).unwrap();
        writer.flush().await.unwrap();
    }
    let ours = take_with(&repository, &tree, |_| {}).await;
    assert!(ours.is_whole());
    // Text takes no room, and noise is stored as it is.
    assert!(ours.written.stored_bytes < 17 * 110_000 + (100 << 10), "{:?}", ours.written);
    kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).unwrap();
    let first = contents(&repository).await;
    kopia.run(&["snapshot", "create", tree.to_str().unwrap(), "--force-hash=100"]).unwrap();
    assert_eq!((newest(&repository).await.root, contents(&repository).await), (ours.document.root, first));
}
