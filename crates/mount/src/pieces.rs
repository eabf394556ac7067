//! Pieces of files that were read last.

use bytes::Bytes;
use lifeboat_mover::FilePiece;
use std::collections::BTreeMap;

/// The most pieces, however short they are.
const MOST: usize = 512;

/// The pieces of files that were read last, up to a number of bytes; the newest stays, however long it is.
#[derive(Debug)]
pub(crate) struct RecentPieces {
    /// By inode and place.
    pieces: BTreeMap<(u64, u64), KeptPiece>,
    bytes: usize,
    most_bytes: usize,
    /// Counts uses.
    uses: u64,
}

#[derive(Debug)]
struct KeptPiece {
    bytes: Bytes,
    used: u64,
}

impl RecentPieces {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { pieces: BTreeMap::new(), bytes: 0, most_bytes, uses: 0 }
    }

    /// The bytes of a file from a place to the end of their piece.
    pub(crate) fn at(&mut self, inode: u64, at: u64) -> Option<Bytes> {
        self.uses += 1;
        let ((owner, start), kept) = self.pieces.range_mut(..=(inode, at)).next_back()?;
        if *owner != inode {
            return None;
        }
        let offset = usize::try_from(at.checked_sub(*start)?).ok().filter(|offset| *offset < kept.bytes.len())?;
        kept.used = self.uses;
        Some(kept.bytes.slice(offset..))
    }

    /// Keeps a piece, and forgets those that were used longest ago where there are too many.
    pub(crate) fn keep(&mut self, inode: u64, piece: &FilePiece) {
        self.uses += 1;
        let kept = KeptPiece { bytes: piece.bytes.clone(), used: self.uses };
        self.bytes += piece.bytes.len();
        if let Some(before) = self.pieces.insert((inode, piece.start), kept) {
            self.bytes -= before.bytes.len();
        }
        while self.pieces.len() > 1 && (self.bytes > self.most_bytes || self.pieces.len() > MOST) {
            let oldest = self.pieces.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key);
            let forgotten = oldest.and_then(|oldest| self.pieces.remove(&oldest));
            self.bytes -= forgotten.map_or(0, |forgotten| forgotten.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_forgotten_first() {
        let mut pieces = RecentPieces::new(10);
        let piece = |start, length| FilePiece { start, bytes: vec![7; length].into() };
        pieces.keep(1, &piece(0, 4));
        pieces.keep(1, &piece(4, 4));
        let lengths = |pieces: &mut RecentPieces, asked: &[(u64, u64)]| -> Vec<Option<usize>> {
            asked.iter().map(|(inode, at)| pieces.at(*inode, *at).map(|bytes| bytes.len())).collect()
        };
        let all = [(1, 5), (1, 8), (2, 0), (1, 3)];
        assert_eq!(lengths(&mut pieces, &all), [Some(3), None, None, Some(1)]);
        pieces.keep(2, &piece(0, 4));
        assert_eq!(lengths(&mut pieces, &[(1, 4), (1, 0), (2, 3)]), [None, Some(4), Some(1)]);
        // One that is longer than all may be stands alone.
        pieces.keep(3, &piece(100, 30));
        assert_eq!(lengths(&mut pieces, &[(1, 0), (2, 0), (3, 129)]), [None, None, Some(1)]);
        assert_eq!((pieces.pieces.len(), pieces.bytes), (1, 30));
    }
}
