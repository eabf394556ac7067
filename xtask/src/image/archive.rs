//! Reads an archive of images back, and refuses one that is not whole.

use anyhow::{Context, Result, bail, ensure};
use lifeboat_testbed::digest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

/// The largest layer that is read: one that is larger is not ours.
const MOST: u64 = 1 << 30;

/// The contents of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Archive {
    /// In the order of its index.
    pub(crate) images: Vec<Image>,
    /// The digest of the configuration that Docker's `manifest.json` names.
    pub(crate) for_docker: String,
}

/// The image of one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) platform: Value,
    /// The digest of its configuration, and what that says.
    pub(crate) config_digest: String,
    pub(crate) config: Value,
    pub(crate) files: BTreeMap<String, File>,
}

/// The file, folder or link at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Kind, permissions, owner, time, and where a link leads, in words.
    pub(crate) about: String,
    pub(crate) content: Vec<u8>,
}

impl Archive {
    /// Reads an archive, and checks every digest and size in it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let files = ArchiveFiles(unpack(bytes).context("the archive")?);
        let index = files.json("index.json")?;
        let top = one(&index["manifests"]).context("index.json")?;
        let listed = if is_of(top, "index.v1+json") {
            let index: Value = serde_json::from_slice(files.blob(top)?).context("the index")?;
            index["manifests"].as_array().cloned().unwrap_or_default()
        } else {
            vec![top.clone()]
        };
        let images = listed.iter().map(|listed| image(&files, listed)).collect::<Result<_>>()?;
        let docker = files.json("manifest.json")?;
        let docker = one(&docker).context("manifest.json")?;
        let path = docker["Config"].as_str().context("manifest.json names no configuration")?;
        Ok(Self { images, for_docker: digest(files.get(path)?) })
    }
}

fn image(files: &ArchiveFiles, listed: &Value) -> Result<Image> {
    ensure!(is_of(listed, "manifest.v1+json"), "the index lists what is no image: {listed}");
    let manifest: Value = serde_json::from_slice(files.blob(listed)?).context("a manifest")?;
    let config: Value = serde_json::from_slice(files.blob(&manifest["config"])?).context("a configuration")?;
    let layer = inflate(files.blob(one(&manifest["layers"])?)?)?;
    let name = one(&config["rootfs"]["diff_ids"])?;
    ensure!(*name == digest(&layer), "a layer is not the one that its configuration names: {name}");
    Ok(Image {
        platform: listed["platform"].clone(),
        config_digest: manifest["config"]["digest"].as_str().unwrap_or_default().to_owned(),
        config,
        files: unpack(&layer).context("a layer")?,
    })
}

struct ArchiveFiles(BTreeMap<String, File>);

impl ArchiveFiles {
    fn get(&self, path: &str) -> Result<&[u8]> {
        Ok(&self.0.get(path).with_context(|| format!("the archive has no {path}"))?.content)
    }

    fn json(&self, path: &str) -> Result<Value> {
        serde_json::from_slice(self.get(path)?).with_context(|| path.to_owned())
    }

    /// The blob of a descriptor.
    fn blob(&self, descriptor: &Value) -> Result<&[u8]> {
        let name = descriptor["digest"].as_str().with_context(|| format!("{descriptor} has no digest"))?;
        let blob = self.get(&format!("blobs/{}", name.replace(':', "/")))?;
        if digest(blob) != name || descriptor["size"].as_u64() != u64::try_from(blob.len()).ok() {
            bail!("a blob of {} bytes with the digest {} is not {descriptor}", blob.len(), digest(blob));
        }
        Ok(blob)
    }
}

fn is_of(descriptor: &Value, kind: &str) -> bool {
    descriptor["mediaType"].as_str().is_some_and(|of| of.strip_prefix("application/vnd.oci.image.") == Some(kind))
}

/// The only item of a list.
fn one(list: &Value) -> Result<&Value> {
    match list.as_array().map(Vec::as_slice) {
        Some([item]) => Ok(item),
        _ => bail!("there is not one item in {list}"),
    }
}

#[allow(clippy::disallowed_types, reason = "it is bounded here")]
fn inflate(packed: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(packed).take(MOST + 1).read_to_end(&mut out).context("decompress a layer")?;
    ensure!(u64::try_from(out.len())? <= MOST, "a layer is larger than {MOST} bytes");
    Ok(out)
}

fn unpack(tar: &[u8]) -> Result<BTreeMap<String, File>> {
    let mut out = BTreeMap::new();
    for entry in tar::Archive::new(tar).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.display().to_string();
        let (header, link) = (entry.header(), entry.link_name()?);
        let about = format!(
            "{:?} {:o} {}:{} at {} to {:?}",
            header.entry_type(),
            header.mode()?,
            header.uid()?,
            header.gid()?,
            header.mtime()?,
            link
        );
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        out.insert(path, File { about, content });
    }
    Ok(out)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use lifeboat_testbed::Entry;

    /// An archive with images of both architectures and this program.
    pub(crate) fn written(program: &[u8]) -> Vec<u8> {
        let image = |architecture: &str| lifeboat_testbed::Image {
            entries: BTreeMap::from([("lifeboat".to_owned(), Entry::File { mode: 0o755, content: program.to_vec() })]),
            architecture: architecture.to_owned(),
            variant: None,
            created: "2024-12-31T23:59:59Z".to_owned(),
            user: "1:1".to_owned(),
            entrypoint: vec!["/lifeboat".to_owned()],
            environment: Vec::new(),
            labels: BTreeMap::new(),
            packing: lifeboat_testbed::Packing::Quick,
        };
        let mut out = Vec::new();
        lifeboat_testbed::Image::write_all("a:1", &[image("amd64"), image("arm64")], &mut out).expect("in memory");
        out
    }

    #[test]
    fn what_was_written_is_read() {
        let archive = Archive::read(&written(b"program")).expect("whole");
        let architectures: Vec<&Value> = archive.images.iter().map(|image| &image.config["architecture"]).collect();
        assert_eq!(architectures, ["amd64", "arm64"]);
        assert_eq!(archive.for_docker, archive.images[0].config_digest);
        let about = "Regular 755 0:0 at 0 to None".to_owned();
        let expected = BTreeMap::from([("lifeboat".to_owned(), File { about, content: b"program".to_vec() })]);
        assert_eq!(archive.images[1].files, expected);
    }

    #[test]
    fn an_archive_that_was_changed_is_refused() {
        let mut bytes = written(b"program");
        let at = bytes.windows(12).position(|window| window == b"\"os\":\"linux\"").expect("a configuration") + 6;
        bytes[at] = b'L';
        let error = Archive::read(&bytes).expect_err("another blob").to_string();
        assert!(error.contains("is not"), "{error}");
        assert!(Archive::read(b"").is_err());
    }
}
