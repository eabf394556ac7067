//! Finds and reads the kubeconfig, by the rules of client-go.
//!
//! A file that is there and cannot be used is an error, and never a reason to look elsewhere: the next place may be
//! another cluster. In one thing we are stricter: `$KUBECONFIG` that names nothing but missing files is an error too.

use super::error::ConnectError;
use kube::config::{Kubeconfig, KubeconfigError};
use lifeboat_object::chain;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::PathBuf;

/// The places where a kubeconfig may be. The first of these places that names a file decides.
#[derive(Debug, Default)]
pub(super) struct KubeconfigPaths {
    /// The file that was asked for.
    pub(super) given: Option<PathBuf>,
    /// The files of `$KUBECONFIG`, which are read as one; missing ones are passed over.
    pub(super) listed: Vec<PathBuf>,
    /// `~/.kube/config`.
    pub(super) home: Option<PathBuf>,
}

/// A kubeconfig that was read.
#[derive(Debug)]
pub(super) struct LoadedKubeconfig {
    pub(super) config: Kubeconfig,
    /// The files that it was read from, as messages name them.
    pub(super) place: String,
}

impl KubeconfigPaths {
    pub(super) fn new(given: Option<PathBuf>, variable: Option<&OsStr>, home: Option<PathBuf>) -> Self {
        let paths = variable.into_iter().flat_map(std::env::split_paths);
        let listed = paths.filter(|path| !path.as_os_str().is_empty()).collect();
        Self { given, listed, home: home.map(|home| home.join(".kube/config")) }
    }

    /// Reads the first place that names a file; `None` when there is no kubeconfig at all.
    pub(super) fn read(&self) -> Result<Option<LoadedKubeconfig>, ConnectError> {
        if let Some(file) = &self.given {
            return match read(file)? {
                Some(config) => Ok(Some(LoadedKubeconfig { config, place: file.display().to_string() })),
                None => Err(wrong(file.display().to_string(), "there is no such file".to_owned())),
            };
        }
        if self.listed.is_empty() {
            let Some(file) = &self.home else { return Ok(None) };
            return Ok(read(file)?.map(|config| LoadedKubeconfig { config, place: file.display().to_string() }));
        }
        let mut found: Option<LoadedKubeconfig> = None;
        for file in &self.listed {
            let Some(config) = read(file)? else { continue };
            let place = file.display().to_string();
            found = Some(match found {
                None => LoadedKubeconfig { config, place },
                Some(before) => {
                    let place = format!("{} and {place}", before.place);
                    let config = before.config.merge(config).map_err(|e| wrong(place.clone(), chain(&e)))?;
                    LoadedKubeconfig { config, place }
                }
            });
        }
        if found.is_none() {
            let files: Vec<String> = self.listed.iter().map(|file| file.display().to_string()).collect();
            let message =
                format!("there is no such file: {}; correct the variable or unset it", files.join(" and no "));
            return Err(wrong("of $KUBECONFIG".to_owned(), message));
        }
        Ok(found)
    }
}

/// Reads one file; `None` when it is missing.
fn read(file: &PathBuf) -> Result<Option<Kubeconfig>, ConnectError> {
    match Kubeconfig::read_from(file) {
        // As kubectl leaves it when it unsets the context: the next file may name one.
        Ok(config) => {
            Ok(Some(Kubeconfig { current_context: config.current_context.filter(|c| !c.is_empty()), ..config }))
        }
        Err(KubeconfigError::ReadConfig(e, _)) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(KubeconfigError::ReadConfig(e, _)) => Err(wrong(file.display().to_string(), e.to_string())),
        Err(e) => Err(wrong(file.display().to_string(), chain(&e))),
    }
}

pub(super) fn wrong(place: String, message: String) -> ConnectError {
    ConnectError::Kubeconfig { place, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A kubeconfig whose context is of its own name, or has none.
    fn write(folder: &Path, name: &str, current: &str) {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: \"{current}\"\ncontexts: [{{name: {name}, context: \
             {{cluster: {name}, user: u}}}}]\nclusters: [{{name: {name}, cluster: {{server: \"https://{name}\"}}}}]\n"
        );
        std::fs::write(folder.join(name), text).unwrap();
    }

    /// Looks for a kubeconfig when `$KUBECONFIG` lists these files, of which `good`, `other`, `unset` and `broken`
    /// exist. Gives the current context and all contexts, or the reason of the refusal.
    fn look(folder: &Path, given: Option<&str>, variable: Option<&str>, home: bool) -> String {
        let path = |name: &str| if name.is_empty() { String::new() } else { folder.join(name).display().to_string() };
        let variable = variable.map(|names| names.split(':').map(path).collect::<Vec<_>>().join(":"));
        let home = home.then(|| folder.join("home"));
        let places =
            KubeconfigPaths::new(given.map(|name| folder.join(name)), variable.as_deref().map(OsStr::new), home);
        let told = match places.read() {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(LoadedKubeconfig { config, place })) => {
                let names: Vec<&str> = config.contexts.iter().map(|context| context.name.as_str()).collect();
                format!("{} of {} in {place}", config.current_context.unwrap_or_default(), names.join(","))
            }
            Err(e) => e.to_string(),
        };
        told.replace(&format!("{}/", folder.display()), "")
    }

    #[test]
    fn the_first_place_that_says_something_decides() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for (name, current) in [("good", "good"), ("other", "other"), ("unset", "")] {
            write(folder, name, current);
        }
        std::fs::create_dir_all(folder.join("home/.kube")).unwrap();
        write(&folder.join("home/.kube"), "config", "config");
        std::fs::write(folder.join("broken"), "apiVersion: [").unwrap();
        std::fs::write(folder.join("empty"), "").unwrap();
        std::fs::create_dir(folder.join("directory")).unwrap();
        let missing = "cannot use the kubeconfig of $KUBECONFIG: there is no such file:";
        for (given, variable, home, expected) in [
            (None, None, false, "nothing"),
            (None, None, true, "config of config in home/.kube/config"),
            (None, Some("good"), true, "good of good in good"),
            (None, Some(""), true, "config of config in home/.kube/config"),
            (None, Some(":"), false, "nothing"),
            (None, Some("missing:good"), true, "good of good in good"),
            (None, Some("good:missing:other"), true, "good of good,other in good and other"),
            (None, Some("unset::other"), true, "other of unset,other in unset and other"),
            (None, Some("empty"), true, " of  in empty"),
            (None, Some("missing"), true, &format!("{missing} missing; correct the variable or unset it")),
            (None, Some("no:none"), true, &format!("{missing} no and no none; correct the variable or unset it")),
            (Some("other"), Some("good"), true, "other of other in other"),
            (Some("missing"), Some("good"), true, "cannot use the kubeconfig missing: there is no such file"),
        ] {
            assert_eq!(look(folder, given, variable, home), expected, "{given:?} {variable:?} {home}");
        }
        for (given, variable, file) in [
            (Some("broken"), Some("good"), "broken"),
            (None, Some("broken"), "broken"),
            (None, Some("good:broken"), "broken"),
            (None, Some("missing:directory"), "directory"),
        ] {
            let told = look(folder, given, variable, true);
            assert!(told.starts_with(&format!("cannot use the kubeconfig {file}: ")), "{told}");
        }
        std::fs::write(folder.join("home/.kube/config"), "apiVersion: [").unwrap();
        let told = look(folder, None, None, true);
        assert!(told.starts_with("cannot use the kubeconfig home/.kube/config: "), "{told}");
    }
}
