//! The namespace of the objects that a command is about.

use crate::flags::List;

/// The flag of a command that names the namespace of its objects.
pub enum ObjectNamespace<'a> {
    /// `--object-namespace`, which names one.
    One(&'a mut Option<String>),
    /// `--include-namespaces`, which names several.
    Several(&'a mut List),
}

impl ObjectNamespace<'_> {
    /// Sets it, as if the flag named this namespace.
    ///
    /// # Errors
    /// When the flag names another one.
    pub fn set(self, name: String) -> Result<(), String> {
        let (flag, before) = match &self {
            Self::One(before) => ("--object-namespace", before.iter().cloned().collect::<Vec<_>>()),
            Self::Several(before) => ("--include-namespaces", before.0.clone()),
        };
        if !before.is_empty() && before != [name.clone()] {
            let before = before.join(",");
            return Err(format!("--namespace {name} and {flag} {before} do not name the same: give one of them"));
        }
        match self {
            Self::One(place) => *place = Some(name),
            Self::Several(place) => place.0 = vec![name],
        }
        Ok(())
    }
}
