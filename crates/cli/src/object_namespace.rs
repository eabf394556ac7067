//! The namespace of the objects that a command is about.

use crate::flags::List;

/// The flag of a command that names the namespace of its objects.
pub(crate) enum ObjectNamespace<'a> {
    /// One namespace.
    One(&'a mut Option<String>),
    /// Several of them.
    Several(&'a mut List),
}

impl ObjectNamespace<'_> {
    /// Sets it, as if the flag named this namespace.
    ///
    /// # Errors
    /// When the flag names another one.
    pub(crate) fn set(self, name: String) -> Result<(), String> {
        let before = match &self {
            Self::One(before) => before.iter().cloned().collect::<Vec<_>>(),
            Self::Several(before) => before.0.clone(),
        };
        if !before.is_empty() && before != [name.clone()] {
            return Err(format!("--namespace names {name:?}, and another flag {}: give one", before.join(", ")));
        }
        match self {
            Self::One(place) => *place = Some(name),
            Self::Several(place) => place.0 = vec![name],
        }
        Ok(())
    }
}
