//! The plan of a window: which ranges of which packs. Pure.

use crate::limits::ReadLimits;
use crate::{Id, Location};
use std::ops::Range;

/// A blob that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<T> {
    /// The blob.
    pub id: Id,
    /// The place where its bytes go.
    pub tag: T,
}

/// A blob with its place and all who want it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedBlob<T> {
    pub(super) id: Id,
    pub(super) location: Location,
    pub(super) tags: Vec<T>,
}

/// A range of a pack and the blobs in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackRead<T> {
    pub(super) pack: u32,
    pub(super) range: Range<u64>,
    pub(super) pieces: Vec<PlannedBlob<T>>,
}

impl<T> PackRead<T> {
    /// The bytes that it takes: those of its range, and what its blobs are decrypted and decompressed to.
    pub(super) fn memory(&self) -> u64 {
        let plain: u64 = self.pieces.iter().map(|piece| u64::from(piece.location.plain_length)).sum();
        plain + (self.range.end - self.range.start)
    }
}

/// Sorts by pack and offset, joins what is wanted twice, and cuts into requests.
pub(super) fn plan<T>(mut located: Vec<(Location, Wanted<T>)>, limits: &ReadLimits) -> Vec<PackRead<T>> {
    located.sort_by_key(|(location, wanted)| (*location, wanted.id));
    let mut requests: Vec<PackRead<T>> = Vec::new();
    for (location, Wanted { id, tag }) in located {
        let range = location.range();
        if let Some(request) = requests.last_mut().filter(|request| request.pack == location.pack) {
            if let Some(last) = request.pieces.last_mut()
                && (last.location, last.id) == (location, id)
            {
                last.tags.push(tag);
                continue;
            }
            let end = range.end.max(request.range.end);
            let gap = range.start.saturating_sub(request.range.end);
            if gap <= limits.gap && end - request.range.start <= limits.range {
                request.range.end = end;
                request.pieces.push(PlannedBlob { id, location, tags: vec![tag] });
                continue;
            }
        }
        requests.push(PackRead {
            pack: location.pack,
            range,
            pieces: vec![PlannedBlob { id, location, tags: vec![tag] }],
        });
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(name: u8, pack: u32, offset: u32, length: u32, tag: u32) -> (Location, Wanted<u32>) {
        let location = Location { pack, offset, length, plain_length: length, is_compressed: false };
        (location, Wanted { id: Id([name; 32]), tag })
    }

    fn rows(wanted: Vec<(Location, Wanted<u32>)>, gap: u64, range: u64) -> Vec<(u32, Range<u64>, Vec<Vec<u32>>)> {
        let limits = ReadLimits { gap, range, ..ReadLimits::new(1 << 20, 1) };
        let row = |request: PackRead<u32>| {
            (request.pack, request.range, request.pieces.into_iter().map(|piece| piece.tags).collect())
        };
        plan(wanted, &limits).into_iter().map(row).collect()
    }

    #[test]
    fn neighbours_are_one_request_and_a_blob_wanted_twice_is_one_piece() {
        let some = vec![
            wanted(3, 1, 200, 50, 30),
            wanted(1, 1, 100, 10, 10),
            wanted(2, 1, 110, 40, 20),
            wanted(1, 1, 100, 10, 11),
            wanted(4, 0, 500, 5, 40),
        ];
        let expected = vec![(0, 500..505, vec![vec![40]]), (1, 100..250, vec![vec![10, 11], vec![20], vec![30]])];
        assert_eq!(rows(some, 50, 150), expected);
    }

    #[test]
    fn a_gap_or_a_range_that_is_too_long_begins_a_request() {
        let some = || vec![wanted(1, 1, 0, 100, 1), wanted(2, 1, 150, 100, 2), wanted(3, 1, 250, 100, 3)];
        assert_eq!(rows(some(), 49, 1000), vec![(1, 0..100, vec![vec![1]]), (1, 150..350, vec![vec![2], vec![3]])]);
        assert_eq!(rows(some(), 50, 349), vec![(1, 0..250, vec![vec![1], vec![2]]), (1, 250..350, vec![vec![3]])]);
        // A blob that is longer than a range goes alone.
        assert_eq!(rows(vec![wanted(1, 1, 0, 100, 1)], 0, 5), vec![(1, 0..100, vec![vec![1]])]);
    }
}
