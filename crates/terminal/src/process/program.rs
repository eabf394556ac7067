//! Name and environment of the process: read once, at the start, and nowhere else.

use crate::flags::boolean;
use crate::process::traces::Variables;
use anyhow::{Context, Result};
use lifeboat_store::ArchiveCache;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Settings of a process that are no flags.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The name under which it was started: `lifeboat`, `velero` through a link of that name, or [`PLUGIN`] through
    /// kubectl. All hints use it.
    pub name: String,
    /// The client config file; `None` without a home.
    pub config_path: Option<PathBuf>,
    /// Where what is known of archives without index is kept; `None` without a home. One for the process: it knows what was asked for.
    pub archives: Option<ArchiveCache>,
    /// Settings for traces from the environment.
    pub traces: Variables,
    config: Config,
    namespace: Option<String>,
    may_colour: bool,
    is_terminal: bool,
}

/// The client config file: a flat JSON object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config(pub BTreeMap<String, Value>);

/// The command that users of the plugin of kubectl type.
pub const PLUGIN: &str = "kubectl lifeboat";
/// The name by which kubectl finds the plugin.
const PLUGIN_FILE: &str = "kubectl-lifeboat";
/// The name by which kubectl asks for completions of what is typed behind [`PLUGIN`].
const PLUGIN_COMPLETION: &str = "kubectl_complete-lifeboat";

/// The version, in the form that all our programs print.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The commit that this was built from, when the build sets it.
pub const COMMIT: &str = match option_env!("LIFEBOAT_GIT_SHA") {
    Some(commit) => commit,
    None => "unknown",
};

impl Program {
    /// Reads the environment. A config file that cannot be read counts as empty; the text warns of it.
    pub fn here() -> (Self, Option<String>) {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let config_path = text("HOME").map(|home| Path::new(&home).join(".config/velero/config.json"));
        // The specification has relative paths ignored.
        let cache = text("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = cache.or_else(|| text("HOME").map(|home| Path::new(&home).join(".cache")));
        let config = config_path.as_deref().map_or_else(|| Ok(Config::default()), Config::read);
        let (config, warning) = match config {
            Ok(config) => (config, None),
            Err(e) => (Config::default(), Some(format!("WARNING: Error reading config file: {e:#}"))),
        };
        let program = Self {
            name: called_as(std::env::args_os().next()),
            config_path,
            archives: cache.map(|folder| ArchiveCache::new(folder.join("lifeboat/archives"))),
            traces: Variables::read(text),
            config,
            namespace: text("VELERO_NAMESPACE"),
            may_colour: text("NO_COLOR").is_none(),
            is_terminal: std::io::stdout().is_terminal(),
        };
        (program, warning)
    }

    /// The namespace: a flag, then the config file, then the environment.
    pub fn namespace(&self, flag: Option<&str>) -> String {
        // compat: the file goes before the environment, as in Velero.
        let found = flag.or_else(|| self.config.text("namespace")).or(self.namespace.as_deref());
        found.unwrap_or("velero").to_owned()
    }

    /// Returns true if the output has colours: never when NO_COLOR is set; otherwise as the flag says; otherwise on a
    /// terminal, unless the config file switches them off.
    pub fn colour(&self, flag: Option<bool>) -> bool {
        let by_config = self.config.text("colorized").and_then(|text| boolean(text).ok()).unwrap_or(true);
        self.may_colour && flag.unwrap_or(by_config && self.is_terminal)
    }

    /// The file with certificates to trust in downloads: a flag, then the config file.
    pub fn cacert(&self, flag: Option<&Path>) -> Option<PathBuf> {
        let found = flag.map(Path::to_path_buf).or_else(|| self.config.text("cacert").map(PathBuf::from));
        found.filter(|path| !path.as_os_str().is_empty())
    }

    /// The user agent for requests to servers.
    pub fn user_agent(&self) -> String {
        // A name there has no blanks.
        let name = self.name.replace(' ', "-");
        format!("{name}/{VERSION} ({}/{}) {COMMIT}", std::env::consts::OS, architecture())
    }

    /// Returns true if it is kubectl's plugin.
    pub fn is_plugin(&self) -> bool {
        self.name == PLUGIN
    }

    /// The flag for the namespace of an object.
    pub fn object_namespace_flag(&self) -> &'static str {
        if self.is_plugin() { "--namespace" } else { "--object-namespace" }
    }
}

impl Config {
    /// The file's content; empty when there is no file.
    ///
    /// # Errors
    /// When it cannot be read or is no JSON object.
    pub fn read(path: &Path) -> Result<Self> {
        match std::fs::read(path) {
            Ok(bytes) => {
                let what = || format!("{} is no JSON object", path.display());
                Ok(Self(serde_json::from_slice(&bytes).with_context(what)?))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(e).with_context(|| format!("read {}", path.display())),
        }
    }

    /// Writes the file and the folder it is in, readable for this user alone.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let what = || format!("write {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(what)?;
        }
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path).with_context(what)?;
        let mut json = serde_json::to_vec(&self.0)?;
        json.push(b'\n');
        file.write_all(&json).with_context(what)
    }

    /// A value that is a text; others are ignored, as Velero ignores them.
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

/// Returns true if kubectl asks for completions of the plugin's commands.
pub fn completes_for_kubectl() -> bool {
    file_name(std::env::args_os().next()).is_some_and(|name| name == PLUGIN_COMPLETION)
}

fn called_as(path: Option<OsString>) -> String {
    match file_name(path) {
        None => "lifeboat".to_owned(),
        Some(name) if name == PLUGIN_FILE || name == PLUGIN_COMPLETION => PLUGIN.to_owned(),
        Some(name) => name,
    }
}

fn file_name(path: Option<OsString>) -> Option<String> {
    let path = path.map(PathBuf::from);
    let name = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty())
}

/// The processor, in Go's word for it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn program(config: Value) -> Program {
        let config = Config(serde_json::from_value(config).unwrap());
        Program { name: "velero".into(), config, may_colour: true, ..Program::default() }
    }

    #[test]
    fn the_name_is_the_last_part_of_what_was_called() {
        for (path, expected) in [
            ("/usr/bin/velero", "velero"),
            ("lifeboat", "lifeboat"),
            ("./x/velero-1.18", "velero-1.18"),
            ("/usr/bin/kubectl-lifeboat", "kubectl lifeboat"),
            ("kubectl_complete-lifeboat", "kubectl lifeboat"),
            ("", "lifeboat"),
        ] {
            assert_eq!(called_as(Some(path.into())), expected, "{path:?}");
        }
        assert_eq!(called_as(None), "lifeboat");
        let agent = program(json!({})).user_agent();
        assert!(agent.starts_with(&format!("velero/{VERSION} ({}/", std::env::consts::OS)), "{agent}");
        assert!(agent.ends_with(&format!(") {COMMIT}")), "{agent}");
        let plugin = Program { name: PLUGIN.into(), ..Program::default() };
        assert!(plugin.is_plugin() && plugin.user_agent().starts_with("kubectl-lifeboat/"), "{}", plugin.user_agent());
    }

    #[test]
    fn a_flag_goes_before_the_file_and_the_file_before_the_environment() {
        let mut plain = program(json!({}));
        let mut set = program(json!({"namespace": "file"}));
        let odd = program(json!({"namespace": 7}));
        assert_eq!((plain.namespace(None), odd.namespace(None)), ("velero".into(), "velero".into()));
        plain.namespace = Some("environment".into());
        set.namespace = Some("environment".into());
        assert_eq!((plain.namespace(None), set.namespace(None)), ("environment".into(), "file".into()));
        assert_eq!(set.namespace(Some("flag")), "flag");
        let set = program(json!({"cacert": "/file"}));
        assert_eq!(set.cacert(None), Some("/file".into()));
        assert_eq!(set.cacert(Some(Path::new("/flag"))), Some("/flag".into()));
        assert_eq!(plain.cacert(None), None);
    }

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_so() {
        let on = |config: Value, is_terminal: bool| Program { is_terminal, ..program(config) };
        assert!(on(json!({}), true).colour(None) && !on(json!({}), false).colour(None));
        assert!(on(json!({}), false).colour(Some(true)) && !on(json!({}), true).colour(Some(false)));
        assert!(!on(json!({"colorized": "F"}), true).colour(None));
        assert!(on(json!({"colorized": "F"}), true).colour(Some(true)));
        assert!(on(json!({"colorized": "perhaps"}), true).colour(None));
        let none = Program { may_colour: false, is_terminal: true, ..program(json!({})) };
        assert!(!none.colour(None) && !none.colour(Some(true)), "NO_COLOR");
    }

    #[test]
    fn the_file_is_private_and_reads_back() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b/config.json");
        assert_eq!(Config::read(&path).unwrap(), Config::default());
        let config = Config([("namespace".to_owned(), json!("n"))].into());
        config.write(&path).unwrap();
        assert_eq!(Config::read(&path).unwrap(), config);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"namespace\":\"n\"}\n");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        std::fs::write(&path, "[]").unwrap();
        assert!(Config::read(&path).is_err());
    }
}
