//! Checks the filters of a backup before it runs, and adds the excludes that every backup has.

use crate::backup::{BackupFilter, uses_old_family};
use crate::includes::{validate_lists, validate_namespace_lists, validate_scoped_lists};
use crate::selector::Selector;
use crate::types::{SNAPSHOT_CONTENTS, SNAPSHOTS};
use lifeboat_api::BackupSpec;

impl BackupFilter {
    /// Everything that is wrong with the filters of a backup, in Velero's words
    /// (velero: pkg/controller/backup_controller.go).
    #[must_use]
    pub fn validate(spec: &BackupSpec) -> Vec<String> {
        let mut problems = Vec::new();
        if uses_old_family(spec) && uses_scoped_family(spec) {
            problems.push(
                "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\n\
                 include-cluster-scoped-resources, exclude-cluster-scoped-resources, \
                 include-namespace-scoped-resources and exclude-namespace-scoped-resources are new filter parameters.\n\
                 They cannot be used together"
                    .to_owned(),
            );
        }
        for (what, found) in [
            ("resource", validate_lists(&spec.included_resources, &spec.excluded_resources)),
            ("cluster-scoped", cluster_list_problems(spec)),
            ("namespace-scoped", namespaced_list_problems(spec)),
            ("namespace", validate_namespace_lists(&spec.included_namespaces, &spec.excluded_namespaces)),
        ] {
            let title = match what {
                "resource" | "namespace" => format!("Invalid included/excluded {what} lists"),
                scope => format!("Invalid {scope} included/excluded resource lists"),
            };
            problems.extend(found.iter().map(|problem| format!("{title}: {problem}")));
        }
        if spec.label_selector.is_some() && !spec.or_label_selectors.is_empty() {
            problems.push(
                "encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified"
                    .to_owned(),
            );
        }
        for selector in spec.label_selector.iter().chain(&spec.or_label_selectors) {
            if let Err(problem) = Selector::compile(selector) {
                problems.push(format!("invalid label selector: {problem}"));
            }
        }
        problems
    }

    /// Adds the types of CSI snapshots to the excludes, where the user of the stored backup sees them.
    /// Doing it twice changes nothing. Lists that do not pass validation are left alone.
    pub fn auto_exclude(spec: &mut BackupSpec) {
        // compat: a user who includes nothing but snapshots is left with an empty list and gets all types; keeping the
        // entry would make the stored lists invalid.
        if uses_old_family(spec) {
            if validate_lists(&spec.included_resources, &spec.excluded_resources).is_empty() {
                for name in [SNAPSHOTS, SNAPSHOT_CONTENTS] {
                    exclude(name, &mut spec.included_resources, &mut spec.excluded_resources);
                }
            }
            return;
        }
        if namespaced_list_problems(spec).is_empty() {
            exclude(
                SNAPSHOTS,
                &mut spec.included_namespace_scoped_resources,
                &mut spec.excluded_namespace_scoped_resources,
            );
        }
        if cluster_list_problems(spec).is_empty() {
            exclude(
                SNAPSHOT_CONTENTS,
                &mut spec.included_cluster_scoped_resources,
                &mut spec.excluded_cluster_scoped_resources,
            );
        }
    }
}

fn uses_scoped_family(spec: &BackupSpec) -> bool {
    !spec.included_cluster_scoped_resources.is_empty()
        || !spec.excluded_cluster_scoped_resources.is_empty()
        || !spec.included_namespace_scoped_resources.is_empty()
        || !spec.excluded_namespace_scoped_resources.is_empty()
}

fn cluster_list_problems(spec: &BackupSpec) -> Vec<String> {
    validate_scoped_lists(&spec.included_cluster_scoped_resources, &spec.excluded_cluster_scoped_resources)
}

fn namespaced_list_problems(spec: &BackupSpec) -> Vec<String> {
    validate_scoped_lists(&spec.included_namespace_scoped_resources, &spec.excluded_namespace_scoped_resources)
}

/// Moves a name to the excludes. Beside `*`, which covers it, it would make the list invalid.
fn exclude(name: &str, includes: &mut Vec<String>, excludes: &mut Vec<String>) {
    includes.retain(|i| i != name);
    if !excludes.iter().any(|e| e == name || e == "*") {
        excludes.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{list, parse_selector};

    #[test]
    fn every_problem_is_reported_in_velero_words() {
        let spec = BackupSpec {
            included_resources: list(&["*", "pods"]),
            excluded_resources: list(&["*"]),
            included_namespace_scoped_resources: list(&["pods"]),
            excluded_namespace_scoped_resources: list(&["pods"]),
            included_cluster_scoped_resources: list(&["pv"]),
            excluded_cluster_scoped_resources: list(&["*"]),
            included_namespaces: list(&["a", "b["]),
            excluded_namespaces: list(&["a", "c.d"]),
            label_selector: Some(parse_selector("a=b").unwrap()),
            or_label_selectors: vec![lifeboat_api::LabelSelector {
                match_expressions: vec![lifeboat_api::LabelSelectorRequirement {
                    key: "a".to_owned(),
                    operator: "Like".to_owned(),
                    values: vec![],
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..BackupSpec::default()
        };
        assert_eq!(
            BackupFilter::validate(&spec),
            [
                "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\ninclude-cluster-scoped-resources, exclude-cluster-scoped-resources, include-namespace-scoped-resources and exclude-namespace-scoped-resources are new filter parameters.\nThey cannot be used together",
                "Invalid included/excluded resource lists: includes list must either contain '*' only, or a non-empty list of items",
                "Invalid included/excluded resource lists: excludes list cannot contain '*'",
                "Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: *",
                "Invalid cluster-scoped included/excluded resource lists: when exclude is '*', include cannot have value",
                "Invalid namespace-scoped included/excluded resource lists: excludes list cannot contain an item in the includes list: pods",
                "Invalid included/excluded namespace lists: excludes list cannot contain an item in the includes list: a",
                "Invalid included/excluded namespace lists: wildcard pattern contains unclosed bracket '['",
                "Invalid included/excluded namespace lists: invalid namespace \"c.d\": must not contain dots",
                "encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified",
                "invalid label selector: \"Like\" is not a valid label selector operator",
            ]
        );
        assert_eq!(BackupFilter::validate(&BackupSpec::default()), Vec::<String>::new());
    }

    #[test]
    fn either_family_is_mixed_by_any_of_its_fields() {
        let olds: [fn(&mut BackupSpec); 3] = [
            |s| s.included_resources = list(&["a"]),
            |s| s.excluded_resources = list(&["a"]),
            |s| s.include_cluster_resources = Some(true),
        ];
        let scopeds: [fn(&mut BackupSpec); 4] = [
            |s| s.included_cluster_scoped_resources = list(&["a"]),
            |s| s.excluded_cluster_scoped_resources = list(&["a"]),
            |s| s.included_namespace_scoped_resources = list(&["a"]),
            |s| s.excluded_namespace_scoped_resources = list(&["a"]),
        ];
        for old in olds {
            for scoped in scopeds {
                let mut spec = BackupSpec::default();
                old(&mut spec);
                assert_eq!(BackupFilter::validate(&spec), Vec::<String>::new());
                scoped(&mut spec);
                assert_eq!(BackupFilter::validate(&spec).len(), 1);
            }
        }
    }

    #[test]
    fn snapshot_types_are_excluded_visibly() {
        let cases: [(BackupSpec, BackupSpec); 6] = [
            (
                BackupSpec::default(),
                BackupSpec {
                    excluded_namespace_scoped_resources: list(&[SNAPSHOTS]),
                    excluded_cluster_scoped_resources: list(&[SNAPSHOT_CONTENTS]),
                    ..BackupSpec::default()
                },
            ),
            (
                BackupSpec { include_cluster_resources: Some(false), ..BackupSpec::default() },
                BackupSpec {
                    include_cluster_resources: Some(false),
                    excluded_resources: list(&[SNAPSHOTS, SNAPSHOT_CONTENTS]),
                    ..BackupSpec::default()
                },
            ),
            // An include of the same text goes; an alias stays and loses when types are matched.
            (
                BackupSpec {
                    included_resources: list(&["pods", SNAPSHOTS, "volumesnapshots"]),
                    excluded_resources: list(&["secrets"]),
                    ..BackupSpec::default()
                },
                BackupSpec {
                    included_resources: list(&["pods", "volumesnapshots"]),
                    excluded_resources: list(&["secrets", SNAPSHOTS, SNAPSHOT_CONTENTS]),
                    ..BackupSpec::default()
                },
            ),
            (
                BackupSpec {
                    included_namespace_scoped_resources: list(&[SNAPSHOTS, "pods"]),
                    excluded_cluster_scoped_resources: list(&["*"]),
                    ..BackupSpec::default()
                },
                BackupSpec {
                    included_namespace_scoped_resources: list(&["pods"]),
                    excluded_namespace_scoped_resources: list(&[SNAPSHOTS]),
                    excluded_cluster_scoped_resources: list(&["*"]),
                    ..BackupSpec::default()
                },
            ),
            // Lists that are not valid are left alone, each for itself.
            (
                BackupSpec { excluded_resources: list(&["*"]), ..BackupSpec::default() },
                BackupSpec { excluded_resources: list(&["*"]), ..BackupSpec::default() },
            ),
            (
                BackupSpec { included_namespace_scoped_resources: list(&["*", "pods"]), ..BackupSpec::default() },
                BackupSpec {
                    included_namespace_scoped_resources: list(&["*", "pods"]),
                    excluded_cluster_scoped_resources: list(&[SNAPSHOT_CONTENTS]),
                    ..BackupSpec::default()
                },
            ),
        ];
        for (mut spec, expected) in cases {
            let problems = BackupFilter::validate(&spec);
            for _ in 0..2 {
                BackupFilter::auto_exclude(&mut spec);
                assert_eq!(spec, expected);
                assert_eq!(BackupFilter::validate(&spec), problems);
            }
        }
    }
}
