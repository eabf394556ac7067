//! The file of a bundle: it appears complete or not at all.

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The folder in it, which Velero's bundles have.
const FOLDER: &str = "velero-bundle";

/// A bundle that is being written.
pub struct Bundle {
    tar: tar::Builder<GzEncoder<NamedTempFile>>,
    path: PathBuf,
    /// Seconds since 1970: the time of all files in it.
    made: u64,
}

/// A part whose size is not known before it is written: it waits on the disk.
pub struct Part {
    file: std::fs::File,
    pub(crate) bytes: u64,
}

impl Bundle {
    /// Begins the bundle that will lie at this path, readable by its owner only.
    ///
    /// # Errors
    /// When nothing can be written beside it.
    pub fn create(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new()
            .prefix(".bundle-")
            .permissions(std::fs::Permissions::from_mode(0o600))
            .tempfile_in(folder)
            .with_context(|| format!("write into {}", folder.display()))?;
        let made = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default();
        let tar = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        Ok(Self { tar, path: path.to_owned(), made })
    }

    /// Adds a part under this name.
    pub fn add(&mut self, name: &str, mut part: Part) -> Result<()> {
        part.file.seek(SeekFrom::Start(0))?;
        let bytes = part.bytes;
        self.append(name, bytes, part.file.take(bytes))
    }

    /// Adds a text under this name.
    pub(super) fn add_text(&mut self, name: &str, text: &str) -> Result<()> {
        self.append(name, text.len() as u64, text.as_bytes())
    }

    fn append(&mut self, name: &str, bytes: u64, content: impl Read) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_mtime(self.made);
        let path = format!("{FOLDER}/{name}");
        self.tar.append_data(&mut header, &path, content).with_context(|| format!("write {path} of the bundle"))
    }

    /// Ends it and gives it its name; one that is there already is replaced.
    pub fn finish(self) -> Result<()> {
        let wrong = || format!("write {}", self.path.display());
        let file = self.tar.into_inner().and_then(GzEncoder::finish).with_context(wrong)?;
        file.as_file().sync_all().with_context(wrong)?;
        file.persist(&self.path).with_context(wrong)?;
        Ok(())
    }
}

impl Part {
    /// An empty one, on the disk, that goes with the process.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { file: tempfile::tempfile().context("make a file for a part of the bundle")?, bytes: 0 })
    }

    /// Reads its text.
    #[cfg(test)]
    pub fn text(mut self) -> String {
        self.file.seek(SeekFrom::Start(0)).unwrap();
        std::io::read_to_string(self.file).unwrap()
    }
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_replaces_an_older_one_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.tar.gz");
        std::fs::write(&path, "old").unwrap();
        drop(Bundle::create(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        let mut bundle = Bundle::create(&path).unwrap();
        bundle.add_text("version.txt", "one\n").unwrap();
        let mut part = Part::new().unwrap();
        part.write_all(b"two\n").unwrap();
        bundle.add("kubecapture/x.log", part).unwrap();
        bundle.finish().unwrap();
        let mut archive =
            tar::Archive::new(lifeboat_archive::gzip::capped(std::fs::File::open(&path).unwrap(), 1 << 20));
        let found: Vec<(String, String)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                (entry.path().unwrap().display().to_string(), text)
            })
            .collect();
        let expected = [("velero-bundle/version.txt", "one\n"), ("velero-bundle/kubecapture/x.log", "two\n")];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
