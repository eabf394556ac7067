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

/// The variable of the process that is measured. Memory that threads have freed and keep says nothing, so it has one heap.
const MEASURED: &str = "LIFEBOAT_MEASURED";

#[test]
fn a_directory_of_a_hundred_thousand_files_takes_bounded_memory() {
    if std::env::var_os(MEASURED).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(restore_many());
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.env(MEASURED, "1").env("MALLOC_ARENA_MAX", "1").arg("--nocapture").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// As a list of tasks they would take more than 40 MB.
async fn restore_many() {
    let scratch = tempfile::tempdir().unwrap();
    // A disk may take minutes to delete so many files.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let repository;
    let root;
    {
        let mut maker = Maker::begin(scratch.path()).await;
        let kinds = [b"a", b"b"].map(|byte| maker.file("", byte));
        let entry = |n: usize| DirectoryEntry { name: format!("file-{n:06}").as_str().into(), ..kinds[n % 2].clone() };
        let entries = (0..100_000).map(entry);
        root = maker.directory_in("", entries.collect(), 1 << 20);
        repository = maker.finish(scratch.path()).await;
    }
    // From here on the peak is counted anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmHWM:");
    let report = run(&repository, &root, &options(folder.path())).await.unwrap();
    let taken = memory("VmHWM:") - before;
    assert_eq!((failures(&report), report.totals.files, report.totals.bytes_written), (vec![], 100_000, 100_000));
    assert!(taken < 24 << 20, "{taken} bytes");
}
