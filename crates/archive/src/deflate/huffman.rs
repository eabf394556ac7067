//! Prefix codes of limited length (RFC 1951 3.2.2).

/// Bits that a code has at most, and the code itself in the order in which its bits are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) bits: u16,
    pub(super) length: u8,
}

/// Lengths for symbols of these frequencies, none longer than `longest`; zero for those that do not occur. At least two
/// symbols get a code, because not every reader takes a tree of one.
pub(super) fn lengths(frequencies: &[u32], longest: u8) -> Vec<u8> {
    let mut leaves: Vec<(u32, usize)> = frequencies
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(symbol, count)| (*count, symbol))
        .collect();
    let missing = 2_usize.saturating_sub(leaves.len());
    let unused = frequencies.iter().enumerate().filter(|(_, count)| **count == 0);
    leaves.extend(unused.take(missing).map(|(symbol, _)| (1, symbol)));
    leaves.sort_unstable();
    let mut of_leaves = depths(&leaves);
    limit(&mut of_leaves, longest);
    let mut out = vec![0; frequencies.len()];
    for ((_, symbol), length) in leaves.iter().zip(of_leaves) {
        out[*symbol] = length;
    }
    out
}

/// Huffman's depths of leaves that stand in the order of their frequencies. Nodes are joined in the order of theirs, so
/// two queues are enough.
fn depths(leaves: &[(u32, usize)]) -> Vec<u8> {
    let count = leaves.len();
    let mut weights: Vec<u64> = leaves.iter().map(|(frequency, _)| u64::from(*frequency)).collect();
    let mut parents = vec![0; 2 * count];
    let (mut leaf, mut node) = (0, count);
    while weights.len() < 2 * count - 1 {
        let mut lightest = || {
            let takes_leaf = leaf < count && (node >= weights.len() || weights[leaf] <= weights[node]);
            let next = if takes_leaf { &mut leaf } else { &mut node };
            *next += 1;
            *next - 1
        };
        let (one, other) = (lightest(), lightest());
        parents[one] = weights.len();
        parents[other] = weights.len();
        weights.push(weights[one] + weights[other]);
    }
    let mut depths = vec![0_u8; weights.len()];
    for node in (0..weights.len() - 1).rev() {
        depths[node] = depths[parents[node]].saturating_add(1);
    }
    depths.truncate(count);
    depths
}

/// Shortens lengths that are too long, and lengthens others until there is room for all. The first leaves are the
/// rarest.
fn limit(depths: &mut [u8], longest: u8) {
    let room = 1_u64 << longest;
    let takes = |length: u8| room >> length;
    let mut taken: u64 = 0;
    for depth in depths.iter_mut() {
        *depth = (*depth).min(longest);
        taken += takes(*depth);
    }
    while taken > room {
        // The rarest of the longest codes that can become longer.
        let longer = depths.iter().filter(|depth| **depth < longest).max().copied().unwrap_or(longest);
        let Some(depth) = depths.iter_mut().find(|depth| **depth == longer) else { return };
        taken -= takes(*depth) - takes(*depth + 1);
        *depth += 1;
    }
    // What became free goes to the most frequent ones that it is enough for.
    for depth in depths.iter_mut().rev() {
        while *depth > 1 && taken + takes(*depth) <= room {
            taken += takes(*depth);
            *depth -= 1;
        }
    }
}

/// The codes of these lengths.
pub(super) fn codes(lengths: &[u8]) -> Vec<Code> {
    let mut counts = [0_u16; 16];
    for length in lengths.iter().filter(|length| **length > 0) {
        counts[usize::from(*length)] += 1;
    }
    let mut next = [0_u16; 16];
    for length in 1..16 {
        next[length] = (next[length - 1] + counts[length - 1]) << 1;
    }
    let code = |length: &u8| match *length {
        0 => Code::default(),
        length => {
            let code = &mut next[usize::from(length)];
            // Codes are sent from their first bit on, everything else from its last.
            let bits = code.reverse_bits() >> (16 - u16::from(length));
            *code += 1;
            Code { bits, length }
        }
    };
    lengths.iter().map(code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_codes_of_the_rfc() {
        let reversed = |text: &str| u16::from_str_radix(&text.chars().rev().collect::<String>(), 2).unwrap();
        let expected = ["010", "011", "100", "101", "110", "00", "1110", "1111"];
        let found: Vec<(u16, u8)> =
            codes(&[3, 3, 3, 3, 3, 2, 4, 4]).iter().map(|code| (code.bits, code.length)).collect();
        assert_eq!(found, expected.map(|text| (reversed(text), text.len() as u8)));
    }

    #[test]
    fn rare_symbols_have_long_codes() {
        assert_eq!(lengths(&[0, 8, 1, 1, 2, 4], 15), [0, 1, 4, 4, 3, 2]);
        assert_eq!(lengths(&[0, 8, 1, 1, 2, 4], 3), [0, 1, 3, 3, 3, 3]);
        assert_eq!((lengths(&[0, 0, 5], 15), lengths(&[0; 3], 15)), (vec![1, 0, 1], vec![1, 1, 0]));
    }

    proptest! {
        #[test]
        fn every_symbol_has_a_code_and_all_room_is_used(mut counts in proptest::collection::vec(0_u32..2_000_000, 2..286), longest in 9_u8..16) {
            // As unequal as they come.
            for (n, count) in counts.iter_mut().enumerate() {
                *count >>= n % 21;
            }
            let lengths = lengths(&counts, longest);
            let taken: u64 = lengths.iter().filter(|length| **length > 0).map(|length| 1_u64 << (15 - length)).sum();
            prop_assert_eq!(taken, 1 << 15);
            prop_assert!(lengths.iter().zip(&counts).all(|(length, count)| *length <= longest && (*count == 0 || *length > 0)));
        }
    }
}
