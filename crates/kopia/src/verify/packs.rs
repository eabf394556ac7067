//! The packs of a repository as the bucket lists them.

use crate::KopiaError;
use crate::blobs::Blobs;
use crate::content::index_set::IndexSet;
use crate::format::time::UnixNanos;
use futures::TryStreamExt;
use std::sync::Arc;

/// A pack as the bucket lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListedPack {
    /// Its length, 0 for one that is not there.
    pub(super) length: u64,
    /// The storage's time of it.
    pub(super) modified: Option<UnixNanos>,
}

/// All packs that the indexes name, as they were at the beginning.
#[derive(Debug)]
pub(super) struct ListedPacks {
    set: Arc<IndexSet>,
    packs: Vec<ListedPack>,
    /// The number of packs that no index names.
    pub(super) without_index: u64,
}

impl ListedPacks {
    /// Lists the packs.
    pub(super) async fn list(blobs: &Blobs, set: Arc<IndexSet>) -> Result<Self, KopiaError> {
        let (mut packs, mut without_index) = (vec![ListedPack::default(); set.packs()], 0);
        for prefix in ["p", "q"] {
            let mut blobs = blobs.list(prefix);
            while let Some(blob) = blobs.try_next().await? {
                match set.pack_number(&blob.name).and_then(|pack| packs.get_mut(pack as usize)) {
                    Some(pack) => *pack = ListedPack { length: blob.length, modified: blob.modified },
                    None => without_index += 1,
                }
            }
        }
        Ok(Self { set, packs, without_index })
    }

    /// A pack by its number in the indexes as they were at the beginning.
    pub(super) fn numbered(&self, number: u32) -> ListedPack {
        self.packs.get(number as usize).copied().unwrap_or_default()
    }

    /// A pack by its name.
    pub(super) fn named(&self, name: &str) -> ListedPack {
        self.set.pack_number(name).map(|number| self.numbered(number)).unwrap_or_default()
    }
}
