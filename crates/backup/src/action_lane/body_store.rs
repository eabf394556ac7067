//! Keeps bodies until their turn comes, in any order: some in memory, the others on disk.
//!
//! They take nothing of the budget that reading needs: bodies without room in the store's own part of the memory go to
//! disk at once.

use crate::collect::scratch::Scratch;
use bytes::Bytes;
use std::io;
use std::path::Path;

/// The place of a body in the store.
#[derive(Clone, Debug)]
pub(crate) enum BodyLocation {
    /// In memory, by itself: not as a piece of the page that it came in.
    Memory(Bytes),
    /// On disk.
    Disk { at: u64, length: u32 },
}

/// The store.
#[derive(Debug)]
pub(crate) struct BodyStore {
    /// Bytes that still have room in memory.
    room: usize,
    scratch: Scratch,
}

impl BodyStore {
    /// A store with room for so many bytes in memory.
    pub(crate) fn new(room: usize, folder: &Path) -> Self {
        Self { room, scratch: Scratch::new(folder) }
    }

    /// The folder of the bodies on disk, for people.
    pub(crate) fn folder(&self) -> &str {
        self.scratch.place()
    }

    /// Puts bodies into the store and says where they lie. When the disk cannot be used, those that have no room in memory
    /// are not kept.
    pub(crate) async fn put(&mut self, bodies: &[Bytes]) -> (Vec<Option<BodyLocation>>, io::Result<()>) {
        let mut places = Vec::with_capacity(bodies.len());
        let (mut to_disk, mut length) = (Vec::new(), 0);
        for body in bodies {
            if let Some(room) = self.room.checked_sub(body.len()) {
                self.room = room;
                places.push(Some(BodyLocation::Memory(Bytes::copy_from_slice(body))));
            } else {
                // A body comes out of one answer, which has a bound far below.
                places.push(Some(BodyLocation::Disk {
                    at: length,
                    length: u32::try_from(body.len()).unwrap_or(u32::MAX),
                }));
                length += body.len() as u64;
                to_disk.push(body.clone());
            }
        }
        if to_disk.is_empty() {
            return (places, Ok(()));
        }
        let written = self.scratch.append(to_disk).await;
        for place in &mut places {
            if let Some(BodyLocation::Disk { at, .. }) = place {
                match &written {
                    Ok(first) => *at += first,
                    Err(_) => *place = None,
                }
            }
        }
        (places, written.map(drop))
    }

    /// A body that was put there.
    pub(crate) async fn take(&self, place: &BodyLocation) -> io::Result<Bytes> {
        match place {
            BodyLocation::Memory(body) => Ok(body.clone()),
            BodyLocation::Disk { at, length } => self.scratch.read(*at, *length as usize).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_without_room_in_memory_lie_on_disk_and_come_back_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut body_store = BodyStore::new(7, folder.path());
        let bodies = ["aaa", "bbbbb", "c", "dddd", "ee"].map(|text| Bytes::from_static(text.as_bytes()));
        let mut places = Vec::new();
        for some in bodies.chunks(2) {
            let (put, result) = body_store.put(some).await;
            assert!(result.is_ok());
            places.extend(put.into_iter().flatten());
        }
        let in_memory = places.iter().map(|place| matches!(place, BodyLocation::Memory(_))).collect::<Vec<_>>();
        assert_eq!(in_memory, [true, false, true, false, true]);
        for (place, body) in places.iter().zip(&bodies).rev() {
            assert_eq!(body_store.take(place).await.unwrap(), body);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    }

    #[tokio::test]
    async fn a_disk_that_cannot_be_used_keeps_nothing_and_says_so() {
        let mut body_store = BodyStore::new(4, Path::new("/nonexistent"));
        let (places, result) = body_store.put(&[Bytes::from_static(b"aaa"), Bytes::from_static(b"bbb")]).await;
        assert!(matches!(places[..], [Some(BodyLocation::Memory(_)), None]) && result.is_err(), "{places:?}");
    }
}
