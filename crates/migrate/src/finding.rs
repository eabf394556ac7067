//! Finding about a part of an installation.

use serde::Serialize;

/// The effect of the switch on it, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum SwitchEffect {
    /// It would fail: something is to be done first.
    Mend,
    /// This version of Lifeboat does not have it yet.
    Missing,
    /// It works in another way.
    Differs,
    /// It works as before.
    Works,
}

impl SwitchEffect {
    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Mend => "To mend before the switch",
            Self::Missing => "Not there yet in this version",
            Self::Differs => "Works differently",
            Self::Works => "Works as before",
        }
    }
}

/// A part of an installation, and the effect of the switch on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) verdict: SwitchEffect,
    /// Its name, such as `schedule nightly`.
    pub(super) subject: String,
    pub(super) what: String,
    /// The next step for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn new(verdict: SwitchEffect, subject: impl Into<String>, what: impl Into<String>) -> Self {
        Self { verdict, subject: subject.into(), what: what.into(), next: None }
    }

    /// The same, with what to do.
    pub(super) fn next(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }
}
