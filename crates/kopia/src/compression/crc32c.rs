//! CRC-32 with the polynomial of Castagnoli, eight bytes at a time.

const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let low = crc.to_le_bytes();
        let mut next = 0;
        for (at, byte) in chunk.iter().enumerate() {
            let byte = if at < 4 { byte ^ low[at] } else { *byte };
            next ^= TABLES[7 - at][usize::from(byte)];
        }
        crc = next;
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

/// The checksum of a chunk: rotated and with a constant added, as Snappy defines it.
pub(super) fn masked(bytes: &[u8]) -> u32 {
    crc(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::{crc, masked};

    #[test]
    fn the_checksum_is_that_of_castagnoli() {
        assert_eq!(crc(b"123456789"), 0xe306_9283);
        assert_eq!(crc(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc(b""), 0);
        assert_eq!(masked(b""), 0xa282_ead8);
    }
}
