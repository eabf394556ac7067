//! The steps of the work, told in the words of Velero.

use crate::state::definitions_stay;
use std::collections::BTreeSet;
use std::fmt;
use std::io;

/// Is told each step. Its failure stops the work at that step, as when the reader of a pipe has gone.
pub type StepReporter<'a> = dyn FnMut(InstallStep<'_>) -> io::Result<()> + Send + 'a;

/// A step of an installation or a removal. Its text is what the user is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallStep<'a> {
    /// An object is about to be sent.
    Sending {
        /// Its kind.
        kind: &'a str,
        /// Its name.
        name: &'a str,
        /// True when it changes the object that is there already.
        apply: bool,
    },
    /// An object was sent.
    Sent {
        /// Its kind.
        kind: &'a str,
        /// Its name.
        name: &'a str,
        /// The outcome.
        outcome: ApplyOutcome,
    },
    /// A binding is about to be deleted and made anew.
    Replacing {
        /// Its kind.
        kind: &'a str,
        /// Its name.
        name: &'a str,
        /// The kind and the name of the role that it shall give.
        role: &'a str,
    },
    /// A binding was made anew.
    Replaced {
        /// Its kind.
        kind: &'a str,
        /// Its name.
        name: &'a str,
    },
    /// The namespace to remove does not exist.
    NamespaceGone(&'a str),
    /// A server has not removed all finalizers yet. Told once a second, as a dot that ends no line.
    Held,
    /// The finalizers of so many objects are about to be removed, because no server does it.
    Freeing(usize),
    /// The files of these restores stay in the bucket, because nobody is there who could delete them.
    FilesStay(&'a [String]),
    /// The namespace was deleted and is not gone yet.
    NamespaceGoes(&'a str),
    /// The definitions are left, because there are objects of theirs in these namespaces.
    DefinitionsStay(&'a BTreeSet<String>),
}

/// The outcome for an object that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// There was no such object, and it was created.
    Created,
    /// It is as asked for, whether it was there before or not.
    Applied,
    /// There was such an object, which was left as it is.
    Exists,
}

impl fmt::Display for InstallStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sending { kind, name, apply } => {
                let verb = if *apply { "apply" } else { "create" };
                writeln!(f, "{kind}/{name}: attempting to create resource client")?;
                write!(f, "{kind}/{name}: attempting to {verb} resource")
            }
            Self::Sent { kind, name, outcome } => {
                let done = match outcome {
                    ApplyOutcome::Created => "created",
                    ApplyOutcome::Applied => "applied",
                    ApplyOutcome::Exists => "already exists, proceeding",
                };
                write!(f, "{kind}/{name}: {done}")
            }
            Self::Replacing { kind, name, role } => {
                write!(f, "{kind}/{name}: attempting to replace resource, for it to refer to {role}")
            }
            Self::Replaced { kind, name } => write!(f, "{kind}/{name}: replaced"),
            Self::NamespaceGone(namespace) => {
                write!(f, "Velero namespace \"{namespace}\" does not exist, skipping.")
            }
            Self::Held => f.write_str("."),
            Self::Freeing(count) => {
                write!(f, "{count} restores and data movements are not let go of by a server: freeing them")
            }
            Self::FilesStay(names) => write!(
                f,
                "What these restores left in the bucket stays there: {}; delete it with a client of your storage when nobody needs it",
                names.iter().map(|name| format!("restores/{name}/")).collect::<Vec<_>>().join(", ")
            ),
            Self::NamespaceGoes(namespace) => {
                write!(f, "Waiting for velero namespace \"{namespace}\" to be deleted")
            }
            Self::DefinitionsStay(others) => f.write_str(&definitions_stay(others)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_in_the_words_of_velero() {
        let (kind, name) = ("Deployment", "velero");
        let others = BTreeSet::from(["dr".to_owned()]);
        for (step, text) in [
            (
                InstallStep::Sending { kind, name, apply: false },
                "Deployment/velero: attempting to create resource client\n\
                 Deployment/velero: attempting to create resource",
            ),
            (
                InstallStep::Sending { kind, name, apply: true },
                "Deployment/velero: attempting to create resource client\n\
                 Deployment/velero: attempting to apply resource",
            ),
            (InstallStep::Sent { kind, name, outcome: ApplyOutcome::Created }, "Deployment/velero: created"),
            (InstallStep::Sent { kind, name, outcome: ApplyOutcome::Applied }, "Deployment/velero: applied"),
            (
                InstallStep::Sent { kind, name, outcome: ApplyOutcome::Exists },
                "Deployment/velero: already exists, proceeding",
            ),
            (
                InstallStep::Replacing { kind: "RoleBinding", name, role: "Role/velero" },
                "RoleBinding/velero: attempting to replace resource, for it to refer to Role/velero",
            ),
            (InstallStep::Replaced { kind: "RoleBinding", name }, "RoleBinding/velero: replaced"),
            (InstallStep::NamespaceGone("n"), "Velero namespace \"n\" does not exist, skipping."),
            (InstallStep::Held, "."),
            (InstallStep::Freeing(2), "2 restores and data movements are not let go of by a server: freeing them"),
            (
                InstallStep::FilesStay(&["a".to_owned(), "b".to_owned()]),
                "What these restores left in the bucket stays there: restores/a/, restores/b/; delete it with a client of your \
                 storage when nobody needs it",
            ),
            (InstallStep::NamespaceGoes("n"), "Waiting for velero namespace \"n\" to be deleted"),
            (InstallStep::DefinitionsStay(&others), "The definitions stay: they are used in other namespaces (dr)."),
        ] {
            assert_eq!(step.to_string(), text);
        }
    }
}
