//! The bill of materials of a program, in CycloneDX: the crates that the compiler took, the standard library, the C
//! library and the certificates. It holds no time or number of the build, so that the same source gives the same
//! document.

use super::architecture::Architecture;
use super::compile::{BuildSource, BuildTree, Compiled, PACKAGE};
use super::tools::{CERTIFICATES, MUSL};
use anyhow::{Context, Result, ensure};
use lifeboat_testbed::digest;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A version of a crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CrateVersion {
    pub(crate) name: String,
    pub(crate) version: String,
}

impl fmt::Display for CrateVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// The entry of a crate in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crate {
    pub(crate) features: BTreeSet<String>,
    pub(crate) license: String,
    /// The checksum of the file in the registry; `None` for our own crates.
    pub(crate) checksum: Option<String>,
}

/// The document about a program that was just built.
pub(crate) fn sbom(place: &BuildTree, source: &BuildSource, compiled: &Compiled, program: &[u8]) -> Result<Vec<u8>> {
    let architecture = compiled.architecture;
    let facts =
        Facts { metadata: metadata(place, architecture)?, checksums: checksums(&lock(place)?), rustc: rustc(place)? };
    let mut document = document(&facts, &compiled.packages)?;
    let commit = source.commit.as_deref().unwrap_or("unknown");
    document["metadata"]["component"]["hashes"] = sha256(digest(program).trim_start_matches("sha256:"));
    document["metadata"]["properties"] = json!([
        {"name": "lifeboat:architecture", "value": architecture.name()},
        {"name": "lifeboat:commit", "value": commit},
        {"name": "lifeboat:target", "value": architecture.target()},
    ]);
    Ok(format!("{document:#}\n").into_bytes())
}

/// The metadata of all packages from cargo, as built for an architecture.
pub(crate) fn metadata(place: &BuildTree, architecture: Architecture) -> Result<Value> {
    let mut command = place.cargo();
    command.args(["metadata", "--format-version=1", "--locked", "--filter-platform", architecture.target()]);
    let output = command.output().context("cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("what cargo metadata prints")
}

/// The text of `Cargo.lock`.
pub(crate) fn lock(place: &BuildTree) -> Result<String> {
    let path = place.sources.join("Cargo.lock");
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

fn rustc(place: &BuildTree) -> Result<String> {
    let mut command = std::process::Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let output = command.arg("-vV").current_dir(&place.sources).output().context("run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().find_map(|line| line.strip_prefix("release: "));
    version.map(str::to_owned).context("rustc says no version")
}

/// The checksums in a `Cargo.lock`, by crate; `None` of a crate that comes from no registry.
pub(crate) fn checksums(lock: &str) -> BTreeMap<CrateVersion, Option<String>> {
    let mut out = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let of_key =
                |line: &str| Some(line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')?.to_owned());
            package.lines().find_map(of_key)
        };
        if let (Some(name), Some(version)) = (value("name"), value("version")) {
            out.insert(CrateVersion { name, version }, value("checksum"));
        }
    }
    out
}

/// The sources of the document, besides the list of compiled crates.
struct Facts {
    metadata: Value,
    checksums: BTreeMap<CrateVersion, Option<String>>,
    rustc: String,
}

fn document(facts: &Facts, compiled: &BTreeMap<String, BTreeSet<String>>) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&facts.metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let mut references = BTreeMap::new();
    let mut components = BTreeMap::new();
    for (id, features) in compiled {
        let package = packages.get(id).with_context(|| format!("cargo metadata has no package {id}"))?;
        let of = CrateVersion { name: text(&package["name"]), version: text(&package["version"]) };
        let checksum = facts.checksums.get(&of).with_context(|| format!("Cargo.lock has no {of}"))?;
        let component = component(package, &of, features, checksum.as_deref());
        references.insert(id.clone(), text(&component["bom-ref"]));
        components.insert(of, component);
    }
    let mut program = {
        let of = components.keys().find(|of| of.name == PACKAGE).cloned();
        of.and_then(|of| components.remove(&of)).context("the program itself was not compiled")?
    };
    program["type"] = json!("application");
    program["name"] = json!("lifeboat");
    let mut dependencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in list(&facts.metadata["resolve"]["nodes"]) {
        let Some(reference) = references.get(&text(&node["id"])) else { continue };
        let is_normal = |needed: &&Value| list(&needed["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let needed = list(&node["deps"]);
        let needed =
            needed.iter().filter(is_normal).filter_map(|needed| references.get(&text(&needed["pkg"])).cloned());
        dependencies.entry(reference.clone()).or_default().extend(needed);
    }
    let others = others(&facts.rustc);
    for other in &others {
        dependencies.entry(text(&program["bom-ref"])).or_default().insert(text(&other["bom-ref"]));
        dependencies.entry(text(&other["bom-ref"])).or_default();
    }
    let dependencies: Vec<Value> =
        dependencies.into_iter().map(|(from, to)| json!({"ref": from, "dependsOn": to})).collect();
    let components: Vec<Value> = components.into_values().chain(others).collect();
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": program},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(package: &Value, of: &CrateVersion, features: &BTreeSet<String>, checksum: Option<&str>) -> Value {
    let CrateVersion { name, version } = of;
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
    put("type", json!("library"));
    put("name", json!(name));
    put("version", json!(version));
    put("scope", json!("required"));
    put("licenses", licenses(&expression(package["license"].as_str().unwrap_or("NOASSERTION"))));
    // Our own crates are in no registry, where another may have their names.
    if package["source"].is_null() {
        put("bom-ref", json!(format!("{name}@{version}")));
    } else {
        let purl = format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"));
        put("bom-ref", json!(purl));
        put("purl", json!(purl));
    }
    if let Some(checksum) = checksum {
        put("hashes", sha256(checksum));
    }
    if !features.is_empty() {
        let features: Vec<Value> = features.iter().map(|feature| json!({"name": FEATURE, "value": feature})).collect();
        put("properties", json!(features));
    }
    if let Some(repository) = package["repository"].as_str() {
        put("externalReferences", json!([{"type": "vcs", "url": repository}]));
    }
    out.into()
}

/// The property that names a feature of a crate.
const FEATURE: &str = "cargo:feature";

/// The entries of the image that are not crates.
fn others(rustc: &str) -> [Value; 3] {
    let other = |kind: &str, name: &str, version: &str, purl: String, license: &str| {
        json!({
            "type": kind, "name": name, "version": version, "scope": "required", "bom-ref": purl, "purl": purl,
            "licenses": licenses(license),
        })
    };
    [
        other("data", "certifi", CERTIFICATES, format!("pkg:pypi/certifi@{CERTIFICATES}"), "MPL-2.0"),
        other("library", "musl", MUSL, format!("pkg:generic/musl@{MUSL}"), "MIT"),
        other("library", "rust-std", rustc, format!("pkg:github/rust-lang/rust@{rustc}"), "MIT OR Apache-2.0"),
    ]
}

fn licenses(expression: &str) -> Value {
    json!([{"expression": expression}])
}

fn sha256(digits: &str) -> Value {
    json!([{"alg": "SHA-256", "content": digits}])
}

/// Crates used to separate licenses by slashes.
pub(crate) fn expression(license: &str) -> String {
    license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// The crates that a document names, the program's own with them.
pub(crate) fn crates(document: &Value) -> Result<BTreeMap<CrateVersion, Crate>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut out = BTreeMap::new();
    let mut program = document["metadata"]["component"].clone();
    program["name"] = json!(PACKAGE);
    program["hashes"] = Value::Null;
    for component in list(&document["components"]).into_iter().chain([program]) {
        if component["purl"].as_str().is_some_and(|purl| !purl.starts_with("pkg:cargo/")) {
            continue;
        }
        let named = text(&component["name"]).zip(text(&component["version"]));
        let (name, version) = named.with_context(|| format!("a component without name or version: {component}"))?;
        let of = CrateVersion { name, version };
        let license = text(&component["licenses"][0]["expression"]);
        let is_feature = |property: &&Value| property["name"] == FEATURE;
        let properties = list(&component["properties"]);
        let features = properties.iter().filter(is_feature).filter_map(|property| text(&property["value"])).collect();
        let checksum = text(&component["hashes"][0]["content"]);
        let license = license.with_context(|| format!("{of} has no license"))?;
        let twice = out.insert(of, Crate { features, license, checksum });
        ensure!(twice.is_none(), "a component is named twice: {component}");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let package = |id: &str, name: &str, source: Option<&str>, license: &str| json!({"id": id, "name": name, "version": "1.0.0+b", "source": source, "license": license, "repository": null});
        let needs = |id: &str, kind: Option<&str>| json!({"pkg": id, "dep_kinds": [{"kind": kind, "target": null}]});
        let metadata = json!({
            "packages": [
                package("path#cli", PACKAGE, None, "Apache-2.0"), package("r#a", "a", Some("registry"), "MIT/Apache-2.0"),
                package("r#macro", "macro", Some("registry"), "MIT"), package("r#b", "b", Some("registry"), "ISC"),
            ],
            "resolve": {"nodes": [
                {"id": "path#cli", "deps": [needs("r#a", None), needs("r#macro", None), needs("r#b", Some("build"))]},
                {"id": "r#a", "deps": [needs("r#b", None)]},
                {"id": "r#macro", "deps": [needs("r#a", None)]},
                {"id": "r#b", "deps": []},
            ]},
        });
        let lock = format!(
            "version = 4\n\n[[package]]\nname = \"{PACKAGE}\"\nversion = \"1.0.0+b\"\ndependencies = [\n \"a\",\n]\n\
             \n[[package]]\nname = \"a\"\nversion = \"1.0.0+b\"\nsource = \"registry\"\nchecksum = \"aa\"\n\
             \n[[package]]\nname = \"b\"\nversion = \"1.0.0+b\"\nsource = \"registry\"\nchecksum = \"bb\"\n"
        );
        Facts { metadata, checksums: checksums(&lock), rustc: "1.99.0".to_owned() }
    }

    fn compiled() -> BTreeMap<String, BTreeSet<String>> {
        let features = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        BTreeMap::from([
            ("path#cli".to_owned(), features(&[])),
            ("r#a".to_owned(), features(&["alloc", "std"])),
            ("r#b".to_owned(), features(&[])),
        ])
    }

    #[test]
    fn what_was_compiled_is_named_and_nothing_else() {
        let document = document(&facts(), &compiled()).expect("complete");
        let krate = |features: &[&str], license: &str, checksum: Option<&str>| Crate {
            features: features.iter().map(|name| (*name).to_owned()).collect(),
            license: license.to_owned(),
            checksum: checksum.map(str::to_owned),
        };
        let name = |name: &str| CrateVersion { name: name.to_owned(), version: "1.0.0+b".to_owned() };
        let expected = BTreeMap::from([
            (name(PACKAGE), krate(&[], "Apache-2.0", None)),
            (name("a"), krate(&["alloc", "std"], "MIT OR Apache-2.0", Some("aa"))),
            (name("b"), krate(&[], "ISC", Some("bb"))),
        ]);
        assert_eq!(crates(&document).expect("complete"), expected);
        let purls: Vec<&Value> =
            document["components"].as_array().expect("a list").iter().map(|c| &c["purl"]).collect();
        assert_eq!(
            purls,
            [
                "pkg:cargo/a@1.0.0%2Bb",
                "pkg:cargo/b@1.0.0%2Bb",
                &format!("pkg:pypi/certifi@{CERTIFICATES}"),
                &format!("pkg:generic/musl@{MUSL}"),
                "pkg:github/rust-lang/rust@1.99.0"
            ]
        );
    }

    #[test]
    fn a_document_says_who_needs_whom() {
        let document = document(&facts(), &compiled()).expect("complete");
        let (certificates, musl) = (format!("pkg:pypi/certifi@{CERTIFICATES}"), format!("pkg:generic/musl@{MUSL}"));
        let expected = json!([
            {"ref": "lifeboat-cli@1.0.0+b", "dependsOn": ["pkg:cargo/a@1.0.0%2Bb", musl, "pkg:github/rust-lang/rust@1.99.0", certificates]},
            {"ref": "pkg:cargo/a@1.0.0%2Bb", "dependsOn": ["pkg:cargo/b@1.0.0%2Bb"]},
            {"ref": "pkg:cargo/b@1.0.0%2Bb", "dependsOn": []},
            {"ref": musl, "dependsOn": []},
            {"ref": "pkg:github/rust-lang/rust@1.99.0", "dependsOn": []},
            {"ref": certificates, "dependsOn": []},
        ]);
        assert_eq!(document["dependencies"], expected);
    }

    #[test]
    fn nothing_of_the_moment_is_in_a_document() {
        let document = document(&facts(), &compiled()).expect("complete");
        assert_eq!((document.get("serialNumber"), document["metadata"].get("timestamp")), (None, None));
    }

    #[test]
    fn a_package_that_cargo_does_not_know_is_no_component() {
        let mut compiled = compiled();
        compiled.insert("r#c".to_owned(), BTreeSet::new());
        let error = document(&facts(), &compiled).expect_err("unknown").to_string();
        assert_eq!(error, "cargo metadata has no package r#c");
    }

    #[test]
    fn licenses_are_expressions() {
        for (license, expected) in
            [("MIT/Apache-2.0", "MIT OR Apache-2.0"), ("A / B", "A OR B"), ("A AND (B OR C)", "A AND (B OR C)")]
        {
            assert_eq!(expression(license), expected);
        }
    }
}
