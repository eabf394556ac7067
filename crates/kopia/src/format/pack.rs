//! Packs: preamble, contents, padding, local index, postamble (kopia: repo/content/content_index_recovery.go).

mod replica;

use super::FormatError;
use super::content_id::MAX_HASH;

pub use replica::{MAX_REPLICA, find_replica, write_replica};

const STRUCTURE: &str = "pack postamble";
const VERSION: u64 = 1;

/// The end of a pack, which says where its local index lies. Not authenticated: for recovery only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postamble {
    /// The iv of the local index.
    pub iv: Vec<u8>,
    /// The offset of the encrypted local index in the blob.
    pub index_offset: u64,
    /// Its length.
    pub index_length: u64,
}

/// The most bytes that a postamble takes, with its length byte.
pub const MAX_POSTAMBLE: usize = 256;

/// The number of random bytes with which a pack begins, after the replica of the format where it has one.
pub const PREAMBLE: usize = 32;
const ALIGNMENT: u64 = 4096;

/// The number of random bytes between the contents and the local index: up to the next multiple of 4096, and all of 4096
/// where the contents end there.
pub fn padding(end_of_contents: u64) -> usize {
    usize::try_from(ALIGNMENT - end_of_contents % ALIGNMENT).unwrap_or_default()
}

impl Postamble {
    /// Finds the postamble at the end of `tail`, the last bytes of a pack.
    ///
    /// # Errors
    /// No postamble, a wrong checksum.
    pub fn parse(tail: &[u8]) -> Result<Self, FormatError> {
        let bad = |why: &str| FormatError::new(STRUCTURE, why);
        let (length, rest) = tail.split_last().ok_or_else(|| bad("it is empty"))?;
        let start = rest.len().checked_sub(usize::from(*length));
        let body = start.and_then(|start| rest.get(start..)).ok_or_else(|| bad("it is cut off"))?;
        let (body, checksum) = body.split_last_chunk::<4>().ok_or_else(|| bad("it is too short"))?;
        if crc32fast::hash(body) != u32::from_be_bytes(*checksum) {
            return Err(bad("its checksum is wrong"));
        }
        let mut rest = body;
        let mut number = || read_uvarint(&mut rest).ok_or_else(|| bad("it is cut off"));
        if number()? != VERSION {
            return Err(bad("its version is not known"));
        }
        let iv_length = number()?;
        let iv_length = usize::try_from(iv_length)
            .ok()
            .filter(|length| *length <= MAX_HASH)
            .ok_or_else(|| bad("its iv is too long"))?;
        let (iv, mut rest) = rest.split_at_checked(iv_length).ok_or_else(|| bad("it is cut off"))?;
        let mut number = || read_uvarint(&mut rest).ok_or_else(|| bad("it is cut off"));
        Ok(Self { iv: iv.to_vec(), index_offset: number()?, index_length: number()? })
    }
    /// Writes the postamble with its length byte.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_POSTAMBLE);
        write_uvarint(&mut out, VERSION);
        write_uvarint(&mut out, self.iv.len() as u64);
        out.extend_from_slice(&self.iv);
        write_uvarint(&mut out, self.index_offset);
        write_uvarint(&mut out, self.index_length);
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_be_bytes());
        // An iv has at most 32 bytes and a number at most 10, so that the length fits.
        out.push(u8::try_from(out.len()).unwrap_or(u8::MAX));
        out
    }
}

fn read_uvarint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn write_uvarint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: &str = "0110069c878bcec852f1ef03ef6a9123f39c8020820332e675cf1a";

    fn example() -> Postamble {
        let iv = hex::decode("069c878bcec852f1ef03ef6a9123f39c").expect("hex");
        Postamble { iv, index_offset: 4096, index_length: 386 }
    }

    #[test]
    fn a_postamble_is_that_of_kopia_and_found_at_the_end() {
        assert_eq!(hex::encode(example().write()), EXAMPLE);
        let tail = [vec![9; 500], example().write()].concat();
        assert_eq!(Postamble::parse(&tail), Ok(example()));
        assert_eq!(Postamble::parse(&example().write()), Ok(example()));
    }

    #[test]
    fn the_longest_postamble_fits_into_its_length_byte() {
        let longest = Postamble { iv: vec![1; 32], index_offset: u64::MAX, index_length: u64::MAX };
        let written = longest.write();
        assert!(written.len() <= MAX_POSTAMBLE);
        assert_eq!(Postamble::parse(&written), Ok(longest));
    }

    #[test]
    fn padding_goes_to_the_next_page_and_is_a_whole_page_on_one() {
        assert_eq!([32, 4095, 4096, 4097, 8191].map(padding), [4064, 1, 4096, 4095, 1]);
    }

    #[test]
    fn a_replica_is_found_at_either_end_and_a_damaged_one_is_not() {
        let replica = write_replica(b"{}").expect("a short blob");
        assert_eq!((replica.len(), &replica[..4]), (2 + 2 + 32 + 2, &[34, 0, b'{', b'}'][..]));
        let pack = [replica.as_slice(), &[7; 100]].concat();
        let at_end = [&[7; 100], replica.as_slice()].concat();
        assert_eq!(find_replica(&pack, &pack), Some(&b"{}"[..]));
        assert_eq!(find_replica(&at_end, &at_end), Some(&b"{}"[..]));
        for at in 0..36 {
            let mut damaged = pack.clone();
            damaged[at] ^= 1;
            assert_eq!(find_replica(&damaged, &damaged), None, "{at}");
        }
        assert_eq!(find_replica(b"", b"x"), None);
        assert!(write_replica(&vec![0; 64_969]).is_err());
        assert!(write_replica(&vec![0; 64_968]).is_ok());
    }

    proptest! {
        #[test]
        fn damaged_postambles_are_refused(at in any::<prop::sample::Index>(), bit in 0..8_u8, cut in any::<prop::sample::Index>()) {
            let mut damaged = example().write();
            prop_assert!(Postamble::parse(&damaged[..cut.index(damaged.len())]).is_err());
            let at = at.index(damaged.len());
            damaged[at] ^= 1 << bit;
            prop_assert!(Postamble::parse(&damaged).is_err());
        }

        #[test]
        fn other_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Postamble::parse(&body);
            // With a checksum that is right.
            let mut tail = body.clone();
            tail.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
            tail.push(tail.len() as u8);
            if let Ok(read) = Postamble::parse(&tail) {
                prop_assert!(read.iv.len() <= MAX_HASH);
            }
        }
    }
}
