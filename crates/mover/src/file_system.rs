//! The type of the file system on a device, by the superblock at its beginning.

/// The bytes at the beginning of a device that tell the type of its file system.
pub const SUPERBLOCKS: usize = 128 << 10;

/// The magic number of XFS, with which the device begins.
const XFS_MAGIC: &[u8] = b"XFSB";
/// The magic number of Btrfs, and its place on the device.
const BTRFS_MAGIC: &[u8] = b"_BHRfS_M";
const BTRFS_MAGIC_AT: usize = 0x1_0040;

/// The place of the superblock of ext2, ext3 and ext4 on the device; places of its fields are in it.
const EXT_SUPERBLOCK: usize = 1024;
const EXT_LOG_BLOCK_SIZE: usize = 24;
const EXT_MAGIC: usize = 56;
const EXT_COMPATIBLE: usize = 92;
const EXT_INCOMPATIBLE: usize = 96;
const EXT_READ_ONLY_COMPATIBLE: usize = 100;

/// The largest block is of 64 KiB, which is 1024 shifted by this.
const LARGEST_LOG_BLOCK_SIZE: u32 = 6;
/// `has_journal`, a compatible feature.
const HAS_JOURNAL: u32 = 0x4;
/// `journal_dev`, an incompatible feature: the device is the journal of a file system that lies on another one.
const JOURNAL_DEVICE: u32 = 0x8;
/// The incompatible features that ext3 has: `filetype`, `needs_recovery` and `meta_bg`.
const EXT3_INCOMPATIBLE: u32 = 0x2 | 0x4 | 0x10;
/// The features that ext3 has and for which others may only read: `sparse_super`, `large_file` and `btree_dir`.
const EXT3_READ_ONLY_COMPATIBLE: u32 = 0x1 | 0x2 | 0x4;

/// Finds the type of the file system on a device that begins with these bytes, as `mount` calls it; `None` where there
/// is none, or one that is not known here.
///
/// The types of ext are told apart as `blkid` does it, which kubelets ask before they mount a device.
#[must_use]
pub fn find_file_system(beginning: &[u8]) -> Option<&'static str> {
    if beginning.starts_with(XFS_MAGIC) {
        return Some("xfs");
    }
    // Programs that make XFS and Btrfs clear all that this function reads. One that makes ext may leave the magic
    // number of an earlier Btrfs.
    find_ext(beginning).or_else(|| {
        let is_btrfs = beginning.get(BTRFS_MAGIC_AT..)?.starts_with(BTRFS_MAGIC);
        is_btrfs.then_some("btrfs")
    })
}

fn find_ext(beginning: &[u8]) -> Option<&'static str> {
    let superblock = beginning.get(EXT_SUPERBLOCK..)?;
    let number = |at: usize| superblock.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    let has_magic = superblock.get(EXT_MAGIC..)?.starts_with(&0xEF53_u16.to_le_bytes());
    let (compatible, incompatible) = (number(EXT_COMPATIBLE)?, number(EXT_INCOMPATIBLE)?);
    let read_only = number(EXT_READ_ONLY_COMPATIBLE)?;
    if !has_magic || number(EXT_LOG_BLOCK_SIZE)? > LARGEST_LOG_BLOCK_SIZE || incompatible & JOURNAL_DEVICE != 0 {
        return None;
    }
    let is_ext4 = incompatible & !EXT3_INCOMPATIBLE != 0 || read_only & !EXT3_READ_ONLY_COMPATIBLE != 0;
    Some(match compatible & HAS_JOURNAL != 0 {
        _ if is_ext4 => "ext4",
        true => "ext3",
        false => "ext2",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device with these bytes at these places.
    fn device(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; SUPERBLOCKS];
        for (at, part) in parts {
            bytes[*at..*at + part.len()].copy_from_slice(part);
        }
        bytes
    }

    /// A superblock of ext with these features: compatible, incompatible, compatible for who only reads.
    fn ext(features: [u32; 3]) -> Vec<u8> {
        let mut superblock = vec![0; 1024];
        superblock[24..28].copy_from_slice(&2_u32.to_le_bytes());
        superblock[56..58].copy_from_slice(&[0x53, 0xEF]);
        for (at, feature) in [92, 96, 100].into_iter().zip(features) {
            superblock[at..at + 4].copy_from_slice(&feature.to_le_bytes());
        }
        superblock
    }

    #[test]
    fn the_types_of_ext_are_told_by_their_features() {
        for (expected, features) in [
            // The first of each type is as e2fsprogs 1.47 makes it.
            ("ext2", [0x38, 0x2, 0x3]),
            ("ext2", [0, 0, 0]),
            ("ext3", [0x3c, 0x2, 0x3]),
            ("ext3", [0x3c, 0x6, 0x3]),
            ("ext3", [0x4, 0x12, 0x7]),
            ("ext4", [0x3c, 0x2c2, 0x46b]),
            // Without a journal, then with extents, 64bit, flex_bg and metadata_csum alone.
            ("ext4", [0x38, 0x2c2, 0x46b]),
            ("ext4", [0x4, 0x40, 0]),
            ("ext4", [0x4, 0x80, 0]),
            ("ext4", [0x4, 0x200, 0]),
            ("ext4", [0x4, 0, 0x400]),
        ] {
            let device = device(&[(1024, &ext(features))]);
            assert_eq!(find_file_system(&device), Some(expected), "{features:x?}");
            // A short device, whose superblock is whole.
            assert_eq!(find_file_system(&device[..2048]), Some(expected), "{features:x?}");
        }
    }

    #[test]
    fn xfs_and_btrfs_are_found_by_their_magic_numbers() {
        let xfs = [&b"XFSB"[..], &4096_u32.to_be_bytes(), &25_600_u64.to_be_bytes()].concat();
        let agf = [&b"XAGF"[..], &1_u32.to_be_bytes()].concat();
        let agi = [&b"XAGI"[..], &1_u32.to_be_bytes()].concat();
        assert_eq!(find_file_system(&device(&[(0, &xfs), (512, &agf), (1024, &agi)])), Some("xfs"));
        // A checksum, a UUID, the place of the superblock, flags; then the magic number.
        let mut btrfs = [&[0xAB_u8; 32][..], &[0xCD; 16], &65_536_u64.to_le_bytes(), &1_u64.to_le_bytes()].concat();
        assert_eq!(btrfs.len(), 64);
        btrfs.extend(b"_BHRfS_M");
        assert_eq!(find_file_system(&device(&[(65_536, &btrfs)])), Some("btrfs"));
        // A device that had Btrfs before it was given ext4.
        let again = device(&[(1024, &ext([0x3c, 0x2c2, 0x46b])), (65_536, &btrfs)]);
        assert_eq!(find_file_system(&again), Some("ext4"));
    }

    #[test]
    fn a_device_with_no_known_file_system_has_no_type() {
        let table = [0x55_u8, 0xAA];
        let journal = ext([0, 0x8, 0]);
        let mut odd = ext([0x3c, 0x2, 0x3]);
        odd[24..28].copy_from_slice(&7_u32.to_le_bytes());
        for (bytes, case) in [
            (Vec::new(), "no byte"),
            (device(&[]), "zeros"),
            (b"XFS".to_vec(), "a magic number that is cut"),
            (device(&[(0, b"LUKS\xba\xbe")]), "an encrypted device"),
            (device(&[(510, &table), (512, b"EFI PART")]), "a partition table"),
            (device(&[(1024, &journal)]), "a journal without its file system"),
            (device(&[(1024, &odd)]), "a magic number by chance"),
            (device(&[(1024, &ext([0, 0, 0]))])[..1120].to_vec(), "a superblock that is cut"),
            (device(&[(65_600, b"_BHRfS_N")]), "another magic number"),
        ] {
            assert_eq!(find_file_system(&bytes), None, "{case}");
        }
    }
}
