//! Attributes of files that the format of repositories does not have.

use crate::progress::add;
use rustix::buffer::spare_capacity;
use rustix::fs::flistxattr;
use rustix::io::Errno;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

/// The names of extended attributes that are asked for at first, in bytes, and the most that the system gives.
const NAMES: usize = 1024;
const MOST_NAMES: usize = 64 << 10;

/// The numbers of entries with attributes that their snapshot does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostAttributes {
    /// Names of files and symlinks that have further names (hard links).
    pub hard_links: u64,
    /// Directories, and files that were read, with access control lists. Files that an earlier snapshot has were not asked.
    pub access_lists: u64,
    /// The same ones with extended attributes other than the labels of the system.
    pub extended_attributes: u64,
}

impl LostAttributes {
    /// A sentence for each sort that there is.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let sorts = [
            (self.hard_links, "names are hard links: each comes back as a separate file"),
            (self.access_lists, "files and directories have access control lists, which are not in the snapshot"),
            (self.extended_attributes, "files and directories have extended attributes, which are not in the snapshot"),
        ];
        sorts.into_iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")).collect()
    }
}

/// The counters of [`LostAttributes`].
#[derive(Debug, Default)]
pub(super) struct LostCounts {
    hard_links: AtomicU64,
    access_lists: AtomicU64,
    extended_attributes: AtomicU64,
}

impl LostCounts {
    pub(super) fn add_hard_link(&self) {
        add(&self.hard_links, 1);
    }

    pub(super) fn add(&self, found: FoundAttributes) {
        add(&self.access_lists, u64::from(found.access_list));
        add(&self.extended_attributes, u64::from(found.others));
    }

    pub(super) fn totals(&self) -> LostAttributes {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LostAttributes {
            hard_links: read(&self.hard_links),
            access_lists: read(&self.access_lists),
            extended_attributes: read(&self.extended_attributes),
        }
    }
}

/// The extended attributes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FoundAttributes {
    access_list: bool,
    others: bool,
}

impl FoundAttributes {
    /// Asks an open file or directory, which takes one system call. A file system without any has none.
    pub(super) fn of(file: &File) -> Self {
        let mut names = [0_u8; NAMES];
        match flistxattr(file, names.as_mut_slice()) {
            Ok(length) => Self::named(names.get(..length).unwrap_or_default()),
            Err(Errno::RANGE) => {
                let mut names = Vec::with_capacity(MOST_NAMES);
                // A list that cannot be read now either counts as none.
                let _ = flistxattr(file, spare_capacity(&mut names));
                Self::named(&names)
            }
            Err(_) => Self::default(),
        }
    }

    /// Reads names that end with a zero each. Labels of security modules and lists that the server of a network file system
    /// makes of the mode are on every file.
    fn named(names: &[u8]) -> Self {
        let mut found = Self::default();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            if name.starts_with(b"system.posix_acl_") {
                found.access_list = true;
            } else if name == b"security.capability"
                || !(name.starts_with(b"security.") || name.starts_with(b"system."))
            {
                found.others = true;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_the_system_are_no_attributes_of_a_user() {
        for (names, access_list, others) in [
            ("", false, false),
            ("security.selinux\0", false, false),
            ("security.selinux\0system.nfs4_acl\0security.ima\0", false, false),
            ("system.posix_acl_access\0", true, false),
            ("security.selinux\0system.posix_acl_default\0", true, false),
            ("user.origin\0", false, true),
            ("security.capability\0", false, true),
            ("trusted.x\0system.posix_acl_access\0", true, true),
        ] {
            assert_eq!(FoundAttributes::named(names.as_bytes()), FoundAttributes { access_list, others }, "{names:?}");
        }
    }

    #[test]
    fn more_names_than_are_asked_for_at_first_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        assert_eq!(FoundAttributes::of(&file), FoundAttributes::default());
        for number in 0..20 {
            let name = format!("user.{number}-{}", "x".repeat(100));
            // Not every file system has them.
            if rustix::fs::fsetxattr(&file, name.as_str(), b"1", rustix::fs::XattrFlags::empty()).is_err() {
                return;
            }
            assert_eq!(FoundAttributes::of(&file), FoundAttributes { access_list: false, others: true });
        }
    }

    #[test]
    fn each_sort_of_what_is_lost_is_one_sentence() {
        assert_eq!(LostAttributes::default().sentences(), Vec::<String>::new());
        let lost = LostAttributes { hard_links: 1204, access_lists: 0, extended_attributes: 3 };
        let expected = [
            "1204 names are hard links: each comes back as a separate file",
            "3 files and directories have extended attributes, which are not in the snapshot",
        ];
        assert_eq!(lost.sentences(), expected);
    }
}
