//! Writing of indexes.

use super::entry::{Entry, STRUCTURE};
use crate::format::FormatError;
use std::borrow::Borrow;
use std::collections::HashMap;

/// The first length of a content that an index cannot hold.
pub const MAX_LENGTH: u32 = 1 << 28;
/// The first offset in a pack that an index cannot hold.
pub const MAX_OFFSET: u32 = 1 << 30;
const DELETED: u32 = 1 << 31;
const MAX_PACKS: usize = 1 << 24;
const MAX_FORMATS: usize = 255;

fn bad(why: impl Into<String>) -> FormatError {
    FormatError::new(STRUCTURE, why)
}

/// Writes an index of version 1 or 2 from sorted entries with one key length.
///
/// # Errors
/// No entries; entries out of order or twice, lengths from 2^28, offsets from 2^30, times beyond 32 bits (48 in version 1),
/// compression or a key in version 1, names of packs that are too long, more packs or formats than fit.
pub fn build(version: u8, entries: &[impl Borrow<Entry>]) -> Result<Vec<u8>, FormatError> {
    let entries: Vec<&Entry> = entries.iter().map(Borrow::borrow).collect();
    let first = entries.first().ok_or_else(|| bad("it has no entries"))?;
    let key_size = first.id.key_length();
    for (before, entry) in entries.iter().zip(&entries[1..]) {
        if before.id >= entry.id {
            return Err(bad(format!("{} does not follow {}", entry.id, before.id)));
        }
    }
    for entry in &entries {
        check(entry, key_size)?;
    }
    match version {
        1 => build_v1(&entries, key_size),
        2 => build_v2(&entries, key_size),
        _ => Err(bad(format!("version {version} cannot be written"))),
    }
}

fn check(entry: &Entry, key_size: usize) -> Result<(), FormatError> {
    let refuse = |why: &str| Err(bad(format!("{} {why}", entry.id)));
    if entry.id.key_length() != key_size {
        return refuse("has another length than the others");
    }
    if entry.packed_length >= MAX_LENGTH || entry.original_length >= MAX_LENGTH {
        return refuse("is too long");
    }
    if entry.offset >= MAX_OFFSET {
        return refuse("lies too far in its pack");
    }
    if entry.pack.is_empty() || entry.pack.len() > 255 {
        return refuse("has a pack whose name is too long or empty");
    }
    Ok(())
}

/// Values by the order of their first appearance.
struct Numbered<'a, T: ?Sized> {
    numbers: HashMap<&'a T, usize>,
    values: Vec<&'a T>,
}

impl<'a, T: Eq + std::hash::Hash + ?Sized> Numbered<'a, T> {
    fn new() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new() }
    }
    fn number(&mut self, value: &'a T) -> usize {
        *self.numbers.entry(value).or_insert_with(|| {
            self.values.push(value);
            self.values.len() - 1
        })
    }
}

/// The offset of each name when they lie one after the other from `start`.
fn offsets(names: &[&str], start: usize) -> Result<Vec<u32>, FormatError> {
    let mut at = start;
    let mut offsets = Vec::with_capacity(names.len());
    for name in names {
        offsets.push(u32::try_from(at).map_err(|_| bad("it is too long"))?);
        at += name.len();
    }
    Ok(offsets)
}

fn header(out: &mut Vec<u8>, version: u8, sizes: (usize, usize), count: usize) -> Result<(), FormatError> {
    let count = u32::try_from(count).map_err(|_| bad("it has too many entries"))?;
    out.push(version);
    out.push(sizes.0 as u8);
    out.extend_from_slice(&(sizes.1 as u16).to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

fn deleted_and_offset(entry: &Entry) -> [u8; 4] {
    let flag = if entry.is_deleted { DELETED } else { 0 };
    (flag | entry.offset).to_be_bytes()
}

fn build_v1(entries: &[&Entry], key_size: usize) -> Result<Vec<u8>, FormatError> {
    let mut packs = Numbered::new();
    for entry in entries {
        if entry.compression != 0 || entry.key != 0 {
            return Err(bad(format!("{} is compressed or has a key, which version 1 cannot tell", entry.id)));
        }
        packs.number(entry.pack.as_str());
    }
    let value_size = 20;
    let records = entries.len() * (key_size + value_size);
    let names = offsets(&packs.values, 8 + records)?;
    let mut out = Vec::with_capacity(8 + records);
    header(&mut out, 1, (key_size, value_size), entries.len())?;
    for entry in entries {
        entry.id.write_key(&mut out);
        let time = entry.timestamp.to_be_bytes();
        if time[..2] != [0, 0] {
            return Err(bad(format!("the time of {} is too large", entry.id)));
        }
        out.extend_from_slice(&time[2..]);
        out.push(entry.format_version);
        out.push(entry.pack.len() as u8);
        out.extend_from_slice(&names[packs.number(entry.pack.as_str())].to_be_bytes());
        out.extend_from_slice(&deleted_and_offset(entry));
        out.extend_from_slice(&entry.packed_length.to_be_bytes());
    }
    for name in packs.values {
        out.extend_from_slice(name.as_bytes());
    }
    Ok(out)
}

/// The compression, format version and key of an entry.
type Format = (u32, u8, u8);

fn build_v2(entries: &[&Entry], key_size: usize) -> Result<Vec<u8>, FormatError> {
    let formats_of_entries: Vec<Format> =
        entries.iter().map(|entry| (entry.compression, entry.format_version, entry.key)).collect();
    let (mut packs, mut formats) = (Numbered::new(), Numbered::new());
    let mut longest = 0;
    for (entry, format) in entries.iter().zip(&formats_of_entries) {
        packs.number(entry.pack.as_str());
        formats.number(format);
        longest = longest.max(entry.packed_length).max(entry.original_length);
    }
    if packs.values.len() > MAX_PACKS || formats.values.len() > MAX_FORMATS {
        return Err(bad("it has too many packs or formats"));
    }
    let value_size = if longest >= 1 << 24 {
        19
    } else if packs.values.len() > 1 << 16 {
        18
    } else if formats.values.len() > 1 {
        17
    } else {
        16
    };
    let records = 17 + entries.len() * (key_size + value_size);
    let names_offset = records + 5 * packs.values.len() + 6 * formats.values.len();
    let names = offsets(&packs.values, names_offset)?;
    let mut out = Vec::with_capacity(names_offset);
    header(&mut out, 2, (key_size, value_size), entries.len())?;
    out.extend_from_slice(&(packs.values.len() as u32).to_be_bytes());
    out.push(formats.values.len() as u8);
    // The base of the times: kopia writes 0 always.
    out.extend_from_slice(&[0; 4]);
    for (entry, format) in entries.iter().zip(&formats_of_entries) {
        entry.id.write_key(&mut out);
        let value_offset = out.len();
        let time = u32::try_from(entry.timestamp).map_err(|_| bad(format!("the time of {} is too large", entry.id)))?;
        let pack = (packs.number(entry.pack.as_str()) as u32).to_be_bytes();
        let original = entry.original_length.to_be_bytes();
        let packed = entry.packed_length.to_be_bytes();
        out.extend_from_slice(&time.to_be_bytes());
        out.extend_from_slice(&deleted_and_offset(entry));
        out.extend_from_slice(&original[1..]);
        out.extend_from_slice(&packed[1..]);
        out.extend_from_slice(&pack[2..]);
        out.push(formats.number(format) as u8);
        out.push(pack[1]);
        out.push(original[0] << 4 | packed[0]);
        out.truncate(value_offset + value_size);
    }
    for (name, offset) in packs.values.iter().zip(names) {
        out.push(name.len() as u8);
        out.extend_from_slice(&offset.to_be_bytes());
    }
    for (compression, version, key) in formats.values {
        out.extend_from_slice(&compression.to_be_bytes());
        out.extend_from_slice(&[*version, *key]);
    }
    for name in packs.values {
        out.extend_from_slice(name.as_bytes());
    }
    Ok(out)
}
