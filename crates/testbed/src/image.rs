//! Writes an OCI image as one archive: `oci-layout`, `index.json` and blobs, with nothing of the machine or the moment
//! in it, so that the same input gives the same bytes.

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write;

/// What lies in an image at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory.
    Directory {
        /// Its permission bits.
        mode: u32,
    },
    /// A file.
    File {
        /// Its permission bits.
        mode: u32,
        /// Its bytes.
        content: Vec<u8>,
    },
    /// Another name of a file, whose path must sort before.
    SameAs(String),
    /// A symbolic link to this path.
    Link(String),
}

/// What an image consists of.
#[derive(Clone, Debug)]
pub struct Image {
    /// By path, without the slash at the beginning.
    pub entries: BTreeMap<String, Entry>,
    /// How container engines call it.
    pub name: String,
    /// `amd64`.
    pub architecture: String,
    /// Numbers of user and group: kubelets cannot know that a name is not root's.
    pub user: String,
    /// The program that containers run, with its first arguments.
    pub entrypoint: Vec<String>,
    /// As `NAME=value`.
    pub environment: Vec<String>,
    /// What the image says of itself.
    pub labels: BTreeMap<String, String>,
}

const LAYOUT: &str = "application/vnd.oci.image";
/// No image is older.
const EPOCH: &str = "1970-01-01T00:00:00Z";

impl Image {
    /// Writes the archive.
    ///
    /// # Errors
    /// When it cannot be written, or an entry has no room in the archive's format.
    pub fn write(&self, out: impl Write) -> Result<()> {
        let layer = self.layer()?;
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&layer)?;
        let packed = packed.finish()?;
        let config = json!({
            "created": EPOCH, "architecture": self.architecture, "os": "linux",
            "config": {
                "User": self.user, "Entrypoint": self.entrypoint, "WorkingDir": "/",
                "Env": self.environment, "Labels": self.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
            "history": [{"created": EPOCH, "created_by": "cargo xtask image"}],
        })
        .to_string()
        .into_bytes();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": format!("{LAYOUT}.manifest.v1+json"),
            "config": descriptor("config.v1+json", &config),
            "layers": [descriptor("layer.v1.tar+gzip", &packed)],
        })
        .to_string()
        .into_bytes();
        let mut listed = descriptor("manifest.v1+json", &manifest);
        listed["platform"] = json!({"architecture": self.architecture, "os": "linux"});
        let tag = self.name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
        listed["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        // A kubelet looks for the full name; an image that containerd holds under a shorter one spoils the other names too.
        if has_host(&self.name) {
            listed["annotations"]["io.containerd.image.name"] = json!(self.name);
        }
        let index = json!({"schemaVersion": 2, "mediaType": format!("{LAYOUT}.index.v1+json"), "manifests": [listed]});
        let mut files = BTreeMap::from([
            ("index.json".to_owned(), index.to_string().into_bytes()),
            ("oci-layout".to_owned(), json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes()),
        ]);
        for blob in [config, manifest, packed] {
            files.insert(format!("blobs/{}", digest(&blob).replace(':', "/")), blob);
        }
        let directories = ["blobs", "blobs/sha256"].map(|path| (path.to_owned(), Entry::Directory { mode: 0o755 }));
        let files = files.into_iter().map(|(path, content)| (path, Entry::File { mode: 0o644, content }));
        tar(&files.chain(directories).collect(), out)
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        tar(&self.entries, &mut out)?;
        Ok(out)
    }
}

fn tar(entries: &BTreeMap<String, Entry>, out: impl Write) -> Result<()> {
    let mut tar = tar::Builder::new(out);
    for (path, entry) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        let mut content: &[u8] = &[];
        match entry {
            Entry::Directory { mode } => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(*mode);
            }
            Entry::File { mode, content: bytes } => {
                header.set_entry_type(tar::EntryType::Regular);
                header.set_mode(*mode);
                content = bytes;
            }
            Entry::SameAs(target) => {
                header.set_entry_type(tar::EntryType::Link);
                header.set_mode(0o755);
                header.set_link_name(target).with_context(|| format!("link {path} to {target}"))?;
            }
            Entry::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_mode(0o777);
                header.set_link_name(target).with_context(|| format!("link {path} to {target}"))?;
            }
        }
        header.set_size(content.len().try_into()?);
        let slash = if matches!(entry, Entry::Directory { .. }) { "/" } else { "" };
        tar.append_data(&mut header, format!("{path}{slash}"), content).with_context(|| format!("write {path}"))?;
    }
    tar.into_inner()?.flush()?;
    Ok(())
}

fn descriptor(kind: &str, blob: &[u8]) -> Value {
    json!({"mediaType": format!("{LAYOUT}.{kind}"), "digest": digest(blob), "size": blob.len()})
}

/// Whether a name begins with a registry's host.
fn has_host(name: &str) -> bool {
    name.split_once('/').is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost")
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken image fails the test")]
#[allow(clippy::disallowed_types, reason = "what is decompressed was written just before")]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    fn image() -> Image {
        let file = |content: &[u8]| Entry::File { mode: 0o755, content: content.to_vec() };
        Image {
            entries: BTreeMap::from([
                ("a".to_owned(), file(b"program")),
                ("b".to_owned(), Entry::SameAs("a".to_owned())),
                ("c".to_owned(), Entry::Link("/a".to_owned())),
                ("tmp".to_owned(), Entry::Directory { mode: 0o1777 }),
            ]),
            name: "example.com/a:v1".to_owned(),
            architecture: "amd64".to_owned(),
            user: "65532:65532".to_owned(),
            entrypoint: vec!["/a".to_owned()],
            environment: vec!["A=b".to_owned()],
            labels: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        }
    }

    fn written(image: &Image) -> Vec<u8> {
        let mut out = Vec::new();
        image.write(&mut out).unwrap();
        out
    }

    /// Path, mode, time, and what is there.
    fn unpack(tar: &[u8]) -> BTreeMap<String, (u32, u64, Vec<u8>)> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let header = entry.header().clone();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if let Some(target) = header.link_name().unwrap() {
                content = format!("-> {}", target.display()).into_bytes();
            }
            let path = entry.path().unwrap().display().to_string();
            (path, (header.mode().unwrap(), header.mtime().unwrap(), content))
        });
        entries.collect()
    }

    #[test]
    fn what_is_written_is_an_image() {
        let files = unpack(&written(&image()));
        let read = |path: &str| -> Value { serde_json::from_slice(&files[path].2).unwrap() };
        assert_eq!(read("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}));
        let index = read("index.json");
        let listed = &index["manifests"][0];
        assert_eq!(
            listed["annotations"],
            json!({"org.opencontainers.image.ref.name": "v1", "io.containerd.image.name": "example.com/a:v1"})
        );
        assert_eq!(listed["platform"], json!({"architecture": "amd64", "os": "linux"}));
        // Every blob is where its digest says, and as large as is said.
        let blob = |descriptor: &Value| {
            let name = descriptor["digest"].as_str().unwrap();
            let bytes = &files[&format!("blobs/{}", name.replace(':', "/"))].2;
            assert_eq!((digest(bytes).as_str(), json!(bytes.len())), (name, descriptor["size"].clone()));
            bytes.clone()
        };
        let manifest: Value = serde_json::from_slice(&blob(listed)).unwrap();
        assert_eq!(manifest["mediaType"], listed["mediaType"]);
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        assert_eq!(
            config["config"],
            json!({"User": "65532:65532", "Entrypoint": ["/a"], "WorkingDir": "/", "Env": ["A=b"], "Labels": {"k": "v"}})
        );
        let mut layer = Vec::new();
        GzDecoder::new(blob(&manifest["layers"][0]).as_slice()).read_to_end(&mut layer).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"], json!([digest(&layer)]));
        assert_eq!(
            unpack(&layer),
            BTreeMap::from([
                ("a".to_owned(), (0o755, 0, b"program".to_vec())),
                ("b".to_owned(), (0o755, 0, b"-> a".to_vec())),
                ("c".to_owned(), (0o777, 0, b"-> /a".to_vec())),
                ("tmp/".to_owned(), (0o1777, 0, Vec::new())),
            ])
        );
        assert_eq!(files.len(), 2 + 2 + 3, "two directories, two files, three blobs");
    }

    #[test]
    fn only_full_names_are_for_containerd() {
        for (name, full) in
            [("example/a:v1", false), ("example.com/a:v1", true), ("localhost/a", true), ("a:v1", false)]
        {
            assert_eq!(has_host(name), full, "{name}");
            let image = Image { name: name.to_owned(), ..image() };
            let files = unpack(&written(&image));
            let index: Value = serde_json::from_slice(&files["index.json"].2).unwrap();
            let annotation = &index["manifests"][0]["annotations"]["io.containerd.image.name"];
            assert_eq!(annotation.as_str(), full.then_some(name), "{name}");
        }
    }

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        assert_eq!(written(&image()), written(&image()));
        let mut other = image();
        other.user = "1".to_owned();
        assert_ne!(written(&image()), written(&other));
    }
}
