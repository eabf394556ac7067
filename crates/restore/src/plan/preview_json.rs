//! A preview as JSON, for programs and for clients that request it from a server: each item by itself, and the end.

use crate::plan::guard::PlanGuard;
use crate::plan::planned::{Modification, Planned, PreviewItem};
use crate::plan::preview::PreviewEnd;
use crate::plan::word::PlanWord;
use lifeboat_object::ObjectKey;
use lifeboat_patch::Difference;
use serde_json::{Value, json};

/// Names of the two sides of a difference: of the object in the cluster, and of what a rule has changed.
const OBJECT: [&str; 2] = ["inCluster", "inBackup"];
const RULE: [&str; 2] = ["before", "after"];

impl PreviewItem {
    /// The item: `action`, `type`, `name`, and if present `namespace`, `reason`, `differences`, `modifications`,
    /// `errors`, `warnings`, `waits`, `decidedWhenRestored`; for objects that are written also the pin of a plan,
    /// `found` and `written`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut out = self.key.to_json();
        out["action"] = self.planned.word().as_str().into();
        if let Planned::Skip(reason) | Planned::Refused(reason) = &self.planned {
            out["reason"] = reason.as_str().into();
        }
        if let Some(waits) = &self.waits {
            out["waits"] = waits.as_str().into();
        }
        if let Some(differences) = self.planned.differences() {
            out["differences"] = differences.iter().map(|one| one.to_json(OBJECT)).collect();
        }
        if !self.modifications.is_empty() {
            let one = |Modification { rule, differences }: &Modification| {
                let differences: Vec<_> = differences.iter().map(|one| one.to_json(RULE)).collect();
                json!({"rule": rule, "differences": differences})
            };
            out["modifications"] = self.modifications.iter().map(one).collect();
        }
        for (name, said) in [("errors", &self.errors), ("warnings", &self.warnings)] {
            if !said.is_empty() {
                out[name] = json!(said);
            }
        }
        if !self.unasked.is_empty() {
            out["decidedWhenRestored"] = json!(self.unasked);
        }
        if self.planned.writes() {
            self.pin.write_json(&mut out);
        }
        out
    }

    /// Reads the output of [`PreviewItem::to_json`]; `None` when it is something else.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let texts = |name: &str| -> Option<Vec<String>> {
            all(&value[name]).iter().map(|text| Some(text.as_str()?.to_owned())).collect()
        };
        let differences = || differences(&value["differences"], OBJECT);
        let planned = match value["action"].as_str()?.parse().ok()? {
            PlanWord::Create => Planned::Create,
            PlanWord::Update => Planned::Update(differences()?),
            PlanWord::Recreate => Planned::Recreate(differences()?),
            PlanWord::Unchanged => Planned::Unchanged,
            PlanWord::Skip => Planned::Skip(text("reason")?),
            PlanWord::Conflict => Planned::Conflict(differences()?),
            PlanWord::Refused => Planned::Refused(text("reason")?),
            PlanWord::Extra => Planned::Extra,
            PlanWord::Remove => Planned::Remove,
        };
        let modification = |one: &Value| {
            let rule = usize::try_from(one["rule"].as_u64()?).ok()?;
            Some(Modification { rule, differences: self::differences(&one["differences"], RULE)? })
        };
        Some(Self {
            key: ObjectKey::new(text("type")?.parse().ok()?, value["namespace"].as_str(), text("name")?),
            planned,
            waits: text("waits"),
            unasked: texts("decidedWhenRestored")?,
            modifications: all(&value["modifications"]).iter().map(modification).collect::<Option<_>>()?,
            errors: texts("errors")?,
            warnings: texts("warnings")?,
            // Only who has asked for the plan is told of them.
            needs: Vec::new(),
            pin: PlanGuard::read_json(value),
        })
    }

    /// Hides the values of a Secret, if the item is one: differences are shown, values are not.
    pub fn hide_secret_values(&mut self) {
        if self.key.resource.is_secrets() {
            if let Some(differences) = self.planned.differences_mut() {
                lifeboat_patch::hide_secret_values(differences);
            }
            self.modifications.iter_mut().for_each(|one| lifeboat_patch::hide_secret_values(&mut one.differences));
        }
    }
}

impl PreviewEnd {
    /// The end: `leftOut`, `volumes` and `results`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let one = |((resource, reason), count): (&(_, String), &u64)| -> Value {
            let resource: &lifeboat_object::GroupResource = resource;
            json!({"type": resource.to_string(), "objects": count, "reason": reason})
        };
        json!({"leftOut": self.left_out.iter().map(one).collect::<Vec<_>>(), "volumes": self.volumes, "results": self.results})
    }

    /// Reads the output of [`PreviewEnd::to_json`]; `None` when it is something else.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let one = |one: &Value| {
            let resource = one["type"].as_str()?.parse().ok()?;
            Some(((resource, one["reason"].as_str()?.to_owned()), one["objects"].as_u64()?))
        };
        Some(Self {
            left_out: all(&value["leftOut"]).iter().map(one).collect::<Option<_>>()?,
            volumes: serde_json::from_value(value["volumes"].clone()).ok()?,
            results: serde_json::from_value(value["results"].clone()).ok()?,
        })
    }
}

fn all(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn differences(value: &Value, [left, right]: [&str; 2]) -> Option<Vec<Difference>> {
    let one = |one: &Value| {
        let path = one["path"].as_str()?.into();
        Some(Difference { path, left: one.get(left).cloned(), right: one.get(right).cloned() })
    };
    all(value).iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::GroupResource;

    fn item(planned: Planned) -> PreviewItem {
        PreviewItem::of(ObjectKey::new(GroupResource::new("", "secrets"), Some("shop"), "key"), planned)
    }

    fn difference() -> Vec<Difference> {
        vec![
            Difference { path: "/data/a".into(), left: Some(json!("b2xk")), right: Some(json!("bmV3")) },
            Difference { path: "/data/b".into(), left: None, right: Some(Value::Null) },
        ]
    }

    #[test]
    fn an_item_is_read_as_it_was_written() {
        let modified = PreviewItem {
            unasked: vec!["example.com/x".to_owned()],
            modifications: vec![Modification { rule: 2, differences: difference() }],
            errors: vec!["why".to_owned()],
            warnings: vec!["otherwise".to_owned()],
            pin: PlanGuard::of(Some(&json!({"metadata": {"uid": "u"}})), &json!({})),
            ..item(Planned::Update(difference()))
        };
        for item in [
            modified,
            item(Planned::Create),
            PreviewItem { waits: Some("until it is gone".to_owned()), ..item(Planned::Create) },
            item(Planned::Recreate(difference())),
            item(Planned::Unchanged),
            item(Planned::Skip("why".to_owned())),
            item(Planned::Conflict(Vec::new())),
            item(Planned::Refused("why".to_owned())),
            item(Planned::Extra),
            item(Planned::Remove),
        ] {
            assert_eq!(PreviewItem::from_json(&item.to_json()), Some(item));
        }
        for wrong in [
            json!({}),
            json!({"action": "frob", "type": "a", "name": "b"}),
            json!({"action": "skip", "type": "a", "name": "b"}),
        ] {
            assert_eq!(PreviewItem::from_json(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_end_is_read_as_it_was_written() {
        let left_out = [((GroupResource::new("apps", "deployments"), "why".to_owned()), 3)].into();
        let end = PreviewEnd { left_out, volumes: Vec::new(), results: lifeboat_object::Results::default() };
        let read = PreviewEnd::from_json(&end.to_json()).unwrap();
        assert_eq!((read.left_out, read.volumes, read.results), (end.left_out, end.volumes, end.results));
        assert!(PreviewEnd::from_json(&json!({})).is_none());
    }

    #[test]
    fn values_of_secrets_are_hidden() {
        let mut item = item(Planned::Update(difference()));
        item.hide_secret_values();
        let text = item.to_json().to_string();
        assert!(text.contains("/data/a") && !text.contains("b2xk") && !text.contains("bmV3"), "{text}");
    }
}
