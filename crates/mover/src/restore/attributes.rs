//! Owner, permissions and times of an entry.

use super::run::Run;
use crate::block_form::NO_TIME;
use crate::failure::Failed;
use lifeboat_kopia::format::time::{SECOND, UnixNanos};
use rustix::fs::{
    AtFlags, Gid, Mode, Stat, Timespec, Timestamps, UTIME_NOW, Uid, XattrFlags, chownat, fchmod, fchown, fsetxattr,
    fstat, futimens, utimensat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;

pub(super) use crate::tree::Attributes;

const PERMISSIONS: u32 = 0o7777;
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

/// The time of files that are not finished.
pub(super) const UNFINISHED: UnixNanos = UnixNanos(0);

impl Attributes {
    /// True where a file with this time may be believed to be finished. The time of unfinished files is not, nor are those
    /// that a file system with coarse times could make of it. All devices that are saved as blocks have one time.
    pub(super) fn tells_finished(&self) -> bool {
        self.modified != NO_TIME && !(-2 * SECOND..=2 * SECOND).contains(&self.modified.0)
    }

    pub(super) fn has_time_of(&self, stat: &Stat) -> bool {
        (self.modified.seconds(), u64::from(self.modified.subsecond_nanos())) == modified(stat)
    }

    /// Gives an open file or directory its owner, then its permissions, then its times, each where it differs.
    pub(super) fn apply(&self, file: &File, run: &Run) -> Result<(), Failed> {
        let stat = fstat(file).map_err(Failed::to("look at it"))?;
        let (uid, gid) = self.owner_change(&stat, run);
        let owner_before = FileOwner::of(&stat);
        let mut owner = owner_before;
        if (uid.is_some() || gid.is_some()) && owner_is_set(fchown(file, uid, gid), run)? {
            owner = FileOwner { uid: self.uid, gid: self.gid };
        }
        if run.options.permissions {
            let is_directory = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
            let mode = self.permitted(owner, is_directory);
            // A new owner takes setuid and setgid away.
            let has_owner_changed = owner != owner_before;
            if has_owner_changed || stat.st_mode & PERMISSIONS != mode {
                let set = fchmod(file, Mode::from_raw_mode(mode));
                unless_not_permitted(set, run).map_err(Failed::to("set its permissions"))?;
            }
        }
        for attribute in self.extended.iter().flat_map(|all| all.iter()) {
            let set = fsetxattr(file, attribute.name.as_str(), &attribute.value, XattrFlags::empty());
            unless_refused(set, run).map_err(Failed::to("set an extended attribute"))?;
        }
        if run.options.times && (self.modified == NO_TIME || !self.has_time_of(&stat)) {
            let set = futimens(file, &timestamps(self.modified));
            unless_not_permitted(set, run).map_err(Failed::to("set its times"))?;
        }
        Ok(())
    }

    /// Gives a symlink its owner and times. Linux has no permissions of symlinks.
    pub(super) fn apply_to_link(&self, directory: &File, name: &OsStr, run: &Run) -> Result<(), Failed> {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(Failed::to("look at it"))?;
        let (uid, gid) = self.owner_change(&stat, run);
        if uid.is_some() || gid.is_some() {
            owner_is_set(chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW), run)?;
        }
        if run.options.times && !self.has_time_of(&stat) {
            let set = utimensat(directory, name, &timestamps(self.modified), AtFlags::SYMLINK_NOFOLLOW);
            unless_not_permitted(set, run).map_err(Failed::to("set its times"))?;
        }
        Ok(())
    }

    /// True where nothing of these attributes would be changed.
    pub(super) fn are_those_of(&self, stat: &Stat, run: &Run) -> bool {
        let mode = self.permitted(FileOwner::of(stat), false);
        self.owner_change(stat, run) == (None, None)
            && (!run.options.permissions || stat.st_mode & PERMISSIONS == mode)
            && (!run.options.times || self.has_time_of(stat))
    }

    fn owner_change(&self, stat: &Stat, run: &Run) -> (Option<Uid>, Option<Gid>) {
        let sets = run.options.owners;
        let uid = (sets && stat.st_uid != self.uid && self.uid != u32::MAX).then(|| Uid::from_raw(self.uid));
        let gid = (sets && stat.st_gid != self.gid && self.gid != u32::MAX).then(|| Gid::from_raw(self.gid));
        (uid, gid)
    }

    /// The permissions for a file of this owner: rights of another one are not given away.
    fn permitted(&self, owner: FileOwner, is_directory: bool) -> u32 {
        let mut mode = self.mode & PERMISSIONS;
        if owner.uid != self.uid && !is_directory {
            mode &= !SETUID;
        }
        if owner.gid != self.gid && !is_directory {
            mode &= !SETGID;
        }
        mode
    }
}

/// The user and the group that a file belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileOwner {
    uid: u32,
    gid: u32,
}

impl FileOwner {
    fn of(stat: &Stat) -> Self {
        Self { uid: stat.st_uid, gid: stat.st_gid }
    }
}

/// True where the owner is set, false where the right to do so is missing, which the run tells once.
fn owner_is_set(set: Result<(), Errno>, run: &Run) -> Result<bool, Failed> {
    match set {
        Ok(()) => Ok(true),
        // An owner that has no number in this user namespace is EINVAL.
        Err(Errno::PERM | Errno::INVAL | Errno::ACCESS) => {
            run.note(|report| report.owners_not_set = true);
            Ok(false)
        }
        Err(e) => Err(Failed::to("set its owner")(e)),
    }
}

/// Passes over EPERM, which says that the entry belongs to somebody else; the run counts it.
fn unless_not_permitted(set: Result<(), Errno>, run: &Run) -> Result<(), Errno> {
    match set {
        Err(Errno::PERM) => {
            run.note(|report| report.attributes_not_set += 1);
            Ok(())
        }
        other => other,
    }
}

/// Passes over an extended attribute that this user or this file system cannot have; the run counts it.
fn unless_refused(set: Result<(), Errno>, run: &Run) -> Result<(), Errno> {
    match set {
        Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::INVAL) => {
            run.note(|report| report.extended_attributes_not_set += 1);
            Ok(())
        }
        other => other,
    }
}

/// Both times of a file. One that says nothing would be 1754, and is that of the restore instead.
fn timestamps(time: UnixNanos) -> Timestamps {
    if time == NO_TIME {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        return Timestamps { last_access: now, last_modification: now };
    }
    let time = Timespec { tv_sec: time.seconds(), tv_nsec: time.subsecond_nanos().into() };
    Timestamps { last_access: time, last_modification: time }
}

/// Gives a file the time of those that are not finished.
pub(super) fn mark_unfinished(file: &File) -> Result<(), Failed> {
    futimens(file, &timestamps(UNFINISHED)).map_err(Failed::to("set its times"))
}

fn modified(stat: &Stat) -> (i64, u64) {
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the types differ by architecture")]
    (stat.st_mtime as i64, stat.st_mtime_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_says_nothing_tells_of_no_finished_file() {
        let tells = |nanos: i64| {
            let modified = UnixNanos(nanos);
            Attributes { mode: 0o600, uid: 0, gid: 0, modified, extended: None }.tells_finished()
        };
        let told = [NO_TIME.0, 0, 2 * SECOND, -2 * SECOND, 2 * SECOND + 1, -2 * SECOND - 1, NO_TIME.0 + 1].map(tells);
        assert_eq!(told, [false, false, false, false, true, true, true]);
    }

    #[test]
    fn a_time_that_says_nothing_is_that_of_the_restore() {
        let file = tempfile::tempfile().unwrap();
        let set = |time| {
            futimens(&file, &timestamps(time)).unwrap();
            fstat(&file).unwrap().st_mtime
        };
        assert_eq!(set(UnixNanos(5 * SECOND)), 5);
        assert!(set(NO_TIME) > 1_700_000_000);
    }
}
