//! The specification of an operation as it is remembered, so that another one is not taken for the same.

use lifeboat_archive::tarball::entry_hash;
use lifeboat_select::RulesText;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Characters of a value that an error shows.
const SHOWN: usize = 60;

/// Everything that determines an operation, by the name of each part. Parts without a value are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Specification(BTreeMap<String, Value>);

impl Specification {
    /// The specification of an object of `velero.io`, part by part.
    pub fn of(spec: &impl Serialize) -> Self {
        let mut out = Self::default();
        if let Ok(Value::Object(parts)) = serde_json::to_value(spec) {
            for (name, value) in parts {
                out = out.with(&name, value);
            }
        }
        // How long something is waited for changes nothing in what is done.
        out.0.remove("itemOperationTimeout");
        out
    }

    /// The same with one more part.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if !is_nothing(&value) {
            self.0.insert(name.to_owned(), value);
        }
        self
    }

    /// The same with the rules of a file, of which a digest is kept.
    pub fn with_rules(self, name: &str, rules: Option<&RulesText>) -> Self {
        let digest = rules.map(|rules| hex::encode(entry_hash(rules.text.as_bytes())));
        self.with(name, digest)
    }

    /// The parts in which another one differs, for people; empty when it is the same.
    pub fn differences(&self, wanted: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(wanted.0.keys()).collect();
        let differing = names.into_iter().filter(|name| self.0.get(*name) != wanted.0.get(*name));
        let said = |name: &String| format!("{name} was {}, now {}", shown(self.0.get(name)), shown(wanted.0.get(name)));
        differing.map(said).collect()
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn shown(value: Option<&Value>) -> String {
    let text = match value {
        None => return "not given".to_owned(),
        Some(Value::String(text)) => format!("{text:?}"),
        Some(other) => other.to_string(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::RestoreSpec;

    #[test]
    fn it_says_in_which_parts_another_command_differs() {
        let mut spec = RestoreSpec { backup_name: "nightly".to_owned(), ..RestoreSpec::default() };
        let rules = |text: &str| RulesText { source: "f".to_owned(), text: text.to_owned() };
        let kept = Specification::of(&spec).with("backup UID", "u1").with_rules("modifiers", Some(&rules("a")));
        spec.item_operation_timeout = lifeboat_api::Duration::from_secs(7);
        let same = Specification::of(&spec).with("backup UID", "u1").with_rules("modifiers", Some(&rules("a")));
        assert_eq!(kept.differences(&same), Vec::<String>::new(), "how long it waits does not count");
        spec.namespace_mapping = [("shop".to_owned(), "copy".to_owned())].into();
        let other = Specification::of(&spec).with("backup UID", "u2").with_rules("modifiers", None);
        let modifiers = hex::encode(entry_hash(b"a"));
        assert_eq!(
            kept.differences(&other),
            [
                "backup UID was \"u1\", now \"u2\"".to_owned(),
                format!("modifiers was \"{modifiers}\", now not given"),
                "namespaceMapping was not given, now {\"shop\":\"copy\"}".to_owned(),
            ]
        );
        let read: Specification = serde_json::from_value(serde_json::to_value(&kept).unwrap()).unwrap();
        assert_eq!(read, kept);
    }

    #[test]
    fn long_values_are_cut() {
        let of = |value: &str| Specification::default().with("x", value);
        let said = of(&"é".repeat(90)).differences(&of("b"));
        assert_eq!(said, [format!("x was \"{}…, now \"b\"", "é".repeat(59))]);
    }
}
