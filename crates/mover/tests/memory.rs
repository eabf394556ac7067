//! The memory of a restore and of a snapshot, each in a process of its own.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "the makers of repositories are those of all tests")]

#[path = "it/fixture.rs"]
mod fixture;
#[path = "it/maker.rs"]
mod maker;
#[path = "it/tree.rs"]
mod tree;
#[path = "it/written.rs"]
mod written;

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

/// Runs a test in a process of its own, or what it measures where this is that process.
fn measured(name: &str, measure: impl Future<Output = ()>) {
    if std::env::var_os(MEASURED).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(measure);
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.env(MEASURED, "1").env("MALLOC_ARENA_MAX", "1").args([name, "--exact", "--nocapture"]);
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_directory_of_a_hundred_thousand_files_takes_bounded_memory() {
    measured("a_directory_of_a_hundred_thousand_files_takes_bounded_memory", restore_many());
}

#[test]
fn a_snapshot_of_many_files_takes_bounded_memory() {
    measured("a_snapshot_of_many_files_takes_bounded_memory", save_many());
}

/// 20,000 files in one directory, and as many in a thousand: packs on their way and the listing are what takes memory.
async fn save_many() {
    let ground = written::Written::new().await;
    let tree = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for number in 0..40_000_u32 {
        let folder = match number % 2 {
            0 => tree.path().join("many"),
            _ => tree.path().join(format!("d{}", number / 2 % 1000)),
        };
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("file-{number:06}")), number.to_string().repeat(40)).unwrap();
    }
    let repository = ground.open().await;
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmHWM:");
    let report = ground.try_take(&repository, tree.path(), ground.options(), &Default::default()).await.unwrap();
    // The bucket is in this memory, too.
    let taken = memory("VmHWM:") - before - report.written.pack_bytes - report.written.index_bytes;
    assert_eq!((report.is_whole(), report.document.stats.file_count), (true, 40_000));
    assert!(taken < 96 << 20, "{taken} bytes");
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
