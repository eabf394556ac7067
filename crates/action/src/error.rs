//! Errors of actions.

use std::fmt::{self, Display, Formatter};

/// Kinds of failed calls, told apart by what the operation does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionErrorKind {
    /// It may pass: the same call is made again, for a while ([`crate::call`]). After that it is an error of the object.
    Passing,
    /// It is an error of the object: that one is not saved, restored or deleted, and the others go on.
    Item,
    /// No call of this operation can succeed: it ends, and says so.
    Fatal,
    /// The process of the plugin has ended. Its host starts it anew for the next call, so the call is made once more; after
    /// that it is an error of the object, because it may be the object that ends the process.
    Gone,
}

/// A call of an action that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ActionError {
    /// The kind, from which the next step follows.
    pub kind: ActionErrorKind,
    /// The reason, for people: a whole sentence without a full stop.
    pub message: String,
}

impl ActionError {
    /// The error when this process lacks the action of this name, which alone knows the progress.
    #[must_use]
    pub fn missing(action: &str) -> Self {
        Self::item(format!("this server has no action {action}, which alone knows how far it is"))
    }

    /// An error that may pass.
    #[must_use]
    pub fn passing(message: impl Into<String>) -> Self {
        Self { kind: ActionErrorKind::Passing, message: message.into() }
    }

    /// An error of this object.
    #[must_use]
    pub fn item(message: impl Into<String>) -> Self {
        Self { kind: ActionErrorKind::Item, message: message.into() }
    }

    /// An error that ends the operation.
    #[must_use]
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { kind: ActionErrorKind::Fatal, message: message.into() }
    }

    /// The end of the plugin's process.
    #[must_use]
    pub fn gone(message: impl Into<String>) -> Self {
        Self { kind: ActionErrorKind::Gone, message: message.into() }
    }

    /// Returns true if the operation ends with this error.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.kind == ActionErrorKind::Fatal
    }
}

impl Display for ActionError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
