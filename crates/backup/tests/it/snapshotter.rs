//! A snapshot-controller, a csi-snapshotter and a driver, as far as backups can tell: what the real ones do with the objects of
//! snapshots (external-snapshotter v8), without volumes.

use bytes::Bytes;
use lifeboat_cluster::{Cluster, ListRequest, MergePatch, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

pub(crate) const DRIVER: &str = "disk.example.com";
const GROUP_BOUND: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection";
const GROUP_CONTENT: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
const GROUP_DELETED: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";
const IN_GROUP: &str = "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection";
const BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
const CONTENT: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
const DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";

/// The behaviour of the driver and the controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    /// They do what they should.
    #[default]
    Good,
    /// No controller looks at the objects of groups.
    NoGroups,
    /// The driver refuses groups.
    Refuses(&'static str),
    /// The driver does not delete groups.
    Keeps,
    /// They go so far with a group and no further.
    Halts(Step),
}

/// The progress of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// It is there.
    Group,
    /// It has a content.
    Content,
    /// The driver has taken it.
    Taken,
    /// A member of the group is there.
    Member,
}

/// The contents of the storage: snapshots, and groups with theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Storage {
    pub(crate) snapshots: BTreeSet<String>,
    pub(crate) groups: BTreeMap<String, BTreeSet<String>>,
    /// The number of groups that were ever taken.
    pub(crate) taken: usize,
}

pub(crate) struct Snapshotter {
    pub(crate) storage: Arc<Mutex<Storage>>,
    pub(crate) mood: Arc<Mutex<Mood>>,
    _task: JoinSet<()>,
}

impl Snapshotter {
    pub(crate) fn start(cluster: Cluster) -> Self {
        let (storage, mood) = (Arc::default(), Arc::<Mutex<Mood>>::default());
        let works = Works { cluster, storage: Arc::clone(&storage), mood: Arc::clone(&mood) };
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                works.round().await;
                // Of a test whose clock is ahead, not many.
                let keeps = *works.mood.lock().unwrap() == Mood::Keeps;
                tokio::time::sleep(Duration::from_millis(if keeps { 2000 } else { 20 })).await;
            }
        });
        Self { storage, mood, _task: task }
    }

    pub(crate) fn be(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub(crate) fn storage(&self) -> Storage {
        self.storage.lock().unwrap().clone()
    }
}

/// The definitions that snapshots need, with groups in these versions.
pub(crate) fn definitions(versions: &[&str]) -> Vec<Value> {
    let of = |group: &str, kind: &str, namespaced: bool, versions: &[&str]| {
        let plural = format!("{}{}", kind.to_lowercase(), if kind.ends_with("Class") { "es" } else { "s" });
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let versions: Vec<Value> = (0..)
            .zip(versions)
            .map(|(n, name)| json!({"name": name, "served": true, "storage": n == 0, "schema": schema, "subresources": {"status": {}}}))
            .collect();
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"),
                "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter"}},
            "spec": {"group": group, "scope": if namespaced { "Namespaced" } else { "Cluster" },
                "names": {"plural": plural, "kind": kind}, "versions": versions}})
    };
    let mut out = vec![
        of("snapshot.storage.k8s.io", "VolumeSnapshot", true, &["v1"]),
        of("snapshot.storage.k8s.io", "VolumeSnapshotContent", false, &["v1"]),
        of("snapshot.storage.k8s.io", "VolumeSnapshotClass", false, &["v1"]),
    ];
    if !versions.is_empty() {
        out.push(of("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshot", true, versions));
        out.push(of("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshotContent", false, versions));
        out.push(of("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshotClass", false, versions));
    }
    out
}

struct Works {
    cluster: Cluster,
    storage: Arc<Mutex<Storage>>,
    mood: Arc<Mutex<Mood>>,
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_deleted(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn has(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| one == finalizer))
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(key).and_then(Value::as_str)
}

impl Works {
    fn of(&self, group: &str, resource: &str, kind: &str) -> Arc<ApiResource> {
        let (version, namespaced) = ("v1", !kind.ends_with("Content") && !kind.ends_with("Class"));
        Arc::new(ApiResource { namespaced, ..ApiResource::new(group, version, resource, kind) })
    }

    fn groups(&self) -> Arc<ApiResource> {
        self.of("groupsnapshot.storage.k8s.io", "volumegroupsnapshots", "VolumeGroupSnapshot")
    }

    fn group_contents(&self) -> Arc<ApiResource> {
        self.of("groupsnapshot.storage.k8s.io", "volumegroupsnapshotcontents", "VolumeGroupSnapshotContent")
    }

    fn snapshots(&self) -> Arc<ApiResource> {
        self.of("snapshot.storage.k8s.io", "volumesnapshots", "VolumeSnapshot")
    }

    fn contents(&self) -> Arc<ApiResource> {
        self.of("snapshot.storage.k8s.io", "volumesnapshotcontents", "VolumeSnapshotContent")
    }

    async fn list(&self, resource: &Arc<ApiResource>) -> Vec<Value> {
        let request = ListRequest::all(Arc::clone(resource));
        let (mut list, mut out) = (self.cluster.list(request), Vec::new());
        while let Ok(Some(bodies)) = list.next().await {
            out.extend(bodies.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap()));
        }
        out
    }

    async fn patch(&self, resource: &ApiResource, object: &Value, patch: Value) {
        let namespace = Some(text(object, "/metadata/namespace")).filter(|n| !n.is_empty());
        let subresource = patch.get("status").map(|_| "status");
        let patch = MergePatch { body: Bytes::from(patch.to_string()), subresource };
        let _ = self.cluster.patch(resource, namespace, text(object, "/metadata/name"), patch).await;
    }

    async fn create(&self, resource: &ApiResource, mut object: Value) {
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.as_str().into();
        let namespace = text(&object, "/metadata/namespace").to_owned();
        let (namespace, name) =
            ((!namespace.is_empty()).then_some(namespace), text(&object, "/metadata/name").to_owned());
        let wanted = WriteBody::of(Bytes::from(object.to_string()));
        let _ = self.cluster.create(resource, namespace.as_deref(), &name, wanted).await;
    }

    async fn delete(&self, resource: &ApiResource, object: &Value) {
        let namespace = Some(text(object, "/metadata/namespace")).filter(|n| !n.is_empty());
        let _ = self.cluster.delete(resource, namespace, text(object, "/metadata/name")).await;
    }

    async fn let_go(&self, resource: &ApiResource, object: &Value, finalizers: &[&str]) {
        let mut all = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        all.retain(|one| !finalizers.iter().any(|finalizer| one == finalizer));
        self.patch(resource, object, json!({"metadata": {"finalizers": all}})).await;
    }

    async fn round(&self) {
        let mood = self.mood.lock().unwrap().clone();
        if mood != Mood::NoGroups {
            for content in self.list(&self.group_contents()).await {
                self.group_content(&content, &mood).await;
            }
            let contents = self.list(&self.group_contents()).await;
            for group in self.list(&self.groups()).await {
                if mood != Mood::Halts(Step::Group) || is_deleted(&group) {
                    self.group(&group, &contents, &mood).await;
                }
            }
        }
        for content in self.list(&self.contents()).await {
            self.content(&content).await;
        }
        let (groups, contents) = (self.list(&self.groups()).await, self.list(&self.contents()).await);
        for snapshot in self.list(&self.snapshots()).await {
            self.snapshot(&snapshot, &groups, &contents).await;
        }
    }

    /// The csi-snapshotter with a content of a group.
    async fn group_content(&self, content: &Value, mood: &Mood) {
        let (resource, handle) = (self.group_contents(), text(content, "/status/volumeGroupSnapshotHandle"));
        let handles = &content["spec"]["source"]["groupSnapshotHandles"];
        if is_deleted(content) {
            let is_free = !handles.is_null() && text(content, "/spec/volumeGroupSnapshotRef/uid").is_empty();
            if !is_free && annotation(content, GROUP_DELETED).is_none() {
                return;
            }
            if text(content, "/spec/deletionPolicy") == "Delete" && !handle.is_empty() {
                if *mood == Mood::Keeps {
                    return self
                        .patch(&resource, content, json!({"status": {"error": {"message": "the disks are busy"}}}))
                        .await;
                }
                let named: Vec<String> = match content["status"]["volumeSnapshotInfoList"].as_array() {
                    Some(all) => all.iter().map(|one| text(one, "/snapshotHandle").to_owned()).collect(),
                    None => serde_json::from_value(handles["volumeSnapshotHandles"].clone()).unwrap_or_default(),
                };
                let named: BTreeSet<String> = named.into_iter().collect();
                let mut storage = self.storage.lock().unwrap();
                match storage.groups.get(handle) {
                    // As the specification wants it of drivers that can tell.
                    Some(all) if *all != named => return,
                    _ => drop(storage.groups.remove(handle)),
                }
            }
            return self.let_go(&resource, content, &[GROUP_CONTENT]).await;
        }
        if !content["status"].is_null() {
            return;
        }
        if !handles.is_null() {
            let error = json!({"status": {"readyToUse": false, "error": {"message": "the driver cannot tell"}}});
            return self.patch(&resource, content, error).await;
        }
        if let Mood::Refuses(why) = mood {
            return self
                .patch(&resource, content, json!({"status": {"readyToUse": false, "error": {"message": why}}}))
                .await;
        }
        if *mood == Mood::Halts(Step::Content) {
            return;
        }
        let group = format!("group-{}", text(content, "/spec/volumeGroupSnapshotRef/uid"));
        let volumes: Vec<String> =
            serde_json::from_value(content["spec"]["source"]["volumeHandles"].clone()).unwrap_or_default();
        let handle_of = |volume: &String| format!("snap-of-{volume}-{group}");
        {
            let mut storage = self.storage.lock().unwrap();
            storage.taken += 1;
            storage.groups.insert(group.clone(), volumes.iter().map(handle_of).collect());
        }
        let all: Vec<Value> = volumes
            .iter()
            .map(|v| json!({"volumeHandle": v, "snapshotHandle": handle_of(v), "readyToUse": true, "restoreSize": 8_388_608}))
            .collect();
        let status = json!({"status": {"volumeGroupSnapshotHandle": group, "readyToUse": true,
            "creationTime": "2026-11-21T09:31:57Z", "volumeSnapshotInfoList": all}});
        self.patch(&resource, content, status).await;
    }

    /// The snapshot-controller with a group.
    async fn group(&self, group: &Value, contents: &[Value], mood: &Mood) {
        let (resource, uid) = (self.groups(), text(group, "/metadata/uid"));
        let (namespace, name) = (text(group, "/metadata/namespace"), text(group, "/metadata/name"));
        let found = contents.iter().find(|content| text(content, "/spec/volumeGroupSnapshotRef/uid") == uid);
        if is_deleted(group) {
            // The real one does not find a content that it has not bound yet.
            let found = found.filter(|_| !text(group, "/status/boundVolumeGroupSnapshotContentName").is_empty());
            let Some(content) = found else { return self.let_go(&resource, group, &[GROUP_BOUND]).await };
            self.patch(&self.group_contents(), content, json!({"metadata": {"annotations": {GROUP_DELETED: "yes"}}}))
                .await;
            let goes = text(content, "/spec/deletionPolicy") == "Delete";
            if goes && !is_deleted(content) {
                self.delete(&self.group_contents(), content).await;
            }
            for snapshot in self.list(&self.snapshots()).await {
                if text(&snapshot["metadata"]["ownerReferences"][0], "/uid") == uid && !is_deleted(&snapshot) {
                    self.delete(&self.snapshots(), &snapshot).await;
                }
            }
            if !goes {
                self.let_go(&resource, group, &[GROUP_BOUND]).await;
            }
            return;
        }
        let Some(content) = found else {
            let (key, value) =
                group["spec"]["source"]["selector"]["matchLabels"].as_object().unwrap().iter().next().unwrap();
            let claims = self
                .list(&Arc::new(ApiResource::new("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")))
                .await;
            let claims = claims.into_iter().filter(|claim| {
                text(claim, "/metadata/namespace") == namespace && claim["metadata"]["labels"][key] == *value
            });
            let volumes: Vec<String> = claims.map(|claim| format!("vol-{}", text(&claim, "/metadata/name"))).collect();
            let content = format!("groupsnapcontent-{uid}");
            let spec = json!({"driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandles": volumes},
                "volumeGroupSnapshotRef": {"namespace": namespace, "name": name, "uid": uid}});
            let metadata = json!({"name": content, "finalizers": [GROUP_CONTENT]});
            self.create(&self.group_contents(), json!({"metadata": metadata, "spec": spec})).await;
            let status = json!({"status": {"boundVolumeGroupSnapshotContentName": content, "readyToUse": false}});
            return self.patch(&resource, group, status).await;
        };
        if let Some(error) = content["status"]["error"]["message"].as_str() {
            return self.patch(&resource, group, json!({"status": {"error": {"message": error}}})).await;
        }
        let handle = text(content, "/status/volumeGroupSnapshotHandle");
        if handle.is_empty() || !text(group, "/status/creationTime").is_empty() || *mood == Mood::Halts(Step::Taken) {
            return;
        }
        for one in content["status"]["volumeSnapshotInfoList"].as_array().unwrap() {
            let volume = text(one, "/volumeHandle");
            let (of_member, snapshot) = (format!("snapcontent-{uid}-{volume}"), format!("snapshot-{uid}-{volume}"));
            let spec = json!({"driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandle": volume},
                "volumeSnapshotRef": {"namespace": namespace, "name": snapshot}});
            let metadata = json!({"name": of_member, "finalizers": [CONTENT],
                "annotations": {"groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle": handle}});
            let made = json!({"metadata": metadata, "spec": spec});
            self.create(&self.contents(), made.clone()).await;
            let owner = json!({"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot", "name": name, "uid": uid});
            let metadata = json!({"name": snapshot, "namespace": namespace, "finalizers": [IN_GROUP, BOUND], "ownerReferences": [owner]});
            let source = json!({"persistentVolumeClaimName": volume.trim_start_matches("vol-")});
            let of_snapshot = json!({"metadata": metadata, "spec": {"source": source}});
            self.create(&self.snapshots(), of_snapshot.clone()).await;
            let status = json!({"status": {"snapshotHandle": one["snapshotHandle"], "volumeGroupSnapshotHandle": handle,
                "readyToUse": true, "restoreSize": one["restoreSize"]}});
            self.patch(&self.contents(), &made, status).await;
            let status = json!({"status": {"boundVolumeSnapshotContentName": of_member, "readyToUse": true,
                "creationTime": "2026-11-21T09:31:57Z", "volumeGroupSnapshotName": name}});
            self.patch(&self.snapshots(), &of_snapshot, status).await;
            if *mood == Mood::Halts(Step::Member) {
                return;
            }
        }
        let status = json!({"status": {"creationTime": "2026-11-21T09:31:57Z", "readyToUse": true}});
        self.patch(&resource, group, status).await;
    }

    /// The csi-snapshotter with the content of one snapshot.
    async fn content(&self, content: &Value) {
        let (resource, handle) = (self.contents(), text(content, "/status/snapshotHandle"));
        let is_of_group = annotation(content, "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle").is_some()
            || !text(content, "/status/volumeGroupSnapshotHandle").is_empty();
        let source = &content["spec"]["source"];
        if is_deleted(content) {
            let is_free =
                source["snapshotHandle"].is_string() && text(content, "/spec/volumeSnapshotRef/uid").is_empty();
            if !is_free && annotation(content, DELETED).is_none() {
                return;
            }
            if text(content, "/spec/deletionPolicy") == "Delete" && !handle.is_empty() && !is_of_group {
                self.storage.lock().unwrap().snapshots.remove(handle);
            }
            return self.let_go(&resource, content, &[CONTENT]).await;
        }
        if content["status"].is_null() && source["snapshotHandle"].is_string() {
            let status = json!({"status": {"snapshotHandle": source["snapshotHandle"], "readyToUse": true}});
            return self.patch(&resource, content, status).await;
        }
        if content["status"].is_null() && source["volumeHandle"].is_string() && !is_of_group {
            let handle = format!("snap-{}", text(content, "/metadata/name"));
            self.storage.lock().unwrap().snapshots.insert(handle.clone());
            let status = json!({"status": {"snapshotHandle": handle, "readyToUse": true, "restoreSize": 8_388_608}});
            self.patch(&resource, content, status).await;
        }
    }

    /// The snapshot-controller with one snapshot.
    async fn snapshot(&self, snapshot: &Value, groups: &[Value], contents: &[Value]) {
        let (resource, uid) = (self.snapshots(), text(snapshot, "/metadata/uid"));
        let (namespace, name) = (text(snapshot, "/metadata/namespace"), text(snapshot, "/metadata/name"));
        let bound = text(snapshot, "/status/boundVolumeSnapshotContentName");
        let found = contents.iter().find(|content| text(content, "/metadata/name") == bound);
        if is_deleted(snapshot) {
            let group = text(snapshot, "/status/volumeGroupSnapshotName");
            let is_it =
                |one: &&Value| text(one, "/metadata/namespace") == namespace && text(one, "/metadata/name") == group;
            if groups.iter().any(|one| is_it(&one)) {
                return;
            }
            if let Some(content) = found {
                self.patch(&self.contents(), content, json!({"metadata": {"annotations": {DELETED: "yes"}}})).await;
                if text(content, "/spec/deletionPolicy") == "Delete" {
                    self.delete(&self.contents(), content).await;
                }
            }
            return self.let_go(&resource, snapshot, &[IN_GROUP, BOUND]).await;
        }
        let is_member = !snapshot["metadata"]["ownerReferences"].is_null();
        if is_member || snapshot["status"]["creationTime"].is_string() {
            return;
        }
        let content = format!("snapcontent-{uid}");
        match contents.iter().find(|one| text(one, "/metadata/name") == content) {
            None => {
                let claim = text(snapshot, "/spec/source/persistentVolumeClaimName");
                let spec = json!({"driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandle": format!("vol-{claim}")},
                    "volumeSnapshotRef": {"namespace": namespace, "name": name, "uid": uid}});
                self.create(
                    &self.contents(),
                    json!({"metadata": {"name": content, "finalizers": [CONTENT]}, "spec": spec}),
                )
                .await;
                if !has(snapshot, BOUND) {
                    self.patch(&resource, snapshot, json!({"metadata": {"finalizers": [BOUND]}})).await;
                }
            }
            Some(one) if !text(one, "/status/snapshotHandle").is_empty() => {
                let status = json!({"status": {"boundVolumeSnapshotContentName": content, "readyToUse": true,
                    "creationTime": "2026-11-21T09:31:57Z"}});
                self.patch(&resource, snapshot, status).await;
            }
            Some(_) => {}
        }
    }
}
