//! Takes the objects of a group of snapshots out of the cluster: all of them or none, because drivers delete groups as
//! a whole.
//!
//! As long as a VolumeGroupSnapshot is there, any work on it and its members can be taken up again: so it is deleted
//! last.

use crate::method::csi::answer::{is_being_deleted, text};
use crate::method::csi::api::{SnapshotApi, each};
use crate::method::csi::at_once::some_at_once;
use crate::method::csi::backup::members::{
    GROUP_BEING_DELETED, GROUP_CONTENT_FINALIZER, GROUP_FINALIZER, GroupName, HANDLE_OF_GROUP, is_content_of, is_member,
};
use crate::method::csi::content::DeletionPolicy;
use crate::method::csi::delete::clean::{content_of, remove_content};
use crate::method::csi::error::CsiError;
use crate::method::csi::objects::GroupTypes;
use crate::method::csi::reference::Reference;
use futures::FutureExt;
use futures::future::BoxFuture;
use lifeboat_cluster::{ListRequest, MergePatch};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest wait for a group to go: drivers answer to that in their own time, and a group that is not gone then goes
/// by itself.
const GONE: Duration = Duration::from_secs(15);
/// The first and the longest pause between two looks.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];
/// The number of attempts to change an object that others change meanwhile.
const TRIES: usize = 5;

/// The groups of a cluster.
#[derive(Clone, Copy)]
pub(crate) struct Groups<'a> {
    pub(crate) api: SnapshotApi<'a>,
    pub(crate) groups: &'a GroupTypes,
}

/// The contents and members of a group.
struct GroupObjects {
    contents: Vec<Value>,
    members: Vec<Value>,
}

impl Groups<'_> {
    /// Removes a group with its members and their contents, and leaves the snapshots in the storage: all contents are
    /// told to retain them first. Done again, it finds less to do.
    pub(crate) async fn release(&self, namespace: &str, name: &str) -> Result<(), CsiError> {
        let Some((_, belongings)) = self.look(namespace, name).await? else { return Ok(()) };
        // Nothing is removed from the cluster before all contents are known to keep what they stand for.
        let GroupObjects { contents, members } = &belongings;
        for content in contents {
            self.api.set_policy(&self.groups.contents, text(content, "/metadata/name"), DeletionPolicy::Retain).await?;
        }
        self.set_policies(members, DeletionPolicy::Retain).await?;
        let SnapshotApi { cluster, types } = self.api;
        let mut removals: Vec<CleanupFuture<'_>> = Vec::with_capacity(members.len());
        for member in members {
            let removal = async move {
                if let Some(content) = content_of(member) {
                    cluster.delete(&types.contents, None, content).await?;
                }
                cluster.delete(&types.snapshots, Some(namespace), text(member, "/metadata/name")).await?;
                Ok(())
            };
            removals.push(removal.boxed());
        }
        all(removals).await?;
        for content in contents {
            cluster.delete(&self.groups.contents, None, text(content, "/metadata/name")).await?;
        }
        cluster.delete(&self.groups.groups, Some(namespace), name).await?;
        Ok(())
    }

    /// Removes a group, with it its members, and all of it in the storage, whatever its class says; waits a while until
    /// it is gone.
    ///
    /// # Errors
    /// [`CsiError`]; after [`CsiError::Remains`] the driver still keeps it, and it is gone once the driver answers.
    pub(crate) async fn remove(&self, namespace: &str, name: &str) -> Result<(), CsiError> {
        let Some((group, GroupObjects { contents, members })) = self.look(namespace, name).await? else {
            return Ok(());
        };
        self.set_policies(&members, DeletionPolicy::Delete).await?;
        for content in &contents {
            self.api.set_policy(&self.groups.contents, text(content, "/metadata/name"), DeletionPolicy::Delete).await?;
        }
        self.api.cluster.delete(&self.groups.groups, Some(namespace), name).await?;
        let is_gone = self.wait_until_gone(namespace, &group).await?;
        // The controller may have made contents while the group was deleted, and does not delete those that it had not bound yet.
        let left = self.contents(|content| is_content_of(content, &group.uid)).await?;
        for content in left.iter().filter(|content| is_gone || !is_being_deleted(content)) {
            self.remove_content(content, DeletionPolicy::Delete).await?;
        }
        let handles: Vec<&str> = contents.iter().map(|c| text(c, "/status/volumeGroupSnapshotHandle")).collect();
        self.remove_contents_of_members(namespace, &handles).await?;
        if is_gone {
            return Ok(());
        }
        let what = || format!("VolumeGroupSnapshot {namespace}/{name}");
        match left.first() {
            Some(content) => {
                let said = match text(content, "/status/error/message") {
                    "" => "its driver has not answered yet; it goes by itself when that does",
                    said => said,
                };
                Err(CsiError::Remains(what(), said.to_owned()))
            }
            // Nothing has come of it, and no controller looks after it.
            None => self.let_go(namespace, name).await,
        }
    }

    /// Removes a content whose group is gone; the group in the storage is deleted or stays, as this policy says.
    pub(crate) async fn remove_content(&self, content: &Value, policy: DeletionPolicy) -> Result<(), CsiError> {
        let name = text(content, "/metadata/name");
        let mut metadata = json!({"annotations": {GROUP_BEING_DELETED: "yes"}});
        if !is_being_deleted(content) {
            // Without the finalizer it would be gone before its driver has deleted anything.
            let finalizers = content["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            let own =
                (!finalizers.iter().any(|one| one == GROUP_CONTENT_FINALIZER)).then(|| GROUP_CONTENT_FINALIZER.into());
            metadata["finalizers"] = finalizers.into_iter().chain(own).collect();
        }
        let patch = json!({"metadata": metadata, "spec": {"deletionPolicy": policy.as_str()}});
        if self.api.patch_content(&self.groups.contents, name, patch).await?.is_some() {
            self.api.cluster.delete(&self.groups.contents, None, name).await?;
        }
        Ok(())
    }

    /// Removes the contents of members that the controller could make no VolumeSnapshots for, such as where a quota forbids it.
    async fn remove_contents_of_members(&self, namespace: &str, handles: &[&str]) -> Result<(), CsiError> {
        let handles: Vec<&str> = handles.iter().copied().filter(|handle| !handle.is_empty()).collect();
        if handles.is_empty() {
            return Ok(());
        }
        let is_of_group = |content: &Value| {
            let of = content["metadata"]["annotations"][HANDLE_OF_GROUP].as_str();
            of.is_some_and(|of| handles.contains(&of)) && Reference::to_snapshot(content).namespace == namespace
        };
        for content in self.list(&self.api.types.contents, None, is_of_group).await? {
            let of = Reference::to_snapshot(&content).name;
            if self.api.read(&self.api.types.snapshots, Some(namespace), of).await?.is_some() {
                continue;
            }
            remove_content(self.api, text(&content, "/metadata/name"), DeletionPolicy::Delete).await?;
        }
        Ok(())
    }

    /// A group, if it is there.
    pub(crate) async fn group(&self, namespace: &str, name: &str) -> Result<Option<Value>, CsiError> {
        self.api.read(&self.groups.groups, Some(namespace), name).await
    }

    /// The contents of groups that are wanted.
    pub(crate) async fn contents(&self, wanted: impl Fn(&Value) -> bool) -> Result<Vec<Value>, CsiError> {
        self.list(&self.groups.contents, None, wanted).await
    }

    /// The VolumeSnapshots of a group.
    pub(crate) async fn members(&self, namespace: &str, group: &GroupName) -> Result<Vec<Value>, CsiError> {
        self.list(&self.api.types.snapshots, Some(namespace), |snapshot| is_member(snapshot, group)).await
    }

    async fn look(&self, namespace: &str, name: &str) -> Result<Option<(GroupName, GroupObjects)>, CsiError> {
        let Some(group) = self.group(namespace, name).await? else { return Ok(None) };
        let group = GroupName { name: name.to_owned(), uid: text(&group, "/metadata/uid").to_owned() };
        let contents = self.contents(|content| is_content_of(content, &group.uid)).await?;
        let members = self.members(namespace, &group).await?;
        Ok(Some((group, GroupObjects { contents, members })))
    }

    async fn set_policies(&self, members: &[Value], policy: DeletionPolicy) -> Result<(), CsiError> {
        let mut works: Vec<CleanupFuture<'_>> = Vec::with_capacity(members.len());
        for content in members.iter().filter_map(content_of) {
            works.push(self.api.set_policy(&self.api.types.contents, content, policy).map(|set| set.map(drop)).boxed());
        }
        all(works).await
    }

    /// Returns true if a group that is being deleted is gone after a while.
    async fn wait_until_gone(&self, namespace: &str, group: &GroupName) -> Result<bool, CsiError> {
        let deadline = Instant::now() + GONE;
        let [mut pause, longest] = PAUSES;
        loop {
            let found = self.group(namespace, &group.name).await?;
            if found.is_none_or(|found| text(&found, "/metadata/uid") != group.uid) {
                return Ok(true);
            }
            if Instant::now() + pause > deadline {
                return Ok(false);
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Takes the finalizer off a group that is being deleted.
    async fn let_go(&self, namespace: &str, name: &str) -> Result<(), CsiError> {
        for _ in 0..TRIES {
            let Some(group) = self.group(namespace, name).await? else { return Ok(()) };
            let mut finalizers = group["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            finalizers.retain(|finalizer| finalizer != GROUP_FINALIZER);
            let version = text(&group, "/metadata/resourceVersion");
            let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}}).to_string();
            match self.api.cluster.patch(&self.groups.groups, Some(namespace), name, MergePatch::of(patch.into())).await
            {
                Ok(_) => return Ok(()),
                Err(e) if e.is_not_found() => return Ok(()),
                Err(e) if e.is_conflict() => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(CsiError::Remains(format!("VolumeGroupSnapshot {namespace}/{name}"), "it changes all the time".to_owned()))
    }

    async fn list(
        &self,
        resource: &Arc<ApiResource>,
        namespace: Option<&str>,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>, CsiError> {
        let request = ListRequest::all(Arc::clone(resource)).in_namespace(namespace.map(str::to_owned));
        let mut out = Vec::new();
        each(self.api.cluster, request, |object| out.extend(Some(object).filter(|object| wanted(object)))).await?;
        Ok(out)
    }
}

type CleanupFuture<'a> = BoxFuture<'a, Result<(), CsiError>>;

/// Does all of it, some at once; gives the first error when all have ended.
async fn all(work: Vec<CleanupFuture<'_>>) -> Result<(), CsiError> {
    some_at_once(work).await.into_iter().collect()
}
