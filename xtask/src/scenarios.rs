//! The table of docs/compatibility.md of which test stands for which scenario of Velero's end-to-end suite: made of the lines
//! `scenario: NAME` in the comments of tests.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The tests that may stand for a scenario.
const TESTS: &str = "crates/cli/tests/it";
const PAGE: &str = "docs/compatibility.md";
const BEGIN: &str = "<!-- made by `cargo xtask scenarios` -->\n";
const END: &str = "<!-- end -->\n";

/// The scenarios that concern objects, schedules and expiry, by Velero's labels, and what they do.
const SCENARIOS: [(&str, &str); 19] = [
    ("APIExtensions", "a definition of an older API version comes back on a cluster that serves only the newer one"),
    (
        "APIVersion",
        "custom resources in several versions: preferred, highest common, none in common, by the user's list",
    ),
    ("BSL, Deletion", "what is deleted with a storage location, and what stays"),
    ("Backups, BackupsSync", "backups of the bucket show up, and go with it"),
    ("Backups, Deletion", "a backup is deleted with its files, also when those are gone already"),
    ("Backups, TTL, LongTime", "a backup whose time is over goes, with its files and its restores"),
    ("ClusterResource", "annotated namespaces, all namespaces, a service account with its cluster role and binding"),
    ("Hooks", "an init container and commands after a restore"),
    ("NamespaceMapping", "into one and into several other namespaces"),
    ("NodePort", "node ports that are kept or not, taken or free"),
    ("PrivilegesMgmt, SSR", "a request for the status of the server, in the right namespace and in a wrong one"),
    ("ResourceFiltering", "excluding by label, namespaces, types, wildcards, a selector, in backups and in restores"),
    ("ResourceFiltering, ResourcePolicies", "policies from a ConfigMap"),
    ("ResourceModifier", "a container and a number of replicas by JSON patches from a ConfigMap"),
    ("Scale", "2,500 namespaces"),
    ("Schedule, InProgress", "runs that are due more often than backups end"),
    ("Schedule, OrderedResources", "a schedule and its backups name the same objects first"),
    ("Schedule, Periodical, Pause", "a schedule that is paused, restored from, and goes on"),
    ("StorageClass", "a claim with a class that is mapped"),
];

/// Writes the table.
pub(crate) fn write() -> Result<()> {
    let page = fs::read_to_string(PAGE).with_context(|| format!("read {PAGE}"))?;
    fs::write(PAGE, with_table(&page, &table(&found()?)?)?).with_context(|| format!("write {PAGE}"))
}

/// Refuses a page whose table is not what the tests say, and scenarios without a test.
pub(crate) fn check() -> Result<()> {
    let page = fs::read_to_string(PAGE).with_context(|| format!("read {PAGE}"))?;
    if with_table(&page, &table(&found()?)?)? != page {
        bail!("the table of scenarios in {PAGE} is not what the tests say: run `cargo xtask scenarios`");
    }
    Ok(())
}

fn with_table(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE} has no line {}", BEGIN.trim_end()))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no line {}", END.trim_end()))?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

/// The tests of each scenario.
type Found = BTreeMap<String, Vec<String>>;

fn table(found: &Found) -> Result<String> {
    if let Some(unknown) = found.keys().find(|name| !SCENARIOS.iter().any(|(known, _)| known == name)) {
        bail!("a test stands for the scenario {unknown:?}, which is none of those in xtask/src/scenarios.rs");
    }
    let mut out = "| scenario | what it does | test |\n|---|---|---|\n".to_owned();
    for (name, what) in SCENARIOS {
        let Some(tests) = found.get(name) else { bail!("no test stands for the scenario {name:?}") };
        let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
        out.push_str(&format!("| {name} | {what} | {} |\n", tests.join(", ")));
    }
    Ok(out)
}

fn found() -> Result<Found> {
    let mut out = Found::new();
    for file in sources(Path::new(TESTS))? {
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let module = file.strip_prefix(TESTS)?.with_extension("").display().to_string().replace('/', "::");
        for (scenario, test) in in_text(&text) {
            out.entry(scenario).or_default().push(format!("{module}::{test}"));
        }
    }
    Ok(out)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            out.extend(sources(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            out.push(path);
        }
    }
    out.sort();
    Ok(out)
}

/// The scenarios in a file, each with the function that follows its line.
fn in_text(text: &str) -> Vec<(String, String)> {
    let (mut out, mut waiting) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(name) = line.trim_start().strip_prefix("/// scenario: ") {
            waiting.push(name.trim().to_owned());
        } else if let Some((_, rest)) = line.split_once("fn ")
            && let Some((test, _)) = rest.split_once('(')
        {
            out.extend(waiting.drain(..).map(|name| (name, test.to_owned())));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_belongs_to_the_test_behind_it() {
        let text =
            "fn a() {}\n/// Words.\n///\n/// scenario: B, C\n/// scenario: D\n#[test]\nfn b_comes() {\n}\nfn c() {}\n";
        let expected = [("B, C", "b_comes"), ("D", "b_comes")];
        assert_eq!(in_text(text), expected.map(|(name, test)| (name.to_owned(), test.to_owned())));
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(with_table(&page, "new\n").expect("a page"), format!("a\n{BEGIN}new\n{END}b\n"));
        assert!(with_table("a", "b").is_err());
    }

    #[test]
    fn a_scenario_without_a_test_and_one_that_is_not_known_are_refused() {
        let one = |name: &str| (name.to_owned(), vec!["a::b".to_owned()]);
        let mut all: Found = SCENARIOS.iter().map(|(name, _)| one(name)).collect();
        assert!(table(&all).expect("a table").contains("| Scale | 2,500 namespaces | `a::b` |\n"));
        all.remove("Scale");
        assert_eq!(table(&all).expect_err("a gap").to_string(), "no test stands for the scenario \"Scale\"");
        all.extend([one("Scale"), one("Else")]);
        assert!(table(&all).expect_err("too much").to_string().contains("\"Else\""));
    }
}
