//! Facts that are learned of the objects of the action lane while they are saved.

use crate::fast_lane::{LeftOut, SavedScopes};
use crate::volumes::outcomes::VolumeOutcomes;
use lifeboat_archive::operations::BackupOperation;
use lifeboat_hook::HookTally;
use lifeboat_object::ObjectKey;
use std::collections::BTreeMap;

/// Facts that one worker has learned.
#[derive(Debug, Default)]
pub(crate) struct SaveReport {
    pub(crate) volumes: VolumeOutcomes,
    pub(crate) left_out: LeftOut,
    pub(crate) used: SavedScopes,
    /// Operations that actions have begun.
    pub(crate) operations: Vec<BackupOperation>,
    /// Objects that no action looks at and that belong to saved ones.
    pub(crate) additional_items: BTreeMap<ObjectKey, AdditionalItem>,
    /// Commands that were due in pods.
    pub(crate) hooks: HookTally,
}

/// An object that an action wants in the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdditionalItem {
    /// The object that it belongs to; the first one in their order, if there are several.
    pub(crate) parent: ObjectKey,
    /// True when the object must be in the backup whatever the filters say.
    pub(crate) must_include: bool,
}

impl SaveReport {
    /// Notes that an object should be in the backup.
    pub(crate) fn want(&mut self, key: ObjectKey, additional_item: AdditionalItem) {
        match self.additional_items.get_mut(&key) {
            Some(before) => {
                before.must_include |= additional_item.must_include;
                if additional_item.parent < before.parent {
                    before.parent = additional_item.parent;
                }
            }
            None => drop(self.additional_items.insert(key, additional_item)),
        }
    }

    /// Adds what was left out elsewhere.
    pub(crate) fn add_left_out(&mut self, left_out: LeftOut) {
        for (what, count) in left_out {
            *self.left_out.entry(what).or_default() += count;
        }
    }

    /// Adds what another worker has learned.
    pub(crate) fn add(&mut self, other: Self) {
        self.volumes.add(other.volumes);
        self.add_left_out(other.left_out);
        self.used.add(other.used);
        self.operations.extend(other.operations);
        self.hooks.add(other.hooks);
        other.additional_items.into_iter().for_each(|(key, additional_item)| self.want(key, additional_item));
    }
}
