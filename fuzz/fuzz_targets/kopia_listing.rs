//! The listing of an object, at once and as it arrives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::format::listing::{self, Piece};
use lifeboat_kopia::object::ListingParser;

/// The pieces of a listing that arrives in parts, and its length; `None` where it is refused.
fn arriving(parts: &[&[u8]]) -> Option<(Vec<Piece>, u64)> {
    let (mut parser, mut pieces) = (ListingParser::default(), Vec::new());
    for part in parts {
        parser.feed(part, &mut pieces).ok()?;
    }
    let length = parser.finish().ok()?;
    Some((pieces, length))
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(pieces) = listing::parse(bytes) {
        assert_eq!(listing::parse(&listing::write(&pieces)).as_ref(), Ok(&pieces));
        let length = pieces.last().map_or(0, |piece| piece.start + piece.length);
        assert_eq!(arriving(&[&listing::write(&pieces)]), Some((pieces, length)));
    }
    // Where it is cut must not matter.
    let (left, right) = bytes.split_at(bytes.len() / 3);
    assert_eq!(arriving(&[left, right]), arriving(&[bytes]));
});
