//! The layout of an index and its records.

use super::entry::{Entry, ReadAt, STRUCTURE};
use crate::format::FormatError;
use crate::format::content_id::{ContentId, MAX_HASH};

const HEADER_V1: u64 = 8;
const HEADER_V2: u64 = 17;
const VALUE_V1: usize = 20;
const MIN_VALUE_V2: usize = 16;
const MAX_VALUE_V2: usize = 19;
const PACK_RECORD: u64 = 5;
const FORMAT_RECORD: u64 = 6;
/// The longest record of any version.
pub(super) const MAX_RECORD: usize = 1 + MAX_HASH + VALUE_V1;
const DELETED: u32 = 1 << 31;

/// The places of the tables of an index, and all that its entries have in common.
#[derive(Debug)]
pub(super) struct Layout {
    key_size: usize,
    value_size: usize,
    count: u64,
    header: u64,
    tables: Tables,
}

#[derive(Debug)]
enum Tables {
    V1 { overhead: u32 },
    V2 { base_timestamp: u32, packs_offset: u64, pack_count: u32, formats: Vec<Format> },
}

#[derive(Debug, Clone, Copy)]
struct Format {
    compression: u32,
    version: u8,
    key: u8,
}

/// The name of the pack of the last entry: neighbours in a walk often lie in the same pack.
#[derive(Debug, Default)]
pub(super) struct PackNames {
    last: Option<(u64, String)>,
}

fn bad(why: impl Into<String>) -> FormatError {
    FormatError::new(STRUCTURE, why)
}

pub(super) fn read_exact(source: &impl ReadAt, offset: u64, into: &mut [u8]) -> Result<(), FormatError> {
    source.read_at(offset, into).map_err(|error| bad(format!("it cannot be read at {offset} ({error})")))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u32::from_be_bytes(*chunk))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u16::from_be_bytes(*chunk))
}

/// The number in three bytes.
fn u24_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 8 | u32::from(byte_at(bytes, at + 2))
}

/// A byte that small records leave out, which is 0 then.
fn byte_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

impl Layout {
    pub(super) fn read(source: &impl ReadAt, overhead: u32) -> Result<Self, FormatError> {
        let mut header = [0; HEADER_V1 as usize];
        read_exact(source, 0, &mut header)?;
        let key_size = usize::from(header[1]);
        let value_size = usize::from(u16_at(&header, 2));
        let count = u64::from(u32_at(&header, 4));
        if count > 0 && !(2..=1 + MAX_HASH).contains(&key_size) {
            return Err(bad(format!("keys cannot have {key_size} bytes")));
        }
        let (header_size, values, tables_size, tables) = match header[0] {
            1 => (HEADER_V1, VALUE_V1..=VALUE_V1, 0, Tables::V1 { overhead }),
            2 => {
                let mut rest = [0; (HEADER_V2 - HEADER_V1) as usize];
                read_exact(source, HEADER_V1, &mut rest)?;
                let records = count * (key_size + value_size) as u64;
                let packs_offset = HEADER_V2 + records;
                let pack_count = u32_at(&rest, 0);
                let packs_size = u64::from(pack_count) * PACK_RECORD;
                let formats = read_formats(source, packs_offset + packs_size, rest[4])?;
                let tables_size = packs_size + formats.len() as u64 * FORMAT_RECORD;
                let tables = Tables::V2 { base_timestamp: u32_at(&rest, 5), packs_offset, pack_count, formats };
                (HEADER_V2, MIN_VALUE_V2..=MAX_VALUE_V2, tables_size, tables)
            }
            version => return Err(bad(format!("version {version} is not known"))),
        };
        if count > 0 && !values.contains(&value_size) {
            return Err(bad(format!("values cannot have {value_size} bytes")));
        }
        let layout = Self { key_size, value_size, count, header: header_size, tables };
        if layout.record_offset(count) + tables_size > source.size() {
            return Err(bad("it is cut off"));
        }
        Ok(layout)
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }
    pub(super) fn key_size(&self) -> usize {
        self.key_size
    }
    pub(super) fn record_size(&self) -> usize {
        self.key_size + self.value_size
    }
    pub(super) fn record_offset(&self, number: u64) -> u64 {
        self.header + number * self.record_size() as u64
    }

    /// Makes an entry of a record.
    pub(super) fn decode(
        &self,
        source: &impl ReadAt,
        record: &[u8],
        names: &mut PackNames,
    ) -> Result<Entry, FormatError> {
        let (key, value) = record.split_at_checked(self.key_size).ok_or_else(|| bad("a record is cut off"))?;
        let id = ContentId::from_key(key)?;
        match &self.tables {
            Tables::V1 { overhead } => {
                let length = value[7];
                let offset = u32_at(value, 8);
                let packed_length = u32_at(value, 16);
                let original_length = packed_length
                    .checked_sub(*overhead)
                    .ok_or_else(|| bad(format!("{id} is shorter than its encryption")))?;
                let timestamp = u64::from(u16_at(value, 0)) << 32 | u64::from(u32_at(value, 2));
                Ok(Entry {
                    id,
                    timestamp,
                    is_deleted: u32_at(value, 12) & DELETED != 0,
                    pack: names.get(source, length, offset)?,
                    offset: u32_at(value, 12) & !DELETED,
                    packed_length,
                    original_length,
                    compression: 0,
                    format_version: value[6],
                    key: 0,
                })
            }
            Tables::V2 { base_timestamp, packs_offset, pack_count, formats } => {
                let format_number = byte_at(value, 16);
                let format = formats
                    .get(usize::from(format_number))
                    .ok_or_else(|| bad(format!("{id} has the format {format_number}, which is none")))?;
                let pack = u32::from(byte_at(value, 17)) << 16 | u32::from(u16_at(value, 14));
                if pack >= *pack_count {
                    return Err(bad(format!("{id} lies in the pack {pack}, which is none")));
                }
                let mut pack_record = [0; PACK_RECORD as usize];
                let pack = match names.known(u64::from(pack)) {
                    Some(name) => name,
                    None => {
                        let at = packs_offset + u64::from(pack) * PACK_RECORD;
                        read_exact(source, at, &mut pack_record)?;
                        let name = read_name(source, pack_record[0], u32_at(&pack_record, 1))?;
                        names.last = Some((u64::from(pack), name.clone()));
                        name
                    }
                };
                let high = u32::from(byte_at(value, 18));
                Ok(Entry {
                    id,
                    timestamp: u64::from(u32_at(value, 0)) + u64::from(*base_timestamp),
                    is_deleted: u32_at(value, 4) & DELETED != 0,
                    pack,
                    offset: u32_at(value, 4) & !DELETED,
                    packed_length: (high & 15) << 24 | u24_at(value, 11),
                    original_length: (high >> 4) << 24 | u24_at(value, 8),
                    compression: format.compression,
                    format_version: format.version,
                    key: format.key,
                })
            }
        }
    }
}

impl PackNames {
    fn known(&self, key: u64) -> Option<String> {
        self.last.as_ref().filter(|(last, _)| *last == key).map(|(_, name)| name.clone())
    }
    /// The name at a position, which is its key here.
    fn get(&mut self, source: &impl ReadAt, length: u8, offset: u32) -> Result<String, FormatError> {
        let key = u64::from(length) << 32 | u64::from(offset);
        if let Some(name) = self.known(key) {
            return Ok(name);
        }
        let name = read_name(source, length, offset)?;
        self.last = Some((key, name.clone()));
        Ok(name)
    }
}

fn read_name(source: &impl ReadAt, length: u8, offset: u32) -> Result<String, FormatError> {
    let mut name = vec![0; usize::from(length)];
    read_exact(source, offset.into(), &mut name)?;
    if name.is_empty() || !name.is_ascii() {
        return Err(bad("the name of a pack is none"));
    }
    String::from_utf8(name).map_err(|_| bad("the name of a pack is none"))
}

fn read_formats(source: &impl ReadAt, offset: u64, count: u8) -> Result<Vec<Format>, FormatError> {
    let mut table = vec![0; usize::from(count) * FORMAT_RECORD as usize];
    read_exact(source, offset, &mut table)?;
    let formats = table.chunks_exact(FORMAT_RECORD as usize).map(|record| Format {
        compression: u32_at(record, 0),
        version: byte_at(record, 4),
        key: byte_at(record, 5),
    });
    Ok(formats.collect())
}
