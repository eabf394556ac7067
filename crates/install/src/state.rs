//! Decides if an installation may be removed, and makes the warnings for the user. Pure.

use crate::names::{DEPLOYMENT, is_component};
use lifeboat_api::well_known::LABEL_COMPONENT;
use serde_json::Value;
use std::collections::BTreeSet;

/// The state of the namespace that an installation is removed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceCondition {
    /// It does not exist any more.
    Gone,
    /// An installer has made it.
    Own,
    /// It was not made by an installer, and other applications may be in it.
    Shared,
    /// It is being deleted already, and objects that are left of an installation may hold it.
    Ending,
}

/// A namespace and the parts of an installation in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstalledNamespace<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The object; `None` when there is none.
    pub(crate) namespace: Option<&'a Value>,
    /// A Deployment is in it; when the namespace is gone or going, the rights of its server are left; when it is going, an
    /// object of ours with a finalizer is.
    pub(crate) installed: bool,
}

/// Returns true if an object is being deleted.
pub(crate) fn is_ending(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The state of the namespace, or why nothing may be deleted. `others` are the other namespaces with an installation.
pub(crate) fn state(
    InstalledNamespace { name, namespace, installed }: InstalledNamespace<'_>,
    others: &BTreeSet<String>,
) -> Result<NamespaceCondition, String> {
    let elsewhere = match others.is_empty() {
        true => String::new(),
        false => format!("; Velero is in {}: name one with -n", listed(others)),
    };
    match namespace {
        // The rest of an installation whose namespace is gone is removed, unless another installation may need it.
        None if installed || others.is_empty() => Ok(NamespaceCondition::Gone),
        None => Err(format!("there is no namespace {name}, and nothing was deleted{elsewhere}")),
        Some(namespace) if is_ending(namespace) && (installed || is_component(namespace)) => {
            Ok(NamespaceCondition::Ending)
        }
        Some(namespace) if is_component(namespace) => Ok(NamespaceCondition::Own),
        Some(_) if installed => Ok(NamespaceCondition::Shared),
        Some(_) => Err(format!(
            "the namespace {name} holds no Velero, and nothing was deleted: neither has it the label \
             {LABEL_COMPONENT}=velero nor a Deployment {DEPLOYMENT}{elsewhere}; if it shall go nevertheless, delete it with \
             kubectl"
        )),
    }
}

/// Warnings for the user before the removal is confirmed. `cluster` describes the cluster.
pub(crate) fn warning(
    cluster: &str,
    namespace: &str,
    state: NamespaceCondition,
    others: &BTreeSet<String>,
) -> Vec<String> {
    let mut out = match state {
        NamespaceCondition::Gone => {
            vec![format!("The namespace {namespace} is gone; what is left of it in the cluster {cluster} goes.")]
        }
        NamespaceCondition::Ending => vec![format!(
            "The namespace {namespace} of the cluster {cluster} is being deleted already; what of an installation holds it goes."
        )],
        NamespaceCondition::Own | NamespaceCondition::Shared => {
            vec![format!("The namespace {namespace} of the cluster {cluster} goes, with everything in it.")]
        }
    };
    if state == NamespaceCondition::Shared {
        out.push("No installer has made this namespace: other applications in it go too.".to_owned());
    }
    out.push(match others.is_empty() {
        true => "The definitions go, and with them all their resources.".to_owned(),
        false => definitions_stay(others),
    });
    out
}

/// Says that definitions stay because they are in use elsewhere.
pub(crate) fn definitions_stay(others: &BTreeSet<String>) -> String {
    format!("The definitions stay: they are used in other namespaces ({}).", listed(others))
}

fn listed(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_goes_where_nothing_is() {
        let none = BTreeSet::new();
        let others: BTreeSet<String> = ["dr", "velero"].map(str::to_owned).into();
        let (own, plain) = (json!({"metadata": {"labels": {"component": "velero"}}}), json!({"metadata": {}}));
        let ending = json!({"metadata": {"deletionTimestamp": "2026-11-22T10:00:00Z"}});
        let no_velero = |elsewhere: &str| {
            Err(format!(
                "the namespace n holds no Velero, and nothing was deleted: neither has it the label component=velero nor a \
                 Deployment velero{elsewhere}; if it shall go nevertheless, delete it with kubectl"
            ))
        };
        for (namespace, installed, others, expected) in [
            (Some(&own), false, &none, Ok(NamespaceCondition::Own)),
            (Some(&own), true, &others, Ok(NamespaceCondition::Own)),
            (Some(&plain), true, &none, Ok(NamespaceCondition::Shared)),
            (Some(&ending), true, &none, Ok(NamespaceCondition::Ending)),
            (Some(&ending), false, &none, no_velero("")),
            (Some(&plain), false, &none, no_velero("")),
            (Some(&plain), false, &others, no_velero("; Velero is in dr, velero: name one with -n")),
            (None, false, &none, Ok(NamespaceCondition::Gone)),
            (None, true, &others, Ok(NamespaceCondition::Gone)),
            (
                None,
                false,
                &others,
                Err("there is no namespace n, and nothing was deleted; Velero is in dr, velero: name one with -n"
                    .into()),
            ),
        ] {
            let found = InstalledNamespace { name: "n", namespace, installed };
            assert_eq!(state(found, others), expected, "{namespace:?} {installed} {others:?}");
        }
    }

    #[test]
    fn who_is_asked_knows_what_goes() {
        let (none, others) = (BTreeSet::new(), BTreeSet::from(["dr".to_owned()]));
        let told = |state, others| warning("https://c:6443, context prod", "n", state, others).join("\n");
        assert_eq!(
            told(NamespaceCondition::Own, &none),
            "The namespace n of the cluster https://c:6443, context prod goes, with everything in it.\n\
             The definitions go, and with them all their resources."
        );
        assert_eq!(
            told(NamespaceCondition::Shared, &others),
            "The namespace n of the cluster https://c:6443, context prod goes, with everything in it.\n\
             No installer has made this namespace: other applications in it go too.\n\
             The definitions stay: they are used in other namespaces (dr)."
        );
        assert_eq!(
            told(NamespaceCondition::Ending, &none),
            "The namespace n of the cluster https://c:6443, context prod is being deleted already; what of an installation \
             holds it goes.\n\
             The definitions go, and with them all their resources."
        );
        assert_eq!(
            told(NamespaceCondition::Gone, &none),
            "The namespace n is gone; what is left of it in the cluster https://c:6443, context prod goes.\n\
             The definitions go, and with them all their resources."
        );
    }
}
