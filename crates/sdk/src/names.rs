//! The names by which plugins are registered (velero: pkg/plugin/clientmgmt/manager.go).

use lifeboat_plugin_proto::check_name;
use std::collections::BTreeMap;

/// Splits plugins into those whose names can be registered, by name, and a list of the problems of the others. Of two
/// with the same name the first is registered.
pub(crate) fn registered<T>(kind: &str, offered: Vec<(String, T)>) -> (BTreeMap<String, T>, Vec<String>) {
    let (mut named, mut problems) = (BTreeMap::new(), Vec::new());
    for (name, offer) in offered {
        match check_name(&name) {
            Err(why) => problems.push(format!("invalid plugin name {name:?}: {why}; this {kind} is left out")),
            Ok(()) if named.contains_key(&name) => problems.push(format!(
                "invalid plugin name {name:?}: another {kind} has it already; the later one is left out"
            )),
            Ok(()) => {
                named.insert(name, offer);
            }
        }
    }
    (named, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_registered_is_left_out_with_the_reason() {
        let offered = [("b.io/x", 1), ("nameless", 2), ("a.io/x", 3), ("b.io/x", 4)].map(|(n, v)| (n.to_owned(), v));
        let (named, problems) = registered("ObjectStore", offered.into());
        assert_eq!(named.into_iter().collect::<Vec<_>>(), [("a.io/x".to_owned(), 3), ("b.io/x".to_owned(), 1)]);
        let expected = [
            "invalid plugin name \"nameless\": it has a prefix and a name with one slash between them; this ObjectStore is left out",
            "invalid plugin name \"b.io/x\": another ObjectStore has it already; the later one is left out",
        ];
        assert_eq!(problems, expected);
    }
}
