//! The claim from which the snapshot of a DataUpload is read, and the nodes on which its volume can be used. Pure.

use crate::config::BackupClaim;
use crate::exposer::moved_snapshot::MovedSnapshot;
use crate::kube::text;
use crate::transfer::Transfer;
use lifeboat_api::NodeOs;
use lifeboat_object::Quantity;
use serde_json::{Value, json};

/// In `backupPVC.annotations`: the pod is kept off the nodes at which the source is attached.
pub(crate) const FAST_PROVISIONING: &str = "csi.vsphere.volume/fast-provisioning";

/// The source of a snapshot, as far as a claim from it depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotSource<'a> {
    /// The claim of which the snapshot was taken; `None` when it is gone.
    pub(crate) claim: Option<&'a Value>,
    /// Its storage class.
    pub(crate) class: &'a str,
    pub(crate) moved: &'a MovedSnapshot,
    /// The entry of its class in `backupPVC`.
    pub(crate) settings: &'a BackupClaim,
}

impl SnapshotSource<'_> {
    /// Returns true if it is a device. A claim that is gone is known by the content of its snapshot; `None` when that does not say.
    pub(crate) fn is_block(&self) -> Option<bool> {
        match self.claim {
            Some(claim) => Some(text(claim, &["spec", "volumeMode"]) == "Block"),
            None => Some(self.moved.volume_mode.as_str()).filter(|mode| !mode.is_empty()).map(|mode| mode == "Block"),
        }
    }

    /// The storage class of the claim that is made.
    pub(crate) fn final_class(&self) -> &str {
        self.settings.final_class(self.class)
    }

    /// The size of the claim that is made: as the driver says, else that of the source, whose volume may be larger than was asked for. `None`
    /// when neither is known.
    fn size(&self) -> Option<&str> {
        let known = |size: &str| Quantity::parse(size).filter(|size| !size.is_zero());
        let restore_size = self.moved.restore_size.as_str();
        if known(restore_size).is_some() {
            return Some(restore_size);
        }
        let claim = self.claim?;
        let asked = text(claim, &["spec", "resources", "requests", "storage"]);
        let actual = text(claim, &["status", "capacity", "storage"]);
        match (known(asked), known(actual)) {
            (None, None) => None,
            (Some(asked_size), Some(actual_size)) if actual_size.exceeds(asked_size) => Some(actual),
            (Some(_), _) => Some(asked),
            (None, Some(_)) => Some(actual),
        }
    }
}

/// The claim; an error says what is not known.
pub(crate) fn backup_claim(transfer: &Transfer, of: &SnapshotSource<'_>) -> Result<Value, String> {
    const GONE: &str = "the claim of the snapshot is gone, and the snapshot does not say";
    let is_block = match transfer.is_in_blocks() {
        true => true,
        false => of.is_block().ok_or_else(|| format!("{GONE} if its volume is a device"))?,
    };
    let size = of.size().ok_or_else(|| format!("{GONE} how large its volume is"))?;
    let name = &transfer.meta.name;
    let mut metadata = json!({
        "name": name, "namespace": transfer.meta.namespace, "ownerReferences": [transfer.owner_reference()],
    });
    if !of.settings.annotations.is_empty() {
        metadata["annotations"] = json!(of.settings.annotations);
    }
    let mut spec = json!({
        "accessModes": [if of.settings.is_read_only { "ReadOnlyMany" } else { "ReadWriteOnce" }],
        "volumeMode": if is_block { "Block" } else { "Filesystem" }, "resources": {"requests": {"storage": size}},
        "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name},
    });
    if !of.final_class().is_empty() {
        spec["storageClassName"] = json!(of.final_class());
    }
    Ok(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}))
}

/// The terms of which a node must fulfil one to use volumes that are made from the snapshot: those of the source's volume, where its class
/// makes volumes for the node of their first pod; empty for any node.
pub(crate) fn topology(class: Option<&Value>, volume: Option<&Value>) -> Vec<Value> {
    let is_late = class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer");
    let terms = volume.map(|volume| &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]);
    terms.filter(|_| is_late).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The facts that tell the operating system of a volume's nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VolumeUsers<'a> {
    pub(crate) is_block: bool,
    /// The nodes at which the volume is attached, and the node that the scheduler has chosen for its first pod.
    pub(crate) nodes: &'a [Value],
    pub(crate) class: Option<&'a Value>,
}

/// The operating system of the nodes that use a volume: devices are used by Linux only; then a node that uses it tells, then the file system.
pub(crate) fn os_of(users: VolumeUsers<'_>) -> NodeOs {
    let is_windows = |os: &str| if os == "windows" { NodeOs::Windows } else { NodeOs::Linux };
    if users.is_block {
        return NodeOs::Linux;
    }
    let known = |node: &Value| {
        Some(text(node, &["metadata", "labels", "kubernetes.io/os"])).filter(|os| !os.is_empty()).map(is_windows)
    };
    users.nodes.iter().find_map(known).unwrap_or_else(|| {
        let file_system = users.class.map_or("", |class| text(class, &["parameters", "csi.storage.k8s.io/fstype"]));
        if file_system.eq_ignore_ascii_case("ntfs") { NodeOs::Windows } else { NodeOs::Linux }
    })
}
