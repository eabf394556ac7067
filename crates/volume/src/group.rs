//! Decides whether the claims of a group can be snapshotted together (velero: pkg/backup/actions/csi). Pure.

mod key;
mod members;
mod settle;

pub use key::GroupKey;
pub(crate) use members::{Label, Labelled, Member, members_of};
pub(crate) use settle::{beside_note, fallback_note, settle_claim};

use crate::facts::{Claim, PersistentVolume};
use crate::verdict::GroupTrouble;
use lifeboat_api::well_known::{ANNOTATION_VOLUME_GROUP_SNAPSHOT_CLASS_PREFIX, LABEL_VOLUME_GROUP_SNAPSHOT_CLASS};
use lifeboat_object::first_names;
use serde_json::Value;
use std::collections::BTreeMap;

/// A VolumeGroupSnapshotClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupClass {
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// True when it has the label that chooses it.
    pub is_labelled: bool,
}

impl GroupClass {
    /// Reads a class.
    #[must_use]
    pub fn of(class: &Value) -> Self {
        let text = |pointer: &str| class.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            name: text("/metadata/name"),
            driver: text("/driver"),
            is_labelled: class["metadata"]["labels"][LABEL_VOLUME_GROUP_SNAPSHOT_CLASS] == "true",
        }
    }
}

/// Rules that decide about groups, beside the claims of the backup.
#[derive(Clone, Debug)]
pub struct GroupRules {
    /// The classes of the cluster; why they are not known otherwise.
    classes: Result<Vec<GroupClass>, String>,
    /// The classes that annotations of the backup name, by driver.
    of_backup: BTreeMap<String, String>,
    /// Claims with the label that are not in the backup.
    pub(crate) outside: Vec<Claim>,
}

impl GroupRules {
    /// Creates the rules from these classes, or from the reason for which they are not known, for a backup with these
    /// annotations. A class that is listed twice, as in a list that was interrupted, counts once.
    #[must_use]
    pub fn new(classes: Result<Vec<GroupClass>, String>, annotations: &BTreeMap<String, String>) -> Self {
        let of_backup = annotations.iter().filter_map(|(key, class)| {
            let driver = key.strip_prefix(ANNOTATION_VOLUME_GROUP_SNAPSHOT_CLASS_PREFIX)?;
            (!class.is_empty()).then(|| (driver.to_owned(), class.clone()))
        });
        let classes = classes.map(|mut classes| {
            classes.sort_by(|a, b| a.name.cmp(&b.name));
            classes.dedup_by(|a, b| a.name == b.name);
            classes
        });
        Self { classes, of_backup: of_backup.collect(), outside: Vec::new() }
    }

    /// Adds claims with the label that are not in the backup: their volumes are snapshotted with the group all the
    /// same. A claim that is listed twice counts once.
    #[must_use]
    pub fn with_outside(self, mut outside: Vec<Claim>) -> Self {
        outside.sort_by(|a, b| a.key.cmp(&b.key));
        outside.dedup_by(|a, b| a.key == b.key);
        Self { outside, ..self }
    }

    /// The class for a group of volumes of one driver: the one that its claims name or the backup names; else the one
    /// with the label, or the only one.
    ///
    /// Unlike Velero, which takes a name of the first claim unchecked, a class that is not there, or is of another driver, is found
    /// here, and one without the label is taken when there is no other.
    fn choose(&self, driver: &str, members: &[Member<'_>]) -> Result<String, GroupTrouble> {
        let trouble = |why: String, advice| Err(GroupTrouble { why, advice });
        let classes = match &self.classes {
            Ok(classes) => classes,
            Err(why) => {
                return trouble(
                    format!("its classes are not known: {why}"),
                    "give the server the right to list volumegroupsnapshotclasses",
                );
            }
        };
        let is_of_driver = |class: &&GroupClass| class.driver.eq_ignore_ascii_case(driver);
        let named = members.iter().filter(|member| !member.claim.group_snapshot_class.is_empty());
        let named: Vec<(&str, String)> = named
            .map(|member| (member.claim.group_snapshot_class.as_str(), format!("the claim {}", member.claim.key.name)))
            .collect();
        let of_backup = self.of_backup.iter().find(|(of, _)| of.eq_ignore_ascii_case(driver));
        let of_backup = of_backup.map(|(_, class)| (class.as_str(), "the backup".to_owned()));
        if let (Some((first, who)), Some((other, by))) =
            (named.first(), named.iter().find(|(class, _)| Some(*class) != named.first().map(|(class, _)| *class)))
        {
            return trouble(format!("{who} names the class {first}, and {by} the class {other}"), ONE_NAME);
        }
        if let Some((class, who)) = named.into_iter().next().or(of_backup) {
            return match classes.iter().find(|one| one.name == class) {
                Some(one) if is_of_driver(&one) => Ok(one.name.clone()),
                Some(one) => {
                    let of = &one.driver;
                    let why = format!("{who} names the VolumeGroupSnapshotClass {class}, which is of the driver {of}");
                    trouble(format!("{why}, and the volumes of {driver}"), NAME_ONE)
                }
                None => trouble(
                    format!("{who} names the VolumeGroupSnapshotClass {class}, which the cluster does not have"),
                    NAME_ONE,
                ),
            };
        }
        let of_driver: Vec<&GroupClass> = classes.iter().filter(is_of_driver).collect();
        let labelled: Vec<&GroupClass> = of_driver.iter().copied().filter(|class| class.is_labelled).collect();
        match (&labelled[..], &of_driver[..]) {
            ([one], _) | ([], [one]) => Ok(one.name.clone()),
            ([], []) => {
                trouble(format!("the cluster has no VolumeGroupSnapshotClass of the driver {driver}"), MAKE_ONE)
            }
            ([], all) | (all, _) => {
                let names: Vec<&str> = all.iter().map(|class| class.name.as_str()).collect();
                let why = format!(
                    "the cluster has several VolumeGroupSnapshotClasses of the driver {driver}, {}, and nothing says which to take",
                    names.join(", ")
                );
                trouble(why, NAME_ONE)
            }
        }
    }
}

const SERVE: &str = "install the definitions of groupsnapshot.storage.k8s.io, and switch CSIVolumeGroupSnapshot on in the \
     snapshot-controller and in the csi-snapshotter of the driver";
const BIND: &str = "let all claims with this label be bound, or take the label off those that are not";
const ONE_DRIVER: &str = "give the label to claims of one CSI driver only";
const ONE_NAME: &str = "let the claims of the group name one class";
const NAME_ONE: &str = "name a class of the driver in the annotation velero.io/csi-volume-group-snapshot-class of a claim, or put the \
     label velero.io/csi-volumegroupsnapshot-class=true on one";
const MAKE_ONE: &str = "make a VolumeGroupSnapshotClass of the driver";

/// The class with which a group is snapshotted. `due` are the claims whose snapshots are wanted, `others` all others of
/// their namespace with the label: the snapshot-controller selects by the label alone, and refuses the whole group for
/// one of them.
///
/// # Errors
/// [`GroupTrouble`] with the reason when it cannot be snapshotted.
pub(crate) fn class_of(
    due: &[Member<'_>],
    others: &[Member<'_>],
    is_served: bool,
    rules: &GroupRules,
) -> Result<String, GroupTrouble> {
    let trouble = |why: String, advice| Err(GroupTrouble { why, advice });
    if !is_served {
        return trouble("the cluster serves no VolumeGroupSnapshots".to_owned(), SERVE);
    }
    let all = || due.iter().chain(others);
    let names = |members: &mut dyn Iterator<Item = &Member<'_>>| {
        let mut names: Vec<String> = members.map(|member| member.claim.key.name.clone()).collect();
        names.sort();
        first_names(&names)
    };
    let is_unbound = |member: &&Member<'_>| member.claim.volume.is_none();
    if all().any(|member| is_unbound(&member)) {
        return trouble(
            format!("not bound, of the claims with its label: {}", names(&mut all().filter(is_unbound))),
            BIND,
        );
    }
    let is_of_none = |member: &&Member<'_>| member.volume.is_some_and(|volume| volume.driver().is_none());
    if all().any(|member| is_of_none(&member)) {
        let names = names(&mut all().filter(is_of_none));
        return trouble(format!("of no CSI driver, of the claims with its label: {names}"), ONE_DRIVER);
    }
    let mut drivers: BTreeMap<&str, Vec<&Member<'_>>> = BTreeMap::new();
    for member in all() {
        if let Some(driver) = member.volume.and_then(PersistentVolume::driver) {
            drivers.entry(driver).or_default().push(member);
        }
    }
    let mut all = drivers.iter();
    match (all.next(), all.next()) {
        (Some((driver, _)), None) => rules.choose(driver, due),
        // All that are due have a volume of a driver.
        (None, _) => trouble("its volumes are not known".to_owned(), BIND),
        (Some(_), Some(_)) => {
            let each =
                drivers.iter().map(|(driver, members)| format!("{} of {driver}", names(&mut members.iter().copied())));
            let each: Vec<String> = each.collect();
            trouble(format!("the claims with its label are of several drivers: {}", each.join(", ")), ONE_DRIVER)
        }
    }
}

#[cfg(test)]
mod tests;
