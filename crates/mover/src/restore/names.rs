//! Names in a directory of the repository, which may be anything.

use lifeboat_kopia::format::json::Text;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;

/// The reason for which a name cannot be one of a file; `None` for one that can.
pub fn refusal(name: &OsStr) -> Option<&'static str> {
    match name.as_bytes() {
        b"" => Some("its name is empty"),
        b"." | b".." => Some("its name stands for another directory"),
        name if name.contains(&b'/') => Some("its name has a slash"),
        name if name.contains(&0) => Some("its name has a zero byte"),
        _ => None,
    }
}

/// The names of a directory, each as 128 bits of hashes with keys of this process, so that a million of them is 16 MB and
/// nobody can choose two that are taken for one.
#[derive(Debug, Default)]
pub(super) struct Names {
    keys: [RandomState; 2],
    hashes: Vec<u128>,
    others: Vec<u128>,
}

impl Names {
    fn hash(&self, name: &[u8]) -> u128 {
        let [high, low] = self.keys.each_ref().map(|key| u128::from(key.hash_one(name)));
        high << 64 | low
    }

    pub(super) fn push(&mut self, name: &OsStr) {
        let hash = self.hash(name.as_bytes());
        self.hashes.push(hash);
    }

    /// Adds a name that the directory has not, but that is known.
    pub(super) fn push_other(&mut self, name: &str) {
        let hash = self.hash(name.as_bytes());
        self.others.push(hash);
    }

    /// Ends the collecting.
    pub(super) fn finish(mut self) -> KnownNames {
        self.hashes.sort_unstable();
        self.others.sort_unstable();
        let twice = self.hashes.windows(2).filter_map(|pair| match pair {
            [a, b] if a == b => Some(*a),
            _ => None,
        });
        let twice = twice.collect();
        KnownNames { names: self, twice }
    }
}

/// All names of a directory, sorted.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    names: Names,
    twice: HashSet<u128>,
}

impl KnownNames {
    /// True for a name of the directory, and for one that is so in the repository, where bytes that are no UTF-8 are lost.
    pub(super) fn contains(&self, name: &OsStr) -> bool {
        let name = name.as_bytes();
        self.has(name) || str::from_utf8(name).is_err() && self.has(Text::from_bytes(name).as_bytes())
    }

    fn has(&self, name: &[u8]) -> bool {
        let hash = self.names.hash(name);
        [&self.names.hashes, &self.names.others].iter().any(|hashes| hashes.binary_search(&hash).is_ok())
    }

    /// Forgets the names, but for those that are there more than once.
    pub(super) fn into_repeated(mut self) -> RepeatedNames {
        let mut left = HashMap::new();
        if !self.twice.is_empty() {
            for hash in self.names.hashes.iter().filter(|hash| self.twice.contains(hash)) {
                *left.entry(*hash).or_insert(0_u64) += 1;
            }
        }
        (self.names.hashes, self.names.others) = (Vec::new(), Vec::new());
        RepeatedNames { names: self.names, left }
    }
}

/// The names that a directory has more than once.
#[derive(Debug, Default)]
pub(super) struct RepeatedNames {
    names: Names,
    /// The number of entries that are still to come.
    left: HashMap<u128, u64>,
}

impl RepeatedNames {
    /// Takes note of an entry. True where another one of the same name follows.
    pub(super) fn is_followed(&mut self, name: &OsStr) -> bool {
        if self.left.is_empty() {
            return false;
        }
        let hash = self.names.hash(name.as_bytes());
        let Some(left) = self.left.get_mut(&hash) else { return false };
        *left -= 1;
        *left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_lead_elsewhere_is_refused() {
        let refused = ["", ".", "..", "/", "a/b", "../a", "/etc/passwd", "a\0b"];
        assert_eq!(refused.map(|name| refusal(OsStr::new(name)).is_some()), [true; 8]);
        let taken = ["a", "...", "..a", " ", "\u{fffd}", "\\", "a\nb", "-rf"];
        assert_eq!(taken.map(|name| refusal(OsStr::new(name))), [None; 8]);
    }

    #[test]
    fn of_equal_names_only_the_last_is_not_followed_by_another() {
        let mut names = Names::default();
        let order = ["a", "b", "a", "c", "b", "a"];
        for name in order {
            names.push(OsStr::new(name));
        }
        names.push_other("c");
        names.push_other("e");
        names.push(OsStr::new("\u{fffd}\u{fffd}x"));
        let names = names.finish();
        let known = ["a", "b", "c", "d", "e", ""].map(|name| names.contains(OsStr::new(name)));
        assert_eq!(known, [true, true, true, false, true, false]);
        let lossy = [&b"\xff\xfex"[..], b"\xffx"].map(|name| names.contains(OsStr::from_bytes(name)));
        assert_eq!(lossy, [true, false]);
        let mut repeated = names.into_repeated();
        assert_eq!(order.map(|name| repeated.is_followed(OsStr::new(name))), [true, true, true, false, false, false]);
        assert!(!repeated.is_followed(OsStr::new("d")));
    }
}
