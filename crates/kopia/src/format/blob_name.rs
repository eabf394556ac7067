//! Names of blobs and what they say (kopia: internal/epoch, internal/completeset, repo/content/sessions.go).

use std::fmt::{self, Display};

/// The format blob.
pub const FORMAT: &str = "kopia.repository";
/// The settings of object lock.
pub const BLOB_CONFIG: &str = "kopia.blobcfg";
/// The settings of `kopia.blobcfg` while the password changes. Kopia looks for no such name.
pub const PASSWORD_NOTE: &str = "io.lifeboat.password-change";
/// The schedule of maintenance.
pub const MAINTENANCE: &str = "kopia.maintenance";

/// The beginning of names by which creations of a repository see each other. Kopia lists no blobs of this name.
pub const CREATION_CLAIM: &str = "io.lifeboat.creation.";

/// The name of a blob, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the format's own names")]
pub enum BlobKind {
    /// `kopia.repository` and its backups, `kopia.blobcfg`, `kopia.maintenance`.
    Format,
    /// `p…`
    DataPack,
    /// `q…`
    MetadataPack,
    /// `xn<epoch>_…`
    Index { epoch: u64 },
    /// `xs<epoch>_…`
    SingleEpochIndex { epoch: u64 },
    /// `xr<first>_<last>_…`
    RangeIndex { first: u64, last: u64 },
    /// `xe<n>`
    EpochMarker { epoch: u64 },
    /// `xw<unix seconds>`
    Watermark { seconds: u64 },
    /// `n…`
    LegacyIndex,
    /// `m…`
    LegacyCompaction,
    /// `l…`
    LegacyCleanup,
    /// `s…`
    Session,
    /// `_…`
    Log,
    /// Anything else.
    Other,
}

/// Takes the name of a blob apart.
pub fn parse(name: &str) -> BlobKind {
    if name.starts_with("kopia.") {
        return BlobKind::Format;
    }
    let (head, rest) = name.split_once('_').unwrap_or((name, ""));
    let epoch = || digits(head.get(2..)?);
    let parsed = match name.get(..2).unwrap_or(name) {
        "xn" => epoch().map(|epoch| BlobKind::Index { epoch }),
        "xs" => epoch().map(|epoch| BlobKind::SingleEpochIndex { epoch }),
        "xe" => epoch().map(|epoch| BlobKind::EpochMarker { epoch }),
        "xr" => epoch().and_then(|first| {
            let last = digits(rest.split('_').next()?)?;
            Some(BlobKind::RangeIndex { first, last }).filter(|_| first <= last)
        }),
        "xw" => name.get(2..).and_then(digits).map(|seconds| BlobKind::Watermark { seconds }),
        _ => match name.as_bytes().first() {
            Some(b'p') => Some(BlobKind::DataPack),
            Some(b'q') => Some(BlobKind::MetadataPack),
            Some(b'n') => Some(BlobKind::LegacyIndex),
            Some(b'm') => Some(BlobKind::LegacyCompaction),
            Some(b'l') => Some(BlobKind::LegacyCleanup),
            Some(b's') => Some(BlobKind::Session),
            Some(b'_') => Some(BlobKind::Log),
            _ => None,
        },
    };
    parsed.unwrap_or(BlobKind::Other)
}

/// The name of a pack: its letter, `p` or `q`, random bytes, and its session.
pub fn pack_name(letter: char, random: [u8; 16], session: &str) -> String {
    format!("{letter}{}-{session}", hex::encode(random))
}

/// The name of the marker of a session.
pub fn session_marker_name(hash: &dyn Display, session: &str) -> String {
    format!("s{hash}-{session}")
}

/// The name of an index in a repository without epochs.
pub fn legacy_index_name(hash: &dyn Display, session: &str) -> String {
    format!("n{hash}-{session}")
}

/// The name of the marker with which an epoch begins.
pub fn epoch_marker_name(epoch: u64) -> String {
    format!("xe{epoch}")
}

/// The name of a watermark.
pub fn watermark_name(seconds: u64) -> String {
    format!("xw{seconds}")
}

/// A set of index blobs: what is in it, its session, and the number of its blobs.
#[derive(Debug, Clone, Copy)]
pub struct IndexSetName<'a> {
    /// The indexes in it.
    pub kind: IndexKind,
    /// The session.
    pub session: &'a str,
    /// The number of its blobs.
    pub count: u64,
}

/// The indexes in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// The entries of a flush into an epoch.
    Flush(u64),
    /// The entries of an epoch.
    Epoch(u64),
    /// The entries of epochs from one to another.
    Epochs(u64, u64),
}

impl Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flush(epoch) => write!(f, "a flush into epoch {epoch}"),
            Self::Epoch(epoch) => write!(f, "epoch {epoch}"),
            Self::Epochs(first, last) => write!(f, "epochs {first} to {last}"),
        }
    }
}

impl IndexSetName<'_> {
    /// The name of one of its blobs.
    pub fn of_blob(&self, hash: &dyn Display) -> String {
        let Self { kind, session, count } = self;
        match kind {
            IndexKind::Flush(epoch) => format!("xn{epoch}_{hash}-{session}-c{count}"),
            IndexKind::Epoch(epoch) => format!("xs{epoch}_{hash}-{session}-c{count}"),
            IndexKind::Epochs(first, last) => format!("xr{first}_{last}_{hash}-{session}-c{count}"),
        }
    }
}

/// A decimal number after characters that are no digits, which kopia passes over.
fn digits(text: &str) -> Option<u64> {
    let text = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The set that a compacted index belongs to: its ID and its number of members; `None` where the name has none, which is a
/// complete set of its own.
pub fn set_of(name: &str) -> Option<(&str, u32)> {
    let mut parts = name.split('-').skip(1);
    let id = parts.next().filter(|part| part.starts_with('s'))?;
    let count = parts.next()?.strip_prefix('c')?;
    if !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count = count.parse().ok().filter(|count| *count > 0)?;
    Some((id, count))
}

/// The session in the name of a blob.
pub fn session_of(name: &str) -> Option<&str> {
    name.split('-').skip(1).find(|part| part.starts_with('s'))
}

/// The iv in the name of an encrypted blob: the last 16 bytes of the hash before the first `-`.
pub fn iv_of(name: &str) -> Option<[u8; 16]> {
    let head = name.split('-').next().unwrap_or(name);
    let hex = head.get(head.len().checked_sub(32)?..)?;
    let mut iv = [0; 16];
    hex::decode_to_slice(hex, &mut iv).ok()?;
    Some(iv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_kind_of_its_blob() {
        let vectors = [
            ("kopia.repository", BlobKind::Format),
            ("kopia.repository.backup.me", BlobKind::Format),
            ("kopia.maintenance", BlobKind::Format),
            ("p0011-s1", BlobKind::DataPack),
            ("q0011-s1", BlobKind::MetadataPack),
            ("xn0_225193-s4f-c1", BlobKind::Index { epoch: 0 }),
            ("xn12_00-s4f-c1", BlobKind::Index { epoch: 12 }),
            ("xs3_00-s4f-c1", BlobKind::SingleEpochIndex { epoch: 3 }),
            ("xr0_12_00-s4f-c1", BlobKind::RangeIndex { first: 0, last: 12 }),
            ("xe7", BlobKind::EpochMarker { epoch: 7 }),
            ("xw1795786580", BlobKind::Watermark { seconds: 1_795_786_580 }),
            ("n0011-s1", BlobKind::LegacyIndex),
            ("m0011", BlobKind::LegacyCompaction),
            ("l0011", BlobKind::LegacyCleanup),
            ("s0011-s1", BlobKind::Session),
            ("_log_2026", BlobKind::Log),
        ];
        for (name, kind) in vectors {
            assert_eq!(parse(name), kind, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_made_tells_what_it_was_made_of() {
        let set = |kind| IndexSetName { kind, session: "s4f147", count: 3 }.of_blob(&"00ab");
        for (name, kind) in [
            (pack_name('q', [0xab; 16], "s4f147"), BlobKind::MetadataPack),
            (session_marker_name(&"00ab", "s4f147"), BlobKind::Session),
            (legacy_index_name(&"00ab", "s4f147"), BlobKind::LegacyIndex),
            (epoch_marker_name(7), BlobKind::EpochMarker { epoch: 7 }),
            (watermark_name(9), BlobKind::Watermark { seconds: 9 }),
            (set(IndexKind::Flush(7)), BlobKind::Index { epoch: 7 }),
            (set(IndexKind::Epoch(7)), BlobKind::SingleEpochIndex { epoch: 7 }),
            (set(IndexKind::Epochs(2, 7)), BlobKind::RangeIndex { first: 2, last: 7 }),
        ] {
            assert_eq!(parse(&name), kind, "{name}");
            if name.starts_with(['q', 's', 'n']) {
                assert_eq!(session_of(&name), Some("s4f147"), "{name}");
            }
        }
        assert_eq!(set_of(&set(IndexKind::Epochs(2, 7))), Some(("s4f147", 3)));
    }

    #[test]
    fn a_name_whose_numbers_cannot_be_read_is_passed_over() {
        for name in [
            "",
            "x",
            "xn",
            "xn_00",
            "xnx_00",
            "xn1x_00",
            "xe",
            "xe-1x",
            "xr5_3_00",
            "xr5",
            "xwx",
            "xz0",
            "é",
            "xe18446744073709551616",
            "udmrepo.Repository",
            ".storageconfig",
        ] {
            assert_eq!(parse(name), BlobKind::Other, "{name}");
        }
    }

    #[test]
    fn a_set_and_a_session_are_parts_of_a_name() {
        assert_eq!(set_of("xs1_00-s4f-c3"), Some(("s4f", 3)));
        for name in
            ["xs1_00", "xs1_00-4f-c3", "xs1_00-s4f", "xs1_00-s4f-3", "xs1_00-s4f-c", "xs1_00-s4f-c0", "xs1_00-s4f-c+1"]
        {
            assert_eq!(set_of(name), None, "{name}");
        }
        assert_eq!(session_of("p00-s4f09"), Some("s4f09"));
        assert_eq!(session_of("xn0_00-x-s4f-c1"), Some("s4f"));
        assert_eq!(session_of("s00"), None);
    }

    #[test]
    fn the_iv_is_the_end_of_the_hash_before_the_first_dash() {
        let iv = Some(std::array::from_fn(|number| number as u8));
        let hash = "000102030405060708090a0b0c0d0e0f";
        assert_eq!(iv_of(&format!("xn0_{hash}-s1-c1")), iv);
        assert_eq!(iv_of(&format!("n{hash}")), iv);
        assert_eq!(iv_of(&format!("_log_20260102_{hash}")), iv);
        assert_eq!(iv_of(&format!("nffff{hash}-s1")), iv);
        for name in ["", "-s1", "n00-s1", "n000102030405060708090a0b0c0d0eXX", "ñ00102030405060708090a0b0c0d0e0é"] {
            assert_eq!(iv_of(name), None, "{name}");
        }
    }
}
