//! `cargo xtask image-check`: is the image what it says it is? Made twice it has to be the same, its lists of parts
//! have to agree with cargo, and its programs have to run.

use crate::image::architecture::Architecture;
use crate::image::archive::{Archive, Image};
use crate::image::compile::{BuildSource, BuildTree, PACKAGE, cargo_home};
use crate::image::elf;
use crate::image::sbom::{self, Crate, CrateVersion};
use crate::image::{BuiltImage, Options, PROGRAM, SBOM, USER, difference, make};
use crate::timed;
use anyhow::{Context, Result, bail, ensure};
use lifeboat_testbed::{cache_folder, digest};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the image in this tree and looks at what is in it, then builds it from a copy of the tree in another folder
/// and compares.
///
/// `--architecture NAME` does it for one alone, `--profile NAME` says how it is compiled (`dist`).
pub(crate) fn check(args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    ensure!(options.binaries.is_empty() && options.output.is_none(), "the check builds its images, and keeps none");
    let here = BuildTree::here()?;
    let source = BuildSource::of(&here.sources)?;
    let first = make(&here, &source, &options)?;
    println!("-- {} bytes, {}", first.archive.len(), digest(&first.archive));
    let archive = Archive::read(&first.archive)?;
    ensure!(archive.images.len() == options.architectures.len(), "there are {} images", archive.images.len());
    ensure!(archive.for_docker == archive.images[0].config_digest, "manifest.json does not name the first image");
    for (architecture, image) in options.architectures.iter().zip(&archive.images) {
        let name = architecture.name();
        timed(&format!("configuration for {name}"), || check_config(*architecture, &source, image))?;
        timed(&format!("parts for {name}"), || check_sbom(&here, *architecture, image, &first))?;
        timed(&format!("paths for {name}"), || check_paths(&here, image))?;
        timed(&format!("program for {name}"), || check_program(*architecture, &source, image))?;
    }
    let folder = cache_folder();
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let folder = tempfile::Builder::new().prefix("image-check-").tempdir_in(folder).context("make a folder")?;
    let there = BuildTree { sources: folder.path().join("sources"), target: folder.path().join("built") };
    timed("copy of the tree", || copy(&here.sources, &there.sources))?;
    let second = make(&there, &source, &options)?;
    if let Some(found) = difference::first(&first.archive, &second.archive)? {
        bail!("built in another folder, the image is another; the first difference is\n{found}");
    }
    println!("-- built twice: the same");
    Ok(())
}

fn check_config(architecture: Architecture, source: &BuildSource, image: &Image) -> Result<()> {
    let mut platform = json!({"architecture": architecture.name(), "os": "linux"});
    if architecture == Architecture::Arm64 {
        platform["variant"] = json!("v8");
    }
    ensure!(image.platform == platform, "the index says {}, and it is for {platform}", image.platform);
    let mut labels = json!({
        "org.opencontainers.image.title": "Lifeboat",
        "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.created": source.created()?,
    });
    if let Some(commit) = &source.commit {
        labels["org.opencontainers.image.revision"] = json!(commit);
    }
    let mut expected = platform;
    expected["created"] = json!(source.created()?);
    expected["config"] = json!({
        "User": USER, "Entrypoint": ["/velero"], "WorkingDir": "/", "Env": ["PATH=/", "HOME=/tmp"], "Labels": labels,
    });
    let mut config = image.config.clone();
    // The layer was compared when the archive was read, and its making is nothing that a container sees.
    for key in ["rootfs", "history"] {
        config.as_object_mut().context("a configuration is no object")?.remove(key);
    }
    ensure!(config == expected, "the configuration is\n{config}\nand not\n{expected}");
    Ok(())
}

fn check_sbom(place: &BuildTree, architecture: Architecture, image: &Image, made: &BuiltImage) -> Result<()> {
    let in_image = &image.files.get(SBOM).with_context(|| format!("the image has no {SBOM}"))?.content;
    let beside = made.programs.iter().find(|program| program.architecture == architecture);
    let beside = beside.and_then(|program| program.sbom.as_ref());
    ensure!(beside == Some(in_image), "the list in the image is not that beside it");
    let document: Value = serde_json::from_slice(in_image)?;
    let program = digest(&image.files.get(PROGRAM).context("the image has no program")?.content);
    let named = document["metadata"]["component"]["hashes"][0]["content"].as_str().unwrap_or_default();
    ensure!(program == format!("sha256:{named}"), "the list is about a program with the digest {named}, not {program}");
    let expected = expected(
        &tree(place, architecture)?,
        &sbom::checksums(&sbom::lock(place)?),
        &sbom::metadata(place, architecture)?,
    )?;
    let found = disagreements(&sbom::crates(&document)?, &expected);
    ensure!(found.is_empty(), "the list of parts does not agree with cargo:\n  {}", found.join("\n  "));
    println!("-- {} crates", expected.len());
    Ok(())
}

/// The crates that cargo takes for the program, with their features, as `cargo tree` resolves them.
fn tree(place: &BuildTree, architecture: Architecture) -> Result<BTreeMap<CrateVersion, BTreeSet<String>>> {
    let mut command = place.cargo();
    command.args(["tree", "--locked", "--package", PACKAGE, "--edges", "normal,no-proc-macro", "--prefix", "none"]);
    command.args(["--target", architecture.target(), "--format", "{p}|{f}"]);
    let output = command.output().context("cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)?.lines().filter(|line| !line.is_empty()).map(of_tree).collect()
}

/// A crate in a line such as `serde v1.0.0 (/a/path)|default,std (*)`.
fn of_tree(line: &str) -> Result<(CrateVersion, BTreeSet<String>)> {
    let wrong = || format!("cargo tree prints {line:?}");
    let (package, features) = line.trim_end_matches(" (*)").split_once('|').with_context(wrong)?;
    let mut words = package.split(' ');
    let name = words.next().with_context(wrong)?;
    let version = words.next().and_then(|word| word.strip_prefix('v')).with_context(wrong)?;
    let features = features.split(',').filter(|feature| !feature.is_empty()).map(str::to_owned).collect();
    Ok((CrateVersion { name: name.to_owned(), version: version.to_owned() }, features))
}

/// The expected entries for these crates, by `Cargo.lock` and `cargo metadata`.
fn expected(
    tree: &BTreeMap<CrateVersion, BTreeSet<String>>,
    lock: &BTreeMap<CrateVersion, Option<String>>,
    metadata: &Value,
) -> Result<BTreeMap<CrateVersion, Crate>> {
    let license = |of: &CrateVersion| {
        let mut packages = metadata["packages"].as_array().into_iter().flatten();
        let package = packages.find(|package| package["name"] == *of.name && package["version"] == *of.version);
        package.and_then(|package| package["license"].as_str()).map(sbom::expression)
    };
    let expected = |(of, features): (&CrateVersion, &BTreeSet<String>)| -> Result<(CrateVersion, Crate)> {
        let checksum = lock.get(of).with_context(|| format!("Cargo.lock has no {of}"))?;
        let license = license(of).with_context(|| format!("{of} has no license"))?;
        Ok((of.clone(), Crate { features: features.clone(), license, checksum: checksum.clone() }))
    };
    tree.iter().map(expected).collect()
}

/// In which crates a list and cargo disagree, a line each.
fn disagreements(list: &BTreeMap<CrateVersion, Crate>, cargo: &BTreeMap<CrateVersion, Crate>) -> Vec<String> {
    let all: BTreeSet<&CrateVersion> = list.keys().chain(cargo.keys()).collect();
    let line = |of: &CrateVersion| match (list.get(of), cargo.get(of)) {
        (Some(list), Some(cargo)) if list == cargo => None,
        (Some(list), Some(cargo)) => Some(format!("{of}: {list:?}, and cargo says {cargo:?}")),
        (Some(_), None) => Some(format!("{of} is not built by cargo")),
        (None, _) => Some(format!("{of} is missing")),
    };
    all.into_iter().filter_map(line).collect()
}

/// Both builds share cargo's folder and the cache, so that no comparison would find these in a program.
fn check_paths(here: &BuildTree, image: &Image) -> Result<()> {
    let program = &image.files.get(PROGRAM).context("the image has no program")?.content;
    let home = cargo_home()?;
    for folder in [&here.sources, &here.target, &home, &cache_folder()] {
        if let Some(at) = find(program, folder.as_os_str().as_encoded_bytes()) {
            let section = elf::section_at(program, at)?;
            bail!("the program names {} of this machine, at byte {at} (section {section})", folder.display());
        }
    }
    Ok(())
}

/// The position of the first occurrence of words in a text.
fn find(text: &[u8], words: &[u8]) -> Option<usize> {
    let first = *words.first()?;
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| *byte == first).map(|at| from + at) {
        if text[at..].starts_with(words) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Runs the program of an image.
fn check_program(architecture: Architecture, source: &BuildSource, image: &Image) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder for a program")?;
    let program = folder.path().join(PROGRAM);
    let content = &image.files.get(PROGRAM).context("the image has no program")?.content;
    std::fs::write(&program, content).with_context(|| format!("write {}", program.display()))?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    let call = |arguments: &[&str]| -> Result<String> {
        let mut command = architecture.run(&program, PROGRAM)?;
        let output = command.args(arguments).current_dir(folder.path()).env("HOME", folder.path()).output();
        let output = output.with_context(|| format!("run lifeboat {}", arguments.join(" ")))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "lifeboat {}: {}\n{said}{stderr}", arguments.join(" "), output.status);
        Ok(said)
    };
    let version = call(&["version", "--client-only"])?;
    for word in [Some(env!("CARGO_PKG_VERSION")), source.commit.as_deref()].into_iter().flatten() {
        ensure!(version.contains(word), "lifeboat version does not say {word}:\n{version}");
    }
    call(&["demo"]).map(drop)
}

/// Copies what belongs to a tree of sources, as git sees it, but not git's own folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut list = Command::new("git");
    list.current_dir(from).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let list = list.output().context("run git")?;
    ensure!(list.status.success(), "the tree is copied as git lists it: {}", String::from_utf8_lossy(&list.stderr));
    for name in String::from_utf8(list.stdout).context("names of files")?.split_terminator('\0') {
        let (from, to) = (from.join(name), to.join(name));
        // One that was removed and not yet committed is no part of what is built.
        let Ok(about) = from.symlink_metadata() else { continue };
        let folder = to.parent().map(PathBuf::from).unwrap_or_default();
        std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let done = if about.is_symlink() {
            std::fs::read_link(&from).and_then(|target| symlink(target, &to))
        } else {
            std::fs::copy(&from, &to).map(drop)
        };
        done.with_context(|| format!("copy {}", from.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> CrateVersion {
        CrateVersion { name: name.to_owned(), version: "1.0.0".to_owned() }
    }

    fn krate(license: &str) -> Crate {
        let (features, checksum) = (BTreeSet::from(["std".to_owned()]), Some("aa".to_owned()));
        Crate { features, license: license.to_owned(), checksum }
    }

    #[test]
    fn lines_of_a_tree_are_crates() {
        for (line, features) in [
            ("a v1.0.0|default,std", &["default", "std"][..]),
            ("a v1.0.0 (/some where/a)| (*)", &[]),
            ("a v1.0.0 (proc-macro)|x (*)", &["x"]),
        ] {
            let features: BTreeSet<String> = features.iter().map(|feature| (*feature).to_owned()).collect();
            assert_eq!(of_tree(line).expect("a crate"), (name("a"), features), "{line}");
        }
        assert!(of_tree("[build-dependencies]").is_err());
    }

    #[test]
    fn what_cargo_says_comes_from_its_lock_and_its_metadata() {
        let tree = BTreeMap::from([(name("a"), BTreeSet::from(["std".to_owned()]))]);
        let lock = BTreeMap::from([(name("a"), Some("aa".to_owned())), (name("b"), None)]);
        let package = |version: &str, license: &str| json!({"name": "a", "version": version, "license": license});
        let metadata = json!({"packages": [package("0.9.0", "ISC"), package("1.0.0", "MIT/Apache-2.0")]});
        let expected = expected(&tree, &lock, &metadata).expect("complete");
        assert_eq!(expected, BTreeMap::from([(name("a"), krate("MIT OR Apache-2.0"))]));
        assert!(super::expected(&tree, &BTreeMap::new(), &metadata).is_err(), "not in the lock");
    }

    #[test]
    fn words_are_found_where_they_begin() {
        for (text, expected) in [("x/root/a", Some(1)), ("/ro/root", Some(3)), ("/roo", None), ("", None)] {
            assert_eq!(find(text.as_bytes(), b"/root"), expected, "{text}");
        }
    }

    #[test]
    fn every_disagreement_is_named() {
        let list = BTreeMap::from([(name("a"), krate("MIT")), (name("b"), krate("MIT")), (name("c"), krate("MIT"))]);
        let cargo = BTreeMap::from([(name("a"), krate("MIT")), (name("b"), krate("ISC")), (name("d"), krate("MIT"))]);
        let found = disagreements(&list, &cargo);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("b 1.0.0: ") && found[0].contains("ISC"), "{found:?}");
        assert_eq!(&found[1..], ["c 1.0.0 is not built by cargo", "d 1.0.0 is missing"]);
        assert_eq!(disagreements(&list, &list), Vec::<String>::new());
    }
}
