//! Reads tar archives as a stream, bounded at every step: USTAR, PAX and GNU long names.

use crate::gzip::TooLarge;
use crate::path::{ArchivePath, PathError};
use crate::tar_header::{BLOCK, checksum};
use std::io::{self, Read};

/// Bounds on what an archive may hold. Archives are untrusted.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Decompressed bytes in all.
    pub total: u64,
    /// Bytes of one entry.
    pub entry: u64,
    /// Number of entries.
    pub entries: u64,
    /// Bytes of one PAX header or long name.
    pub extension: u64,
}

impl Default for ReadLimits {
    /// 16 GiB as Velero's `--max-backup-extraction-size`, 64 MiB per object, 50 million entries, 1 MiB of PAX.
    fn default() -> Self {
        Self { total: 16 << 30, entry: 64 << 20, entries: 50_000_000, extension: 1 << 20 }
    }
}

impl ReadLimits {
    /// Bounds on a copy of an archive in our form, made of an archive within these: it may hold objects twice that the archive holds once.
    #[must_use]
    pub fn of_copy(self) -> Self {
        Self { total: u64::MAX, entries: u64::MAX, ..self }
    }
}

/// The reason for which an archive is refused.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Reading or decompressing failed; holds [`TooLarge`] when the total is exceeded.
    #[error("cannot read the archive")]
    Io(#[source] io::Error),
    /// The archive ends in the middle.
    #[error("the archive is truncated after {0} bytes of tar")]
    Truncated(u64),
    /// A header is damaged or of a kind that a backup never holds.
    #[error("the archive is damaged at byte {at} of the tar: {what}")]
    Damaged {
        /// The damage.
        what: String,
        /// The offset at which the header begins.
        at: u64,
    },
    /// A bound was passed.
    #[error("the archive is refused: {0}")]
    Refused(String),
    /// A path leaves the archive or disagrees with its object.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// The head of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarEntry {
    /// The path as written.
    pub name: String,
    /// The meaning of the path.
    pub path: ArchivePath,
    /// Offset of the entry's first header in the tar stream.
    pub offset: u64,
}

/// Reads regular files one by one; directories are passed over, anything else is refused.
pub struct TarReader<R> {
    inner: R,
    limits: ReadLimits,
    position: u64,
    entries: u64,
}

impl<R: Read> TarReader<R> {
    /// A reader of uncompressed tar; wrap the source in [`crate::gzip::capped`] with the same total.
    pub fn new(inner: R, limits: ReadLimits) -> Self {
        Self { inner, limits, position: 0, entries: 0 }
    }

    /// The next file, its bytes replacing the content of `body`; `None` at the end of the archive.
    ///
    /// # Errors
    /// [`ReadError`]; the reader must not be used afterwards.
    pub fn next_file(&mut self, body: &mut Vec<u8>) -> Result<Option<TarEntry>, ReadError> {
        let mut long_name: Option<String> = None;
        let mut long_size: Option<u64> = None;
        let mut first_header: Option<u64> = None;
        loop {
            let at = self.position;
            let mut header = [0u8; BLOCK];
            self.fill(&mut header)?;
            if header.iter().all(|b| *b == 0) {
                if first_header.is_some() {
                    return Err(ReadError::Truncated(at));
                }
                return self.end().map(|()| None);
            }
            let damaged = |what: &str| ReadError::Damaged { what: what.to_owned(), at };
            if number(&header[148..156]) != Some(checksum(&header)) {
                return Err(damaged("the checksum of a header is wrong"));
            }
            let size = long_size
                .take()
                .or_else(|| number(&header[124..136]))
                .ok_or_else(|| damaged("a size is not a number"))?;
            self.entries += 1;
            if self.entries > self.limits.entries {
                return Err(ReadError::Refused(format!("it has more than {} entries", self.limits.entries)));
            }
            let offset = *first_header.get_or_insert(at);
            match header[156] {
                b'0' | 0 | b'7' => {
                    let name = match long_name.take() {
                        Some(name) => name,
                        None => header_name(&header).ok_or_else(|| damaged("a name is not UTF-8"))?,
                    };
                    let path = ArchivePath::parse(&name)?;
                    if size > self.limits.entry {
                        return Err(ReadError::Refused(format!(
                            "entry {name:?} has {size} bytes, allowed are {}",
                            self.limits.entry
                        )));
                    }
                    self.content(size, body)?;
                    return Ok(Some(TarEntry { name, path, offset }));
                }
                b'5' => {
                    let name = match long_name.take() {
                        Some(name) => name,
                        None => header_name(&header).ok_or_else(|| damaged("a name is not UTF-8"))?,
                    };
                    if name != "./" && name != "." {
                        ArchivePath::parse(&name)?;
                    }
                    if size != 0 {
                        return Err(damaged("a directory has content"));
                    }
                    first_header = None;
                }
                kind @ (b'x' | b'g' | b'L') => {
                    if size > self.limits.extension {
                        return Err(ReadError::Refused(format!("a header extension has {size} bytes")));
                    }
                    let mut extension = Vec::new();
                    self.content(size, &mut extension)?;
                    if kind == b'L' {
                        let end = extension.iter().position(|b| *b == 0).unwrap_or(extension.len());
                        extension.truncate(end);
                        long_name =
                            Some(String::from_utf8(extension).map_err(|_| damaged("a long name is not UTF-8"))?);
                    } else if kind == b'x' {
                        for (key, value) in pax_records(&extension).ok_or_else(|| damaged("a PAX record is broken"))? {
                            match key {
                                "path" => long_name = Some(value.to_owned()),
                                "size" => {
                                    long_size = Some(value.parse().map_err(|_| damaged("a PAX size is not a number"))?);
                                }
                                _ => {}
                            }
                        }
                    }
                }
                b'1' | b'2' => {
                    let name = long_name.or_else(|| header_name(&header)).unwrap_or_default();
                    return Err(ReadError::Refused(format!("entry {name:?} is a link")));
                }
                other => return Err(damaged(&format!("entries of kind {:?} do not belong here", char::from(other)))),
            }
        }
    }

    /// Reads to the very end, so that the checksum of the last gzip member is verified and nothing hides behind.
    fn end(&mut self) -> Result<(), ReadError> {
        let mut block = [0u8; BLOCK];
        self.fill(&mut block)?;
        if block.iter().any(|b| *b != 0) {
            return Err(ReadError::Damaged { what: "data after the end".to_owned(), at: self.position });
        }
        let mut rest = [0u8; 8192];
        loop {
            match self.inner.read(&mut rest).map_err(ReadError::Io)? {
                0 => return Ok(()),
                n if rest[..n].iter().all(|b| *b == 0) => {}
                _ => return Err(ReadError::Damaged { what: "data after the end".to_owned(), at: self.position }),
            }
        }
    }

    fn content(&mut self, size: u64, body: &mut Vec<u8>) -> Result<(), ReadError> {
        body.clear();
        let got = match self.inner.by_ref().take(size).read_to_end(body) {
            Ok(got) => got as u64,
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(ReadError::Truncated(self.position + body.len() as u64));
            }
            Err(e) => return Err(ReadError::Io(e)),
        };
        self.position += got;
        if got < size {
            return Err(ReadError::Truncated(self.position));
        }
        let rest = usize::try_from(size % BLOCK as u64).unwrap_or(0);
        if rest != 0 {
            let mut padding = [0u8; BLOCK];
            self.fill(&mut padding[rest..])?;
        }
        if self.position > self.limits.total {
            return Err(ReadError::Io(io::Error::new(io::ErrorKind::InvalidData, TooLarge(self.limits.total))));
        }
        Ok(())
    }

    fn fill(&mut self, buf: &mut [u8]) -> Result<(), ReadError> {
        match self.inner.read_exact(buf) {
            Ok(()) => {
                self.position += buf.len() as u64;
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(ReadError::Truncated(self.position)),
            Err(e) => Err(ReadError::Io(e)),
        }
    }
}

fn header_name(header: &[u8; BLOCK]) -> Option<String> {
    let text = |field: &[u8]| {
        let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
        std::str::from_utf8(&field[..end]).ok().map(str::to_owned)
    };
    let name = text(&header[..100])?;
    let prefix =
        if &header[257..262] == b"ustar" && header[262] == 0 { text(&header[345..500])? } else { String::new() };
    Some(if prefix.is_empty() { name } else { format!("{prefix}/{name}") })
}

/// Octal with blanks or NULs around it, or base 256 when the top bit is set.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let (first, rest) = field.split_first()?;
        let mut value = u64::from(first & 0x7f);
        for b in rest {
            value = value.checked_mul(256)?.checked_add(u64::from(*b))?;
        }
        return Some(value);
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

fn pax_records(mut bytes: &[u8]) -> Option<Vec<(&str, &str)>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let blank = bytes.iter().take(20).position(|b| *b == b' ')?;
        let length: usize = std::str::from_utf8(&bytes[..blank]).ok()?.parse().ok()?;
        let record = bytes.get(blank + 1..length)?;
        let record = std::str::from_utf8(record).ok()?.strip_suffix('\n')?;
        out.push(record.split_once('=')?);
        bytes = &bytes[length..];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tar_header::{append_end, append_file};
    use proptest::prelude::*;

    fn read(bytes: &[u8], limits: ReadLimits) -> Result<Vec<(String, Vec<u8>, u64)>, ReadError> {
        let mut reader = TarReader::new(bytes, limits);
        let (mut out, mut body) = (Vec::new(), Vec::new());
        while let Some(entry) = reader.next_file(&mut body)? {
            out.push((entry.name, body.clone(), entry.offset));
        }
        Ok(out)
    }

    fn with_library(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        build(&mut builder);
        builder.into_inner().unwrap()
    }

    fn header(kind: tar::EntryType, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o755);
        header
    }

    #[test]
    fn reads_ustar_pax_and_gnu() {
        let long = format!("resources/x/cluster/{}.json", "b".repeat(200));
        let mut ours = Vec::new();
        append_file(&mut ours, "metadata/version", &[b"1.1.0\n"], 0);
        append_file(&mut ours, &long, &[b"{}"], 0);
        append_end(&mut ours);
        assert_eq!(
            read(&ours, ReadLimits::default()).unwrap(),
            vec![("metadata/version".to_owned(), b"1.1.0\n".to_vec(), 0), (long.clone(), b"{}".to_vec(), 1024)]
        );
        let gnu = with_library(|b| {
            b.append_data(&mut header(tar::EntryType::Directory, 0), "resources/", &[][..]).unwrap();
            b.append_data(&mut header(tar::EntryType::Regular, 2), &long, &b"{}"[..]).unwrap();
        });
        assert_eq!(read(&gnu, ReadLimits::default()).unwrap(), vec![(long, b"{}".to_vec(), 512)]);
    }

    #[test]
    fn refuses_hostile_archives() {
        let small = ReadLimits { total: 4096, entry: 1000, entries: 3, extension: 600 };
        let mut link = header(tar::EntryType::Symlink, 0);
        link.set_link_name("/etc").unwrap();
        link.set_path("resources/x").unwrap();
        link.set_cksum();
        let mut device = header(tar::EntryType::Char, 0);
        device.set_path("dev").unwrap();
        device.set_cksum();
        let raw = |header: &tar::Header| [header.as_bytes().as_slice(), &[0; 1024]].concat();
        let file = |path: &str, size: usize| {
            let mut out = Vec::new();
            append_file(&mut out, path, &[&vec![b'x'; size]], 0);
            append_end(&mut out);
            out
        };
        let mut huge = header(tar::EntryType::Regular, 1 << 40);
        huge.set_path("a").unwrap();
        huge.set_cksum();
        let mut many = Vec::new();
        for _ in 0..4 {
            append_file(&mut many, "a", &[], 0);
        }
        let mut broken = file("a", 1);
        broken[0] = b'z';
        for (bytes, expected) in [
            (raw(&link), "the archive is refused: entry \"resources/x\" is a link"),
            (raw(&device), "the archive is damaged at byte 0 of the tar: entries of kind '3' do not belong here"),
            (file("../x", 1), "invalid archive path \"../x\": escapes target directory"),
            (file("/x", 1), "invalid archive path \"/x\": escapes target directory"),
            (file("a", 1001), "the archive is refused: entry \"a\" has 1001 bytes, allowed are 1000"),
            (file(&"p".repeat(700), 1), "the archive is refused: a header extension has 710 bytes"),
            (raw(&huge), "the archive is refused: entry \"a\" has 1099511627776 bytes, allowed are 1000"),
            (many, "the archive is refused: it has more than 3 entries"),
            (broken, "the archive is damaged at byte 0 of the tar: the checksum of a header is wrong"),
            (file("a", 600)[..700].to_vec(), "the archive is truncated after 700 bytes of tar"),
            (file("a", 5)[..1024].to_vec(), "the archive is truncated after 1024 bytes of tar"),
            (
                [file("a", 5), file("b", 5)].concat(),
                "the archive is damaged at byte 2048 of the tar: data after the end",
            ),
        ] {
            assert_eq!(read(&bytes, small).unwrap_err().to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..1600), fix in any::<bool>()) {
            if fix && bytes.len() >= BLOCK {
                let sum = format!("{:06o}\0 ", checksum(&bytes[..BLOCK]));
                bytes[148..156].copy_from_slice(sum.as_bytes());
            }
            let _ = read(&bytes, ReadLimits { total: 10_000, entry: 10_000, entries: 10, extension: 1000 });
        }
    }
}
