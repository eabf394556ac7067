//! Files with the credentials of locations, for programs that read them (velero: internal/credentials/file_store.go).

use lifeboat_api::SecretKeySelector;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A folder with a file for each key of a Secret that a location names.
#[derive(Debug)]
pub(crate) struct CredentialFiles {
    folder: PathBuf,
}

impl CredentialFiles {
    /// Keeps them below this folder, which is made when it is needed.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Writes the credentials of a Secret of this namespace, anew each time, and returns the path of the file. Only
    /// this user can read it; concurrent readers see either the old or the new contents, whole.
    ///
    /// # Errors
    /// Returns the reason why it cannot be written, for people.
    pub(crate) fn write(&self, namespace: &str, secret: &SecretKeySelector, bytes: &[u8]) -> Result<String, String> {
        let is_plain = |part: &str| !part.is_empty() && !part.contains('/') && part != "." && part != "..";
        if ![namespace, &secret.name, &secret.key].into_iter().all(is_plain) {
            return Err(format!("no file can be named after the key {:?} of Secret {:?}", secret.key, secret.name));
        }
        // In a folder of the Secret: `a-b` with the key `c` is not `a` with the key `b-c`.
        let folder = self.folder.join(namespace).join(&secret.name);
        let path = folder.join(&secret.key);
        written(&folder, &path, bytes).map_err(|e| {
            format!("the credentials of Secret {} cannot be written to {}: {e}", secret.name, path.display())
        })?;
        path.into_os_string().into_string().map_err(|path| format!("{} is no text", path.to_string_lossy()))
    }
}

fn written(folder: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn secret(name: &str, key: &str) -> SecretKeySelector {
        SecretKeySelector { name: name.into(), key: key.into(), ..SecretKeySelector::default() }
    }

    #[test]
    fn credentials_are_replaced_and_only_ours_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let files = CredentialFiles::new(folder.path().join("credentials"));
        for text in ["old", "new"] {
            let path = files.write("velero", &secret("cloud", "key"), text.as_bytes()).unwrap();
            assert_eq!(Path::new(&path), folder.path().join("credentials/velero/cloud/key"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let left = std::fs::read_dir(folder.path().join("credentials/velero/cloud")).unwrap();
        assert_eq!(left.count(), 1);
    }

    #[test]
    fn each_key_of_each_secret_has_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = CredentialFiles::new(folder.path().to_owned());
        let one = files.write("velero", &secret("a", "b-c"), b"one").unwrap();
        let other = files.write("velero", &secret("a-b", "c"), b"other").unwrap();
        let read = [one, other].map(|path| std::fs::read_to_string(path).unwrap());
        assert_eq!(read, ["one", "other"]);
    }

    #[test]
    fn no_key_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let files = CredentialFiles::new(folder.path().to_owned());
        for (namespace, name, key) in [("..", "a", "b"), ("v", "a", "../b"), ("v/x", "a", "b"), ("", "a", "b")] {
            assert!(files.write(namespace, &secret(name, key), b"x").is_err(), "{namespace} {name} {key}");
        }
    }
}
