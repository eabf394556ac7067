//! Builds the program for other machines than this one, with nothing of this one in it.

use super::architecture::Architecture;
use super::tools;
use crate::{cargo, run, timed};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package of the program. It is built alone, so that it has only the features that it asks for.
pub(crate) const PACKAGE: &str = "lifeboat-cli";

/// A tree of sources, and where it is built.
#[derive(Clone, Debug)]
pub(crate) struct BuildTree {
    pub(crate) sources: PathBuf,
    pub(crate) target: PathBuf,
}

impl BuildTree {
    /// This workspace.
    pub(crate) fn here() -> Result<Self> {
        let metadata =
            cargo().args(["metadata", "--format-version=1", "--no-deps"]).output().context("cargo metadata")?;
        let metadata: Value = serde_json::from_slice(&metadata.stdout).context("what cargo metadata prints")?;
        let folder = |key: &str| metadata[key].as_str().map(PathBuf::from).with_context(|| format!("cargo's {key}"));
        Ok(Self { sources: folder("workspace_root")?, target: folder("target_directory")? })
    }

    /// Cargo's command for this tree.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.sources).env("CARGO_TARGET_DIR", &self.target);
        command
    }
}

/// The source of a build: the commit that the program names, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuildSource {
    /// `None` where nobody knows.
    pub(crate) commit: Option<String>,
    /// In seconds since 1970.
    pub(crate) time: i64,
}

impl BuildSource {
    /// Reads `LIFEBOAT_GIT_SHA` and `SOURCE_DATE_EPOCH`, else asks git; without both, no commit and 1970.
    pub(crate) fn of(sources: &Path) -> Result<Self> {
        let told = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let git = |args: &[&str]| {
            let done = Command::new("git").current_dir(sources).args(args).output().ok()?;
            let text = String::from_utf8(done.stdout).ok()?.trim().to_owned();
            (done.status.success() && !text.is_empty()).then_some(text)
        };
        let commit = told("LIFEBOAT_GIT_SHA").or_else(|| git(&["rev-parse", "HEAD"]));
        let of_commit = |commit: &String| git(&["show", "--no-patch", "--format=%ct", commit]);
        let time = told("SOURCE_DATE_EPOCH").or_else(|| commit.as_ref().and_then(of_commit));
        let time = time.map_or(Ok(0), |time| time.parse()).context("the time of the commit, SOURCE_DATE_EPOCH")?;
        Ok(Self { commit, time })
    }

    /// The time as images write it.
    pub(crate) fn created(&self) -> Result<String> {
        Ok(jiff::Timestamp::from_second(self.time).context("the time of the commit")?.to_string())
    }
}

/// A program that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compiled {
    pub(crate) architecture: Architecture,
    pub(crate) program: PathBuf,
    /// The packages that were compiled for it, by cargo's ids, with the features that they were compiled with.
    pub(crate) packages: BTreeMap<String, BTreeSet<String>>,
}

/// Builds the program for each architecture: the same bytes from the same sources, wherever these lie.
pub(crate) fn compile(
    place: &BuildTree,
    profile: &str,
    source: &BuildSource,
    architectures: &[Architecture],
) -> Result<BTreeMap<Architecture, Compiled>> {
    add_targets(architectures)?;
    let home = cargo_home()?;
    let cache = tools::folder();
    let mut build = Command::new(tools::zigbuild()?);
    build.args(["zigbuild", "--locked", "--package", PACKAGE, "--bin", "lifeboat", "--profile", profile]);
    build.args(["--message-format", "json-render-diagnostics"]);
    for architecture in architectures {
        build.args(["--target", architecture.target()]);
        let of_c =
            [architecture.flags_for_c().to_owned()].into_iter().chain(renamed(place, &home, "-ffile-prefix-map"));
        let of_c: Vec<String> = of_c.filter(|flag| !flag.is_empty()).collect();
        build.env(format!("CFLAGS_{}", architecture.target().replace('-', "_")), of_c.join(" "));
    }
    build.current_dir(&place.sources).env("CARGO_TARGET_DIR", &place.target).env("CARGO_INCREMENTAL", "0");
    build.env("CARGO_ZIGBUILD_PYTHON_PATH", tools::python()?).env("CARGO_ZIGBUILD_CACHE_DIR", &cache);
    build.env("ZIG_GLOBAL_CACHE_DIR", cache.join("zig-cache"));
    build
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", renamed(place, &home, "--remap-path-prefix").join("\x1f"));
    // An image has no debug information, whatever the profile says.
    build.env(format!("CARGO_PROFILE_{}_DEBUG", profile.to_uppercase().replace('-', "_")), "0");
    build.env("SOURCE_DATE_EPOCH", source.time.to_string());
    build.env("LIFEBOAT_GIT_SHA", source.commit.as_deref().unwrap_or_default());
    let mut messages = Vec::new();
    timed("program", || {
        let done = build.stderr(Stdio::inherit()).output().context("run cargo-zigbuild")?;
        ensure!(done.status.success(), "building the program failed: {}", done.status);
        messages = done.stdout;
        Ok(())
    })?;
    let messages = String::from_utf8(messages).context("the messages of cargo")?;
    let compiled = |architecture: &Architecture| Ok((*architecture, compiled(&messages, *architecture)?));
    architectures.iter().map(compiled).collect()
}

fn add_targets(architectures: &[Architecture]) -> Result<()> {
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output().context("run rustup")?;
    let installed = String::from_utf8_lossy(&installed.stdout).into_owned();
    for target in architectures.iter().map(|architecture| architecture.target()) {
        if !installed.lines().any(|line| line == target) {
            run(&format!("standard library for {target}"), Command::new("rustup").args(["target", "add", target]))?;
        }
    }
    Ok(())
}

/// The folder of cargo's downloads.
pub(crate) fn cargo_home() -> Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).context("there is neither CARGO_HOME nor HOME")
}

/// Flags that keep the paths of this machine out of the compiler's output. The last of several that fit counts.
fn renamed(place: &BuildTree, cargo_home: &Path, flag: &str) -> Vec<String> {
    let folders = [(cargo_home, "/cargo"), (&place.sources, "/lifeboat"), (&place.target, "/target")];
    folders.map(|(from, to)| format!("{flag}={}={to}", from.display())).into()
}

/// Reads from cargo's messages what was compiled for an architecture. Crates that run during the build, such as macros,
/// lie elsewhere.
fn compiled(messages: &str, architecture: Architecture) -> Result<Compiled> {
    let folder = format!("/{}/", architecture.target());
    let mut packages = BTreeMap::new();
    let mut program = None;
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).with_context(|| format!("a message of cargo: {line}"))?;
        let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if message["reason"] != "compiler-artifact" || files.filter(|file| file.contains(&folder)).count() == 0 {
            continue;
        }
        let id = message["package_id"].as_str().context("a message of cargo about no package")?;
        let features = message["features"].as_array().into_iter().flatten().filter_map(Value::as_str);
        packages.entry(id.to_owned()).or_insert_with(BTreeSet::new).extend(features.map(str::to_owned));
        if let Some(executable) = message["executable"].as_str() {
            program = Some(executable.into());
        }
    }
    match program {
        Some(program) => Ok(Compiled { architecture, program, packages }),
        None => bail!("cargo names no program for {}", architecture.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_runs_during_the_build_is_not_in_the_program() {
        let artifact = |id: &str, features: &[&str], file: &str| json!({"reason": "compiler-artifact", "package_id": id, "features": features, "filenames": [file], "executable": null});
        let mut program = artifact("path#cli@1", &[], "/t/aarch64-unknown-linux-musl/dist/lifeboat");
        program["executable"] = json!("/t/aarch64-unknown-linux-musl/dist/lifeboat");
        let messages = [
            artifact("r#macro@1", &[], "/t/dist/deps/libmacro.so"),
            artifact("r#a@1", &["std"], "/t/dist/deps/liba.rlib"),
            artifact("r#a@1", &["alloc"], "/t/aarch64-unknown-linux-musl/dist/deps/liba.rlib"),
            artifact("r#b@1", &[], "/t/x86_64-unknown-linux-musl/dist/deps/libb.rlib"),
            program,
            json!({"reason": "build-finished", "success": true}),
        ];
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        let expected = Compiled {
            architecture: Architecture::Arm64,
            program: "/t/aarch64-unknown-linux-musl/dist/lifeboat".into(),
            packages: BTreeMap::from([
                ("path#cli@1".to_owned(), BTreeSet::new()),
                ("r#a@1".to_owned(), BTreeSet::from(["alloc".to_owned()])),
            ]),
        };
        assert_eq!(compiled(&messages.join("\n"), Architecture::Arm64).expect("complete"), expected);
        assert!(compiled(&messages.join("\n"), Architecture::Amd64).is_err(), "no program");
    }

    #[test]
    fn folders_of_the_machine_get_other_names() {
        let place = BuildTree { sources: "/home/me/lifeboat".into(), target: "/home/me/lifeboat/target".into() };
        assert_eq!(
            renamed(&place, Path::new("/home/me/.cargo"), "--remap-path-prefix"),
            [
                "--remap-path-prefix=/home/me/.cargo=/cargo",
                "--remap-path-prefix=/home/me/lifeboat=/lifeboat",
                "--remap-path-prefix=/home/me/lifeboat/target=/target"
            ]
        );
    }

    #[test]
    fn times_are_written_as_images_write_them() {
        let source = BuildSource { commit: None, time: 1_735_689_599 };
        assert_eq!(source.created().expect("in range"), "2024-12-31T23:59:59Z");
    }
}
