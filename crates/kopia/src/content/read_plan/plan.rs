//! The plan of a window: which ranges of which packs. Pure.

use super::wanted::{ReadLimits, Wanted};
use crate::content::index_set::Record;
use bytes::BytesMut;
use std::ops::Range;

/// A content with all who want it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedPiece<T> {
    pub(super) record: Record,
    pub(super) range: Range<u64>,
    pub(super) is_compressed: bool,
    /// For each who wants it: the fewest bytes, the place.
    pub(super) wanted: Vec<(u64, T)>,
}

/// A range of a pack and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request<T> {
    pub(super) pack: u32,
    pub(super) range: Range<u64>,
    pub(super) pieces: Vec<PlannedPiece<T>>,
}

impl<T> Request<T> {
    /// The bytes that it takes. They are decrypted where they lie; what they are decompressed to comes beside them.
    pub(super) fn memory(&self) -> u64 {
        let compressed = self.pieces.iter().filter(|piece| piece.record.compression != 0);
        let plain: u64 = compressed.map(|piece| u64::from(piece.record.original_length)).sum();
        plain + (self.range.end - self.range.start)
    }

    /// Cuts the bytes of its range into those of its pieces.
    pub(super) fn cut(&self, mut bytes: BytesMut) -> Vec<(Record, BytesMut)> {
        let is_in_order = self.pieces.windows(2).all(|two| two[0].range.end <= two[1].range.start);
        let at = |offset: u64| usize::try_from(offset.saturating_sub(self.range.start)).unwrap_or(usize::MAX);
        if !is_in_order {
            // Of an index that is wrong, or the same bytes for two who see them differently.
            let part =
                |piece: &PlannedPiece<T>| bytes.get(at(piece.range.start)..at(piece.range.end)).unwrap_or_default();
            return self.pieces.iter().map(|piece| (piece.record, part(piece).into())).collect();
        }
        let mut gone = 0;
        let mut part = |piece: &PlannedPiece<T>| {
            let mut take = |end: usize| {
                let part = bytes.split_to((end - gone).min(bytes.len()));
                gone = end;
                part
            };
            take(at(piece.range.start));
            (piece.record, take(at(piece.range.end)))
        };
        self.pieces.iter().map(&mut part).collect()
    }
}

/// A content that is wanted, with its place.
pub(super) struct Located<T> {
    pub(super) record: Record,
    pub(super) range: Range<u64>,
    pub(super) wanted: Wanted<T>,
}

/// Sorts by pack and offset, joins what is wanted twice, and cuts into requests.
pub(super) fn plan<T>(mut located: Vec<Located<T>>, limits: &ReadLimits) -> Vec<Request<T>> {
    let key = |one: &Located<T>| {
        let record = &one.record;
        (record.pack, one.range.start, one.range.end, record.id, one.wanted.is_compressed)
    };
    located.sort_by_key(key);
    let mut requests: Vec<Request<T>> = Vec::new();
    for Located { record, range, wanted: Wanted { is_compressed, length, tag, .. } } in located {
        let wanted = (length, tag);
        if let Some(request) = requests.last_mut().filter(|request| request.pack == record.pack) {
            if let Some(last) = request.pieces.last_mut()
                && (last.record, last.is_compressed) == (record, is_compressed)
            {
                last.wanted.push(wanted);
                continue;
            }
            let end = range.end.max(request.range.end);
            let gap = range.start.saturating_sub(request.range.end);
            if gap <= u64::from(limits.gap) && end - request.range.start <= limits.range {
                request.range.end = end;
                request.pieces.push(PlannedPiece { record, range, is_compressed, wanted: vec![wanted] });
                continue;
            }
        }
        let piece = PlannedPiece { record, range: range.clone(), is_compressed, wanted: vec![wanted] };
        requests.push(Request { pack: record.pack, range, pieces: vec![piece] });
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::content_id::{ContentHash, ContentId};
    use proptest::prelude::*;

    fn located(content: u8, pack: u32, offset: u32, length: u32, tag: u32) -> Located<u32> {
        let id = ContentId::new(None, ContentHash::new(&[content; 16]).unwrap()).unwrap();
        let record = Record {
            id,
            timestamp: 1,
            is_deleted: false,
            pack,
            offset,
            packed_length: length,
            original_length: length,
            compression: 0,
            format_version: 3,
            key: 0,
        };
        let start = u64::from(offset);
        Located { record, range: start..start + u64::from(length), wanted: Wanted::whole(id, tag) }
    }

    fn limits(gap: u32, range: u64) -> ReadLimits {
        ReadLimits { gap, range, ..ReadLimits::new(1 << 20, 1) }
    }

    /// Pack, range, and the tags of each piece.
    type Row = (u32, Range<u64>, Vec<Vec<u32>>);

    fn rows(wanted: Vec<Located<u32>>, limits: &ReadLimits) -> Vec<Row> {
        let tags = |piece: PlannedPiece<u32>| piece.wanted.into_iter().map(|(_, tag)| tag).collect();
        let row = |request: Request<u32>| (request.pack, request.range, request.pieces.into_iter().map(tags).collect());
        plan(wanted, limits).into_iter().map(row).collect()
    }

    #[test]
    fn neighbours_are_one_request_and_a_content_wanted_twice_is_one_piece() {
        let wanted = vec![
            located(3, 1, 200, 50, 30),
            located(1, 1, 100, 10, 10),
            located(2, 1, 110, 40, 20),
            located(1, 1, 100, 10, 11),
            located(4, 0, 500, 5, 40),
        ];
        let expected = [(0, 500..505, vec![vec![40]]), (1, 100..250, vec![vec![10, 11], vec![20], vec![30]])];
        assert_eq!(rows(wanted, &limits(50, 150)), expected);
    }

    #[test]
    fn each_piece_gets_its_bytes_also_where_an_index_lets_them_overlap() {
        let bytes: Vec<u8> = (0..200).collect();
        let cut = |wanted: Vec<Located<u32>>| {
            let request = plan(wanted, &limits(50, 200)).remove(0);
            let start = usize::try_from(request.range.start).unwrap();
            let range = start..usize::try_from(request.range.end).unwrap();
            let parts = request.cut(BytesMut::from(&bytes[range]));
            parts.into_iter().map(|(_, bytes)| (bytes[0], bytes.len())).collect::<Vec<_>>()
        };
        assert_eq!(cut(vec![located(1, 1, 10, 20, 1), located(2, 1, 50, 7, 2)]), [(10, 20), (50, 7)]);
        assert_eq!(cut(vec![located(1, 1, 10, 20, 1), located(2, 1, 15, 30, 2)]), [(10, 20), (15, 30)]);
    }

    #[test]
    fn a_gap_or_a_range_that_is_too_long_begins_a_request() {
        let wanted = || vec![located(1, 1, 0, 100, 1), located(2, 1, 150, 100, 2), located(3, 1, 250, 100, 3)];
        let expected = [(1, 0..100, vec![vec![1]]), (1, 150..350, vec![vec![2], vec![3]])];
        assert_eq!(rows(wanted(), &limits(49, 1000)), expected);
        let expected = [(1, 0..250, vec![vec![1], vec![2]]), (1, 250..350, vec![vec![3]])];
        assert_eq!(rows(wanted(), &limits(50, 349)), expected);
        // A content that is longer than a range goes alone.
        assert_eq!(rows(vec![located(1, 1, 0, 100, 1)], &limits(0, 5)), [(1, 0..100, vec![vec![1]])]);
    }

    proptest! {
        #[test]
        fn every_tag_is_in_one_piece_whose_range_is_in_its_request(
            places in proptest::collection::vec((0..3_u32, 0..5000_u32, 1..400_u32), 0..200),
            gap in 0..600_u32,
            range in 1..3000_u64,
        ) {
            let wanted = || places.iter().zip(0_u32..).map(|(&(pack, offset, length), tag)| {
                located(u8::try_from(tag % 251).unwrap(), pack, offset, length, tag)
            });
            let requests = plan(wanted().collect(), &limits(gap, range));
            let mut seen = Vec::new();
            for request in &requests {
                for piece in &request.pieces {
                    prop_assert!(piece.range.start >= request.range.start && piece.range.end <= request.range.end);
                    for (_, tag) in &piece.wanted {
                        let (pack, offset, length) = places[*tag as usize];
                        prop_assert_eq!((piece.record.pack, piece.range.start), (pack, u64::from(offset)));
                        prop_assert_eq!(piece.range.end, u64::from(offset + length));
                        seen.push(*tag);
                    }
                }
                let length = request.range.end - request.range.start;
                prop_assert!(length <= range || request.pieces.len() == 1);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..u32::try_from(places.len()).unwrap()).collect::<Vec<_>>());
        }
    }
}
