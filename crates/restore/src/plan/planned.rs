//! Planned changes to objects. Pure.

use crate::plan::guard::PlanGuard;
use crate::plan::word::PlanWord;
use lifeboat_object::ObjectKey;
use lifeboat_patch::Difference;

/// The plan for one object.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviewItem {
    /// Its key in the cluster; a mapped namespace is the target.
    pub key: ObjectKey,
    /// The planned change.
    pub planned: Planned,
    /// The condition that the restore would wait for first, where the object in the cluster is about to be deleted:
    /// `until …`, for people.
    pub waits: Option<String>,
    /// Actions that decide about the object only when it is restored: the plan holds without them.
    pub unasked: Vec<String>,
    /// Changes that each rule of the resource modifiers has made to the object.
    pub modifications: Vec<Modification>,
    /// Errors of the object that do not keep it from being restored.
    pub errors: Vec<String>,
    /// Deviations of the plan from what was asked for.
    pub warnings: Vec<String>,
    /// Objects of the backup, by their keys there, that the restore brings back before this one because it needs them, whether they
    /// are selected or not. Those that they need in turn are not among them. Each has an item of its own.
    pub needs: Vec<ObjectKey>,
    /// The state that this plan depends on.
    pub pin: PlanGuard,
}

impl PreviewItem {
    /// An object of which there is nothing more to say.
    #[must_use]
    pub fn of(key: ObjectKey, planned: Planned) -> Self {
        Self {
            key,
            planned,
            waits: None,
            unasked: Vec::new(),
            modifications: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            needs: Vec::new(),
            pin: PlanGuard::default(),
        }
    }
}

/// The planned change to an object. Differences lead from the cluster (left) to the backup (right), and include the
/// values of Secrets.
#[derive(Clone, Debug, PartialEq)]
pub enum Planned {
    /// It would be made.
    Create,
    /// It is there and would be changed.
    Update(Vec<Difference>),
    /// It is there, differs, and would be deleted and made anew.
    Recreate(Vec<Difference>),
    /// It is in the cluster as in the backup.
    Unchanged,
    /// It would not be restored, for this reason.
    Skip(String),
    /// It is there, differs, and would stay as it is.
    Conflict(Vec<Difference>),
    /// It could not be restored, for this reason.
    Refused(String),
    /// It is there, the backup lacks it, and it would stay.
    Extra,
    /// It is there, the backup lacks it, and it would be deleted.
    Remove,
}

impl Planned {
    /// The word for it in plans and previews.
    #[must_use]
    pub fn word(&self) -> PlanWord {
        match self {
            Self::Create => PlanWord::Create,
            Self::Update(_) => PlanWord::Update,
            Self::Recreate(_) => PlanWord::Recreate,
            Self::Unchanged => PlanWord::Unchanged,
            Self::Skip(_) => PlanWord::Skip,
            Self::Conflict(_) => PlanWord::Conflict,
            Self::Refused(_) => PlanWord::Refused,
            Self::Extra => PlanWord::Extra,
            Self::Remove => PlanWord::Remove,
        }
    }

    /// Returns true if it changes something in the cluster.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.word().writes()
    }

    /// Where the object in the cluster differs, when that is of importance.
    #[must_use]
    pub fn differences(&self) -> Option<&Vec<Difference>> {
        match self {
            Self::Update(differences) | Self::Recreate(differences) | Self::Conflict(differences) => Some(differences),
            _ => None,
        }
    }

    /// [`Self::differences`], to be changed.
    pub(crate) fn differences_mut(&mut self) -> Option<&mut Vec<Difference>> {
        match self {
            Self::Update(differences) | Self::Recreate(differences) | Self::Conflict(differences) => Some(differences),
            _ => None,
        }
    }
}

/// Changes that a rule of the resource modifiers has made to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Modification {
    /// The number of the rule, from 1.
    pub rule: usize,
    /// The differences between the object before and after the rule.
    pub differences: Vec<Difference>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_for_an_object_has_a_word_of_its_own() {
        let all = [
            Planned::Create,
            Planned::Update(Vec::new()),
            Planned::Recreate(Vec::new()),
            Planned::Unchanged,
            Planned::Skip(String::new()),
            Planned::Conflict(Vec::new()),
            Planned::Refused(String::new()),
            Planned::Extra,
            Planned::Remove,
        ];
        assert_eq!(all.map(|planned| planned.word()), PlanWord::ALL);
    }
}
