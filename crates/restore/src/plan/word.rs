//! The words of plans and previews. Pure.

use std::fmt;
use std::str::FromStr;

/// The planned action for an object, as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanWord {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is deleted and made anew.
    Recreate,
    /// It is as in the backup.
    Unchanged,
    /// It is not restored.
    Skip,
    /// It differs, and stays as it is.
    Conflict,
    /// It cannot be restored.
    Refused,
    /// The backup lacks it, and it stays.
    Extra,
    /// The backup lacks it, and it is deleted.
    Remove,
}

impl PlanWord {
    /// All of them, in the order in which people read them.
    pub const ALL: [Self; 9] = [
        Self::Create,
        Self::Update,
        Self::Recreate,
        Self::Unchanged,
        Self::Skip,
        Self::Conflict,
        Self::Refused,
        Self::Extra,
        Self::Remove,
    ];

    /// As plans and previews spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Recreate => "recreate",
            Self::Unchanged => "unchanged",
            Self::Skip => "skip",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Extra => "extra",
            Self::Remove => "remove",
        }
    }

    /// Returns true if the action changes something in the cluster.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Recreate | Self::Remove)
    }
}

impl fmt::Display for PlanWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that is no word of plans.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no action of a plan")]
pub struct UnknownPlanWord(String);

impl FromStr for PlanWord {
    type Err = UnknownPlanWord;

    fn from_str(text: &str) -> Result<Self, UnknownPlanWord> {
        Self::ALL.into_iter().find(|word| word.as_str() == text).ok_or_else(|| UnknownPlanWord(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_as_it_is_spelled_and_no_other_one_is() {
        for word in PlanWord::ALL {
            assert_eq!(word.as_str().parse(), Ok(word));
        }
        for wrong in ["", "Create", "delete"] {
            assert_eq!(wrong.parse::<PlanWord>(), Err(UnknownPlanWord(wrong.to_owned())));
        }
    }
}
