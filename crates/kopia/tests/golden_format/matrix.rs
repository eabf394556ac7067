//! The repositories of `tests/golden/matrix` in memory.

use flate2::bufread::MultiGzDecoder;
use lifeboat_kopia::crypto::{Crypto, Password};
use lifeboat_kopia::format::blob_name::{BlobKind, parse};
use lifeboat_kopia::format::index::{Entry, Index};
use lifeboat_kopia::format::repository::{RepositoryFormat, open_format};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub(crate) const PASSWORD: &str = "matrix-passw0rd";
/// The text of the blob that keeps old clients away.
const POISON: &str = "repository_unreadable_by_this_kopia_version_upgrade_required";

pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    pub(crate) expected: Value,
    pub(crate) format: RepositoryFormat,
    pub(crate) crypto: Crypto,
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/matrix")
}

fn unpacked(path: &Path) -> MultiGzDecoder<BufReader<File>> {
    MultiGzDecoder::new(BufReader::new(File::open(path).unwrap()))
}

pub(crate) fn read_json(path: &Path) -> Value {
    let mut text = String::new();
    unpacked(path).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn load(name: &str) -> Fixture {
    let mut blobs = BTreeMap::new();
    let mut archive = tar::Archive::new(unpacked(&folder().join(format!("repos/{name}.tar.gz"))));
    for file in archive.entries().unwrap() {
        let mut file = file.unwrap();
        let path = file.path().unwrap().to_str().unwrap().to_owned();
        let parts = path.split_once('/').unwrap().1.replace('/', "");
        if let Some(id) = parts.strip_suffix(".f") {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            blobs.insert(id.to_owned(), bytes);
        }
    }
    let format = open_format(&blobs["kopia.repository"], &Password::new(PASSWORD.into())).unwrap();
    Fixture {
        expected: read_json(&folder().join(format!("expected/{name}.json.gz"))),
        crypto: Crypto::new(&format).unwrap(),
        name: name.to_owned(),
        blobs,
        format,
    }
}

/// All repositories, opened once for all tests.
pub(crate) fn all() -> &'static [Fixture] {
    static ALL: OnceLock<Vec<Fixture>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut names: Vec<String> = std::fs::read_dir(folder().join("repos"))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .map(|name| name.strip_suffix(".tar.gz").unwrap().to_owned())
            .collect();
        names.sort();
        assert_eq!(names.len(), 59);
        names.iter().map(|name| load(name)).collect()
    })
}

pub(crate) fn get(name: &str) -> &'static Fixture {
    all().iter().find(|fixture| fixture.name == name).unwrap()
}

impl Fixture {
    /// The plain bytes of all index blobs, those that no longer count too.
    pub(crate) fn indexes(&self) -> Vec<(&str, Vec<u8>)> {
        let is_index = |name: &str| match parse(name) {
            BlobKind::Index { .. } | BlobKind::SingleEpochIndex { .. } | BlobKind::RangeIndex { .. } => true,
            BlobKind::LegacyIndex => !name.ends_with(POISON),
            _ => false,
        };
        self.blobs
            .iter()
            .filter(|(name, _)| is_index(name))
            .map(|(name, stored)| (name.as_str(), self.crypto.open_blob(name, stored).unwrap()))
            .collect()
    }

    /// The entries that win over the others of all indexes.
    pub(crate) fn entries(&self) -> BTreeMap<String, Entry> {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for (_, plain) in self.indexes() {
            let index = Index::open(plain, self.crypto.overhead()).unwrap();
            for entry in index.scan() {
                let entry = entry.unwrap();
                let id = entry.id.to_string();
                let is_better = entries.get(&id).is_none_or(|known| entry.wins_over(known));
                if is_better {
                    entries.insert(id, entry);
                }
            }
        }
        entries
    }

    /// The stored bytes of a content, where its pack is still there.
    pub(crate) fn stored(&self, entry: &Entry) -> Option<&[u8]> {
        let pack = self.blobs.get(&entry.pack)?;
        let start = entry.offset as usize;
        Some(&pack[start..start + entry.packed_length as usize])
    }
}
