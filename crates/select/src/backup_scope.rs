//! Finds out from the record of a finished backup which objects it has looked for by itself. Beside these it holds
//! objects that they need, which are not all objects of such types. Pure.

use crate::backup::{BackupFilter, ObjectFacts};
use crate::kept_out::is_kept_out;
use crate::namespace::{NamespaceFacts, NamespaceScope};
use crate::selector::SelectorError;
use lifeboat_api::{Backup, BackupPhase};
use lifeboat_object::{ApiResource, Catalog, Head};
use std::collections::{BTreeMap, BTreeSet};

/// The objects that a backup would have if it were made now.
#[derive(Clone, Debug)]
pub struct BackupScope {
    filter: BackupFilter,
    doubt: Option<Doubt>,
}

/// The reason for which a backup may lack an object that it has looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Its resource policies, which the record does not hold, may have left out any.
    Policies,
    /// It has this phase in place of `Completed`: it may not have saved all that it has found.
    Phase(Option<BackupPhase>),
}

impl BackupScope {
    /// Reads the filters of a backup against the types and namespaces of a cluster.
    ///
    /// # Errors
    /// When its selectors cannot be used.
    pub fn of(backup: &Backup, catalog: &Catalog, namespaces: &[NamespaceFacts]) -> Result<Self, SelectorError> {
        let filter = BackupFilter::new(&backup.spec, None, catalog, namespaces)?;
        let phase = backup.status.phase;
        let doubt = match backup.has_resource_policies() {
            true => Some(Doubt::Policies),
            false => (phase != Some(BackupPhase::Completed)).then_some(Doubt::Phase(phase)),
        };
        Ok(Self { filter, doubt })
    }

    /// The reason for which it may lack objects that it has looked for; the weightier one when there are two.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        self.doubt
    }

    /// The namespaces in which it looks for namespaced objects.
    #[must_use]
    pub fn places_to_list(&self) -> NamespaceScope {
        self.filter.namespaces().to_list()
    }

    /// Checks that it looks for objects of a type.
    ///
    /// # Errors
    /// The reason why not.
    pub fn collects(&self, resource: &ApiResource) -> Result<(), &'static str> {
        self.filter.collects(resource)
    }

    /// Names of types in its filters that the cluster does not know, and that are no patterns.
    #[must_use]
    pub fn unresolved(&self) -> &[String] {
        self.filter.unresolved()
    }

    /// Returns true if it looks into a namespace, or, with none, for objects of the cluster as a whole.
    #[must_use]
    pub fn includes_place(&self, namespace: Option<&str>) -> bool {
        namespace.is_none_or(|name| self.filter.namespaces().includes(name))
    }

    /// Returns true if it looks for objects with these labels.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.filter.selects(labels)
    }

    /// Returns true if it looks for objects with these labels in a namespace, or, with none, in the cluster as a whole.
    #[must_use]
    pub fn takes(&self, namespace: Option<&str>, labels: &BTreeMap<String, String>) -> bool {
        self.includes_place(namespace) && self.selects(labels)
    }

    /// Returns true if it would have an object of a type that it collects.
    #[must_use]
    pub fn would_have(&self, resource: &ApiResource, head: &Head) -> bool {
        let object = ObjectFacts {
            resource,
            namespace: head.namespace.as_deref(),
            name: Some(&head.name),
            labels: &head.labels,
        };
        self.filter.includes_item(object, head.deleting).is_ok() && self.selects(&head.labels)
    }

    /// Returns true if it would have the Namespace itself, provided that the type is collected. `filled` are the
    /// namespaces in which there are objects that it would have.
    #[must_use]
    pub fn would_have_namespace(&self, namespace: &NamespaceFacts, filled: &BTreeSet<String>) -> bool {
        !is_kept_out(&namespace.labels) && self.filter.tracks_namespace(namespace, filled.contains(&namespace.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{list, parse_selector};
    use lifeboat_api::well_known::ANNOTATION_RESOURCE_POLICIES;
    use std::sync::Arc;

    fn backup(change: impl FnOnce(&mut Backup)) -> Backup {
        let mut backup = Backup::default();
        backup.status.phase = Some(BackupPhase::Completed);
        change(&mut backup);
        backup
    }

    fn scope(backup: &Backup) -> BackupScope {
        let types = vec![Arc::new(ApiResource::new("", "v1", "pods", "Pod"))];
        BackupScope::of(backup, &Catalog::new(types, Vec::new()), &["shop", "other"].map(NamespaceFacts::named))
            .unwrap()
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn it_would_have_what_its_namespaces_and_its_selector_let_in() {
        let of_shop = scope(&backup(|backup| {
            backup.spec.included_namespaces = list(&["sh*"]);
            backup.spec.or_label_selectors = ["app=web", "app=db"].map(|text| parse_selector(text).unwrap()).to_vec();
        }));
        let pods = ApiResource::new("", "v1", "pods", "Pod");
        assert!(of_shop.includes_place(Some("shop")) && of_shop.includes_place(None));
        assert!(!of_shop.includes_place(Some("other")));
        let kept_out = [("app", "web"), ("velero.io/exclude-from-backup", "true")];
        for (namespace, pairs, deleting, expected) in [
            ("shop", &[("app", "web")][..], false, true),
            ("shop", &[("app", "db")], false, true),
            ("shop", &[("app", "cache")], false, false),
            ("shop", &[], false, false),
            ("other", &[("app", "web")], false, false),
            ("shop", &[("app", "web")], true, false),
            ("shop", &kept_out, false, false),
        ] {
            let labels = labels(pairs);
            let (name, namespace) = ("a".to_owned(), Some(namespace.to_owned()));
            let head = Head { name, namespace, labels, deleting, ..Head::default() };
            assert_eq!(of_shop.would_have(&pods, &head), expected, "{head:?}");
        }
        let [shop, other] = ["shop", "other"].map(NamespaceFacts::named);
        let kept_out = NamespaceFacts { labels: labels(&kept_out), ..shop.clone() };
        let filled = ["shop", "other"].map(str::to_owned).into();
        let would_have = |namespace: &NamespaceFacts| of_shop.would_have_namespace(namespace, &filled);
        assert_eq!([&shop, &other, &kept_out].map(would_have), [true, false, false]);
    }

    #[test]
    fn why_it_may_lack_what_it_has_looked_for() {
        let with_policies = |backup: &mut Backup| {
            backup.metadata.annotations.insert(ANNOTATION_RESOURCE_POLICIES.to_owned(), "file".to_owned());
        };
        let partial = Some(BackupPhase::PartiallyFailed);
        assert_eq!(scope(&backup(|_| {})).doubt(), None);
        assert_eq!(scope(&backup(|backup| backup.status.phase = partial)).doubt(), Some(Doubt::Phase(partial)));
        assert_eq!(scope(&backup(|backup| backup.status.phase = None)).doubt(), Some(Doubt::Phase(None)));
        assert_eq!(scope(&backup(with_policies)).doubt(), Some(Doubt::Policies));
        let both = backup(|backup| {
            backup.status.phase = partial;
            with_policies(backup);
        });
        assert_eq!(scope(&both).doubt(), Some(Doubt::Policies));
    }
}
