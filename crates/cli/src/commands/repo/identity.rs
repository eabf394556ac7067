//! The source of snapshots, as kopia names it: user, host and path.

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The user and host of every snapshot of Velero.
pub(super) const VELERO: &str = "default";

/// The user of this process, in lower case: by its number in the list of users, else by the environment.
pub(super) fn user() -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = std::fs::metadata("/proc/self").ok().map(|process| process.uid());
    let name = number.and_then(|number| name_of(&users, number)).map(str::to_owned);
    let name = name.or_else(|| std::env::var("USER").ok()).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "unknown".to_owned()).to_lowercase()
}

/// The name of this machine, in lower case.
pub(super) fn host() -> String {
    let name =
        ["/proc/sys/kernel/hostname", "/etc/hostname"].iter().find_map(|file| std::fs::read_to_string(file).ok());
    let name = name.map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "localhost".to_owned())
}

/// The name of a user in the list of users.
fn name_of(users: &str, number: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, of_line) = (fields.next()?, fields.next()?, fields.next()?);
        (of_line.parse() == Ok(number)).then_some(name)
    })
}

/// The path of a source on this machine: absolute, and without `.` and `..`. Links stay, as in kopia.
pub(super) fn path(path: &Path) -> std::io::Result<String> {
    let mut clean = PathBuf::new();
    for part in std::path::absolute(path)?.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            part => clean.push(part.as_os_str()),
        }
    }
    Ok(clean.as_os_str().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number_and_a_path_is_cleaned() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbad\nann:x:1000:1000::/:\n";
        assert_eq!([0, 1000, 1].map(|number| name_of(users, number)), [Some("root"), Some("ann"), None]);
        for (given, expected) in [("/", "/"), ("/a//b/", "/a/b"), ("/a/./b/../c", "/a/c"), ("/../a", "/a")] {
            assert_eq!(path(Path::new(given)).unwrap(), expected, "{given}");
        }
        assert!(path(Path::new("x")).unwrap().ends_with("/x"));
    }
}
