//! Files that were read for a snapshot leave the page cache, which belongs to the programs of the node.

use crate::written::Written;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const LENGTH: usize = 40 << 20;

/// The bytes of a file in the page cache; `None` where no program tells.
fn cached(path: &Path) -> Option<u64> {
    let told = Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).arg(path).output().ok()?;
    String::from_utf8(told.stdout).ok()?.trim().parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_were_saved_do_not_stay_in_the_page_cache() {
    let ground = Written::new().await;
    // Not in the folder for temporary files, which may lie in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(&(0..LENGTH as u32 / 4).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    // What is not yet written stays in any case.
    file.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap().len(), LENGTH);
    let Some(before) = cached(&path).filter(|before| *before == LENGTH as u64) else {
        println!("not run: fincore is missing, or this file system has no page cache");
        return;
    };
    let repository = ground.open().await;
    let report = ground.try_take(&repository, folder.path(), ground.options(), &Arc::default()).await.unwrap();
    assert!(report.is_whole());
    let after = cached(&path).unwrap();
    assert!(after <= before / 8, "{after} of {before} bytes stay");
}
