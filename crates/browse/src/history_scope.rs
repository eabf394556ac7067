//! Reasons for which a backup does not have an object. Pure.

use lifeboat_api::{Backup, BackupPhase};
use lifeboat_object::{ApiResource, Catalog, ObjectKey};
use lifeboat_sandbox::ServedTypes;
use lifeboat_select::{BackupScope, Doubt, NamespaceFacts};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An object, and the types by which filters of backups are understood.
#[derive(Debug)]
pub(crate) struct HistoryScope {
    namespace: Option<String>,
    api: Arc<ApiResource>,
    /// True when nothing is known of its type but the plural.
    is_custom: bool,
    catalog: Catalog,
}

/// The reason for which a backup does not have an object.
#[derive(Debug, PartialEq)]
pub(crate) enum NotInBackup {
    /// Its filters leave the object out, for this reason.
    NotInScope(&'static str),
    /// It was not there; or this is why it may have been there all the same.
    Lacks(Option<String>),
}

/// Of a backup whose filters do not include the type by any name that is known here.
const MAY_BE_NAMED: &str = "not included, unless a name in its filters that is not known here means the type";

impl HistoryScope {
    pub(crate) fn new(key: &ObjectKey) -> Self {
        let mut types: Vec<Arc<ApiResource>> = ServedTypes::default().all().cloned().collect();
        let known = types.iter().find(|api| api.preferred && api.group_resource() == key.resource).cloned();
        let is_custom = known.is_none();
        let api = known.unwrap_or_else(|| {
            let of_key = ApiResource {
                namespaced: key.namespace.is_some(),
                ..ApiResource::new(&*key.resource.group, "v1", &*key.resource.resource, &*key.resource.resource)
            };
            let api = Arc::new(of_key);
            types.push(Arc::clone(&api));
            api
        });
        // A namespace is what it lies in itself.
        let namespace = key.namespace.clone().or_else(|| key.resource.is_namespaces().then(|| key.name.clone()));
        Self { namespace, api, is_custom, catalog: Catalog::new(types, Vec::new()) }
    }

    /// Returns true if the labels of an object decide whether this backup would have it.
    pub(crate) fn asks_for_labels(record: &Backup) -> bool {
        record.spec.label_selector.is_some() || !record.spec.or_label_selectors.is_empty()
    }

    /// Finds the reason for which a backup does not have the object, whose labels were these when it was seen last.
    pub(crate) fn lack(&self, record: &Backup, labels: Option<&BTreeMap<String, String>>) -> NotInBackup {
        let namespace = self.namespace.as_deref();
        let facts: Vec<NamespaceFacts> = namespace.into_iter().map(NamespaceFacts::named).collect();
        let Ok(scope) = BackupScope::of(record, &self.catalog, &facts) else {
            return NotInBackup::Lacks(Some("the filters of the backup cannot be read".to_owned()));
        };
        if !scope.includes_place(namespace) {
            return NotInBackup::NotInScope("its namespace is not included");
        }
        let words = self.words_that_may_mean_it(record, &facts, &scope);
        if let Err(why) = scope.collects(&self.api) {
            return NotInBackup::NotInScope(if words.is_empty() { why } else { MAY_BE_NAMED });
        }
        let of_labels = match labels {
            Some(labels) if !scope.selects(labels) => {
                return NotInBackup::NotInScope("its labels do not match the selector of the backup");
            }
            None if Self::asks_for_labels(record) => Some("the backup has a label selector".to_owned()),
            _ => None,
        };
        let of_words = (!words.is_empty()).then(|| {
            let words: Vec<String> = words.into_iter().collect();
            format!("the filters of the backup name types that are not known here: {}", words.join(", "))
        });
        NotInBackup::Lacks(of_words.or(of_labels).or_else(|| scope.doubt().map(words_of)))
    }

    /// Names in the filters that may be the singular or a short name of the type, and then decide whether the backup has looked for it: the
    /// cluster that was backed up knew them, and here nothing is known of a custom type but its plural.
    fn words_that_may_mean_it(
        &self,
        record: &Backup,
        namespaces: &[NamespaceFacts],
        scope: &BackupScope,
    ) -> BTreeSet<String> {
        let is_collected = scope.collects(&self.api).is_ok();
        let decides = |word: &&String| {
            let scope = BackupScope::of(record, &self.catalog_with(word), namespaces);
            scope.is_ok_and(|scope| scope.collects(&self.api).is_ok() != is_collected)
        };
        let unresolved = if self.is_custom { scope.unresolved() } else { &[] };
        unresolved.iter().filter(decides).cloned().collect()
    }

    /// The types, if this word named the custom one, as far as its group allows that.
    fn catalog_with(&self, word: &str) -> Catalog {
        let word = word.to_lowercase();
        let short_name = word.split_once('.').map_or(&*word, |(name, _)| name).to_owned();
        let called = Arc::new(ApiResource { short_names: vec![short_name], ..(*self.api).clone() });
        let others = self.catalog.all().filter(|api| !Arc::ptr_eq(api, &self.api)).cloned();
        Catalog::new(others.chain([called]).collect(), Vec::new())
    }
}

fn words_of(doubt: Doubt) -> String {
    match doubt {
        Doubt::Policies => "the backup has resource policies".to_owned(),
        Doubt::Phase(phase) => format!("the backup is {}", phase.map_or("of an unknown phase", BackupPhase::as_str)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::well_known::ANNOTATION_RESOURCE_POLICIES;
    use lifeboat_object::GroupResource;

    fn scope(group: &str, resource: &str, namespace: Option<&str>) -> HistoryScope {
        HistoryScope::new(&ObjectKey::new(GroupResource::new(group, resource), namespace, "x"))
    }

    fn record(change: impl FnOnce(&mut Backup)) -> Backup {
        let mut record = Backup::default();
        record.status.phase = Some(BackupPhase::Completed);
        change(&mut record);
        record
    }

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn filters_that_leave_the_object_out_are_told_from_its_being_gone() {
        let in_shop = scope("apps", "deployments", Some("shop"));
        let pv = scope("", "persistentvolumes", None);
        let namespace = scope("", "namespaces", None);
        let custom = scope("example.com", "widgets", Some("shop"));
        let all = record(|_| {});
        let of_shop = record(|record| record.spec.included_namespaces = list(&["sh*"]));
        let of_other = record(|record| record.spec.included_namespaces = list(&["other"]));
        let without = record(|record| record.spec.excluded_resources = list(&["deploy", "widgets.example.com"]));
        let elsewhere = NotInBackup::NotInScope("its namespace is not included");
        let excluded = NotInBackup::NotInScope("excluded by excludedResources");
        let restricted = NotInBackup::NotInScope("cluster-scoped, and the backup is restricted to some namespaces");
        for (scope, record, expected) in [
            (&in_shop, &all, &NotInBackup::Lacks(None)),
            (&in_shop, &of_shop, &NotInBackup::Lacks(None)),
            (&in_shop, &of_other, &elsewhere),
            (&in_shop, &without, &excluded),
            (&custom, &without, &excluded),
            (&custom, &of_shop, &NotInBackup::Lacks(None)),
            (&pv, &all, &NotInBackup::Lacks(None)),
            (&namespace, &of_other, &elsewhere),
        ] {
            assert_eq!(scope.lack(record, None), *expected, "{scope:?} {:?}", record.spec);
        }
        // Without lists for single scopes, cluster-scoped types are left out of a part of the namespaces.
        assert_eq!(
            pv.lack(
                &record(|record| {
                    record.spec.included_namespaces = list(&["shop"]);
                    record.spec.excluded_resources = list(&["pods"]);
                }),
                None
            ),
            restricted
        );
    }

    #[test]
    fn names_that_may_be_those_of_a_custom_type_are_a_doubt_where_they_decide() {
        let custom = scope("example.com", "widgets", Some("shop"));
        let of_cluster = scope("example.com", "fleets", None);
        let built_in = scope("apps", "deployments", Some("shop"));
        let doubt = |words: &str| {
            NotInBackup::Lacks(Some(format!("the filters of the backup name types that are not known here: {words}")))
        };
        let gone = || NotInBackup::Lacks(None);
        let excluded = || NotInBackup::NotInScope("excluded by excludedResources");
        let may_be_named = || NotInBackup::NotInScope(MAY_BE_NAMED);
        let not_included = || NotInBackup::NotInScope("not in includedResources");
        for (scope, included, excludes, expected) in [
            (&custom, &[][..], &["wd"][..], doubt("wd")),
            (&custom, &[], &["Widget", "deploy"], doubt("Widget")),
            (&custom, &[], &["wd.example", "wd.example.com"], doubt("wd.example, wd.example.com")),
            (&custom, &[], &["gadgets.example.org", "gadgets*"], gone()),
            (&custom, &[], &["widgets", "wd"], excluded()),
            (&custom, &["wd"], &[], may_be_named()),
            (&custom, &["wd", "pods"], &["widgets"], excluded()),
            (&custom, &["wd"], &["wd"], not_included()),
            (&custom, &["wd", "widgets"], &[], gone()),
            (&custom, &["gadgets.example.org", "pods"], &[], not_included()),
            (&custom, &["widgets"], &["gd"], doubt("gd")),
            (&of_cluster, &[], &["fl"], doubt("fl")),
            (&of_cluster, &["fl"], &[], may_be_named()),
            (&built_in, &[], &["wd"], gone()),
            (&built_in, &["wd"], &[], not_included()),
        ] {
            let record = record(|record| {
                record.spec.included_resources = list(included);
                record.spec.excluded_resources = list(excludes);
            });
            assert_eq!(scope.lack(&record, None), expected, "{scope:?} {included:?} {excludes:?}");
        }
        let single = record(|record| {
            record.spec.included_namespace_scoped_resources = list(&["wd", "deploy"]);
            record.spec.excluded_cluster_scoped_resources = list(&["fl"]);
        });
        assert_eq!(custom.lack(&single, None), may_be_named());
        let filtered = "cluster-scoped, not in includedClusterScopedResources, and the backup has filters";
        assert_eq!(of_cluster.lack(&single, None), NotInBackup::NotInScope(filtered));
        assert_eq!(built_in.lack(&single, None), gone());
        // What leaves the object out in any case is told as before.
        let elsewhere = record(|record| {
            record.spec.excluded_resources = list(&["wd"]);
            record.spec.included_namespaces = list(&["other"]);
        });
        assert_eq!(custom.lack(&elsewhere, None), NotInBackup::NotInScope("its namespace is not included"));
        let selected = record(|record| {
            record.spec.excluded_resources = list(&["wd"]);
            record.spec.label_selector = Some(lifeboat_select::parse_selector("a=b").unwrap());
        });
        let other = NotInBackup::NotInScope("its labels do not match the selector of the backup");
        assert_eq!(custom.lack(&selected, Some(&BTreeMap::new())), other);
        assert_eq!(custom.lack(&selected, None), doubt("wd"));
    }

    #[test]
    fn a_selector_counts_by_the_labels_that_the_object_had() {
        let in_shop = scope("", "pods", Some("shop"));
        let selected =
            record(|record| record.spec.label_selector = Some(lifeboat_select::parse_selector("a=b").unwrap()));
        let labels = |value: &str| BTreeMap::from([("a".to_owned(), value.to_owned())]);
        assert_eq!(in_shop.lack(&selected, Some(&labels("b"))), NotInBackup::Lacks(None));
        let other = NotInBackup::NotInScope("its labels do not match the selector of the backup");
        assert_eq!(in_shop.lack(&selected, Some(&labels("c"))), other);
        assert_eq!(
            in_shop.lack(&selected, None),
            NotInBackup::Lacks(Some("the backup has a label selector".to_owned()))
        );
    }

    #[test]
    fn a_backup_that_may_have_left_the_object_out_says_so() {
        let in_shop = scope("", "pods", Some("shop"));
        let partial = record(|record| record.status.phase = Some(BackupPhase::PartiallyFailed));
        assert_eq!(in_shop.lack(&partial, None), NotInBackup::Lacks(Some("the backup is PartiallyFailed".to_owned())));
        let policies = record(|record| {
            record.metadata.annotations.insert(ANNOTATION_RESOURCE_POLICIES.to_owned(), "file".to_owned());
        });
        assert_eq!(
            in_shop.lack(&policies, None),
            NotInBackup::Lacks(Some("the backup has resource policies".to_owned()))
        );
    }
}
