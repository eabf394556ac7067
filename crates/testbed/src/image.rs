//! Writes an OCI image as one archive: `oci-layout`, `index.json` and blobs, with nothing of the machine or the moment
//! in it, so that the same input gives the same bytes. The archive also has Docker's `manifest.json`, because its classic
//! image store reads no index.

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Write;

/// An entry of an image: the file, folder or link at one path.
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

/// The parts of the image of one architecture.
#[derive(Clone, Debug)]
pub struct Image {
    /// By path, without the slash at the beginning.
    pub entries: BTreeMap<String, Entry>,
    /// `amd64`.
    pub architecture: String,
    /// The variant of the architecture: `v8`.
    pub variant: Option<String>,
    /// When it was made, in the form `2024-12-31T23:59:59Z`: of something that makes the same bytes, the time of its source.
    pub created: String,
    /// Numbers of user and group: kubelets cannot know that a name is not root's.
    pub user: String,
    /// The program that containers run, with its first arguments.
    pub entrypoint: Vec<String>,
    /// As `NAME=value`.
    pub environment: Vec<String>,
    /// Labels of the image, which describe it.
    pub labels: BTreeMap<String, String>,
    /// The compression of its files.
    pub packing: Packing,
}

/// The effort for the compression of an image's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As small as can be: for an image that travels.
    Small,
    /// In little time: for an image that is used where it is made.
    Quick,
}

const LAYOUT: &str = "application/vnd.oci.image";

impl Image {
    /// Writes the archive of one image. Container engines will call it by this name.
    ///
    /// # Errors
    /// When it cannot be written, or an entry has no room in the archive's format.
    pub fn write(&self, name: &str, out: impl Write) -> Result<()> {
        Self::write_all(name, std::slice::from_ref(self), out)
    }

    /// Writes one archive with the images of several architectures, under one name. Of several there is an index, out of which
    /// container engines take that of their machine. An engine that reads Docker's `manifest.json` gets the first.
    ///
    /// # Errors
    /// When there is none, one cannot be written, or an entry has no room in the archive's format.
    pub fn write_all(name: &str, images: &[Self], out: impl Write) -> Result<()> {
        ensure!(!images.is_empty(), "an archive of no image");
        let mut blobs = Vec::new();
        let mut listed = Vec::new();
        let mut for_docker = None;
        for image in images {
            let Packed { config, manifest, layer } = image.pack()?;
            listed.push(image.listed(&manifest));
            for_docker.get_or_insert_with(|| docker(name, &config, &layer));
            blobs.extend([config, manifest, layer]);
        }
        let mut top = if listed.len() == 1 {
            listed.remove(0)
        } else {
            let index = index(&listed);
            let descriptor = descriptor("index.v1+json", &index);
            blobs.push(index);
            descriptor
        };
        top["annotations"] = annotations(name);
        let mut files = BTreeMap::from([
            ("index.json".to_owned(), index(&[top])),
            ("manifest.json".to_owned(), json!([for_docker]).to_string().into_bytes()),
            ("oci-layout".to_owned(), json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes()),
        ]);
        files.extend(blobs.into_iter().map(|blob| (path(&blob), blob)));
        let directories = ["blobs", "blobs/sha256"].map(|path| (path.to_owned(), Entry::Directory { mode: 0o755 }));
        let files = files.into_iter().map(|(path, content)| (path, Entry::File { mode: 0o644, content }));
        tar(&files.chain(directories).collect(), out)
    }

    fn pack(&self) -> Result<Packed> {
        let layer = self.layer()?;
        let diff = digest(&layer);
        let mut packed = GzEncoder::new(Vec::new(), self.packing.compression());
        packed.write_all(&layer)?;
        let layer = packed.finish()?;
        let mut config = json!({
            "created": self.created, "architecture": self.architecture, "os": "linux",
            "config": {
                "User": self.user, "Entrypoint": self.entrypoint, "WorkingDir": "/",
                "Env": self.environment, "Labels": self.labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [diff]},
            "history": [{"created": self.created, "created_by": "cargo xtask image"}],
        });
        if let Some(variant) = &self.variant {
            config["variant"] = json!(variant);
        }
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": format!("{LAYOUT}.manifest.v1+json"),
            "config": descriptor("config.v1+json", &config),
            "layers": [descriptor("layer.v1.tar+gzip", &layer)],
        });
        Ok(Packed { config, manifest: manifest.to_string().into_bytes(), layer })
    }

    /// The entry of the image in an index.
    fn listed(&self, manifest: &[u8]) -> Value {
        let mut listed = descriptor("manifest.v1+json", manifest);
        listed["platform"] = json!({"architecture": self.architecture, "os": "linux"});
        if let Some(variant) = &self.variant {
            listed["platform"]["variant"] = json!(variant);
        }
        listed
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        tar(&self.entries, &mut out)?;
        Ok(out)
    }
}

impl Packing {
    fn compression(self) -> Compression {
        match self {
            Self::Small => Compression::best(),
            Self::Quick => Compression::fast(),
        }
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

/// The blobs of an image.
struct Packed {
    config: Vec<u8>,
    manifest: Vec<u8>,
    layer: Vec<u8>,
}

fn index(manifests: &[Value]) -> Vec<u8> {
    let index = json!({"schemaVersion": 2, "mediaType": format!("{LAYOUT}.index.v1+json"), "manifests": manifests});
    index.to_string().into_bytes()
}

/// The name of an image, as annotations by which engines find it.
fn annotations(name: &str) -> Value {
    let mut out = json!({"org.opencontainers.image.ref.name": tag(name).unwrap_or(LATEST)});
    // A kubelet looks for the full name; an image that containerd holds under a shorter one spoils the other names too.
    if has_host(name) {
        out["io.containerd.image.name"] = json!(name);
    }
    out
}

/// The entry of an image in Docker's `manifest.json`.
fn docker(name: &str, config: &[u8], layer: &[u8]) -> Value {
    let tagged = if tag(name).is_some() { name.to_owned() } else { format!("{name}:{LATEST}") };
    json!({"Config": path(config), "RepoTags": [tagged], "Layers": [path(layer)]})
}

/// The tag of an image whose name has none.
const LATEST: &str = "latest";

/// The tag of a name, behind its last colon; a colon before a slash is that of a host's port.
fn tag(name: &str) -> Option<&str> {
    name.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/'))
}

/// The path of a blob in an archive.
fn path(blob: &[u8]) -> String {
    format!("blobs/{}", digest(blob).replace(':', "/"))
}

fn descriptor(kind: &str, blob: &[u8]) -> Value {
    json!({"mediaType": format!("{LAYOUT}.{kind}"), "digest": digest(blob), "size": blob.len()})
}

/// Returns true if a name begins with a registry's host.
fn has_host(name: &str) -> bool {
    name.split_once('/').is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost")
}

/// The SHA-256 digest of bytes, as images write it.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
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
            architecture: "amd64".to_owned(),
            variant: None,
            created: "2024-12-31T23:59:59Z".to_owned(),
            user: "65532:65532".to_owned(),
            entrypoint: vec!["/a".to_owned()],
            environment: vec!["A=b".to_owned()],
            labels: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
            packing: Packing::Small,
        }
    }

    const NAME: &str = "example.com/a:v1";

    fn written(name: &str, image: &Image) -> Vec<u8> {
        let mut out = Vec::new();
        image.write(name, &mut out).unwrap();
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
        let files = unpack(&written(NAME, &image()));
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
        let docker = &read("manifest.json")[0];
        assert_eq!(docker["RepoTags"], json!(["example.com/a:v1"]));
        for (path, blob) in [(&docker["Config"], &manifest["config"]), (&docker["Layers"][0], &manifest["layers"][0])] {
            assert_eq!(path.as_str().unwrap(), format!("blobs/{}", blob["digest"].as_str().unwrap().replace(':', "/")));
        }
        assert_eq!(files.len(), 2 + 3 + 3, "two directories, three files, three blobs");
    }

    #[test]
    fn images_of_several_architectures_are_in_an_index_under_one_name() {
        let other = Image { architecture: "arm64".to_owned(), variant: Some("v8".to_owned()), ..image() };
        let mut out = Vec::new();
        Image::write_all(NAME, &[image(), other], &mut out).unwrap();
        let files = unpack(&out);
        let read = |path: &str| -> Value { serde_json::from_slice(&files[path].2).unwrap() };
        let blob =
            |descriptor: &Value| read(&format!("blobs/{}", descriptor["digest"].as_str().unwrap().replace(':', "/")));
        let top = read("index.json")["manifests"].as_array().unwrap().clone();
        assert_eq!(top.len(), 1, "one name");
        assert_eq!(
            (&top[0]["mediaType"], &top[0]["annotations"]),
            (
                &json!("application/vnd.oci.image.index.v1+json"),
                &json!({"org.opencontainers.image.ref.name": "v1", "io.containerd.image.name": "example.com/a:v1"})
            )
        );
        let listed = blob(&top[0])["manifests"].as_array().unwrap().clone();
        let platforms: Vec<&Value> = listed.iter().map(|listed| &listed["platform"]).collect();
        assert_eq!(
            platforms,
            [
                &json!({"architecture": "amd64", "os": "linux"}),
                &json!({"architecture": "arm64", "os": "linux", "variant": "v8"})
            ]
        );
        let configs: Vec<Value> = listed.iter().map(|listed| blob(&blob(listed)["config"])).collect();
        assert_eq!(
            configs.iter().map(|config| (&config["architecture"], config.get("variant"))).collect::<Vec<_>>(),
            [(&json!("amd64"), None), (&json!("arm64"), Some(&json!("v8")))]
        );
        assert_eq!(configs[0]["created"], json!("2024-12-31T23:59:59Z"));
        let docker = read("manifest.json");
        let of_docker: Vec<Value> =
            docker.as_array().unwrap().iter().map(|image| read(image["Config"].as_str().unwrap())).collect();
        assert_eq!(of_docker, configs[..1], "the first alone");
        assert!(Image::write_all(NAME, &[], Vec::new()).is_err());
    }

    #[test]
    fn a_tag_is_what_follows_the_last_colon_of_the_last_part() {
        for (name, expected) in
            [("a:v1", Some("v1")), ("a", None), ("host:5000/a", None), ("host:5000/a:v1", Some("v1"))]
        {
            assert_eq!(tag(name), expected, "{name}");
        }
        assert_eq!(docker("host:5000/a", b"", b"")["RepoTags"], json!(["host:5000/a:latest"]));
    }

    #[test]
    fn only_full_names_are_for_containerd() {
        for (name, full) in
            [("example/a:v1", false), ("example.com/a:v1", true), ("localhost/a", true), ("a:v1", false)]
        {
            assert_eq!(has_host(name), full, "{name}");
            let files = unpack(&written(name, &image()));
            let index: Value = serde_json::from_slice(&files["index.json"].2).unwrap();
            let annotation = &index["manifests"][0]["annotations"]["io.containerd.image.name"];
            assert_eq!(annotation.as_str(), full.then_some(name), "{name}");
        }
    }

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        assert_eq!(written(NAME, &image()), written(NAME, &image()));
        let mut other = image();
        other.user = "1".to_owned();
        assert_ne!(written(NAME, &image()), written(NAME, &other));
    }
}
