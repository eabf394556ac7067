//! Applies the rules of a restore to its objects (velero: internal/resourcemodifiers).

use super::document::ModifierDocument;
use super::rule::{ModifierTarget, Rule, RulePatch};
use super::schemas::{NotKnown, Schemas};
use crate::plan::planned::Modification;
use lifeboat_object::GroupResource;
use lifeboat_patch::{JsonPatchError, MergeSchema, differences, merge, strategic_merge};
use lifeboat_select::RulesText;
use serde_json::Value;

/// The rules of one restore, checked.
#[derive(Debug, Default)]
pub(crate) struct Modifiers {
    rules: Vec<Rule>,
}

/// Changes that rules have made to an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modified {
    /// The rules that have changed it, by number from 1, with the changes of each.
    pub(crate) by: Vec<Modification>,
    /// Rules that could not be applied: the object is as before each of them.
    pub(crate) errors: Vec<String>,
    /// Rules that were applied in another way than they ask for.
    pub(crate) warnings: Vec<String>,
}

impl Modifiers {
    /// Reads and checks a document.
    ///
    /// # Errors
    /// Everything that is wrong with it; that it cannot be decoded is told by the first element alone.
    pub(crate) fn parse(text: &str) -> Result<Self, NotModifiers> {
        if text.len() > RulesText::MOST_BYTES {
            return Err(NotModifiers::Undecoded(format!("it has more than {} bytes", RulesText::MOST_BYTES)));
        }
        let document: ModifierDocument = if text.trim().is_empty() {
            ModifierDocument { version: String::new(), resource_modifier_rules: Vec::new() }
        } else {
            serde_saphyr::from_str(text).map_err(|e| NotModifiers::Undecoded(RulesText::yaml_error(&e)))?
        };
        if !document.version.eq_ignore_ascii_case("v1") {
            return Err(NotModifiers::Invalid(vec![format!(
                "unsupported resource modifier version {}",
                document.version
            )]));
        }
        if document.resource_modifier_rules.is_empty() {
            return Err(NotModifiers::Invalid(vec!["resource modifier rules cannot be empty".to_owned()]));
        }
        let (mut rules, mut problems) = (Vec::new(), Vec::new());
        for (at, rule) in document.resource_modifier_rules.into_iter().enumerate() {
            match Rule::of(at + 1, rule) {
                Ok(rule) => rules.push(rule),
                Err(wrong) => problems.extend(wrong),
            }
        }
        if problems.is_empty() { Ok(Self { rules }) } else { Err(NotModifiers::Invalid(problems)) }
    }

    /// Returns true if a rule is for objects of this type.
    pub(crate) fn may_change(&self, resource: &GroupResource) -> bool {
        self.rules.iter().any(|rule| rule.is_for_type(resource))
    }

    /// Reads the schemas that the rules for this object need from the cluster.
    ///
    /// # Errors
    /// Returns the schema that is not known: the object must not be made without the rule.
    pub(crate) async fn prepare(&self, candidate: ModifierTarget<'_>, schemas: &Schemas) -> Result<(), NotKnown> {
        for rule in self.rules.iter().filter(|rule| rule.is_for(candidate)) {
            if let RulePatch::Strategic(_) = &rule.change {
                schema(rule, candidate.object, schemas).await?;
            }
        }
        Ok(())
    }

    /// Applies all rules that match the unmodified object, each to the result of the one before.
    ///
    /// # Errors
    /// As [`Modifiers::prepare`].
    pub(crate) async fn apply(
        &self,
        candidate: ModifierTarget<'_>,
        schemas: &Schemas,
    ) -> Result<(Option<Value>, Modified), NotKnown> {
        let (mut changed, mut modified) = (None, Modified::default());
        for rule in self.rules.iter().filter(|rule| rule.is_for(candidate)) {
            let before = changed.as_ref().unwrap_or(candidate.object);
            let mut after = before.clone();
            let applied = match &rule.change {
                RulePatch::Json(patch) => match patch.apply(&mut after) {
                    // A test is a condition: the rule is not for this object.
                    Err(JsonPatchError::TestFailed { .. }) => Ok(()),
                    applied => applied.map_err(|e| e.to_string()),
                },
                RulePatch::Merge(patches) => {
                    patches.iter().for_each(|patch| merge(&mut after, patch));
                    Ok(())
                }
                RulePatch::Strategic(patches) => match schema(rule, before, schemas).await? {
                    Some(schema) => patches
                        .iter()
                        .try_for_each(|patch| strategic_merge(&mut after, patch, &schema).map_err(|e| e.to_string())),
                    None => {
                        let [api_version, kind] = ["apiVersion", "kind"].map(|field| text(before, field));
                        modified.warnings.push(format!(
                            "rule {}: the cluster does not say how lists of {kind} ({api_version}) are merged, so its strategic \
                             patches are applied as merge patches",
                            rule.number
                        ));
                        patches.iter().for_each(|patch| merge(&mut after, patch));
                        Ok(())
                    }
                },
            };
            match applied {
                Ok(()) if names(&after) != names(before) => {
                    let why = "it would become another object: rules cannot change name, kind and group";
                    modified.errors.push(format!("rule {}: {why}", rule.number));
                }
                Ok(()) if after != *before => {
                    let differences = differences(before, &after);
                    modified.by.push(Modification { rule: rule.number, differences });
                    changed = Some(after);
                }
                Ok(()) => {}
                Err(why) => modified.errors.push(format!("rule {}: {why}", rule.number)),
            }
        }
        Ok((changed, modified))
    }
}

/// Returns the merge schema for the strategic patches of a rule on an object; `None` when the cluster has none.
async fn schema(rule: &Rule, object: &Value, schemas: &Schemas) -> Result<Option<MergeSchema>, NotKnown> {
    let found = schemas.of(text(object, "apiVersion"), text(object, "kind")).await;
    found.map_err(|e| NotKnown { why: format!("rule {}: {}", rule.number, e.why), ..e })
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Returns the names of an object: its group, kind and name. The namespace is set afterwards, so rules cannot change
/// it.
fn names(object: &Value) -> [Option<&str>; 3] {
    let api_version = object["apiVersion"].as_str();
    let group = api_version.map(|text| text.split_once('/').map_or("", |(group, _)| group));
    [group, object["kind"].as_str(), object["metadata"]["name"].as_str()]
}

/// A document that is none of resource modifiers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotModifiers {
    /// It cannot be decoded.
    #[error("failed to decode yaml data into resource modifiers, err: {0}")]
    Undecoded(String),
    /// The errors in it.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
}
