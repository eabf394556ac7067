//! Rules of what is left out: those of the policy and of files in the tree (`.kopiaignore`), from the root down (kopia:
//! fs/ignorefs).

mod class;
mod pattern;

use crate::handles::open_beneath;
use lifeboat_kopia::format::policy::FilesPolicy;
use pattern::Pattern;
use rustix::fs::{Mode, OFlags, fstat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// The most bytes of a file with rules.
const MAX_FILE: u64 = 1 << 20;
/// The file that marks a directory as a cache, and the bytes with which it begins.
const CACHE_MARK: (&str, &[u8]) = ("CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55");

/// The rules that count in a directory and below it.
#[derive(Debug, Default)]
pub(super) struct Rules {
    above: Option<Arc<Rules>>,
    patterns: Vec<Pattern>,
    /// Files that may have more rules.
    files: Vec<String>,
    /// The longest file; 0 for any.
    pub(super) max_file_size: u64,
    /// True where other file systems are left out.
    pub(super) one_file_system: bool,
}

impl Rules {
    /// The rules of a directory. Those that cannot be read are passed over, so that nothing is lost by them, and told.
    pub(super) fn of_directory(
        above: &Arc<Self>,
        path: &str,
        policy: Option<&FilesPolicy>,
        directory: &File,
        tell: &mut dyn FnMut(String),
    ) -> Arc<Self> {
        let shown = |name: &str| format!("{path}/{name}").split_off(1);
        let names = policy.map_or(&above.files, |policy| &policy.dot_ignore_files);
        let texts: Vec<(&String, String)> = names
            .iter()
            .filter_map(|name| match read(directory, name) {
                Ok(text) => Some((name, text?)),
                Err(why) => {
                    tell(format!("the rules in {} do not count: {why}", shown(name)));
                    None
                }
            })
            .collect();
        if texts.is_empty() && policy.is_none() {
            return above.clone();
        }
        let mut rules = Self {
            above: Some(above.clone()),
            patterns: Vec::new(),
            files: names.clone(),
            max_file_size: above.max_file_size,
            one_file_system: above.one_file_system,
        };
        let mut add = |text: &str, origin: &str| match Pattern::parse(text, path) {
            Ok(pattern) => rules.patterns.push(pattern),
            Err(why) => tell(format!("the rule {text:?} of {origin} does not count: {why}")),
        };
        for rule in policy.iter().flat_map(|policy| &policy.ignore) {
            add(rule, "the policy");
        }
        for (name, text) in &texts {
            for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
                add(line, &shown(name));
            }
        }
        if let Some(policy) = policy {
            if policy.max_file_size > 0 {
                rules.max_file_size = policy.max_file_size.unsigned_abs();
            }
            rules.one_file_system = policy.one_file_system.unwrap_or(false);
        }
        Arc::new(rules)
    }

    /// True where an entry at a path, which begins with a slash, is left out: of the rules that say something of it the lowest
    /// one counts, and of one directory the last.
    pub(super) fn leave_out(&self, path: &str, is_directory: bool) -> bool {
        let says = |pattern: &Pattern| pattern.leaves_out(path, is_directory) != pattern.is_negated();
        let mut patterns = self.up().flat_map(|rules| rules.patterns.iter().rev());
        patterns.find(|pattern| says(pattern)).is_some_and(|pattern| !pattern.is_negated())
    }

    /// True where there is no rule at all.
    pub(super) fn is_empty(&self) -> bool {
        self.up().all(|rules| rules.patterns.is_empty())
    }

    /// These rules and all those above.
    fn up(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |rules| rules.above.as_deref())
    }
}

impl Drop for Rules {
    /// Ends those above that nobody else has one after the other, however many they are.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut rules) = above.and_then(Arc::into_inner) {
            above = rules.above.take();
        }
    }
}

/// The text of a file with rules, where there is one.
fn read(directory: &File, name: &str) -> Result<Option<String>, String> {
    let file = match open_beneath(directory, OsStr::new(name), OFlags::RDONLY, Mode::empty()) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(rustix::io::Errno::LOOP) => return Err("it is a symlink, and none is followed".to_owned()),
        Err(e) => return Err(format!("cannot open it: {}", std::io::Error::from(e))),
    };
    let stat = fstat(&file).map_err(|e| std::io::Error::from(e).to_string())?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|e| format!("cannot read it: {e}"))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("it is longer than {MAX_FILE} bytes"));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// True for a directory that says of itself that it is a cache.
pub(super) fn is_cache(directory: &File) -> bool {
    let (name, mark) = CACHE_MARK;
    let Ok(mut file) = open_beneath(directory, OsStr::new(name), OFlags::RDONLY, Mode::empty()) else { return false };
    let mut begin = vec![0; mark.len()];
    file.metadata().is_ok_and(|metadata| metadata.is_file()) && file.read_exact(&mut begin).is_ok() && begin == mark
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(ignore: &[&str]) -> FilesPolicy {
        FilesPolicy {
            ignore: ignore.iter().map(|rule| (*rule).to_owned()).collect(),
            dot_ignore_files: vec![".kopiaignore".to_owned()],
            ..FilesPolicy::default()
        }
    }

    #[test]
    fn rules_of_a_directory_come_after_those_above_and_bad_ones_are_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        std::fs::write(folder.path().join(".kopiaignore"), "# none\n\n*.log\n[\n").unwrap();
        std::fs::write(folder.path().join("d/.kopiaignore"), "!keep.log\n/x\n").unwrap();
        let mut told = Vec::new();
        let (root, below) = (File::open(folder.path()).unwrap(), File::open(folder.path().join("d")).unwrap());
        let none = Arc::new(Rules::default());
        let top = Rules::of_directory(&none, "", Some(&policy(&["tmp/"])), &root, &mut |text| told.push(text));
        let rules = Rules::of_directory(&top, "/d", None, &below, &mut |text| told.push(text));
        assert_eq!(told, ["the rule \"[\" of .kopiaignore does not count: a [ has no ]"]);
        for (path, is_directory, expected) in [
            ("/d/a.log", false, true),
            ("/d/keep.log", false, false),
            ("/d/e/keep.log", false, false),
            ("/d/x", false, true),
            ("/d/e/x", false, false),
            ("/d/tmp", true, true),
            ("/d/tmp", false, false),
        ] {
            assert_eq!(rules.leave_out(path, is_directory), expected, "{path}");
        }
        assert!(top.leave_out("/keep.log", false) && !none.leave_out("/keep.log", false));
        assert!(none.is_empty() && !rules.is_empty());
    }

    #[test]
    fn a_cache_is_known_by_the_beginning_of_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        let directory = File::open(folder.path()).unwrap();
        let mark = folder.path().join("CACHEDIR.TAG");
        assert!(!is_cache(&directory));
        std::fs::write(&mark, "Signature: other").unwrap();
        assert!(!is_cache(&directory));
        std::fs::write(&mark, "Signature: 8a477f597d28d172789f06886806bc55\nmore").unwrap();
        assert!(is_cache(&directory));
    }
}
