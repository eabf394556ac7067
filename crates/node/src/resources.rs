//! The types of Kubernetes that the node agent speaks of.

use lifeboat_object::ApiResource;

pub(crate) fn pods() -> ApiResource {
    ApiResource::new("", "v1", "pods", "Pod")
}

pub(crate) fn claims() -> ApiResource {
    ApiResource::new("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
}

pub(crate) fn volumes() -> ApiResource {
    ApiResource::new("", "v1", "persistentvolumes", "PersistentVolume")
}

pub(crate) fn nodes() -> ApiResource {
    ApiResource::new("", "v1", "nodes", "Node")
}

pub(crate) fn events() -> ApiResource {
    ApiResource::new("", "v1", "events", "Event")
}

pub(crate) fn config_maps() -> ApiResource {
    ApiResource::new("", "v1", "configmaps", "ConfigMap")
}

pub(crate) fn secrets() -> ApiResource {
    ApiResource::new("", "v1", "secrets", "Secret")
}

pub(crate) fn daemon_sets() -> ApiResource {
    ApiResource::new("apps", "v1", "daemonsets", "DaemonSet")
}

pub(crate) fn storage_classes() -> ApiResource {
    ApiResource::new("storage.k8s.io", "v1", "storageclasses", "StorageClass")
}

pub(crate) fn attachments() -> ApiResource {
    ApiResource::new("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment")
}

pub(crate) fn csi_nodes() -> ApiResource {
    ApiResource::new("storage.k8s.io", "v1", "csinodes", "CSINode")
}

pub(crate) fn priority_classes() -> ApiResource {
    ApiResource::new("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
}

pub(crate) fn snapshots() -> ApiResource {
    ApiResource::new("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot")
}

pub(crate) fn snapshot_contents() -> ApiResource {
    ApiResource::new("snapshot.storage.k8s.io", "v1", "volumesnapshotcontents", "VolumeSnapshotContent")
}
