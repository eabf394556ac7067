//! The plugins of the server: built-in ones, and the programs in its plugin directory.

use super::credentials::CredentialFiles;
use async_trait::async_trait;
use lifeboat_action::{Actions, VolumeSnapshotter};
use lifeboat_api::{BackupStorageLocation, ObjectMeta, PluginInfo, SecretKeySelector, VolumeSnapshotLocation};
use lifeboat_bucket::{BlobStore, StorageAccess};
use lifeboat_control::Extensions;
use lifeboat_operation::Journal;
use lifeboat_plugin::{HostOptions, PluginHost, PluginIdentity, PluginKind, PluginName};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Time after which a program that nothing uses is stopped.
const IDLE: Duration = Duration::from_secs(60);
/// Key of the configuration that a location may not set itself: the server sets the path of the file with its
/// credentials (velero: internal/credentials/file_store.go).
const CREDENTIALS_FILE: &str = "credentialsFile";

/// The plugins of a server.
#[derive(Debug)]
pub(crate) struct Plugins {
    host: PluginHost,
    credentials: CredentialFiles,
    /// Stores that are built in and left to programs.
    preferred: Vec<PluginName>,
}

/// Settings for finding and calling the programs of a server.
#[derive(Debug)]
pub(crate) struct Search {
    /// Where they lie.
    pub(crate) directory: PathBuf,
    /// Longest time for one call.
    pub(crate) call_timeout: Duration,
    /// Stores for which a program is used though they are built in.
    pub(crate) preferred: Vec<PluginName>,
}

impl Plugins {
    /// Finds the programs of the plugin directory and asks each what it has.
    ///
    /// # Errors
    /// Everything that is wrong with any of them, or that one is preferred which none has.
    pub(crate) async fn discover(search: Search, credentials: CredentialFiles) -> anyhow::Result<Self> {
        let Search { directory, call_timeout, preferred } = search;
        let (place, built_in) = (directory.display().to_string(), built_in());
        let is_store = |plugin: &&PluginIdentity| plugin.kind == PluginKind::ObjectStore;
        let options = HostOptions {
            directory,
            arguments: own_arguments(std::env::args_os()),
            environment: std::env::vars_os().collect(),
            replaceable: built_in.iter().filter(is_store).cloned().collect(),
            built_in,
            call_timeout,
            idle_timeout: IDLE,
        };
        let plugins = Self { host: PluginHost::discover(options).await?, credentials, preferred };
        for name in &plugins.preferred {
            if !plugins
                .host
                .plugins()
                .iter()
                .any(|plugin| plugin.kind == PluginKind::ObjectStore && plugin.name == *name)
            {
                anyhow::bail!(
                    "--prefer-plugins {name}: no program in the plugin directory, which is {place}, has an object store of this name: \
                     add it with `plugin add IMAGE`, or take the name off --prefer-plugins"
                );
            }
        }
        for plugin in plugins.host.plugins().iter().filter(|plugin| !plugins.is_used(plugin)) {
            tracing::info!(
                name = plugin.name.as_str(),
                "the built-in object store is used, not that of a program; --prefer-plugins changes it"
            );
        }
        Ok(plugins)
    }

    /// Returns true if a program is used for the object stores of this provider.
    pub(crate) fn has_store(&self, provider: &str) -> bool {
        let Ok(name) = PluginName::of_provider(provider) else { return false };
        let store = PluginIdentity { kind: PluginKind::ObjectStore, name };
        self.host.plugins().contains(&store) && self.is_used(&store)
    }

    /// Returns true if a plugin of a program is used instead of a built-in one.
    fn is_used(&self, plugin: &PluginIdentity) -> bool {
        self.preferred.contains(&plugin.name) || !built_in().contains(plugin)
    }

    /// The bucket of a location by a program; its keys are whole.
    pub(crate) async fn object_store(
        &self,
        location: &BackupStorageLocation,
        access: StorageAccess,
    ) -> Result<Arc<dyn BlobStore>, String> {
        let name = PluginName::of_provider(&location.spec.provider).map_err(|e| e.to_string())?;
        let file = self.file(&location.metadata, location.spec.credential.as_ref(), access.credentials)?;
        let mut config = settings(&location.spec.config, file);
        let storage = &location.spec.object_storage;
        config.insert("bucket".to_owned(), storage.bucket.trim_matches('/').to_owned());
        config.insert("prefix".to_owned(), storage.prefix.trim_matches('/').to_owned());
        if let Some(pem) = access.ca_bundle {
            let pem = String::from_utf8(pem).map_err(|_| "the certificates of the location are no text".to_owned())?;
            config.insert("caCert".to_owned(), pem);
        }
        self.host.object_store(&name, config).await.map_err(|e| e.to_string())
    }

    /// Ends all programs.
    pub(crate) async fn shut_down(&self) {
        self.host.shut_down().await;
    }

    /// The file with the credentials of a location, which its program reads; `None` when the location names no Secret.
    fn file(
        &self,
        location: &ObjectMeta,
        secret: Option<&SecretKeySelector>,
        credentials: Option<Vec<u8>>,
    ) -> Result<Option<String>, String> {
        let (Some(secret), Some(bytes)) = (secret, credentials) else { return Ok(None) };
        self.credentials.write(&location.namespace, secret, &bytes).map(Some)
    }
}

/// Returns the arguments of a server's own command line after the word `server`: its programs are started with them
/// (velero: pkg/plugin/clientmgmt/process/client_builder.go).
fn own_arguments(all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    all.skip_while(|word| word != "server").skip(1).collect()
}

fn settings(config: &BTreeMap<String, String>, file: Option<String>) -> BTreeMap<String, String> {
    let mut config = config.clone();
    config.remove(CREDENTIALS_FILE);
    config.extend(file.map(|file| (CREDENTIALS_FILE.to_owned(), file)));
    config
}

#[async_trait]
impl Extensions for Plugins {
    async fn actions(&self, journal: &Journal) -> Result<Actions, String> {
        self.host.actions(journal).await.map_err(|e| e.to_string())
    }

    async fn volume_snapshotter(
        &self,
        location: &VolumeSnapshotLocation,
        credentials: Option<Vec<u8>>,
        journal: &Journal,
    ) -> Result<Arc<dyn VolumeSnapshotter>, String> {
        let name = PluginName::of_provider(&location.spec.provider).map_err(|e| e.to_string())?;
        let file = self.file(&location.metadata, location.spec.credential.as_ref(), credentials)?;
        let config = settings(&location.spec.config, file);
        self.host.volume_snapshotter(&name, config, journal).await.map_err(|e| e.to_string())
    }

    fn plugins(&self) -> Vec<PluginInfo> {
        let is_left =
            |plugin: &PluginIdentity| plugin.kind == PluginKind::ObjectStore && self.preferred.contains(&plugin.name);
        let own = built_in().into_iter().filter(|plugin| !is_left(plugin));
        let all = own.chain(self.host.plugins().iter().filter(|plugin| self.is_used(plugin)).cloned());
        all.map(|plugin| PluginInfo {
            name: plugin.name.to_string(),
            kind: plugin.kind.to_string(),
            ..PluginInfo::default()
        })
        .collect()
    }
}

/// Returns the built-in plugins, in Velero's order (velero: pkg/cmd/server/plugin/plugin.go).
pub(crate) fn built_in() -> Vec<PluginIdentity> {
    let stores = lifeboat_provider::plugin_names();
    let kinds: [(PluginKind, &[&str]); 7] = [
        (PluginKind::BackupItemAction, &lifeboat_backup::BUILT_IN_ACTIONS),
        (PluginKind::BackupItemActionV2, &lifeboat_volume::csi::BACKUP_ACTIONS),
        (PluginKind::ObjectStore, &stores),
        (PluginKind::RestoreItemAction, &lifeboat_restore::BUILT_IN_ACTIONS),
        (PluginKind::RestoreItemActionV2, &lifeboat_volume::csi::RESTORE_ACTIONS),
        (PluginKind::DeleteItemAction, &lifeboat_volume::csi::DELETE_ACTIONS),
        (PluginKind::ItemBlockAction, &lifeboat_backup::BUILT_IN_BLOCK_ACTIONS),
    ];
    let all = kinds.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, *name)));
    all.filter_map(|(kind, name)| Some(PluginIdentity { kind, name: name.parse().ok()? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_listed_in_veleros_order() {
        let all: Vec<String> = built_in().iter().map(|plugin| format!("{} {}", plugin.kind, plugin.name)).collect();
        let expected = [
            "BackupItemAction velero.io/pod",
            "BackupItemAction velero.io/pv",
            "BackupItemAction velero.io/service-account",
            "BackupItemActionV2 velero.io/csi-pvc-backupper",
            "BackupItemActionV2 velero.io/csi-volumesnapshot-backupper",
            "BackupItemActionV2 velero.io/csi-volumesnapshotclass-backupper",
            "BackupItemActionV2 velero.io/csi-volumesnapshotcontent-backupper",
            "ObjectStore velero.io/aws",
            "ObjectStore lifeboat.io/directory",
            "RestoreItemAction velero.io/add-pvc-from-pod",
            "RestoreItemAction velero.io/admission-webhook-configuration",
            "RestoreItemAction velero.io/apiservice",
            "RestoreItemAction velero.io/change-image-name",
            "RestoreItemAction velero.io/change-storage-class",
            "RestoreItemAction velero.io/cluster-role-bindings",
            "RestoreItemAction velero.io/crd-preserve-fields",
            "RestoreItemAction velero.io/job",
            "RestoreItemAction velero.io/pod",
            "RestoreItemAction velero.io/pod-volume-restore",
            "RestoreItemAction velero.io/pvc",
            "RestoreItemAction velero.io/role-bindings",
            "RestoreItemAction velero.io/secret",
            "RestoreItemAction velero.io/service",
            "RestoreItemAction velero.io/service-account",
            "RestoreItemActionV2 velero.io/csi-pvc-restorer",
            "RestoreItemActionV2 velero.io/csi-volumesnapshot-restorer",
            "RestoreItemActionV2 velero.io/csi-volumesnapshotclass-restorer",
            "RestoreItemActionV2 velero.io/csi-volumesnapshotcontent-restorer",
            "RestoreItemActionV2 lifeboat.io/csi-volumegroupsnapshot-restorer",
            "DeleteItemAction velero.io/csi-volumesnapshotcontent-delete",
            "ItemBlockAction velero.io/pod",
            "ItemBlockAction velero.io/pvc",
            "ItemBlockAction velero.io/service-account",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn programs_get_what_follows_the_word_server() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let given =
            own_arguments(words("/velero --features=EnableCSI server --log-level=debug --plugin-dir /p").into_iter());
        assert_eq!(given, words("--log-level=debug --plugin-dir /p"));
    }

    #[test]
    fn a_location_cannot_name_the_file_with_its_credentials() {
        let config = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let given = config(&[("region", "r"), (CREDENTIALS_FILE, "/etc/shadow")]);
        assert_eq!(settings(&given, None), config(&[("region", "r")]));
        let file = Some("/tmp/f".to_owned());
        assert_eq!(settings(&given, file), config(&[("region", "r"), (CREDENTIALS_FILE, "/tmp/f")]));
    }
}
