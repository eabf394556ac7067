//! The code of Reed and Solomon over 256 numbers, as the Go library computes it.
//!
//! The bytes at one position of the data shards are the values of a polynomial at 0, 1, 2, …; those of the parity shards
//! are its values at the numbers that follow. Any shards, as many as there are data shards, determine the polynomial, and
//! so all others.

use std::sync::LazyLock;

/// The polynomial of the field: x^8 + x^4 + x^3 + x^2 + 1.
const FIELD: u16 = 0x11d;

struct Tables {
    log: [u8; 256],
    exp: [u8; 512],
    /// The products of all pairs.
    product: Vec<[u8; 256]>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables { log: [0; 256], exp: [0; 512], product: Vec::new() };
    let mut value = 1_u16;
    for power in 0..255_u8 {
        tables.exp[usize::from(power)] = value as u8;
        tables.exp[usize::from(power) + 255] = value as u8;
        tables.log[usize::from(value)] = power;
        value <<= 1;
        if value > 255 {
            value ^= FIELD;
        }
    }
    for a in 0..=255_u8 {
        let mut row = [0; 256];
        for (b, product) in row.iter_mut().enumerate() {
            if a != 0 && b != 0 {
                let sum = usize::from(tables.log[usize::from(a)]) + usize::from(tables.log[b]);
                *product = tables.exp[sum];
            }
        }
        tables.product.push(row);
    }
    tables
});

/// A code with so many data and parity shards, 256 together at most.
#[derive(Debug)]
pub(super) struct ReedSolomon {
    data: u8,
    parity: u8,
    /// For each parity shard what each data shard is multiplied with.
    rows: Vec<Vec<u8>>,
}

impl ReedSolomon {
    pub(super) fn new(data: usize, parity: usize) -> Self {
        let points: Vec<u8> = (0..data).map(|point| point as u8).collect();
        let rows = (data..data + parity).map(|target| weights(&points, target as u8)).collect();
        Self { data: data as u8, parity: parity as u8, rows }
    }
    pub(super) fn data(&self) -> usize {
        self.data.into()
    }
    pub(super) fn parity_count(&self) -> usize {
        self.parity.into()
    }
    pub(super) fn total(&self) -> usize {
        self.data() + self.parity_count()
    }

    /// The parity shards of data shards of one length.
    pub(super) fn parity(&self, data: &[&[u8]]) -> Vec<Vec<u8>> {
        self.rows.iter().map(|row| combine(row, data)).collect()
    }

    /// Makes the damaged ones of the data shards in `block` anew from the others and the good parity shards. `None` where
    /// these are too few.
    pub(super) fn repair(
        &self,
        block: &mut [u8],
        shard: usize,
        damaged: &[usize],
        parities: &[Option<&[u8]>],
    ) -> Option<()> {
        let mut points = Vec::new();
        let mut shards = Vec::new();
        for (number, bytes) in block.chunks_exact(shard).enumerate() {
            if !damaged.contains(&number) {
                points.push(number as u8);
                shards.push(bytes);
            }
        }
        for (number, bytes) in parities.iter().enumerate() {
            if let Some(bytes) = bytes
                && shards.len() < self.data()
            {
                points.push((self.data() + number) as u8);
                shards.push(bytes);
            }
        }
        if shards.len() < self.data() {
            return None;
        }
        let repaired: Vec<Vec<u8>> =
            damaged.iter().map(|number| combine(&weights(&points, *number as u8), &shards)).collect();
        for (number, bytes) in damaged.iter().zip(repaired) {
            block.chunks_exact_mut(shard).nth(*number)?.copy_from_slice(&bytes);
        }
        Some(())
    }
}

/// The factors of the values at the points whose sum gives the value at `target` (interpolation of Lagrange).
fn weights(points: &[u8], target: u8) -> Vec<u8> {
    let log = |number: u8| usize::from(TABLES.log[usize::from(number)]);
    points
        .iter()
        .map(|point| {
            let others = points.iter().filter(|other| *other != point);
            // Sums of logarithms, of which 255 is the whole circle. No factor is 0, because the target is no point.
            let sum = others.fold(0, |sum, other| sum + log(target ^ other) + 255 - log(point ^ other));
            TABLES.exp[sum % 255]
        })
        .collect()
}

/// The sum of the shards, each multiplied with its weight.
fn combine(weights: &[u8], shards: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0; shards.first().map_or(0, |shard| shard.len())];
    for (weight, shard) in weights.iter().zip(shards) {
        let products = &TABLES.product[usize::from(*weight)];
        for (out, byte) in out.iter_mut().zip(*shard) {
            *out ^= products[usize::from(*byte)];
        }
    }
    out
}
