//! `cargo xtask image`: the container image, made without a container engine.

use crate::{cargo, edges, run, timed};
use anyhow::{Context, Result, bail};
use lifeboat_testbed::{Entry, Image};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user of the server; a number, so that a kubelet knows that it is not root.
const USER: &str = "65532:65532";
/// The certificates of public authorities: the first place where the TLS library looks for them.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Builds the binary, unless one is given, and writes the image.
///
/// `--binary FILE` takes a binary that is there; `--output FILE` is where the image goes (`lifeboat-image.tar` beside the
/// build); `--name NAME` is how container engines will call it; `--profile NAME` is how it is compiled (`dist`).
pub(crate) fn image(args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(&options.profile)?,
    };
    let output = options.output.unwrap_or_else(|| binary.with_file_name("lifeboat-image.tar"));
    timed("image", || write(&binary, options.name, &output))?;
    println!("{}", output.display());
    Ok(())
}

fn write(binary: &Path, name: String, output: &Path) -> Result<()> {
    let content = std::fs::read(binary).with_context(|| format!("read {}", binary.display()))?;
    check_static(&content).with_context(|| format!("{} cannot run alone", binary.display()))?;
    let authorities = Path::new("/").join(AUTHORITIES);
    let authorities = std::fs::read(&authorities)
        .with_context(|| format!("read {}: install your distribution's ca-certificates", authorities.display()))?;
    let file = File::create(output).with_context(|| format!("create {}", output.display()))?;
    let mut image = assemble(content, authorities, name);
    image.entries.extend(documentation(binary)?);
    image.write(BufWriter::new(file))
}

/// The scripts that complete command lines, and where shells look for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/lifeboat"),
    ("zsh", "usr/share/zsh/site-functions/_lifeboat"),
    ("fish", "usr/share/fish/vendor_completions.d/lifeboat.fish"),
];
/// Where man pages lie.
const MAN_PAGES: &str = "usr/share/man/man1";

/// Man pages and completions as the program itself writes them, with the directories on the way: for who copies them out of the
/// image. Called by its name alone, so that the scripts find the program wherever it is.
fn documentation(program: &Path) -> Result<BTreeMap<String, Entry>> {
    let call = |arguments: &[&str]| -> Result<Vec<u8>> {
        let output = Command::new(program).arg0("lifeboat").args(arguments).output();
        let output = output.with_context(|| format!("run {}", program.display()))?;
        if !output.status.success() {
            bail!("lifeboat {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(output.stdout)
    };
    let file = |content| Entry::File { mode: 0o644, content };
    let mut out = BTreeMap::new();
    for (shell, path) in COMPLETIONS {
        out.insert(path.to_owned(), file(call(&["completion", shell])?));
    }
    let pages = tempfile::tempdir().context("make a directory for man pages")?;
    call(&["man", &pages.path().display().to_string()])?;
    for page in std::fs::read_dir(pages.path())? {
        let page = page?;
        let path = format!("{MAN_PAGES}/{}", page.file_name().to_string_lossy());
        out.insert(path, file(std::fs::read(page.path())?));
    }
    let directories: Vec<String> = out.keys().flat_map(|path| ancestors(path)).collect();
    out.extend(directories.into_iter().map(|path| (path, Entry::Directory { mode: 0o755 })));
    Ok(out)
}

/// The directories that a path goes through.
fn ancestors(path: &str) -> Vec<String> {
    path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect()
}

struct Options {
    binary: Option<PathBuf>,
    output: Option<PathBuf>,
    name: String,
    profile: String,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let name = format!("lifeboat/lifeboat:v{}", env!("CARGO_PKG_VERSION"));
        let mut options = Self { binary: None, output: None, name, profile: "dist".to_owned() };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let value = args.next().with_context(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--binary" => options.binary = Some(value.into()),
                "--output" => options.output = Some(value.into()),
                "--name" => options.name.clone_from(value),
                "--profile" => options.profile.clone_from(value),
                other => bail!("unknown flag {other:?}: --binary, --output, --name or --profile"),
            }
        }
        Ok(options)
    }
}

/// A binary that needs no file of any distribution.
fn build(profile: &str) -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output().context("run rustup")?;
    if !String::from_utf8_lossy(&installed.stdout).lines().any(|line| line == target) {
        run("musl target", Command::new("rustup").args(["target", "add", &target]))?;
    }
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        bail!("musl-gcc is missing, which compiles the C parts: install your distribution's musl-tools");
    }
    let arguments = ["build", "--locked", "--bin", "lifeboat", "--profile", profile, "--target", &target];
    run("binary", cargo().args(arguments))?;
    // Cargo's one exception: the folder of the profile `dev`.
    let profile = if profile == "dev" { "debug" } else { profile };
    Ok(edges::target_folder()?.join(target).join(profile).join("lifeboat"))
}

/// Refuses a program that names a loader: there is none in the image.
fn check_static(elf: &[u8]) -> Result<()> {
    const INTERPRETER: u32 = 3;
    let number = |at: usize, size: usize| -> Result<usize> {
        let bytes = elf.get(at..at + size).context("it is cut off")?;
        Ok(bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)))
    };
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        bail!("it is no 64-bit little-endian ELF program");
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for header in 0..count {
        if u32::try_from(number(table + header * size, 4)?) == Ok(INTERPRETER) {
            bail!("it is linked dynamically");
        }
    }
    Ok(())
}

/// The image: one program under four names (cli-and-install.md 1.1), and what it needs of a file system.
fn assemble(program: Vec<u8>, authorities: Vec<u8>, name: String) -> Image {
    const PROGRAM: &str = "lifeboat";
    let directory = |path: &str, mode: u32| (path.to_owned(), Entry::Directory { mode });
    let mut entries = BTreeMap::from([
        directory("etc", 0o755),
        directory("etc/ssl", 0o755),
        directory("etc/ssl/certs", 0o755),
        directory("tmp", 0o1777),
        (AUTHORITIES.to_owned(), Entry::File { mode: 0o644, content: authorities }),
        (PROGRAM.to_owned(), Entry::File { mode: 0o755, content: program }),
    ]);
    for other in ["velero", "velero-helper", "velero-restore-helper"] {
        entries.insert(other.to_owned(), Entry::SameAs(PROGRAM.to_owned()));
    }
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let labels = [
        ("org.opencontainers.image.title", "Lifeboat"),
        ("org.opencontainers.image.version", env!("CARGO_PKG_VERSION")),
        ("org.opencontainers.image.licenses", "Apache-2.0"),
    ];
    Image {
        entries,
        name,
        architecture: architecture.to_owned(),
        user: USER.to_owned(),
        entrypoint: vec!["/velero".to_owned()],
        // `lifeboat local` keeps its state in the home, and the user has no other place to write to.
        environment: vec!["PATH=/".to_owned(), "HOME=/tmp".to_owned()],
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_are_one_program() {
        let image = assemble(b"program".to_vec(), b"PEM".to_vec(), "a:1".to_owned());
        let same: Vec<&str> = image
            .entries
            .iter()
            .filter(|(_, entry)| **entry == Entry::SameAs("lifeboat".to_owned()))
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(same, ["velero", "velero-helper", "velero-restore-helper"]);
        assert_eq!(image.entries["tmp"], Entry::Directory { mode: 0o1777 });
        assert_eq!(image.entries[AUTHORITIES], Entry::File { mode: 0o644, content: b"PEM".to_vec() });
        // Every directory on the way is there, so that its mode is ours to say.
        for path in image.entries.keys().filter_map(|path| path.rsplit_once('/')).map(|(parent, _)| parent) {
            assert!(matches!(image.entries.get(path), Some(Entry::Directory { .. })), "{path}");
        }
        assert_eq!((image.user.as_str(), &image.entrypoint[..]), (USER, &["/velero".to_owned()][..]));
    }

    #[test]
    fn directories_on_the_way_to_a_file_are_named() {
        assert_eq!(ancestors("usr/share/man/x.1"), ["usr", "usr/share", "usr/share/man"]);
    }

    /// A program with these kinds of program headers.
    fn elf(kinds: &[u32]) -> Vec<u8> {
        let mut out = vec![0; 64];
        out[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (out[32], out[54], out[56]) = (64, 56, u8::try_from(kinds.len()).expect("a few"));
        for kind in kinds {
            out.extend(kind.to_le_bytes());
            out.resize(out.len() + 52, 0);
        }
        out
    }

    #[test]
    fn programs_that_need_a_loader_are_refused() {
        check_static(&elf(&[6, 1, 1, 2])).expect("a static program");
        assert_eq!(check_static(&elf(&[6, 3, 1])).expect_err("an interpreter").to_string(), "it is linked dynamically");
        assert!(check_static(b"#!/bin/sh\n").is_err());
        let cut = elf(&[1, 1]);
        assert!(check_static(&cut[..80]).is_err());
    }
}
