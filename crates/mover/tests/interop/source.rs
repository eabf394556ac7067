//! A small tree with much variety.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// The length of the large file.
pub(crate) const LARGE: usize = 20 << 20;

/// Bytes that no compression shortens, the same for each seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn set_time(path: &Path, seconds: i64, nanos: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Sets the times of all that was written within the last minutes back by so many seconds: those that are close to the beginning of
/// a snapshot are not believed.
fn set_back(path: &Path, seconds: i64) {
    let found = path.symlink_metadata().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    if found.mtime() > now - 600 {
        set_time(path, found.mtime() - seconds, found.mtime_nsec());
    }
    if found.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| set_back(&entry.unwrap().path(), seconds));
    }
}

/// Makes the tree.
pub(crate) fn make(root: &Path) {
    fs::create_dir(root).unwrap();
    let at = |path: &str| root.join(path);
    for folder in ["a", "a/b", "a/b/c", "empty", "odd names", "bits"] {
        fs::create_dir(at(folder)).unwrap();
    }
    for n in 0..40 {
        fs::write(at(&format!("a/b/file-{n:02}")), format!("number {n}\n")).unwrap();
    }
    for name in ["quote\"", "back\\slash", "<&>", "new\nline", "tab\t", "ümlaut ☃", "\u{7f}", "-rf", "...", "\u{2028}"]
    {
        fs::write(at("odd names").join(name), name).unwrap();
    }
    fs::write(at("a/nothing"), "").unwrap();
    fs::write(at("a/b/c/deep"), "deep").unwrap();
    fs::write(at("large"), noise(1, LARGE)).unwrap();
    for (name, mode) in [("setuid", 0o4755), ("setgid", 0o2710), ("closed", 0o000), ("all", 0o777)] {
        fs::write(at("bits").join(name), name).unwrap();
        fs::set_permissions(at("bits").join(name), Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(at("empty"), Permissions::from_mode(0o1777)).unwrap();
    symlink("a/b/c/deep", at("link")).unwrap();
    symlink("no/such", at("a/dangling")).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(at("a/b/c/deep"), Some(1234), Some(5678)).unwrap();
        std::os::unix::fs::lchown(at("link"), Some(1), None).unwrap();
    }
    let sparse = File::create(at("sparse")).unwrap();
    sparse.set_len(50 << 20).unwrap();
    sparse.write_all_at(b"in the middle", 5 << 20).unwrap();
    set_time(&at("sparse"), 1_700_000_000, 123_456_789);
    set_time(&at("a/nothing"), 0, 0);
    set_time(&at("a/b/file-00"), -1, 999_999_993);
    set_time(&at("link"), 1_600_000_000, 5);
    set_time(&at("a/b"), 1_500_000_000, 100);
    set_back(root, 7200);
}

/// A small tree of which one file has several contents with each splitter.
pub(crate) fn make_small(root: &Path) {
    fs::create_dir(root).unwrap();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("d/text"), "text of some lines\n".repeat(5000)).unwrap();
    fs::write(root.join("noise"), noise(3, 600_000)).unwrap();
    fs::write(root.join("nothing"), "").unwrap();
}

/// Changes something everywhere but in most of the large file.
pub(crate) fn change(root: &Path) {
    let at = |path: &str| root.join(path);
    fs::write(at("a/b/file-07"), "another number\n").unwrap();
    fs::remove_file(at("a/b/file-08")).unwrap();
    fs::remove_dir(at("empty")).unwrap();
    fs::write(at("empty"), "no directory any more").unwrap();
    fs::write(at("a/new"), noise(2, 100_000)).unwrap();
    File::options().write(true).open(at("large")).unwrap().write_all_at(b"changed", 11 << 20).unwrap();
    fs::remove_file(at("link")).unwrap();
    symlink("a/b", at("link")).unwrap();
    set_back(root, 3600);
}
