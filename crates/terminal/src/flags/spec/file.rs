//! Spec in a file, for fields that have no flags.

use anyhow::{Context, anyhow, bail};
use lifeboat_select::RulesText;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// The largest file: more does not fit into a resource, as into a ConfigMap.
const LARGEST: u64 = RulesText::MOST_BYTES as u64;

/// Reads the spec of a Backup or Restore from a file of YAML or JSON, which holds the whole resource or only its spec; `-` is
/// the standard input. Of a whole resource only the spec counts.
///
/// # Errors
/// The file, a field that the kind does not have, and a value of the wrong type.
pub fn read<S: DeserializeOwned>(path: &Path, kind: &str) -> anyhow::Result<S> {
    let what = || format!("--spec {}", path.display());
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(LARGEST + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text))
    };
    read.with_context(what)?;
    if text.len() as u64 > LARGEST {
        bail!("{}: a spec has at most {LARGEST} bytes", what());
    }
    parse(&text, kind).with_context(what)
}

/// Applies flags to the spec of a file: replaces each field that the flags change from its default.
///
/// # Errors
/// None that specs can bring about.
pub fn overlaid<S: Serialize + DeserializeOwned>(file: &S, flags: &S, no_flags: &S) -> anyhow::Result<S> {
    let (mut all, flags, none) =
        (serde_json::to_value(file)?, serde_json::to_value(flags)?, serde_json::to_value(no_flags)?);
    for (name, value) in flags.as_object().into_iter().flatten() {
        if none.get(name) != Some(value) {
            all[name] = value.clone();
        }
    }
    Ok(serde_json::from_value(all)?)
}

fn parse<S: DeserializeOwned>(text: &str, kind: &str) -> anyhow::Result<S> {
    let mut found: Value = serde_saphyr::from_str(text).map_err(|e| anyhow!(RulesText::yaml_error(&e)))?;
    if let Some(is) = found.get("kind") {
        if is != kind {
            bail!("it holds a {}, and a {kind} is wanted", is.as_str().unwrap_or("resource without a kind"));
        }
        found = found["spec"].take();
    }
    if !found.is_object() {
        bail!("it holds no spec of a {kind}");
    }
    let definitions = lifeboat_api::crds();
    let of_kind = definitions.iter().find(|definition| definition["spec"]["names"]["kind"] == kind);
    let schema = of_kind.map(|d| &d["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]);
    if let Some(unknown) = schema.and_then(|schema| unknown(&found, schema, "spec")) {
        bail!("a {kind} has no field {unknown}");
    }
    Ok(serde_json::from_value(found)?)
}

/// The path of a field that a schema does not have.
fn unknown(value: &Value, schema: &Value, path: &str) -> Option<String> {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(at, item)| unknown(item, &schema["items"], &format!("{path}[{at}]")))
        }
        Value::Object(fields) => {
            let untyped = schema["x-kubernetes-preserve-unknown-fields"] == true || schema["properties"].is_null();
            fields.iter().find_map(|(name, value)| {
                let path = format!("{path}.{name}");
                match schema["properties"].get(name) {
                    Some(of_field) => unknown(value, of_field, &path),
                    None if untyped => None,
                    None => Some(path),
                }
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{BackupSpec, RestoreSpec};

    const SPEC: &str =
        "hooks:\n  resources:\n  - name: db\n    pre:\n    - exec: {command: [freeze], onError: Fail}\nttl: 5h0m0s\n";

    #[test]
    fn a_file_holds_a_spec_or_the_resource_around_it() {
        let bare: BackupSpec = parse(SPEC, "Backup").unwrap();
        assert_eq!(bare.hooks.resources[0].pre_hooks[0].exec.command, ["freeze"]);
        let whole =
            format!("kind: Backup\nmetadata: {{name: other}}\nspec:\n  {}", SPEC.trim_end().replace('\n', "\n  "));
        assert_eq!(parse::<BackupSpec>(&whole, "Backup").unwrap(), bare);
        let json = serde_json::to_string(&bare).unwrap();
        assert_eq!(parse::<BackupSpec>(&json, "Backup").unwrap(), bare);
    }

    #[test]
    fn what_flags_say_wins_over_the_file() {
        let spec = |text: &str| parse::<BackupSpec>(text, "Backup").unwrap();
        let (file, none) = (spec(SPEC), spec("includedNamespaces: ['*']"));
        assert_eq!(overlaid(&file, &none, &none).unwrap(), file);
        let flags = spec("{includedNamespaces: [shop], ttl: 1h0m0s}");
        let expected = BackupSpec { hooks: file.hooks.clone(), ..flags.clone() };
        assert_eq!(overlaid(&file, &flags, &none).unwrap(), expected);
    }

    #[test]
    fn what_a_spec_cannot_hold_is_refused_with_its_place() {
        for (text, expected) in [
            (
                "hooks: {resources: [{name: a, pre: [{exec: {programs: [x]}}]}]}",
                "a Backup has no field spec.hooks.resources[0].pre[0].exec.programs",
            ),
            ("kind: Restore\nspec: {}", "it holds a Restore, and a Backup is wanted"),
            ("- a", "it holds no spec of a Backup"),
            ("kind: Backup", "it holds no spec of a Backup"),
        ] {
            assert_eq!(parse::<BackupSpec>(text, "Backup").unwrap_err().to_string(), expected, "{text}");
        }
        for text in ["ttl: [5h]", "a: 1\na: 2", "{", ""] {
            let error = parse::<BackupSpec>(text, "Backup").unwrap_err().to_string();
            assert_eq!(error.lines().count(), 1, "{text}: {error}");
        }
        let containers = "hooks: {resources: [{name: a, postHooks: [{init: {initContainers: [{anything: 1}]}}]}]}";
        assert!(parse::<RestoreSpec>(containers, "Restore").is_ok(), "containers are of any form");
    }
}
