//! Takes snapshots of several claims at one moment (velero: pkg/backup/actions/csi).

use crate::facts::Claim;
use crate::group::{beside_note, fallback_note};
use crate::method::csi::answer::text;
use crate::method::csi::at_once::AT_ONCE;
use crate::method::csi::backup::member_snapshot::{MemberSnapshot, snapshots_in};
use crate::method::csi::backup::members::{GroupName, GroupRequest, group_snapshot, name_of_group};
use crate::method::csi::backup::outcomes::{SnapshotPromise, TakenGroup, TakenSnapshot};
use crate::method::csi::backup::refusal::WaitLimit;
use crate::method::csi::backup::snapshots::{
    BoundTo, Created, CsiSnapshots, PAUSE, ToCreate, WaitFailure, WantedSnapshot,
};
use crate::method::csi::content::DeletionPolicy;
use crate::method::csi::delete::clean::content_of;
use crate::method::csi::delete::group_clean::Groups;
use crate::method::csi::delete::kept_groups::UnretainedGroup;
use crate::method::csi::error::CsiError;
use crate::method::csi::objects::GroupTypes;
use crate::priority::Priority;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_BACKUP_UID};
use lifeboat_api::{VolumeGroupFallback, label_value};
use lifeboat_cluster::{ClusterError, MergePatch};
use lifeboat_object::{ResultScope, first_names};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;

/// Claims that are snapshotted together.
#[derive(Clone, Debug, Default)]
pub struct ClaimGroup {
    /// Their namespace.
    pub namespace: String,
    /// The value of the label that they have in common.
    pub value: String,
    /// The VolumeGroupSnapshotClass.
    pub class: String,
    /// Their driver.
    pub driver: String,
    /// The claims.
    pub members: Vec<GroupMember>,
    /// The names of claims with the label that nobody wants, as far as they were told of.
    pub beside: Vec<String>,
}

/// A claim that is snapshotted with others.
#[derive(Clone, Debug, Default)]
pub struct GroupMember {
    /// The claim.
    pub claim: Claim,
    /// The driver's name of its volume.
    pub handle: String,
    /// The VolumeSnapshotClass that a policy names, for a snapshot of this claim by itself.
    pub class: String,
    /// True when its data is to be moved out of its snapshot.
    pub is_moved: bool,
}

impl CsiSnapshots {
    /// Begins to take one snapshot of several claims, of those for which none was begun before.
    pub fn begin_group(&self, mut group: ClaimGroup, priority: Priority) {
        let mut promises = Vec::with_capacity(group.members.len());
        group.members.retain(|member| {
            let promise = self.promise(&member.claim.key);
            let is_new = promise.is_some();
            promises.extend(promise);
            if is_new && member.is_moved {
                self.moves().note(&member.claim.key);
            }
            is_new
        });
        if promises.is_empty() {
            return;
        }
        let this = self.clone();
        self.spawn(async move { this.take_group(&group, priority, promises).await });
    }

    /// Takes the group, or each of its members where the backup allows that, and gives the outcome of each.
    async fn take_group(&self, group: &ClaimGroup, priority: Priority, promises: Vec<SnapshotPromise>) {
        let why = match self.take_together(group, priority).await {
            Ok(taken) => {
                for (promise, taken) in promises.into_iter().zip(taken) {
                    promise.keep(Ok(Arc::new(taken)));
                }
                return;
            }
            Err(e) => e,
        };
        let may_fall_back = self.of.backup.spec.volume_group_fallback == Some(VolumeGroupFallback::Single)
            && !matches!(why, CsiError::Cancelled | CsiError::Fenced(_));
        if !may_fall_back {
            let why: Arc<str> = Arc::from(why.to_string());
            promises.into_iter().for_each(|promise| promise.keep(Err(Arc::clone(&why))));
            return;
        }
        let text = fallback_note(&group.all_names(), &format!("they could not be taken together: {why}"));
        self.operation.journal.warn(&ResultScope::Namespace(group.namespace.clone()), text);
        let each = group.members.iter().zip(promises).map(|(member, promise)| async move {
            let GroupMember { claim, class, is_moved, .. } = member;
            let wanted = WantedSnapshot { driver: group.driver.clone(), class: class.clone(), is_moved: *is_moved };
            let taken = self.take(claim, priority, &wanted).await;
            promise.keep(taken.map(Arc::new).map_err(|e| Arc::from(e.to_string())));
        });
        futures::future::join_all(each).await;
    }

    /// Takes the group; gives the snapshots in the order of its members.
    async fn take_together(&self, group: &ClaimGroup, priority: Priority) -> Result<Vec<TakenSnapshot>, CsiError> {
        let _place = self.place(priority).await;
        let types = self.of.types.groups.as_ref().ok_or(CsiError::NoGroups)?;
        if let Some(member) = group.members.iter().find(|member| member.is_moved) {
            self.moves().check(&member.claim).await?;
        }
        let (backup, namespace) = (&self.of.backup, group.namespace.as_str());
        let uids: Vec<&str> = group.members.iter().map(|member| member.claim.uid.as_str()).collect();
        let name = name_of_group(&backup.metadata.uid, namespace, &group.value, &uids);
        let label = (backup.spec.volume_group_snapshot_label_key.as_str(), group.value.as_str());
        let followed = self.followed(&types.groups, namespace);
        let within = backup.spec.csi_snapshot_timeout.to_std();
        let deadline = Instant::now() + within;
        let wanted = GroupRequest { name: &name, namespace, label, class: &group.class };
        let body = Bytes::from(group_snapshot(backup, wanted, types).to_string());
        let wanted = ToCreate { resource: &types.groups, namespace, name: &name, body, is_it: &|_| true };
        let uid = match self.create(wanted, deadline).await {
            Ok(uid) => uid,
            Err(e) => {
                if may_be_there(&e) {
                    self.note_left_group(namespace, &name);
                }
                return Err(e);
            }
        };
        let created = Created { what: "VolumeGroupSnapshot", namespace, name: &name, uid: &uid };
        let patience = WaitLimit::new(deadline, priority == Priority::Frozen);
        let bound = tokio::select! {
            bound = self.bound(&followed, created, patience) => bound,
            said = self.refused_content(types, created, patience) => Err(said),
        };
        let taken = match bound {
            Ok(bound) => self.all_members(group, created, bound, deadline).await,
            Err(e) => Err(e),
        };
        match taken {
            Ok(taken) => Ok(taken),
            Err(e) => {
                let error = match e {
                    WaitFailure::TimedOut(said) => CsiError::GroupTimedOut {
                        name: created.place(),
                        claims: group.names(),
                        within,
                        said: group.with_claims(&self.said_of(types, created, said).await),
                    },
                    WaitFailure::Refused(said) => CsiError::Refused(group.snapshot(created), group.with_claims(&said)),
                    WaitFailure::Unpassed(said) => {
                        CsiError::Unpassed(group.snapshot(created), group.with_claims(&said))
                    }
                    WaitFailure::Failed(error) => error,
                };
                self.give_up_group(types, created).await;
                Err(error)
            }
        }
    }

    /// Waits until the controller has made a VolumeSnapshot of each claim, and labels those as the backup's.
    async fn all_members(
        &self,
        group: &ClaimGroup,
        created: Created<'_>,
        bound: BoundTo,
        deadline: Instant,
    ) -> Result<Vec<TakenSnapshot>, WaitFailure> {
        let types = self.of.types.groups.as_ref().ok_or(WaitFailure::Failed(CsiError::NoGroups))?;
        let groups = Groups { api: self.api(), groups: types };
        let name = GroupName { name: created.name.to_owned(), uid: created.uid.to_owned() };
        loop {
            if groups.group(created.namespace, created.name).await.map_err(WaitFailure::Failed)?.is_none() {
                return Err(created.gone());
            }
            let found = groups.members(created.namespace, &name).await.map_err(WaitFailure::Failed)?;
            let matched = group.matched(self.with_contents(found).await?);
            if matched.missing.is_empty() {
                return self.adopt(group, created, matched, bound).await;
            }
            if Instant::now() + PAUSE > deadline {
                let missing = first_names(&matched.missing);
                return Err(WaitFailure::TimedOut(format!("the group was taken, but without these claims: {missing}")));
            }
            self.pause().await.map_err(WaitFailure::Failed)?;
        }
    }

    /// Reads the contents of VolumeSnapshots; those that have none yet are left out.
    async fn with_contents(&self, snapshots: Vec<Value>) -> Result<Vec<MemberSnapshot>, WaitFailure> {
        let mut reads: Vec<BoxFuture<'_, Result<Option<MemberSnapshot>, WaitFailure>>> =
            Vec::with_capacity(snapshots.len());
        for snapshot in snapshots {
            let read = async move {
                let Some(content) = content_of(&snapshot) else { return Ok(None) };
                let content = self.content(content).await?;
                Ok(content.map(|content| MemberSnapshot::of(&snapshot, &content)))
            };
            reads.push(read.boxed());
        }
        let mut reads = futures::stream::iter(reads).buffered(AT_ONCE);
        let mut out = Vec::new();
        while let Some(found) = reads.next().await {
            out.extend(found?);
        }
        Ok(out)
    }

    /// Labels the snapshots of the claims as the backup's, and tells of those that nobody wants.
    async fn adopt(
        &self,
        group: &ClaimGroup,
        created: Created<'_>,
        matched: MatchedSnapshots,
        bound: BoundTo,
    ) -> Result<Vec<TakenSnapshot>, WaitFailure> {
        let MatchedSnapshots { found, beside, .. } = matched;
        let types = self.of.types.groups.as_ref().ok_or(WaitFailure::Failed(CsiError::NoGroups))?;
        let content = self.api().read(&types.contents, None, &bound.content).await.map_err(WaitFailure::Failed)?;
        let backup = &self.of.backup.metadata;
        let labels = json!({LABEL_BACKUP_NAME: label_value(&backup.name), LABEL_BACKUP_UID: backup.uid});
        let patch = Bytes::from(json!({"metadata": {"labels": labels}}).to_string());
        let mut labels: Vec<BoxFuture<'_, Result<Bytes, ClusterError>>> = Vec::with_capacity(found.len());
        for found in &found {
            let patch = MergePatch::of(patch.clone());
            let snapshots = &self.of.types.snapshots;
            labels.push(self.cluster.patch(snapshots, Some(created.namespace), &found.name, patch).boxed());
        }
        let mut labels = futures::stream::iter(labels).buffer_unordered(AT_ONCE);
        while let Some(labelled) = labels.next().await {
            labelled.map_err(|e| WaitFailure::Failed(e.into()))?;
        }
        drop(labels);
        let untold: Vec<String> =
            beside.iter().map(|found| found.claim.clone()).filter(|name| !group.beside.contains(name)).collect();
        if !untold.is_empty() {
            let text = beside_note(&group.value, &self.of.backup.spec.volume_group_snapshot_label_key, &untold);
            self.operation.journal.warn(&ResultScope::Namespace(group.namespace.clone()), text);
        }
        let of_content = snapshots_in(&content.unwrap_or_default());
        let all: BTreeSet<String> =
            found.iter().chain(&beside).map(|found| found.content.handle.clone()).chain(of_content).collect();
        let taken = Arc::new(TakenGroup {
            name: created.name.to_owned(),
            content: bound.content,
            value: group.value.clone(),
            snapshots: all.into_iter().filter(|handle| !handle.is_empty()).collect(),
        });
        let taken = found.into_iter().map(|found| TakenSnapshot {
            namespace: created.namespace.to_owned(),
            name: found.name,
            class: found.class,
            content: found.content,
            at: bound.at,
            group: Some(Arc::clone(&taken)),
        });
        Ok(taken.collect())
    }

    /// Sets the content of a group to retain the snapshots behind it, once, however many of its members ask for it:
    /// from now on nothing is lost when somebody deletes the VolumeGroupSnapshot, or its namespace.
    /// [`Self::tell_unkept_groups`] tells of an error.
    pub(crate) async fn keep_group(&self, namespace: &str, group: &TakenGroup) {
        let Some(types) = &self.of.types.groups else { return };
        let telling = async {
            let told = self.api().set_policy(&types.contents, &group.content, DeletionPolicy::Retain).await;
            let unkept = |e: CsiError| UnretainedGroup {
                namespace: namespace.to_owned(),
                group: group.name.clone(),
                why: e.to_string(),
            };
            told.map(drop).map_err(unkept)
        };
        self.kept_groups().tell(&group.content, telling).await;
    }

    /// Tells of the groups that could not be set to retain their snapshots. To be called when all members are saved:
    /// each has asked for it, as long as none went well.
    pub fn tell_unkept_groups(&self) {
        for UnretainedGroup { namespace, group, why } in self.kept_groups().unkept() {
            let text = format!(
                "the content of the group snapshot {group} could not be told to keep it: who deletes the VolumeGroupSnapshot, or its \
                 namespace, before the backup ends may delete the data in the storage: {why}"
            );
            self.operation.journal.warn(&ResultScope::Namespace(namespace), text);
        }
    }

    /// The message of the controllers or the driver about a group that was not taken.
    async fn said_of(&self, types: &GroupTypes, created: Created<'_>, said: String) -> String {
        let groups = Groups { api: self.api(), groups: types };
        let group = groups.group(created.namespace, created.name).await.ok().flatten().unwrap_or_default();
        let is_taken = !text(&group, "/status/creationTime").is_empty();
        if is_taken || !text(&group, "/status/error/message").is_empty() {
            return said;
        }
        let name = text(&group, "/status/boundVolumeGroupSnapshotContentName");
        if name.is_empty() {
            return "no controller has taken it up: does the snapshot-controller run, with CSIVolumeGroupSnapshot switched on?".to_owned();
        }
        let content = groups.api.read(&types.contents, None, name).await.ok().flatten().unwrap_or_default();
        match text(&content, "/status/error/message") {
            "" => "its driver has not answered: can it take groups, and does its csi-snapshotter run with CSIVolumeGroupSnapshot switched \
                 on?"
            .to_owned(),
            error => error.to_owned(),
        }
    }

    /// Removes objects that were begun and failed. Where that fails too, the end of the backup does it, also where its
    /// claims have other snapshots by then.
    async fn give_up_group(&self, types: &GroupTypes, created: Created<'_>) {
        if (self.operation.fence)().is_err() {
            // Who has taken the backup over has taken up what is there.
            return;
        }
        let groups = Groups { api: self.api(), groups: types };
        if let Err(e) = groups.remove(created.namespace, created.name).await {
            self.note_left_group(created.namespace, created.name);
            let fields = [("volumegroupsnapshot", created.place()), ("why", e.to_string())];
            let fields = fields.each_ref().map(|(key, value)| (*key, value.as_str()));
            self.operation.journal.info("A group snapshot that failed cannot be removed yet", &fields);
        }
    }
}

/// Returns true if an object that could not be created may be there all the same: a lost answer says nothing.
fn may_be_there(error: &CsiError) -> bool {
    match error {
        CsiError::Cluster(e) => e.can_pass(),
        CsiError::Foreign(_) | CsiError::CannotBeMoved(_) => false,
        _ => true,
    }
}

/// The VolumeSnapshots of a group by its claims.
#[derive(Debug, Default, PartialEq, Eq)]
struct MatchedSnapshots {
    /// Snapshots of the claims that are wanted, in the order of the claims, as far as they are there and name their
    /// claim or volume.
    found: Vec<MemberSnapshot>,
    /// The names of the claims of which there is none.
    missing: Vec<String>,
    /// Snapshots that nobody wants.
    beside: Vec<MemberSnapshot>,
}

impl ClaimGroup {
    /// Finds the snapshots of the claims: by the claim that they name, or by their volume where they name none.
    fn matched(&self, all: Vec<MemberSnapshot>) -> MatchedSnapshots {
        let mut out = MatchedSnapshots::default();
        let mut all: Vec<Option<MemberSnapshot>> = all.into_iter().map(Some).collect();
        for GroupMember { claim, handle, .. } in &self.members {
            let name = &claim.key.name;
            let is_it = |found: &MemberSnapshot| {
                let by_volume = found.claim.is_empty() && !handle.is_empty() && found.volume == *handle;
                (found.claim == *name || by_volume) && !found.content.handle.is_empty()
            };
            match all.iter_mut().find(|found| found.as_ref().is_some_and(is_it)).and_then(Option::take) {
                Some(found) => out.found.push(found),
                None => out.missing.push(name.clone()),
            }
        }
        out.beside = all.into_iter().flatten().collect();
        out
    }

    /// Its name in errors.
    fn snapshot(&self, created: Created<'_>) -> String {
        format!("group snapshot {} of the claims {}", created.place(), self.names())
    }

    fn names(&self) -> String {
        first_names(&self.all_names())
    }

    fn all_names(&self) -> Vec<String> {
        self.members.iter().map(|member| member.claim.key.name.clone()).collect()
    }

    /// The message of a driver, with the claim added to each name of a volume.
    fn with_claims(&self, said: &str) -> String {
        let known: BTreeMap<&str, &str> = self
            .members
            .iter()
            .filter(|member| member.handle.len() >= SHORTEST)
            .map(|member| (member.handle.as_str(), member.claim.key.name.as_str()))
            .collect();
        let mut out = String::with_capacity(said.len());
        let mut rest = said;
        // What may be a part of such a name, so that one is not found in the middle of another.
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        while let Some(next) = rest.chars().next() {
            let is_free = !out.chars().next_back().is_some_and(is_part);
            let found = known.iter().filter(|_| is_free).find(|(handle, _)| {
                let after = rest.strip_prefix(**handle);
                after.is_some_and(|after| !after.chars().next().is_some_and(is_part))
            });
            let taken = match found {
                Some((handle, claim)) => {
                    out.push_str(&format!("{handle} (claim {claim})"));
                    handle.len()
                }
                None => {
                    out.push(next);
                    next.len_utf8()
                }
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        out
    }
}

/// A shorter name of a volume may stand in a text for something else.
const SHORTEST: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::csi::content::SnapshotContent;
    use lifeboat_api::NamespacedName;

    fn member(name: &str, handle: &str) -> GroupMember {
        let key = NamespacedName::new("n", name);
        GroupMember { claim: Claim { key, ..Claim::default() }, handle: handle.into(), ..GroupMember::default() }
    }

    fn found(name: &str, claim: &str, volume: &str, handle: &str) -> MemberSnapshot {
        let content = SnapshotContent { handle: handle.into(), ..SnapshotContent::default() };
        MemberSnapshot { name: name.into(), claim: claim.into(), volume: volume.into(), content, ..Default::default() }
    }

    #[test]
    fn the_snapshots_of_a_group_are_matched_with_its_claims() {
        let group = ClaimGroup {
            members: vec![member("a", "vol-a"), member("b", "vol-b"), member("c", "vol-c"), member("d", "")],
            ..ClaimGroup::default()
        };
        let all = vec![
            found("s1", "b", "vol-b", "snap-b"),
            // The controller did not know the volume of this one.
            found("s2", "", "vol-a", "snap-a"),
            found("s3", "other", "vol-o", "snap-o"),
            found("s4", "c", "vol-c", ""),
            found("s5", "", "", "snap-x"),
        ];
        let matched = group.matched(all.clone());
        assert_eq!(matched.found, [all[1].clone(), all[0].clone()]);
        assert_eq!(matched.missing, ["c", "d"]);
        assert_eq!(matched.beside, [all[2].clone(), all[3].clone(), all[4].clone()]);
    }

    #[test]
    fn a_driver_is_quoted_with_the_claims_of_its_volumes() {
        let group = ClaimGroup {
            members: vec![member("a", "volume-1"), member("b", "volume-12"), member("c", "v1")],
            ..ClaimGroup::default()
        };
        let said = group.with_claims("of [volume-12 v1 xvolume-1 volume-1]: é");
        assert_eq!(said, "of [volume-12 (claim b) v1 xvolume-1 volume-1 (claim a)]: é");
        assert_eq!(group.names(), "a, b, c");
    }
}
