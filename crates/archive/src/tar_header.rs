//! Tar headers as Go's writer makes them: USTAR, with a PAX record before it when the path does not fit.

/// Size of a tar block.
pub const BLOCK: usize = 512;
/// The kind of a regular file.
const FILE: u8 = b'0';
/// The kind of a PAX record, which belongs to the file behind it.
const PAX: u8 = b'x';

/// Appends one regular file with mode 0755 and owner 0: header, body, padding.
/// The body may come in pieces.
pub fn append_file(out: &mut Vec<u8>, path: &str, body: &[&[u8]], mtime: u64) {
    append_header(out, path, body.iter().map(|piece| piece.len() as u64).sum(), mtime);
    append_body(out, body);
}

/// Appends the headers of a regular file, which stand before its body.
pub fn append_header(out: &mut Vec<u8>, path: &str, size: u64, mtime: u64) {
    match split_ustar(path) {
        Some((prefix, name)) => Header { prefix, name, kind: FILE, size, mtime }.append(out),
        None => {
            let record = pax_record("path", path);
            let name = "PaxHeaders.0/entry";
            Header { prefix: "", name, kind: PAX, size: record.len() as u64, mtime }.append(out);
            out.extend_from_slice(&record);
            pad(out);
            // Readers that know no PAX see a cut name; those that do take the record.
            let short: String = path.chars().filter(char::is_ascii).take(100).collect();
            Header { prefix: "", name: &short, kind: FILE, size, mtime }.append(out);
        }
    }
}

/// Appends the body of a file and its padding.
pub fn append_body(out: &mut Vec<u8>, body: &[&[u8]]) {
    body.iter().for_each(|piece| out.extend_from_slice(piece));
    pad(out);
}

/// Appends the two zero blocks that end an archive.
pub fn append_end(out: &mut Vec<u8>) {
    out.resize(out.len() + 2 * BLOCK, 0);
}

fn pad(out: &mut Vec<u8>) {
    let rest = out.len() % BLOCK;
    if rest != 0 {
        out.resize(out.len() + BLOCK - rest, 0);
    }
}

/// USTAR holds ASCII paths of up to 100 bytes, or up to 155 + 1 + 100 when a slash stands in the right place.
fn split_ustar(path: &str) -> Option<(&str, &str)> {
    if !path.is_ascii() {
        return None;
    }
    if path.len() <= 100 {
        return Some(("", path));
    }
    let at = path.as_bytes()[..path.len().min(156)].iter().rposition(|b| *b == b'/')?;
    let (prefix, name) = (&path[..at], &path[at + 1..]);
    (!prefix.is_empty() && !name.is_empty() && name.len() <= 100).then_some((prefix, name))
}

/// `"<length> <key>=<value>\n"`, where the length counts itself.
fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + rest.to_string().len();
    if length.to_string().len() + rest != length {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n").into_bytes()
}

/// The fields of the header of one file.
struct Header<'a> {
    /// The part of the path before the name, when the name alone cannot hold the path.
    prefix: &'a str,
    name: &'a str,
    /// A regular file, or a PAX record.
    kind: u8,
    /// Bytes of the body.
    size: u64,
    mtime: u64,
}

impl Header<'_> {
    fn append(&self, out: &mut Vec<u8>) {
        let Self { prefix, name, kind, size, mtime } = *self;
        let start = out.len();
        out.resize(start + BLOCK, 0);
        let header = &mut out[start..];
        header[..name.len()].copy_from_slice(name.as_bytes());
        let mode: u64 = if kind == PAX { 0o644 } else { 0o755 };
        octal(&mut header[100..108], mode);
        octal(&mut header[108..116], 0);
        octal(&mut header[116..124], 0);
        octal(&mut header[124..136], size);
        octal(&mut header[136..148], mtime);
        header[156] = kind;
        header[257..265].copy_from_slice(b"ustar\x0000");
        octal(&mut header[329..337], 0);
        octal(&mut header[337..345], 0);
        header[345..345 + prefix.len()].copy_from_slice(prefix.as_bytes());
        let sum = checksum(header);
        octal(&mut header[148..155], sum);
        header[155] = b' ';
    }
}

/// Octal digits, zero-filled, with a trailing NUL. An entry never reaches 8 GiB: sizes are capped far below.
fn octal(field: &mut [u8], mut value: u64) {
    let digits = field.len() - 1;
    for slot in field[..digits].iter_mut().rev() {
        *slot = b'0' + (value & 7) as u8;
        value >>= 3;
    }
}

/// The sum of all bytes, the checksum field taken as blanks.
#[must_use]
pub fn checksum(header: &[u8]) -> u64 {
    let sum = |bytes: &[u8]| bytes.iter().fold(0u32, |sum, b| sum.wrapping_add(u32::from(*b)));
    let field = header.get(148..156).unwrap_or_default();
    let blanks = field.len() as u64 * u64::from(b' ');
    u64::from(sum(header)) - u64::from(sum(field)) + blanks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_tar_library_reads_every_kind_of_path() {
        let long = format!("resources/x/namespaces/{}/{}.json", "n".repeat(63), "a".repeat(90));
        let longer = format!("resources/x/cluster/{}.json", "b".repeat(253));
        let paths = ["metadata/version", &long, &longer, "resources/x/cluster/é漢.json", &"c".repeat(99)];
        let mut bytes = Vec::new();
        for path in paths {
            append_file(&mut bytes, path, &[path.as_bytes()], 1_700_000_000);
        }
        append_end(&mut bytes);
        let mut archive = tar::Archive::new(bytes.as_slice());
        let got: Vec<(String, String, u32, u64)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
                let mut body = String::new();
                entry.read_to_string(&mut body).unwrap();
                (path, body, entry.header().mode().unwrap(), entry.header().mtime().unwrap())
            })
            .collect();
        let expected: Vec<_> = paths.iter().map(|p| ((*p).to_owned(), (*p).to_owned(), 0o755, 1_700_000_000)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn pax_lengths_count_themselves() {
        for n in 1..300 {
            let record = String::from_utf8(pax_record("path", &"x".repeat(n))).unwrap();
            assert_eq!(record.split(' ').next().unwrap().parse::<usize>().unwrap(), record.len(), "{n}");
        }
    }
}
