//! The images of the node, made of busybox, because no registry is reached.

use super::place::run;
use crate::{Entry, Image, Packing, VeleroPrograms};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The image of the process that holds the namespaces of a pod.
pub(super) const PAUSE: &str = "testbed.local/pause:1";
/// Lifeboat, and a shell for tests that look around in its container.
pub const LIFEBOAT: &str = "testbed.local/lifeboat:1";
/// Velero itself.
pub const VELERO: &str = "testbed.local/velero:1";
/// Velero's plugin for S3, which an init container copies into its server.
pub const VELERO_PLUGIN: &str = "testbed.local/velero-plugin-for-aws:1";
/// A shell and what belongs to it.
const BUSYBOX: &str = "testbed.local/busybox:1";
/// Debian's busybox.
const SHELL: &str = "/usr/bin/busybox";
/// The certificates of public authorities, which TLS clients look for at their start.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Writes the images and gives their files.
pub(super) fn write(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = busybox(Path::new(SHELL))?;
    let images = [
        ("pause.tar", PAUSE, image(entries.clone(), &["/bin/sleep", "2147483647"])),
        ("busybox.tar", BUSYBOX, image(entries, &["/bin/sh"])),
    ];
    let mut files = Vec::new();
    for (file, name, image) in images {
        let path = folder.join(file);
        image.write(name, BufWriter::new(File::create(&path)?))?;
        files.push(path);
    }
    Ok(files)
}

/// Writes the image of a program that is Lifeboat and gives its file. The program goes in without its symbols, which are half of
/// it.
pub(super) fn write_program(program: &Path, folder: &Path) -> Result<PathBuf> {
    let mut entries = busybox(Path::new(SHELL))?;
    add_libraries(&mut entries, program)?;
    let stripped = folder.join("lifeboat.stripped");
    run(Command::new("strip").arg("-o").arg(&stripped).arg(program))?;
    add(&mut entries, &stripped, "lifeboat")?;
    std::fs::remove_file(&stripped)?;
    for name in ["velero", "velero-helper", "velero-restore-helper"] {
        entries.insert(name.to_owned(), Entry::SameAs("lifeboat".to_owned()));
    }
    add(&mut entries, Path::new(AUTHORITIES), AUTHORITIES.trim_start_matches('/'))?;
    let mut image = image(entries, &["/velero"]);
    // As in the image that is published: a kubelet knows by the number that it is not root.
    image.user = "65532:65532".to_owned();
    image.environment = vec!["PATH=/:/bin".to_owned(), "HOME=/tmp".to_owned()];
    let path = folder.join("lifeboat.tar");
    image.write(LIFEBOAT, BufWriter::new(File::create(&path)?))?;
    Ok(path)
}

/// Writes the images of Velero's server, node agent and movers, and of its plugin, and gives their files.
pub(super) fn write_velero(programs: &VeleroPrograms, folder: &Path) -> Result<[PathBuf; 2]> {
    let write = |name: &str, file: &str, image: &Image| {
        let path = folder.join(file);
        image.write(name, BufWriter::new(File::create(&path)?)).map(|()| path)
    };
    let mut entries = busybox(Path::new(SHELL))?;
    add(&mut entries, &programs.velero, "velero")?;
    add(&mut entries, &programs.restore_helper, "velero-restore-helper")?;
    add(&mut entries, Path::new(AUTHORITIES), AUTHORITIES.trim_start_matches('/'))?;
    let mut server = image(entries, &["/velero"]);
    server.user = "65532:65532".to_owned();
    server.environment = vec!["PATH=/:/bin".to_owned(), "HOME=/tmp".to_owned()];
    let mut entries = busybox(Path::new(SHELL))?;
    add(&mut entries, &programs.plugin, "plugins/velero-plugin-for-aws")?;
    let plugin = image(entries, &["/bin/sh", "-c", "cp /plugins/* /target/"]);
    Ok([write(VELERO, "velero.tar", &server)?, write(VELERO_PLUGIN, "velero-plugin.tar", &plugin)?])
}

fn image(entries: BTreeMap<String, Entry>, entrypoint: &[&str]) -> Image {
    Image {
        entries,
        architecture: if std::env::consts::ARCH == "aarch64" { "arm64" } else { "amd64" }.to_owned(),
        variant: None,
        created: "1970-01-01T00:00:00Z".to_owned(),
        user: "0:0".to_owned(),
        entrypoint: entrypoint.iter().map(|word| (*word).to_owned()).collect(),
        environment: vec!["PATH=/bin".to_owned()],
        labels: BTreeMap::new(),
        packing: Packing::Quick,
    }
}

/// A file system of busybox, the libraries that it names, and its commands as links.
fn busybox(program: &Path) -> Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    for (path, mode) in [("bin", 0o755), ("etc", 0o755), ("proc", 0o755), ("root", 0o700), ("sys", 0o755)] {
        entries.insert(path.to_owned(), Entry::Directory { mode });
    }
    entries.insert("tmp".to_owned(), Entry::Directory { mode: 0o1777 });
    let text = |content: &str| Entry::File { mode: 0o644, content: content.as_bytes().to_vec() };
    entries
        .insert("etc/passwd".to_owned(), text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"));
    entries.insert("etc/group".to_owned(), text("root:x:0:\nnogroup:x:65534:\n"));
    add(&mut entries, program, "bin/busybox")?;
    add_libraries(&mut entries, program)?;
    let commands = Command::new(program).arg("--list").output().context("run busybox")?;
    let commands = String::from_utf8_lossy(&commands.stdout).into_owned();
    if commands.is_empty() {
        bail!("busybox lists no commands");
    }
    for command in commands.lines().filter(|command| *command != "busybox") {
        entries.insert(format!("bin/{command}"), Entry::Link("/bin/busybox".to_owned()));
    }
    Ok(entries)
}

/// Adds the libraries that a program names.
fn add_libraries(entries: &mut BTreeMap<String, Entry>, program: &Path) -> Result<()> {
    let linked = Command::new("ldd").arg(program).output().context("run ldd")?;
    for library in libraries(&String::from_utf8_lossy(&linked.stdout)) {
        add(entries, Path::new(&library), library.trim_start_matches('/'))?;
    }
    Ok(())
}

/// Adds a file, and the directories on the way to it.
fn add(entries: &mut BTreeMap<String, Entry>, from: &Path, to: &str) -> Result<()> {
    for (at, _) in to.match_indices('/') {
        entries.entry(to[..at].to_owned()).or_insert(Entry::Directory { mode: 0o755 });
    }
    let content = std::fs::read(from).with_context(|| format!("read {}", from.display()))?;
    entries.insert(to.to_owned(), Entry::File { mode: 0o755, content });
    Ok(())
}

/// The files in what `ldd` prints: `libc.so.6 => /lib/libc.so.6 (0x…)`, `/lib64/ld-linux.so.2 (0x…)`.
fn libraries(ldd: &str) -> Vec<String> {
    let paths = ldd.lines().filter_map(|line| line.split_whitespace().rev().nth(1));
    paths.filter(|path| path.starts_with('/')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_program_are_those_with_a_path() {
        let printed =
            "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(libraries(printed), ["/lib/x/libc.so.6", "/lib64/ld.so.2"]);
        assert_eq!(libraries("\tnot a dynamic executable\n"), Vec::<String>::new());
    }
}
