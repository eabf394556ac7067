//! The hash of Rabin and Karp of 64 bits.

use super::rolling::{Rolling, WINDOW};

/// The polynomial over GF(2), of degree 53.
const POLYNOMIAL: u64 = 0x2e_3e3e_4a30_5605;
const DEGREE: u32 = 53;

/// The window as one polynomial, modulo [`POLYNOMIAL`].
pub(super) struct RabinKarp;

impl Rolling for RabinKarp {
    type Hash = u64;
    const ZERO: u64 = 0;
    fn roll(hash: u64, leaving: u8, entering: u8) -> u64 {
        let hash = hash ^ LEAVING[usize::from(leaving)];
        // The hash has at most 53 bits, so that this is its highest byte.
        let high = (hash >> (DEGREE - 8)) as u8;
        (hash << 8 | u64::from(entering)) ^ REDUCTION[usize::from(high)]
    }
    fn is_cut(hash: u64, mask: u32) -> bool {
        hash & mask as u64 == 0
    }
}

/// The share of a byte at the beginning of the window in the hash.
static LEAVING: [u64; 256] = leaving();
/// The remainder of the bits above the degree, and these bits, so that they go away.
static REDUCTION: [u64; 256] = reduction();

/// Multiplies by x, modulo the polynomial.
const fn times_x(value: u64) -> u64 {
    let value = value << 1;
    if value >> DEGREE == 1 { value ^ POLYNOMIAL } else { value }
}

const fn leaving() -> [u64; 256] {
    // The values of the eight bits; each other one is their sum.
    let mut bit_value = 1;
    let mut shift = 0;
    while shift < 8 * (WINDOW - 1) {
        bit_value = times_x(bit_value);
        shift += 1;
    }
    sums(bit_value)
}

const fn reduction() -> [u64; 256] {
    let mut bit_value = 1;
    let mut shift = 0;
    while shift < DEGREE {
        bit_value = times_x(bit_value);
        shift += 1;
    }
    let mut table = sums(bit_value);
    let mut byte = 0;
    while byte < 256 {
        table[byte] ^= (byte as u64) << DEGREE;
        byte += 1;
    }
    table
}

/// The value of each byte, where its lowest bit is worth `bit_value`.
const fn sums(bit_value: u64) -> [u64; 256] {
    let mut table = [0; 256];
    let mut bit_value = bit_value;
    let mut bit = 1;
    while bit < 256 {
        let mut rest = 0;
        while rest < bit {
            table[bit + rest] = bit_value ^ table[rest];
            rest += 1;
        }
        bit_value = times_x(bit_value);
        bit *= 2;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::RabinKarp;
    use crate::splitter::rolling::Rolling;

    #[test]
    fn the_hash_is_that_of_kopia() {
        let bytes: Vec<u8> = (0..164_u16).map(|n| n.saturating_sub(63) as u8).collect();
        let mut hash = RabinKarp::ZERO;
        let mut states = vec![hash];
        for window in bytes.windows(65) {
            hash = RabinKarp::roll(hash, window[0], window[64]);
            states.push(hash);
        }
        assert_eq!(states[..5], [0, 1, 0x102, 0x1_0203, 0x102_0304]);
        assert_eq!(states[100], 0x0011_36b9_15a2_b492);
    }
}
