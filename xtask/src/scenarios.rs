//! The table of docs/compatibility/scenarios.md of which test stands for which scenario of Velero's end-to-end suite:
//! made of the lines `scenario: NAME` in the comments of tests.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The tests that may stand for a scenario.
const TESTS: &str = "tests/e2e";
const PAGE: &str = "docs/compatibility/scenarios.md";
const BEGIN: &str = "<!-- made by `cargo xtask scenarios` -->\n";
const END: &str = "<!-- end -->\n";

/// The scenarios by Velero's labels, and what they do. Where a label is of objects as well as of volumes, the part of
/// volumes is a row of its own. The last ones are what the suite does outside of its scenarios.
const SCENARIOS: [(&str, &str); 55] = [
    ("APIExtensions", "a definition of an older API version comes back on a cluster that serves only the newer one"),
    (
        "APIVersion",
        "custom resources in several versions: preferred, highest common, none in common, by the user's list",
    ),
    ("AdditionalBSL, FSBackup", "volumes through file system backup, in the default location and in another one"),
    (
        "AdditionalBSL, Snapshot",
        "volumes from snapshots, with the backup in the default location and in another one with credentials of its own",
    ),
    ("BSL, Deletion", "what is deleted with a storage location, and what stays"),
    ("BSL, Deletion, FSBackup", "the same, and its repositories"),
    ("BSL, Deletion, Snapshot", "the same: the snapshots stay"),
    ("BackupVolumeInfo, CSIDataMover", "the record of a volume whose snapshot is moved"),
    ("BackupVolumeInfo, CSISnapshot", "the record of a volume with a CSI snapshot"),
    ("BackupVolumeInfo, FilesystemUpload", "the record of a volume that is saved file by file"),
    ("BackupVolumeInfo, NativeSnapshot", "the record of a volume with a snapshot by a plugin"),
    ("BackupVolumeInfo, SkippedVolume", "the record of a volume that is skipped"),
    ("Backups, BackupsSync", "backups of the bucket show up, and go with it"),
    ("Backups, Deletion", "a backup is deleted with its files, also when those are gone already"),
    ("Backups, Deletion, FSBackup", "the same, and what the repository holds for it"),
    ("Backups, Deletion, Snapshot", "the same, and its snapshots"),
    ("Backups, TTL, LongTime", "a backup whose time is over goes, with its files and its restores"),
    ("ClusterResource", "annotated namespaces, all namespaces, a service account with its cluster role and binding"),
    ("FSBackup", "volumes that are saved file by file come back"),
    ("Hooks", "an init container and commands after a restore"),
    ("Migration, DataMover", "volumes whose snapshots were moved come to another cluster"),
    ("Migration, FSBackup", "volumes that were saved file by file come to another cluster"),
    ("Migration, Snapshot", "a backup with snapshots comes back where its cluster is not known"),
    ("NamespaceMapping", "into one and into several other namespaces"),
    ("NamespaceMapping, FSBackup", "the same with volumes that are saved file by file"),
    ("NamespaceMapping, Snapshot", "the same with volumes from snapshots"),
    ("NodeAgentConfig, CachePVC", "the pod that restores data has a volume as cache"),
    ("NodeAgentConfig, LoadAffinity", "pods that move data go to the nodes, classes and labels of the configuration"),
    ("NodePort", "node ports that are kept or not, taken or free"),
    ("PVBackup, OptIn, FSBackup", "volumes that pods name are saved file by file"),
    ("PVBackup, OptOut, FSBackup", "all volumes but those that pods name are saved file by file"),
    ("PrivilegesMgmt, SSR", "a request for the status of the server, in the right namespace and in a wrong one"),
    ("RepoMaintenance", "the jobs that look after repositories, with the resources of their configuration"),
    ("ResourceFiltering", "excluding by label, namespaces, types, wildcards, a selector, in backups and in restores"),
    ("ResourceFiltering, ResourcePolicies", "policies from a ConfigMap"),
    (
        "ResourceFiltering, ResourcePolicies, FSBackup",
        "volumes of a size or a class are skipped, the others saved file by file",
    ),
    (
        "ResourceFiltering, ResourcePolicies, Snapshot",
        "volumes of a size or a class are skipped, the others snapshotted",
    ),
    ("ResourceModifier", "a container and a number of replicas by JSON patches from a ConfigMap"),
    (
        "RetainPV, FSBackup",
        "what was written after a file system backup does not come back, though the volume is still there",
    ),
    ("RetainPV, Snapshot", "what was written after a snapshot does not come back, though the volume is still there"),
    ("Scale", "2,500 namespaces"),
    ("Schedule, InProgress", "runs that are due more often than backups end"),
    ("Schedule, OrderedResources", "a schedule and its backups name the same objects first"),
    ("Schedule, Periodical, Pause", "a schedule that is paused, restored from, and goes on"),
    ("Snapshot", "volumes come back from snapshots"),
    ("StorageClass", "a claim with a class that is mapped"),
    ("Upgrade", "the backup of an older release, after the newer one was installed over it"),
    ("Upgrade, FSBackup", "the same with volumes that are saved file by file"),
    ("Upgrade, Snapshot", "the same with volumes from snapshots"),
    ("UploaderConfig", "files that are saved and restored several at a time"),
    ("(commands)", "what the suite calls and reads: tables, objects, errors, exit codes"),
    ("(installation)", "what the suite installs, patches and takes away"),
    ("(parallel backups)", "backups of different namespaces at once, those of one namespace in turn"),
    ("(plugins)", "plugins that are added to the server, listed and removed"),
    ("(snapshot locations)", "locations of snapshots that are made, listed and changed"),
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
type ScenarioTests = BTreeMap<String, Vec<String>>;

/// The table, with a test for each scenario.
fn table(found: &ScenarioTests) -> Result<String> {
    let is_known = |name: &str| SCENARIOS.iter().any(|(known, _)| *known == name);
    if let Some(unknown) = found.keys().find(|name| !is_known(name)) {
        bail!("a test stands for the scenario {unknown:?}, which is none of those in xtask/src/scenarios.rs");
    }
    let mut out = "| scenario | what it does | test |\n|---|---|---|\n".to_owned();
    for (name, what) in SCENARIOS {
        let tests = found.get(name).with_context(|| format!("no test stands for the scenario {name:?}"))?;
        let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
        out.push_str(&format!("| {name} | {what} | {} |\n", tests.join(", ")));
    }
    Ok(out)
}

fn found() -> Result<ScenarioTests> {
    let mut out = ScenarioTests::new();
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
    fn each_scenario_has_a_test_and_no_other_has() {
        let one = |name: &str| (name.to_owned(), vec!["a::b".to_owned()]);
        let mut all: ScenarioTests = SCENARIOS.iter().map(|(name, _)| one(name)).collect();
        let made = table(&all).expect("a table");
        assert!(made.contains("| Scale | 2,500 namespaces | `a::b` |\n"), "{made}");
        let why = |all: &ScenarioTests| table(all).expect_err("a refusal").to_string();
        all.remove("Scale");
        assert_eq!(why(&all), "no test stands for the scenario \"Scale\"");
        all.extend([one("Scale"), one("Else")]);
        assert!(why(&all).contains("\"Else\""), "{}", why(&all));
    }
}
