//! Kind and name of a plugin (velero: pkg/plugin/framework/server.go, pkg/plugin/clientmgmt/manager.go).

use lifeboat_plugin_proto::check_name;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The kind of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginKind {
    /// Changes objects on their way into a backup.
    BackupItemAction,
    /// The same, and may begin operations.
    BackupItemActionV2,
    /// Takes snapshots of volumes by the API of their storage.
    VolumeSnapshotter,
    /// Stores the files of backups.
    ObjectStore,
    /// Changes objects on their way into the cluster.
    RestoreItemAction,
    /// The same, and may begin operations.
    RestoreItemActionV2,
    /// Removes what a backup keeps elsewhere.
    DeleteItemAction,
    /// Says which objects are saved together.
    ItemBlockAction,
}

/// All kinds with their exact names, in the order in which a program reports them.
const KINDS: [(&str, PluginKind); 8] = [
    ("BackupItemAction", PluginKind::BackupItemAction),
    ("BackupItemActionV2", PluginKind::BackupItemActionV2),
    ("VolumeSnapshotter", PluginKind::VolumeSnapshotter),
    ("ObjectStore", PluginKind::ObjectStore),
    ("RestoreItemAction", PluginKind::RestoreItemAction),
    ("RestoreItemActionV2", PluginKind::RestoreItemActionV2),
    ("DeleteItemAction", PluginKind::DeleteItemAction),
    ("ItemBlockAction", PluginKind::ItemBlockAction),
];

impl PluginKind {
    /// The name that the protocol and `plugin get` use.
    #[must_use]
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The kind of this exact name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

impl Display for PluginKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name under which a plugin is registered, such as `velero.io/aws`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginName(String);

/// The reason for which a text is not the name of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid plugin name {name:?}: {why}")]
pub struct InvalidName {
    name: String,
    why: &'static str,
}

impl PluginName {
    /// The name that is meant by what a location says as its provider: one without a slash is one of `velero.io`.
    ///
    /// # Errors
    /// When that is no name.
    pub fn of_provider(provider: &str) -> Result<Self, InvalidName> {
        if provider.contains('/') { provider.parse() } else { format!("velero.io/{provider}").parse() }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for PluginName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PluginName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        check_name(text).map_err(|why| InvalidName { name: text.to_owned(), why })?;
        Ok(Self(text.to_owned()))
    }
}

/// A plugin of a program, as the program has reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginIdentity {
    /// Its kind.
    pub kind: PluginKind,
    /// Its name.
    pub name: PluginName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_by_the_rule_of_the_protocol() {
        assert_eq!("example.io/azure".parse::<PluginName>().unwrap().as_str(), "example.io/azure");
        assert!("single".parse::<PluginName>().is_err());
    }

    #[test]
    fn a_provider_without_a_slash_is_one_of_velero() {
        assert_eq!(PluginName::of_provider("aws").unwrap().as_str(), "velero.io/aws");
        assert_eq!(PluginName::of_provider("example.io/aws").unwrap().as_str(), "example.io/aws");
        assert!(PluginName::of_provider("").is_err());
    }

    #[test]
    fn kinds_go_by_their_names() {
        for (name, kind) in KINDS {
            assert_eq!((kind.name(), PluginKind::of(name)), (name, Some(kind)));
        }
        assert_eq!(PluginKind::of("PluginLister"), None);
    }
}
