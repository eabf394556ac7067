//! The socket on which a plugin serves.

use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};
use tokio::net::UnixListener;

/// The list of groups with their numbers and members.
const GROUPS: &str = "/etc/group";
/// The group may use the socket.
const MODE: u32 = 0o660;

/// Reasons for which there is no socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error(
        "a socket could not be made in {folder} (TMPDIR or PLUGIN_UNIX_SOCKET_DIR; it must be there and be writable, and the \
         path of a socket has at most 107 bytes): {why}",
        folder = folder.display()
    )]
    Bind { folder: PathBuf, why: io::Error },
    #[error("the socket could not be given to the group {group:?} (PLUGIN_UNIX_SOCKET_GROUP): {why}")]
    Group { group: String, why: io::Error },
}

/// Listens on a new socket in this folder, which this group may use too. It is removed when the path is dropped.
pub(crate) fn listen(folder: &Path, group: Option<&str>) -> Result<(UnixListener, TempPath), SocketError> {
    let bound = tempfile::Builder::new().prefix("plugin").make_in(folder, |path| UnixListener::bind(path));
    let bound = bound.map_err(|why| SocketError::Bind { folder: folder.to_owned(), why })?;
    let (listener, path) = NamedTempFile::into_parts(bound);
    if let Some(group) = group {
        let given = give(&path, group);
        given.map_err(|why| SocketError::Group { group: group.to_owned(), why })?;
    }
    Ok((listener, path))
}

fn give(path: &Path, group: &str) -> io::Result<()> {
    let number = match group.parse() {
        Ok(number) => number,
        Err(_) => number_of(group, &std::fs::read_to_string(GROUPS)?)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{GROUPS} has no such group")))?,
    };
    chown(path, None, Some(number))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(MODE))
}

/// The number of a group, by lines such as `staff:x:50:`.
fn number_of(group: &str, groups: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(group);
        fields.nth(1).filter(|_| is_it)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};

    #[tokio::test]
    async fn a_socket_has_a_name_of_its_own_and_goes_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let (_first, path) = listen(folder.path(), None).unwrap();
        let (_second, other) = listen(folder.path(), None).unwrap();
        assert_ne!(path.to_path_buf(), other.to_path_buf());
        assert!(path.file_name().unwrap().to_str().unwrap().starts_with("plugin"));
        assert!(std::fs::metadata(&path).unwrap().file_type().is_socket());
        drop((path, other));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_group_by_number_may_use_it() {
        let folder = tempfile::tempdir().unwrap();
        // The folder's own group is one that everybody who runs this may give something to.
        let number = std::fs::metadata(folder.path()).unwrap().gid();
        let (_listener, path) = listen(folder.path(), Some(&number.to_string())).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!((metadata.gid(), metadata.mode() & 0o777), (number, MODE));
    }

    #[tokio::test]
    async fn what_is_wrong_is_said_with_the_variable() {
        let folder = tempfile::tempdir().unwrap();
        let error = listen(folder.path(), Some("no such group")).unwrap_err().to_string();
        let expected = "the socket could not be given to the group \"no such group\" (PLUGIN_UNIX_SOCKET_GROUP): /etc/group has no such group";
        assert_eq!(error, expected);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let error = listen(&folder.path().join("missing"), None).unwrap_err().to_string();
        assert!(error.contains("/missing (TMPDIR or PLUGIN_UNIX_SOCKET_DIR;"), "{error}");
    }

    #[test]
    fn a_group_is_known_by_its_name() {
        let groups = "root:x:0:\nstaffers:x:51:\nodd\nstaff:x:50:a,b\n";
        assert_eq!(
            [number_of("staff", groups), number_of("odd", groups), number_of("x", groups)],
            [Some(50), None, None]
        );
    }
}
