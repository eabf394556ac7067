//! Decides how a PersistentVolume whose data lies on its own storage comes back: from the facts in the backup, the
//! state of the cluster, and the permissions of the user.

use lifeboat_api::well_known::{ANNOTATION_REBIND_RELEASED, ANNOTATION_REUSE_VOLUMES};
use lifeboat_api::{NamespacedName, permission};
use serde_json::{Value, json};

/// A PersistentVolume of a backup whose data nobody has copied: it lies on the storage of the volume, which was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainedVolume {
    /// Its name.
    pub name: String,
    /// The claim that it was bound to; `None` for none.
    pub claim: Option<ClaimOfVolume>,
}

/// The claim that a PersistentVolume names as its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimOfVolume {
    /// Its namespace and name.
    pub key: NamespacedName,
    /// Its UID; empty where it was not there yet when the volume was reserved for it.
    pub uid: String,
}

impl ClaimOfVolume {
    /// The claim that a PersistentVolume names; `None` when it names none.
    #[must_use]
    pub fn of(volume: &Value) -> Option<Self> {
        let text = |field: &str| volume["spec"]["claimRef"][field].as_str().unwrap_or_default().to_owned();
        let key = NamespacedName::new(text("namespace"), text("name"));
        (!key.name.is_empty()).then(|| Self { key, uid: text("uid") })
    }
}

impl RetainedVolume {
    /// Reads a PersistentVolume of the backup.
    #[must_use]
    pub fn of(name: &str, volume: &Value) -> Self {
        Self { name: name.to_owned(), claim: ClaimOfVolume::of(volume) }
    }
}

/// The cluster of which the backup is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BackupOrigin {
    /// The one into which is restored.
    ThisCluster,
    /// The cluster of this UID, which may use the storage still.
    OtherCluster(String),
    /// It is not known: a backup of Velero's does not tell it.
    #[default]
    Unknown,
}

impl BackupOrigin {
    /// Compares the UIDs of both clusters; each is empty when it is not known.
    #[must_use]
    pub fn of(of_backup: &str, here: &str) -> Self {
        match (of_backup, here) {
            ("", _) | (_, "") => Self::Unknown,
            (of_backup, here) if of_backup == here => Self::ThisCluster,
            (of_backup, _) => Self::OtherCluster(of_backup.to_owned()),
        }
    }
}

/// The permissions that the user of a restore gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumePermissions {
    /// A volume that its claim has released is bound to that claim again.
    pub rebinds_released: bool,
    /// Volumes of another cluster are used by this one too.
    pub reuses_volumes: bool,
}

/// The PersistentVolume of a name in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeHere {
    /// There is none.
    Absent,
    /// It is about to go, or to change hands: why, as a predicate.
    Leaving(String),
    /// No claim has it.
    Free,
    /// This claim has it, or it is reserved for it.
    Claimed(ClaimOfVolume),
    /// This claim had it, and is gone; the volume stays, with its data.
    Released {
        /// The claim.
        by: ClaimOfVolume,
        /// The resource version of the volume.
        version: String,
    },
}

impl VolumeHere {
    /// Reads a PersistentVolume of the cluster, and the claim that it names, as far as they are there.
    #[must_use]
    pub fn of(volume: Option<&Value>, claim: Option<&Value>) -> Self {
        let Some(volume) = volume else { return Self::Absent };
        if !volume["metadata"]["deletionTimestamp"].is_null() {
            return Self::Leaving("is being deleted".to_owned());
        }
        let Some(by) = ClaimOfVolume::of(volume) else { return Self::Free };
        // It is reserved for a claim of the name, whatever its phase says until the controller has seen it.
        if by.uid.is_empty() {
            return Self::Claimed(by);
        }
        let is_gone = claim.is_none_or(|claim| claim["metadata"]["uid"] != by.uid.as_str());
        if matches!(volume["status"]["phase"].as_str(), Some("Released" | "Failed")) || is_gone {
            return match volume["spec"]["persistentVolumeReclaimPolicy"].as_str() {
                Some("Delete") => Self::Leaving("was released by its claim, and is to be deleted with it".to_owned()),
                _ => {
                    let version = volume["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                    Self::Released { by, version }
                }
            };
        }
        let is_leaving = |claim: &Value| !claim["metadata"]["deletionTimestamp"].is_null();
        if claim.is_some_and(is_leaving) {
            return Self::Leaving("is of a claim that is being deleted".to_owned());
        }
        Self::Claimed(by)
    }
}

/// The way in which a retained volume comes back.
///
/// compat: Velero makes it again, or warns that it is there, and makes the claim all the same, which waits for it for ever where
/// another claim has it or had it.
#[derive(Clone, Debug, PartialEq)]
pub enum RetainedPlan {
    /// It is made again as it is.
    Make,
    /// It is in the cluster, and its claim has it, or can have it.
    Stays,
    /// This merge patch gives it back to its claim.
    Rebind(Value),
    /// It is waited for; why, as a predicate.
    Wait(String),
    /// Its claim cannot have it.
    Refused(VolumeRefusal),
}

/// The reason why a claim cannot have the volume of the backup, with the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRefusal {
    /// A sentence whose subject is the volume.
    pub why: String,
    /// The way out.
    pub next: String,
}

/// The facts by which it is decided.
#[derive(Clone, Copy, Debug)]
pub struct RetainedFacts<'a> {
    /// The volume of the backup.
    pub volume: &'a RetainedVolume,
    /// The namespace that its claim goes to.
    pub target: &'a str,
    /// The volume of its name in the cluster.
    pub here: &'a VolumeHere,
    /// The name of the volume that its claim has in the cluster; empty when it has none, and `None` when the claim is not there.
    pub of_claim: Option<&'a str>,
    /// The cluster that the backup is of.
    pub origin: &'a BackupOrigin,
    /// The permissions of the user.
    pub allowed: VolumePermissions,
}

/// Decides how a retained volume comes back. A volume that anybody else may be using is never taken.
#[must_use]
pub fn plan_retained(facts: RetainedFacts<'_>) -> RetainedPlan {
    let RetainedFacts { volume, target, here, origin, allowed, .. } = facts;
    let name = &volume.name;
    match here {
        VolumeHere::Absent => match origin {
            BackupOrigin::OtherCluster(uid) if !allowed.reuses_volumes => RetainedPlan::Refused(VolumeRefusal {
                why: format!(
                    "the PersistentVolume {name} stands for storage that the cluster of the backup ({uid}) may still use, and the backup \
                     has no copy of its data"
                ),
                next: format!(
                    "when nothing uses it there any more, restore with {}; or leave out the volume and its claim, and make a claim of the \
                     name by hand",
                    permission(ANNOTATION_REUSE_VOLUMES)
                ),
            }),
            _ => RetainedPlan::Make,
        },
        VolumeHere::Leaving(why) => RetainedPlan::Wait(why.clone()),
        VolumeHere::Free => RetainedPlan::Stays,
        VolumeHere::Claimed(by) => match &volume.claim {
            Some(claim) if (by.key.namespace.as_str(), &by.key.name) != (target, &claim.key.name) => {
                RetainedPlan::Refused(VolumeRefusal {
                    why: format!(
                        "the PersistentVolume {name} is of the claim {} in the cluster, and the backup has no copy of its data",
                        by.key
                    ),
                    next: "delete that claim first if its data is to move, or make a claim of the name with a volume of its own by hand"
                        .to_owned(),
                })
            }
            _ => RetainedPlan::Stays,
        },
        VolumeHere::Released { by, version } => released(facts, by, version),
    }
}

/// The same for a volume that was released by this claim.
fn released(facts: RetainedFacts<'_>, by: &ClaimOfVolume, version: &str) -> RetainedPlan {
    let RetainedFacts { volume, target, of_claim, allowed, .. } = facts;
    let name = &volume.name;
    let is_same = volume.claim.as_ref() == Some(by);
    if is_same && allowed.rebinds_released {
        if of_claim.is_some_and(|other| !other.is_empty() && other != name) {
            let why = format!("the PersistentVolume {name} was released, and its claim has another one");
            return RetainedPlan::Refused(VolumeRefusal { why, next: "delete the claim first".to_owned() });
        }
        let claim = json!({"namespace": target, "uid": null, "resourceVersion": null});
        let mut patch = json!({"spec": {"claimRef": claim}});
        if !version.is_empty() {
            patch["metadata"]["resourceVersion"] = version.into();
        }
        return RetainedPlan::Rebind(patch);
    }
    let delete = format!(
        "delete the PersistentVolume (kubectl delete pv {name}), which leaves its storage alone, and run the restore again"
    );
    RetainedPlan::Refused(match is_same {
        true => VolumeRefusal {
            why: format!(
                "the PersistentVolume {name} is still in the cluster, released by this claim, with what it holds"
            ),
            next: format!(
                "restore with {} to bind the claim to it again, or {delete}",
                permission(ANNOTATION_REBIND_RELEASED)
            ),
        },
        false => VolumeRefusal {
            why: format!(
                "the PersistentVolume {name} in the cluster was released by {}, and may hold other data than when the backup was made",
                match &volume.claim {
                    Some(claim) if claim.key == by.key => format!("a later claim {} (UID {})", by.key, by.uid),
                    _ => format!("another claim, {}", by.key),
                }
            ),
            next: format!("look at what it holds; if the claim is to have that, {delete}"),
        },
    })
}

#[cfg(test)]
mod tests;
