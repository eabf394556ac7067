//! The memory of a restore, in a process of its own.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "the makers of repositories are those of all tests")]

#[path = "it/fixture.rs"]
mod fixture;
#[path = "it/maker.rs"]
mod maker;

use fixture::{failures, options, run};
use lifeboat_kopia::format::directory::DirectoryEntry;
use maker::Maker;

/// A line of the process's own account, in bytes.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|one| one.strip_prefix(line)).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// As a list of entries and tasks such a directory would take more than 60 MB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_a_hundred_thousand_files_takes_no_more_memory_than_a_window() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let repository;
    let root;
    {
        let mut maker = Maker::begin(scratch.path()).await;
        let empty = maker.file("", b"");
        let entries =
            (0..100_000).map(|n| DirectoryEntry { name: format!("file-{n:06}").as_str().into(), ..empty.clone() });
        root = maker.directory_in("", entries.collect(), 1 << 20);
        repository = maker.finish(scratch.path()).await;
    }
    // From here on the peak is counted anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmHWM:");
    let report = run(&repository, &root, &options(folder.path())).await.unwrap();
    let taken = memory("VmHWM:") - before;
    assert_eq!((failures(&report), report.totals.files, report.totals.bytes_fetched), (vec![], 100_000, 0));
    assert!(taken < 32 << 20, "{taken} bytes");
}
