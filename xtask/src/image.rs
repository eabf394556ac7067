//! `cargo xtask image`: the container image of all architectures, made without a container engine.

pub(crate) mod architecture;
pub(crate) mod archive;
pub(crate) mod compile;
pub(crate) mod difference;
pub(crate) mod elf;
pub(crate) mod sbom;
mod tools;

use crate::timed;
use anyhow::{Context, Result, bail, ensure};
use architecture::Architecture;
use compile::{BuildSource, BuildTree, Compiled};
use lifeboat_testbed::{Entry, Image, Packing};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The user of the server; a number, so that a kubelet knows that it is not root.
pub(crate) const USER: &str = "65532:65532";
/// The certificates of public authorities: the first place where the TLS library looks for them.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
/// The path of the bill of materials (SBOM) of the program.
pub(crate) const SBOM: &str = "usr/share/doc/lifeboat/sbom.cdx.json";
/// The program.
pub(crate) const PROGRAM: &str = "lifeboat";

/// Builds the programs, unless they are given, and writes the image.
///
/// `--architecture NAME` makes it for `amd64` or `arm64` alone; `--binary FILE` takes a program that is there, for the
/// architecture that it is for, without a list of what it is made of, and may be given for each; `--output FILE` is
/// where the image goes (`lifeboat-image.tar` in cargo's target folder), and beside it what each program is made of;
/// `--name NAME` is how container engines will call it; `--profile NAME` is how it is compiled (`dist`).
pub(crate) fn image(args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    let place = BuildTree::here()?;
    let output = options.output.clone().unwrap_or_else(|| place.target.join("lifeboat-image.tar"));
    let made = if options.binaries.is_empty() {
        make(&place, &BuildSource::of(&place.sources)?, &options)?
    } else {
        let programs = options.binaries.iter().map(|path| Program::read(path.clone())).collect::<Result<Vec<_>>>()?;
        let nowhere = BuildSource { commit: None, time: 0 };
        pack(&nowhere, &options.name, programs)?
    };
    let write = |path: &Path, bytes: &[u8]| -> Result<()> {
        std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
        Ok(())
    };
    for program in &made.programs {
        if let Some(sbom) = &program.sbom {
            write(&output.with_extension(format!("{}.cdx.json", program.architecture.name())), sbom)?;
        }
    }
    write(&output, &made.archive)
}

/// An image as one file, and what is in it.
pub(crate) struct BuiltImage {
    pub(crate) archive: Vec<u8>,
    pub(crate) programs: Vec<Program>,
}

/// The program of one architecture.
pub(crate) struct Program {
    pub(crate) architecture: Architecture,
    path: PathBuf,
    content: Vec<u8>,
    /// Its bill of materials, where that is known.
    pub(crate) sbom: Option<Vec<u8>>,
}

impl Program {
    fn read(path: PathBuf) -> Result<Self> {
        let content = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let architecture =
            elf::static_program(&content).with_context(|| format!("{} cannot run alone", path.display()))?;
        Ok(Self { architecture, path, content, sbom: None })
    }
}

/// Builds the image from a tree of sources.
pub(crate) fn make(place: &BuildTree, source: &BuildSource, options: &Options) -> Result<BuiltImage> {
    let compiled = compile::compile(place, &options.profile, source, &options.architectures)?;
    let program = |(architecture, compiled): (&Architecture, &Compiled)| -> Result<Program> {
        let mut program = Program::read(compiled.program.clone())?;
        ensure!(program.architecture == *architecture, "{} is for another architecture", program.path.display());
        program.sbom = Some(sbom::sbom(place, source, compiled, &program.content)?);
        Ok(program)
    };
    pack(source, &options.name, compiled.iter().map(program).collect::<Result<_>>()?)
}

fn pack(source: &BuildSource, name: &str, mut programs: Vec<Program>) -> Result<BuiltImage> {
    programs.sort_by_key(|program| program.architecture);
    let of: Vec<Architecture> = programs.iter().map(|program| program.architecture).collect();
    ensure!(of.windows(2).all(|two| two[0] != two[1]), "two programs are for one architecture");
    let mut archive = Vec::new();
    timed("image", || {
        let easiest = Architecture::easiest(&of).context("an image without a program")?;
        let easiest = programs.iter().find(|program| program.architecture == easiest).context("no program to run")?;
        let authorities = tools::certificates()?;
        let authorities = std::fs::read(&authorities).with_context(|| format!("read {}", authorities.display()))?;
        let mut others = documentation(easiest)?;
        others.insert(AUTHORITIES.to_owned(), file(authorities));
        let assemble = |program: &Program| assemble(program, &others, source);
        Image::write_all(name, &programs.iter().map(assemble).collect::<Result<Vec<_>>>()?, &mut archive)
    })?;
    Ok(BuiltImage { archive, programs })
}

/// The scripts that complete command lines, and where shells look for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/lifeboat"),
    ("zsh", "usr/share/zsh/site-functions/_lifeboat"),
    ("fish", "usr/share/fish/vendor_completions.d/lifeboat.fish"),
];
/// The folder of man pages.
const MAN_PAGES: &str = "usr/share/man/man1";

/// Man pages and completions as the program itself writes them, which is the same for all architectures: for people who
/// copy them out of the image. Called by its name alone, so that the scripts find the program wherever it is.
fn documentation(program: &Program) -> Result<BTreeMap<String, Entry>> {
    let call = |arguments: &[&str]| -> Result<Vec<u8>> {
        let output = program.architecture.run(&program.path, "lifeboat")?.args(arguments).output();
        let output = output.with_context(|| format!("run {}", program.path.display()))?;
        if !output.status.success() {
            bail!("lifeboat {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(output.stdout)
    };
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
    Ok(out)
}

fn file(content: Vec<u8>) -> Entry {
    Entry::File { mode: 0o644, content }
}

/// The directories that a path goes through.
fn ancestors(path: &str) -> Vec<String> {
    path.match_indices('/').map(|(at, _)| path[..at].to_owned()).collect()
}

/// Options of the image.
pub(crate) struct Options {
    pub(crate) architectures: Vec<Architecture>,
    pub(crate) binaries: Vec<PathBuf>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) name: String,
    pub(crate) profile: String,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            architectures: Architecture::ALL.into(),
            binaries: Vec::new(),
            output: None,
            name: format!("lifeboat/lifeboat:v{}", env!("CARGO_PKG_VERSION")),
            profile: "dist".to_owned(),
        };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let value = args.next().with_context(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--architecture" => options.architectures = vec![Architecture::of_name(value)?],
                "--binary" => options.binaries.push(value.into()),
                "--output" => options.output = Some(value.into()),
                "--name" => options.name.clone_from(value),
                "--profile" => options.profile.clone_from(value),
                other => bail!("unknown flag {other:?}: --architecture, --binary, --output, --name or --profile"),
            }
        }
        Ok(options)
    }
}

/// The image: one program under four names, and what it needs of a file system.
fn assemble(program: &Program, others: &BTreeMap<String, Entry>, source: &BuildSource) -> Result<Image> {
    let mut entries = others.clone();
    entries.insert(PROGRAM.to_owned(), Entry::File { mode: 0o755, content: program.content.clone() });
    for other in ["velero", "velero-helper", "velero-restore-helper"] {
        entries.insert(other.to_owned(), Entry::SameAs(PROGRAM.to_owned()));
    }
    if let Some(sbom) = &program.sbom {
        entries.insert(SBOM.to_owned(), file(sbom.clone()));
    }
    let directories: Vec<String> = entries.keys().flat_map(|path| ancestors(path)).collect();
    entries.extend(directories.into_iter().map(|path| (path, Entry::Directory { mode: 0o755 })));
    entries.insert("tmp".to_owned(), Entry::Directory { mode: 0o1777 });
    let created = source.created()?;
    let labels = [
        ("org.opencontainers.image.title", Some("Lifeboat")),
        ("org.opencontainers.image.version", Some(env!("CARGO_PKG_VERSION"))),
        ("org.opencontainers.image.licenses", Some("Apache-2.0")),
        ("org.opencontainers.image.created", Some(created.as_str())),
        ("org.opencontainers.image.revision", source.commit.as_deref()),
    ];
    let labels = labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))).collect();
    Ok(Image {
        entries,
        architecture: program.architecture.name().to_owned(),
        variant: program.architecture.variant().map(str::to_owned),
        created,
        user: USER.to_owned(),
        entrypoint: vec!["/velero".to_owned()],
        // `lifeboat local` keeps its state in the home, and the user has no other place to write to.
        environment: vec!["PATH=/".to_owned(), "HOME=/tmp".to_owned()],
        labels,
        packing: Packing::Small,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn all_names_are_one_program() {
        let program = Program {
            architecture: Architecture::Arm64,
            path: PathBuf::new(),
            content: b"program".to_vec(),
            sbom: Some(b"parts".to_vec()),
        };
        let others = BTreeMap::from([(AUTHORITIES.to_owned(), file(b"PEM".to_vec()))]);
        let source = BuildSource { commit: Some("abc".to_owned()), time: 1 };
        let image = assemble(&program, &others, &source).expect("a time");
        let same: Vec<&str> = image
            .entries
            .iter()
            .filter(|(_, entry)| **entry == Entry::SameAs("lifeboat".to_owned()))
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(same, ["velero", "velero-helper", "velero-restore-helper"]);
        assert_eq!(image.entries["tmp"], Entry::Directory { mode: 0o1777 });
        assert_eq!(image.entries[AUTHORITIES], file(b"PEM".to_vec()));
        assert_eq!(image.entries[SBOM], file(b"parts".to_vec()));
        // Every directory on the way is there, so that its mode is ours to say.
        for path in image.entries.keys().filter_map(|path| path.rsplit_once('/')).map(|(parent, _)| parent) {
            assert!(matches!(image.entries.get(path), Some(Entry::Directory { .. })), "{path}");
        }
        assert_eq!((image.user.as_str(), &image.entrypoint[..]), (USER, &["/velero".to_owned()][..]));
        assert_eq!((image.architecture.as_str(), image.variant.as_deref()), ("arm64", Some("v8")));
        assert_eq!(image.labels["org.opencontainers.image.revision"], "abc");
        assert_eq!(image.created, "1970-01-01T00:00:01Z");
    }

    #[test]
    fn an_image_is_for_all_architectures_or_for_one() {
        let of = |text: &str| Options::parse(&arguments(text)).map(|options| options.architectures);
        assert_eq!(of("").expect("defaults"), Architecture::ALL);
        assert_eq!(of("--architecture arm64").expect("known"), [Architecture::Arm64]);
        assert!(of("--architecture riscv64").is_err());
        assert!(of("--architecture").is_err());
        assert!(of("--wrong x").is_err());
    }

    #[test]
    fn directories_on_the_way_to_a_file_are_named() {
        assert_eq!(ancestors("usr/share/man/x.1"), ["usr", "usr/share", "usr/share/man"]);
    }
}
