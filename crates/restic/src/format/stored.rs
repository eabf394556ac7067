//! The form in which plain bytes are stored: files of `index/` and `snapshots/` may be compressed, and so may blobs.

use super::FormatError;
use bytes::Bytes;
use std::io::Read;

/// The most bytes of a file of the repository, compressed or not, and of a blob. Restic cuts files into pieces of at most
/// 8 MiB, and indexes into much shorter ones; a tree is as long as its directory is large.
pub const MAX_PLAIN: usize = 1 << 30;

/// The first byte of a file that is compressed.
const COMPRESSED: u8 = 2;

/// Reads the plain bytes of a decrypted file: JSON as it is, or a byte of a version and zstd.
///
/// # Errors
/// Another version, a damaged stream, more than [`MAX_PLAIN`] bytes.
pub fn file(decrypted: Bytes) -> Result<Bytes, FormatError> {
    match decrypted.first() {
        Some(b'[' | b'{') => Ok(decrypted),
        Some(&COMPRESSED) => decompress(decrypted.get(1..).unwrap_or_default(), MAX_PLAIN).map(Bytes::from),
        Some(other) => {
            Err(FormatError::new(format_args!("it begins with the byte {other}, as no file of version 1 or 2 does")))
        }
        None => Err(FormatError::new("it is empty")),
    }
}

/// Decompresses a blob whose plain length the index has.
///
/// # Errors
/// A damaged stream, another length.
pub fn blob(compressed: &[u8], length: usize) -> Result<Vec<u8>, FormatError> {
    let plain = decompress(compressed, length)?;
    if plain.len() != length {
        return Err(FormatError::new(format_args!("it has {} bytes, its index says {length}", plain.len())));
    }
    Ok(plain)
}

fn decompress(stream: &[u8], limit: usize) -> Result<Vec<u8>, FormatError> {
    let bad = |error: std::io::Error| FormatError::new(format_args!("the zstd stream is damaged ({error})"));
    let decoder = zstd::stream::read::Decoder::new(stream).map_err(bad)?;
    let mut plain = Vec::with_capacity(limit.min(16 << 20));
    decoder.take((limit as u64).saturating_add(1)).read_to_end(&mut plain).map_err(bad)?;
    if plain.len() > limit {
        return Err(FormatError::new(format_args!("it has more than {limit} bytes when it is decompressed")));
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_plain_or_compressed_by_its_first_byte() {
        let plain = br#"{"a":1}"#;
        let packed = [&[COMPRESSED], zstd::bulk::compress(plain, 3).unwrap().as_slice()].concat();
        let read = |bytes: &[u8]| file(Bytes::copy_from_slice(bytes)).map_err(|e| e.why);
        assert_eq!(read(plain).as_deref(), Ok(plain.as_slice()));
        assert_eq!(read(&packed).as_deref(), Ok(plain.as_slice()));
        assert_eq!(read(&[3]), Err("it begins with the byte 3, as no file of version 1 or 2 does".to_owned()));
        assert_eq!(read(b""), Err("it is empty".to_owned()));
        assert!(read(&packed[..packed.len() - 2]).is_err());
    }

    #[test]
    fn a_blob_of_another_length_than_its_index_says_is_damaged() {
        let packed = zstd::bulk::compress(&[7; 1000], 3).unwrap();
        assert_eq!(blob(&packed, 1000), Ok(vec![7; 1000]));
        assert!(blob(&packed, 999).is_err() && blob(&packed, 1001).is_err());
    }
}
