//! Blocks of deflate with codes of their own (RFC 1951 3.2.3 to 3.2.7).

use super::huffman::{Code, codes, lengths};

/// Length symbols: how many bits follow, and the first length of each.
const LENGTHS: [(u8, u16); 29] = [
    (0, 3),
    (0, 4),
    (0, 5),
    (0, 6),
    (0, 7),
    (0, 8),
    (0, 9),
    (0, 10),
    (1, 11),
    (1, 13),
    (1, 15),
    (1, 17),
    (2, 19),
    (2, 23),
    (2, 27),
    (2, 31),
    (3, 35),
    (3, 43),
    (3, 51),
    (3, 59),
    (4, 67),
    (4, 83),
    (4, 99),
    (4, 115),
    (5, 131),
    (5, 163),
    (5, 195),
    (5, 227),
    (0, 258),
];
/// The order in which the lengths of the codes for lengths are sent.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// The symbol that ends a block.
const END: usize = 256;

/// A literal, or a match: in the upper half its length less three and one, in the lower half its distance less one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token(u32);

impl Token {
    pub(super) fn literal(byte: u8) -> Self {
        Self(u32::from(byte))
    }

    /// A match of 3 to 258 bytes, 1 to 32,768 bytes before.
    pub(super) fn copy(length: usize, distance: usize) -> Self {
        Self(((length as u32 - 2) << 16) | (distance as u32 - 1))
    }
}

/// Bits that wait to become bytes.
#[derive(Debug, Default)]
struct Bits {
    waiting: u64,
    count: u32,
}

impl Bits {
    /// Takes up to 32 bits.
    fn put(&mut self, out: &mut Vec<u8>, bits: u64, count: u32) {
        self.waiting |= bits << self.count;
        self.count += count;
        if self.count >= 32 {
            out.extend_from_slice(&(self.waiting as u32).to_le_bytes());
            self.waiting >>= 32;
            self.count -= 32;
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        while self.count > 0 {
            out.push(self.waiting as u8);
            self.waiting >>= 8;
            self.count = self.count.saturating_sub(8);
        }
    }
}

/// The tokens of a block, and how often each symbol occurs.
pub(super) struct Block {
    tokens: Vec<Token>,
    literals: [u32; 286],
    distances: [u32; 30],
    bits: Bits,
    /// Symbol of each length less three.
    length_symbols: [u8; 256],
}

impl Block {
    /// Creates a block for so many tokens.
    pub(super) fn new(most: usize) -> Self {
        let mut length_symbols = [0; 256];
        for (symbol, (_, first)) in LENGTHS.iter().enumerate() {
            length_symbols[usize::from(first - 3)..].fill(symbol as u8);
        }
        Self {
            tokens: Vec::with_capacity(most),
            literals: [0; 286],
            distances: [0; 30],
            bits: Bits::default(),
            length_symbols,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn literal(&mut self, byte: u8) {
        self.literals[usize::from(byte)] += 1;
        self.tokens.push(Token::literal(byte));
    }

    pub(super) fn copy(&mut self, length: usize, distance: usize) {
        self.literals[257 + usize::from(self.length_symbols[length - 3])] += 1;
        self.distances[distance_symbol(distance - 1).0] += 1;
        self.tokens.push(Token::copy(length, distance));
    }

    /// Writes the block; it is empty afterwards. After the last one the stream is complete.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, is_last: bool) {
        self.literals[END] = 1;
        let (of_literals, of_distances) = (lengths(&self.literals, 15), lengths(&self.distances, 15));
        self.bits.put(out, u64::from(is_last), 1);
        self.bits.put(out, 2, 2);
        self.header(out, &of_literals, &of_distances);
        let (literals, distances) = (codes(&of_literals), codes(&of_distances));
        // A length with what follows it: up to 15 bits and 5.
        let of_lengths: Vec<(u32, u32)> = (0..256)
            .map(|length| {
                let symbol = usize::from(self.length_symbols[length]);
                let (extra, first) = LENGTHS[symbol];
                let Code { bits, length: count } = literals[257 + symbol];
                let rest = length as u32 + 3 - u32::from(first);
                (u32::from(bits) | (rest << count), u32::from(count) + u32::from(extra))
            })
            .collect();
        let Self { tokens, bits, .. } = self;
        for Token(token) in tokens.drain(..) {
            if token < 256 {
                let code = literals[token as usize];
                bits.put(out, u64::from(code.bits), u32::from(code.length));
                continue;
            }
            let (length, count) = of_lengths[(token >> 16) as usize - 1];
            bits.put(out, u64::from(length), count);
            let (symbol, extra, rest) = distance_symbol((token & 0xffff) as usize);
            let code = distances[symbol];
            bits.put(out, u64::from(code.bits) | (rest << code.length), u32::from(code.length) + extra);
        }
        let end = literals[END];
        self.bits.put(out, u64::from(end.bits), u32::from(end.length));
        if is_last {
            self.bits.end(out);
        }
        self.literals = [0; 286];
        self.distances = [0; 30];
    }

    /// The lengths of all codes, themselves in a code.
    fn header(&mut self, out: &mut Vec<u8>, literals: &[u8], distances: &[u8]) {
        let used =
            |lengths: &[u8], least: usize| lengths.iter().rposition(|l| *l > 0).map_or(least, |at| (at + 1).max(least));
        let (literals, distances) = (&literals[..used(literals, 257)], &distances[..used(distances, 1)]);
        let all: Vec<u8> = literals.iter().chain(distances).copied().collect();
        let runs = runs(&all);
        let mut counts = [0; 19];
        runs.iter().for_each(|(symbol, _, _)| counts[usize::from(*symbol)] += 1);
        let of_runs = lengths(&counts, 7);
        let sent = ORDER.iter().rposition(|symbol| of_runs[*symbol] > 0).map_or(4, |at| (at + 1).max(4));
        self.bits.put(out, literals.len() as u64 - 257, 5);
        self.bits.put(out, distances.len() as u64 - 1, 5);
        self.bits.put(out, sent as u64 - 4, 4);
        for symbol in &ORDER[..sent] {
            self.bits.put(out, u64::from(of_runs[*symbol]), 3);
        }
        let codes = codes(&of_runs);
        for (symbol, rest, extra) in runs {
            let code = codes[usize::from(symbol)];
            self.bits.put(out, u64::from(code.bits), u32::from(code.length));
            self.bits.put(out, u64::from(rest), u32::from(extra));
        }
    }
}

/// The symbol of a distance less one, how many bits follow it, and which.
fn distance_symbol(before: usize) -> (usize, u32, u64) {
    if before < 4 {
        return (before, 0, 0);
    }
    // Two symbols for each power of two.
    let extra = before.ilog2() - 1;
    (2 * extra as usize + (before >> extra), extra, (before & ((1 << extra) - 1)) as u64)
}

/// Lengths of codes, with runs of equal ones in one symbol: the symbol, what follows it, and in how many bits.
fn runs(lengths: &[u8]) -> Vec<(u8, u8, u8)> {
    let mut out = Vec::new();
    for run in lengths.chunk_by(|a, b| a == b) {
        let (length, mut left) = (run[0], run.len());
        if length == 0 {
            while left >= 11 {
                let count = left.min(138);
                out.push((18, (count - 11) as u8, 7));
                left -= count;
            }
            if left >= 3 {
                out.push((17, (left - 3) as u8, 3));
                left = 0;
            }
        } else {
            out.push((length, 0, 0));
            left -= 1;
            while left >= 3 {
                let count = left.min(6);
                out.push((16, (count - 3) as u8, 2));
                left -= count;
            }
        }
        out.extend(std::iter::repeat_n((length, 0, 0), left));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_the_symbols_of_the_rfc() {
        for (distance, expected) in [
            (1, (0, 0, 0)),
            (4, (3, 0, 0)),
            (5, (4, 1, 0)),
            (6, (4, 1, 1)),
            (7, (5, 1, 0)),
            (24, (8, 3, 7)),
            (25, (9, 3, 0)),
            (24_577, (29, 13, 0)),
            (32_768, (29, 13, 8191)),
        ] {
            assert_eq!(distance_symbol(distance - 1), expected, "{distance}");
        }
    }

    #[test]
    fn lengths_are_sent_as_runs() {
        let mut lengths = vec![0; 150];
        lengths.extend([7; 9]);
        lengths.extend([0, 0, 5]);
        let expected =
            [(18, 127, 7), (18, 1, 7), (7, 0, 0), (16, 3, 2), (7, 0, 0), (7, 0, 0), (0, 0, 0), (0, 0, 0), (5, 0, 0)];
        assert_eq!(runs(&lengths), expected);
    }
}
