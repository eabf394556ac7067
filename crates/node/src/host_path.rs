//! The directory of a pod's volume on the node.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// The volume of a pod, as the kubelet names its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeDirectory {
    /// `volumes`, or `volumeDevices` for devices.
    pub(crate) folder: &'static str,
    /// The name within the folder of the volume's plugin, such as `data` or `pvc-1/mount`.
    pub(crate) name: String,
}

/// The reason why the directory of a volume is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostPathError {
    #[error("the pod has no volume {0}")]
    NoVolume(String),
    #[error("cannot read {path}, in which the kubelet has the volumes of pods: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "expected one matching path below {path} for {name}, got {count}: the volume is not mounted on this node, or in a way that is not known"
    )]
    Matches { path: PathBuf, name: String, count: usize },
    #[error(
        "the DaemonSet of the node agent mounts no host path at /host_pods, so volumes of pods cannot be reached; install the node agent without --node-agent-disable-host-path"
    )]
    NoHostPath,
}

/// The directory of a volume of a pod's spec, with its PersistentVolume where it has one.
pub(crate) fn directory_of(volume: &Value, persistent_volume: Option<&Value>) -> VolumeDirectory {
    let mount = |name: &str, is_csi: bool| match is_csi {
        true => format!("{name}/mount"),
        false => name.to_owned(),
    };
    if let Some(persistent) = persistent_volume {
        let name = persistent["metadata"]["name"].as_str().unwrap_or_default();
        if persistent["spec"]["volumeMode"] == "Block" {
            return VolumeDirectory { folder: "volumeDevices", name: name.to_owned() };
        }
        return VolumeDirectory { folder: "volumes", name: mount(name, !persistent["spec"]["csi"].is_null()) };
    }
    let name = volume["name"].as_str().unwrap_or_default();
    VolumeDirectory { folder: "volumes", name: mount(name, !volume["csi"].is_null()) }
}

/// The path below `root`, the pods' directories of this node, of a volume of the pod with this UID. Exactly one plugin has it.
///
/// # Errors
/// [`HostPathError`].
pub(crate) fn find(root: &Path, pod_uid: &str, directory: &VolumeDirectory) -> Result<PathBuf, HostPathError> {
    let folder = root.join(pod_uid).join(directory.folder);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(source) => return Err(HostPathError::Read { path: folder, source }),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| HostPathError::Read { path: folder.clone(), source })?;
        let path = entry.path().join(&directory.name);
        if path.symlink_metadata().is_ok() {
            found.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => Err(HostPathError::Matches { path: folder, name: directory.name.clone(), count: found.len() }),
    }
}

/// The same path as the node has it.
pub(crate) fn on_the_node(path: &Path, root: &Path, host_root: &str) -> PathBuf {
    match path.strip_prefix(root) {
        Ok(below) => Path::new(host_root).join(below),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_directory_of_a_volume_is_named_as_the_kubelet_names_it() {
        let volume =
            |mode: &str, csi: Value| json!({"metadata": {"name": "pv-1"}, "spec": {"volumeMode": mode, "csi": csi}});
        let (csi, plain, block) =
            (volume("Filesystem", json!({})), volume("Filesystem", Value::Null), volume("Block", json!({})));
        let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "c"}});
        for (volume, persistent, folder, name) in [
            (&claim, Some(&csi), "volumes", "pv-1/mount"),
            (&claim, Some(&plain), "volumes", "pv-1"),
            (&claim, Some(&block), "volumeDevices", "pv-1"),
            (&json!({"name": "scratch", "emptyDir": {}}), None, "volumes", "scratch"),
            (&json!({"name": "inline", "csi": {"driver": "d"}}), None, "volumes", "inline/mount"),
        ] {
            let expected = VolumeDirectory { folder, name: name.to_owned() };
            assert_eq!(directory_of(volume, persistent), expected);
        }
    }

    #[test]
    fn exactly_one_plugin_has_the_volume() {
        let root = tempfile::tempdir().unwrap();
        let made = |path: &str| std::fs::create_dir_all(root.path().join(path)).unwrap();
        made("uid/volumes/kubernetes.io~csi/pv-1/mount");
        made("uid/volumes/kubernetes.io~empty-dir/cache");
        let directory = |name: &str| VolumeDirectory { folder: "volumes", name: name.to_owned() };
        let path = find(root.path(), "uid", &directory("pv-1/mount")).unwrap();
        let host = on_the_node(&path, root.path(), "/var/lib/kubelet/pods");
        assert_eq!(host, Path::new("/var/lib/kubelet/pods/uid/volumes/kubernetes.io~csi/pv-1/mount"));
        let none = find(root.path(), "uid", &directory("pv-2")).unwrap_err();
        assert!(matches!(none, HostPathError::Matches { count: 0, .. }), "{none}");
        made("uid/volumes/other/cache");
        let two = find(root.path(), "uid", &directory("cache")).unwrap_err();
        assert!(matches!(two, HostPathError::Matches { count: 2, .. }), "{two}");
        assert!(matches!(find(root.path(), "other", &directory("cache")), Err(HostPathError::Read { .. })));
    }
}
