//! The pieces of an object in the making. Equal ones that follow each other, as of a long hole, take the memory of one.

use crate::KopiaError;
use crate::format::listing::Piece;
use crate::format::object_id::ObjectId;
use std::collections::VecDeque;

/// The most pieces of an object: their listing has more than a gigabyte, and kopia reads it as a whole.
pub(super) const MOST: u64 = 1 << 24;

/// Pieces in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Pieces {
    runs: VecDeque<Run>,
    /// The number of the first run: those before it were taken.
    first: usize,
    /// The offset of its first piece.
    start: u64,
    count: u64,
    length: u64,
}

/// Equal pieces that follow each other.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// `None` for one that is being stored.
    object: Option<ObjectId>,
    length: u64,
    count: u64,
}

impl Pieces {
    /// The number of pieces.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds a piece that is being stored, and gives its number for [`Pieces::settle`].
    pub(super) fn begin(&mut self, length: u64) -> Result<usize, KopiaError> {
        self.extend(length, 1)?;
        self.runs.push_back(Run { object: None, length, count: 1 });
        Ok(self.first + self.runs.len() - 1)
    }

    /// Takes note of a piece that is stored.
    pub(super) fn settle(&mut self, number: usize, object: ObjectId) {
        if let Some(run) = number.checked_sub(self.first).and_then(|at| self.runs.get_mut(at)) {
            run.object = Some(object);
        }
    }

    /// Adds an object so many times, which may be none.
    pub(super) fn repeat(&mut self, object: ObjectId, length: u64, count: u64) -> Result<(), KopiaError> {
        if count == 0 {
            return Ok(());
        }
        self.extend(length, count)?;
        match self.runs.back_mut() {
            Some(last) if last.object == Some(object) && last.length == length => last.count += count,
            _ => self.runs.push_back(Run { object: Some(object), length, count }),
        }
        Ok(())
    }

    fn extend(&mut self, length: u64, count: u64) -> Result<(), KopiaError> {
        let too_long = || KopiaError::TooLong { most: MOST };
        let added = self.count.checked_add(count).filter(|count| *count <= MOST).ok_or_else(too_long)?;
        let end = length.checked_mul(count).and_then(|length| self.length.checked_add(length));
        self.length = end.filter(|end| i64::try_from(*end).is_ok()).ok_or_else(too_long)?;
        self.count = added;
        Ok(())
    }

    /// The object of the last piece, where that is stored.
    pub(super) fn last(&self) -> Option<ObjectId> {
        self.runs.back()?.object
    }

    /// True where all pieces are stored.
    pub(super) fn are_stored(&self) -> bool {
        self.runs.iter().all(|run| run.object.is_some())
    }

    /// Takes some pieces from the front, as far as they are stored. The last ones stay: equal ones may follow.
    pub(super) fn take_stored(&mut self, most: usize) -> Vec<Piece> {
        let mut taken = Vec::new();
        while taken.len() < most
            && self.runs.len() > 1
            && let Some(run) = self.runs.front_mut()
            && let Some(object) = run.object
        {
            taken.push(Piece { start: self.start, length: run.length, object });
            self.start += run.length;
            run.count -= 1;
            if run.count == 0 {
                self.runs.pop_front();
                self.first += 1;
            }
        }
        taken
    }

    /// Gives the pieces that are stored and were not taken, each by itself.
    pub(super) fn iter(&self) -> impl Iterator<Item = Piece> + Send {
        let mut start = self.start;
        let stored = self.runs.iter().filter_map(|run| Some((run.object?, run.length, run.count)));
        let each = stored.flat_map(|(object, length, count)| (0..count).map(move |_| (object, length)));
        each.map(move |(object, length)| {
            let piece = Piece { start, length, object };
            start += length;
            piece
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> ObjectId {
        ObjectId::parse(text).unwrap()
    }

    #[test]
    fn a_hole_takes_the_memory_of_one_piece_and_is_listed_piece_by_piece() {
        let mut pieces = Pieces::default();
        let first = pieces.begin(5).unwrap();
        pieces.repeat(object("00"), 8, 2).unwrap();
        pieces.repeat(object("00"), 8, 1).unwrap();
        let last = pieces.begin(1).unwrap();
        assert!(!pieces.are_stored());
        pieces.settle(last, object("11"));
        pieces.settle(first, object("22"));
        assert!(pieces.are_stored());
        let listed: Vec<(u64, u64, String)> =
            pieces.iter().map(|piece| (piece.start, piece.length, piece.object.to_string())).collect();
        let expected = [(0, 5, "22"), (5, 8, "00"), (13, 8, "00"), (21, 8, "00"), (29, 1, "11")];
        assert_eq!(listed, expected.map(|(start, length, object)| (start, length, object.to_owned())));
        assert_eq!((pieces.runs.len(), pieces.count(), pieces.last()), (3, 5, Some(object("11"))));
    }

    #[test]
    fn pieces_are_taken_from_the_front_while_others_are_stored() {
        let mut pieces = Pieces::default();
        pieces.repeat(object("00"), 8, 3).unwrap();
        let second = pieces.begin(5).unwrap();
        let third = pieces.begin(7).unwrap();
        let taken = |pieces: &mut Pieces, most| {
            let taken = pieces.take_stored(most);
            taken.into_iter().map(|piece| (piece.start, piece.length, piece.object.to_string())).collect::<Vec<_>>()
        };
        let piece = |start, length, object: &str| (start, length, object.to_owned());
        assert_eq!(taken(&mut pieces, 2), [piece(0, 8, "00"), piece(8, 8, "00")]);
        assert_eq!(taken(&mut pieces, 9), [piece(16, 8, "00")]);
        pieces.settle(third, object("33"));
        assert_eq!(taken(&mut pieces, 9), []);
        pieces.settle(second, object("22"));
        assert_eq!(taken(&mut pieces, 9), [piece(24, 5, "22")]);
        pieces.repeat(object("33"), 7, 1).unwrap();
        let rest: Vec<_> = pieces.iter().map(|piece| (piece.start, piece.length, piece.object.to_string())).collect();
        assert_eq!(rest, [piece(29, 7, "33"), piece(36, 7, "33")]);
        assert_eq!((pieces.count(), pieces.last(), pieces.are_stored()), (6, Some(object("33")), true));
    }

    #[test]
    fn an_object_that_is_added_no_times_is_no_piece() {
        let mut pieces = Pieces::default();
        pieces.repeat(object("00"), 8, 0).unwrap();
        pieces.repeat(object("11"), 8, 1).unwrap();
        pieces.repeat(object("22"), 8, 0).unwrap();
        pieces.repeat(object("22"), 8, 1).unwrap();
        let taken: Vec<_> = pieces.take_stored(9).iter().map(|piece| piece.object).collect();
        assert_eq!((taken, pieces.count(), pieces.last()), (vec![object("11")], 2, Some(object("22"))));
    }

    #[test]
    fn more_pieces_than_a_listing_may_have_are_refused() {
        let mut pieces = Pieces::default();
        pieces.repeat(object("00"), 1, MOST - 1).unwrap();
        pieces.begin(1).unwrap();
        assert!(matches!(pieces.begin(1), Err(KopiaError::TooLong { .. })));
        assert!(matches!(pieces.repeat(object("00"), 1, u64::MAX), Err(KopiaError::TooLong { .. })));
        let mut long = Pieces::default();
        assert!(matches!(long.repeat(object("00"), u64::MAX / 2, 3), Err(KopiaError::TooLong { .. })));
        assert!(matches!(long.repeat(object("00"), 1 << 62, 2), Err(KopiaError::TooLong { .. })));
    }
}
