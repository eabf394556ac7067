//! Finds the files of a folder that are programs (velero: pkg/plugin/clientmgmt/process/registry.go).

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The contents of a plugin folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PluginFolder {
    /// The programs, in the order in which they are asked for their plugins.
    pub(crate) programs: Vec<PathBuf>,
    /// Files that are passed over, each with the reason.
    pub(crate) skipped: Vec<(PathBuf, &'static str)>,
    /// Entries that cannot be read, a sentence each.
    pub(crate) problems: Vec<String>,
}

/// Looks through a folder and the folders in it; one that is missing holds nothing.
pub(crate) fn find(directory: &Path) -> PluginFolder {
    let mut found = PluginFolder::default();
    match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        entries => found.add_all(directory, entries.and_then(Iterator::collect)),
    }
    found
}

impl PluginFolder {
    /// Adds what a folder holds, by name; a folder in it comes as a whole at its own place.
    fn add_all(&mut self, directory: &Path, entries: io::Result<Vec<DirEntry>>) {
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(e) => return self.unreadable(directory, &e),
        };
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => {
                    self.add_all(&path, fs::read_dir(&path).and_then(Iterator::collect));
                }
                Ok(metadata) => self.add(path, &metadata),
                Err(e) => self.unreadable(&path, &e),
            }
        }
    }

    /// Adds what is no folder.
    fn add(&mut self, path: PathBuf, metadata: &Metadata) {
        let is_link = metadata.is_symlink();
        let metadata = match fs::metadata(&path) {
            Ok(target) => target,
            // That there is nothing behind the link is said when it cannot be started.
            Err(_) if is_link => return self.programs.push(path),
            Err(e) => return self.unreadable(&path, &e),
        };
        match why_not(&path, &metadata) {
            Some(why) => self.skipped.push((path, why)),
            None => self.programs.push(path),
        }
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        let path = path.display();
        self.problems.push(format!(
            "{path} cannot be read ({error}): give the server the right to read it, or take it out of the folder"
        ));
    }
}

/// The reason for which an entry that is not a folder itself is not a program; `None` when it is one.
fn why_not(path: &Path, metadata: &Metadata) -> Option<&'static str> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_executable = metadata.permissions().mode() & 0o111 != 0;
    if metadata.is_dir() {
        Some("it is a link to a folder, and links to folders are not followed")
    } else if !metadata.is_file() {
        Some("it is no file")
    } else if name.ends_with(".so") || name.contains(".so.") {
        Some("it is a shared library")
    } else if !is_executable && !name.to_lowercase().ends_with(".exe") {
        Some("it is not executable")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn file(path: PathBuf, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn programs_are_found_in_order_and_other_files_passed_over_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, mode) in [
            ("b", 0o755),
            ("a/z", 0o700),
            ("a-x", 0o711),
            ("B", 0o001),
            ("c/deep/er/y", 0o755),
            ("notes.txt", 0o644),
            ("win.EXE", 0o644),
            ("libx.so", 0o755),
            ("libx.so.1.2", 0o755),
            ("not.sort", 0o755),
        ] {
            file(path(name), mode);
        }
        symlink(path("b"), path("link")).unwrap();
        symlink(path("notes.txt"), path("link-to-notes")).unwrap();
        symlink(path("c"), path("link-to-folder")).unwrap();
        symlink(path("nothing"), path("link-to-nothing")).unwrap();
        let expected = PluginFolder {
            programs: ["B", "a/z", "a-x", "b", "c/deep/er/y", "link", "link-to-nothing", "not.sort", "win.EXE"]
                .map(path)
                .into(),
            skipped: vec![
                (path("libx.so"), "it is a shared library"),
                (path("libx.so.1.2"), "it is a shared library"),
                (path("link-to-folder"), "it is a link to a folder, and links to folders are not followed"),
                (path("link-to-notes"), "it is not executable"),
                (path("notes.txt"), "it is not executable"),
            ],
            problems: Vec::new(),
        };
        assert_eq!(find(folder.path()), expected);
    }

    #[test]
    fn a_missing_folder_holds_nothing_and_a_file_is_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find(&folder.path().join("none")), PluginFolder::default());
        file(folder.path().join("file"), 0o755);
        let problems = find(&folder.path().join("file")).problems;
        assert!(problems.len() == 1 && problems[0].contains("file cannot be read (Not a directory"), "{problems:?}");
    }
}
