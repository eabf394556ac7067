//! Repositories that restic wrote, in memory.

use futures::TryStreamExt;
use lifeboat_bucket::{BlobStore, Memory, PutOptions};
use lifeboat_restic::format::tree::NodeKind;
use lifeboat_restic::{OpenOptions, Repository, ResticError};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

pub(crate) const PASSWORD: &[u8] = b"matrix-passw0rd";

/// The files of a repository by key.
pub(crate) fn files(name: &str) -> BTreeMap<String, Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.tar.gz"));
    let packed = std::fs::read(path).unwrap();
    let mut plain = Vec::new();
    flate2::bufread::GzDecoder::new(packed.as_slice()).read_to_end(&mut plain).unwrap();
    let mut archive = tar::Archive::new(plain.as_slice());
    let file = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let (mut entry, mut bytes) = (entry.unwrap(), Vec::new());
        entry.read_to_end(&mut bytes).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), bytes)
    };
    archive.entries().unwrap().map(file).collect()
}

/// A bucket with these files.
pub(crate) async fn bucket(files: &BTreeMap<String, Vec<u8>>) -> Arc<Memory> {
    let store = Memory::default();
    for (key, bytes) in files {
        store.put(key, bytes.clone().into(), PutOptions::default()).await.unwrap();
    }
    Arc::new(store)
}

pub(crate) async fn open(
    store: Arc<dyn BlobStore>,
    password: &[u8],
    scratch: &Path,
) -> Result<Repository, ResticError> {
    let options = OpenOptions { scratch: scratch.to_owned(), memory: 16 << 20, threads: 2 };
    Repository::open(store, password, options).await
}

/// The bytes of all files of the newest snapshot by path, or the reason for which they cannot be read.
pub(crate) async fn contents(
    repository: &Repository,
) -> Result<BTreeMap<Vec<u8>, Result<Vec<u8>, String>>, ResticError> {
    let mut snapshots = repository.snapshots().await?;
    let snapshot = snapshots.pop().ok_or(ResticError::Missing { what: "every snapshot".to_owned() })?;
    let document = snapshot.document.map_err(|why| ResticError::Damaged { what: "the snapshot".to_owned(), why })?;
    let mut contents = BTreeMap::new();
    let mut waiting = vec![(Vec::new(), document.tree)];
    while let Some((path, tree)) = waiting.pop() {
        let nodes = match repository.tree(&tree).await {
            Ok(nodes) => nodes,
            Err(error) => {
                contents.insert(path, Err(error.to_string()));
                continue;
            }
        };
        for node in nodes {
            let below = [path.as_slice(), b"/", &node.name].concat();
            match node.kind {
                NodeKind::Directory(tree) => waiting.push((below, tree)),
                NodeKind::File(pieces) => {
                    let bytes: Result<Vec<_>, _> = repository.bytes(pieces.into()).try_collect().await;
                    contents.insert(below, bytes.map(|parts| parts.concat()).map_err(|e| e.to_string()));
                }
                _ => {}
            }
        }
    }
    Ok(contents)
}
