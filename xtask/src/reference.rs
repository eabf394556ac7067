//! `cargo xtask reference`: the pages of docs/reference, with every field of the custom resources. They are made of the
//! definitions that `lifeboat install` applies. Velero's own definitions, with which the tests of `api` compare, tell
//! which fields are Velero's.

mod field;
mod page;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const FOLDER: &str = "docs/reference";
/// The page that leads to the others.
const OVERVIEW: &str = "custom-resources.md";

/// Pages by the name of their file.
type Pages = BTreeMap<String, String>;

/// Writes the pages, and removes those of kinds that are no more.
pub(crate) fn write() -> Result<()> {
    let (made, there) = (made()?, there()?);
    fs::create_dir_all(FOLDER).with_context(|| format!("make {FOLDER}"))?;
    for (name, text) in &made {
        let path = Path::new(FOLDER).join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
    }
    for name in there.keys().filter(|name| !made.contains_key(*name)) {
        let path = Path::new(FOLDER).join(name);
        fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

/// Fails when a page differs from the definitions.
pub(crate) fn check() -> Result<()> {
    let problems = differences(&made()?, &there()?);
    if !problems.is_empty() {
        bail!(
            "the reference of custom resources: run cargo xtask reference, since the definitions changed:\n  {}",
            problems.join("\n  ")
        );
    }
    Ok(())
}

fn differences(made: &Pages, there: &Pages) -> Vec<String> {
    let names: BTreeSet<&String> = made.keys().chain(there.keys()).collect();
    let problem = |name: &String| match (made.get(name), there.get(name)) {
        (Some(made), Some(there)) if made == there => None,
        (Some(_), Some(_)) => Some("differs from the definitions"),
        (Some(_), None) => Some("is missing"),
        (None, _) => Some("is of no kind that is defined"),
    };
    names.into_iter().filter_map(|name| Some(format!("{FOLDER}/{name} {}", problem(name)?))).collect()
}

/// The pages as they lie there.
fn there() -> Result<Pages> {
    let mut pages = Pages::new();
    if !Path::new(FOLDER).exists() {
        return Ok(pages);
    }
    for entry in fs::read_dir(FOLDER).with_context(|| format!("read {FOLDER}"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        pages.insert(name, fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?);
    }
    Ok(pages)
}

/// The pages as the definitions say them.
fn made() -> Result<Pages> {
    let mut kinds = Vec::new();
    for definition in lifeboat_api::crds() {
        let name = definition["metadata"]["name"].as_str().context("a definition without a name")?;
        let path = Path::new(field::VELERO).join(format!("{name}.json"));
        // A kind that Velero has not would have no such file.
        let velero = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("read {}", path.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Value::Null,
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        kinds.push(page::Kind::of(&definition, &velero)?);
    }
    let mut pages: Pages = kinds.iter().map(|kind| (kind.file(), kind.page())).collect();
    pages.insert(OVERVIEW.to_owned(), page::overview(&kinds));
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_differs_is_missing_or_left_over_is_named() {
        let pages = |pages: &[(&str, &str)]| {
            pages.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect::<Pages>()
        };
        let made = pages(&[("a.md", "1"), ("b.md", "1"), ("c.md", "1")]);
        assert_eq!(differences(&made, &made), [""; 0]);
        let expected = [
            "docs/reference/b.md differs from the definitions",
            "docs/reference/c.md is missing",
            "docs/reference/d.md is of no kind that is defined",
        ];
        assert_eq!(differences(&made, &pages(&[("a.md", "1"), ("b.md", "2"), ("d.md", "1")])), expected);
    }
}
