//! Features of dependencies that tests alone ask for.
//!
//! Cargo would build such a dependency, and all that uses it, once for programs and once more for tests.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The features, by the name of the dependency.
type Features<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The features that tests ask of dependencies which programs have without them.
pub(super) fn of_tests_alone(metadata: &Value) -> Vec<String> {
    let of_programs = asked_for(metadata, |kind| kind != Some("dev"));
    let of_tests = asked_for(metadata, |kind| kind == Some("dev"));
    let mut wrong = Vec::new();
    for (name, features) in of_tests {
        let Some(known) = of_programs.get(name) else { continue };
        let more: Vec<&str> = features.difference(known).copied().collect();
        if !more.is_empty() {
            let more = more.join(", ");
            wrong.push(format!(
                "tests alone ask {name} for {more}: ask for it in the table of the workspace, so that nothing is built twice"
            ));
        }
    }
    wrong
}

fn asked_for(metadata: &Value, is_wanted: impl Fn(Option<&str>) -> bool) -> Features<'_> {
    let mut features = Features::new();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for dependency in packages.iter().flat_map(|package| package["dependencies"].as_array()).flatten() {
        let Some(name) = dependency["name"].as_str().filter(|_| is_wanted(dependency["kind"].as_str())) else {
            continue;
        };
        let of_name = features.entry(name).or_default();
        of_name.extend(dependency["features"].as_array().into_iter().flatten().filter_map(Value::as_str));
        of_name.extend(dependency["uses_default_features"].as_bool().filter(|uses| *uses).map(|_| "default"));
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_feature_that_only_tests_ask_for_is_named() {
        let dependency = |name: &str, kind: Value, features: &[&str], default: bool| json!({"name": name, "kind": kind, "features": features, "uses_default_features": default});
        let metadata = json!({"packages": [
            {"dependencies": [dependency("tokio", Value::Null, &["rt"], true), dependency("tar", Value::Null, &[], false)]},
            {"dependencies": [
                dependency("tokio", json!("dev"), &["rt", "test-util"], true),
                dependency("tar", json!("dev"), &[], true),
                dependency("proptest", json!("dev"), &["std"], false),
            ]},
        ]});
        let said = |name: &str, more: &str| {
            format!(
                "tests alone ask {name} for {more}: ask for it in the table of the workspace, so that nothing is built twice"
            )
        };
        assert_eq!(of_tests_alone(&metadata), [said("tar", "default"), said("tokio", "test-util")]);
    }
}
