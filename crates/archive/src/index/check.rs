//! Refuses an index that says what its archive cannot hold, or an archive beyond the limits of the reader.

use super::content::{IndexContent, MemberRange, Row};
use super::error::IndexError;
use crate::gzip::TooLarge;
use crate::tar_header::BLOCK;
use crate::tar_reader::{ReadError, ReadLimits};
use crate::tarball::segment::SEGMENT_SIZE;
use lifeboat_object::GroupResource;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::io;

/// Bytes of JSON that a row takes at the most, in the mean.
const ROW: u64 = 200;
/// Bytes of JSON beside the rows of a small index.
const FRAME: u64 = 64 << 10;
/// Bytes that a member may have beyond what stands in it: headers, and what does not compress.
const SLACK: u64 = 64 << 10;
const HEADER: u64 = BLOCK as u64;

/// Bounds that are known before a byte of the index is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The limits of the archive.
    pub(super) limits: ReadLimits,
    /// Bytes of the archive.
    pub(super) archive: u64,
}

impl Bounds {
    /// Rows that the archive can hold: an object takes two blocks of tar at least, and a byte of the archive.
    pub(super) fn rows(self) -> u64 {
        self.limits.entries.min(self.archive).min(self.limits.total / (2 * HEADER))
    }

    /// The most bytes of JSON that the index can have.
    pub(super) fn json(self) -> u64 {
        self.rows().saturating_mul(ROW).saturating_add(FRAME)
    }

    /// Tar bytes of a member: a segment is closed when it is full, and the object that fills it stands there twice.
    fn member(self) -> u64 {
        self.limits.entry.saturating_mul(2).saturating_add(SEGMENT_SIZE as u64 + SLACK)
    }
}

/// Checks that members follow each other inside the archive, that rows follow each other inside their members, so that reading
/// them all reads no byte twice, and that no object stands there twice.
pub(super) fn check(content: &IndexContent, bounds: Bounds) -> Result<(), IndexError> {
    let wrong = |what: &str| Err(IndexError::Inconsistent(what.to_owned()));
    if content.tarball.size != bounds.archive {
        return wrong("it is of another archive");
    }
    if content.rows.len() as u64 != content.tarball.objects {
        return wrong("the number of objects is not that of the archive");
    }
    if content.members.len() > content.rows.len() + 1 {
        return wrong("there are members without objects");
    }
    members(content, bounds)?;
    rows(content, bounds)?;
    let mut seen = HashSet::with_capacity(content.rows.len());
    match content.rows.iter().find(|row| !seen.insert(RowIdentity(row))) {
        Some(row) => Err(IndexError::Twice(row.key().to_string())),
        None => Ok(()),
    }
}

fn members(content: &IndexContent, bounds: Bounds) -> Result<(), IndexError> {
    let wrong = |what: String| Err(IndexError::Inconsistent(what));
    let (mut end, mut total) = (0_u64, 2 * HEADER);
    for (number, MemberRange { offset, length, tar_length }) in content.members.iter().copied().enumerate() {
        if offset != end {
            return wrong(format!("member {number} does not follow the one before"));
        }
        if tar_length > bounds.member() || length > tar_length.saturating_add(tar_length / 16 + SLACK) {
            return wrong(format!("member {number} is larger than any that is written"));
        }
        end = end.saturating_add(length);
        total = total.saturating_add(tar_length);
    }
    if end > bounds.archive {
        return wrong("members reach beyond the archive".to_owned());
    }
    if total > bounds.limits.total {
        let too_large = io::Error::new(io::ErrorKind::InvalidData, TooLarge(bounds.limits.total));
        return Err(IndexError::Refused(ReadError::Io(too_large)));
    }
    Ok(())
}

fn rows(content: &IndexContent, bounds: Bounds) -> Result<(), IndexError> {
    let limits = bounds.limits;
    let refused = |what: String| Err(IndexError::Refused(ReadError::Refused(what)));
    let (mut member, mut end, mut entries) = (0, 0, 1_u64);
    for row in &content.rows {
        let length = u64::from(row.length);
        if length > limits.entry {
            return refused(format!(
                "entry {:?} has {length} bytes, allowed are {}",
                row.key().to_string(),
                limits.entry
            ));
        }
        if row.member != member {
            end = 0;
        }
        let begin = u64::from(row.offset);
        let copies = if row.preferred { 2 } else { 1 };
        let inside = content.members.get(row.member as usize).map_or(0, |member| member.tar_length);
        if row.member < member || begin < end {
            return Err(IndexError::Inconsistent(format!("{} does not follow the object before", row.key())));
        }
        member = row.member;
        end = begin + copies * (HEADER + length.next_multiple_of(HEADER));
        if end > inside {
            return Err(IndexError::Inconsistent(format!("{} lies outside its member", row.key())));
        }
        entries += copies;
    }
    if entries > limits.entries {
        return refused(format!("it has more than {} entries", limits.entries));
    }
    Ok(())
}

/// The identity of a row: rows for the same version of the same object are equal.
struct RowIdentity<'a>(&'a Row);

impl<'a> RowIdentity<'a> {
    fn parts(&self) -> (&'a GroupResource, &'a str, &'a str, &'a str, bool) {
        let Row { resource, version, namespace, name, preferred, .. } = self.0;
        (resource, version, namespace, name, *preferred)
    }
}

impl PartialEq for RowIdentity<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for RowIdentity<'_> {}

impl Hash for RowIdentity<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use crate::gzip::pack;
    use crate::index::{INDEX_FORMAT, Index, IndexError};
    use crate::tar_reader::ReadLimits;
    use lifeboat_object::chain;

    const LIMITS: ReadLimits = ReadLimits { total: 100 << 10, entry: 8 << 10, entries: 20, extension: 1 << 10 };

    /// An index of an archive of 9,000 bytes.
    fn read(objects: &[String], members: &str) -> Result<Index, IndexError> {
        let (count, objects) = (objects.len(), objects.join(","));
        let json = format!(
            r#"{{"format":"{INDEX_FORMAT}","objects":[{objects}],"members":{members},"tarball":{{"size":9000,"sha256":"","objects":{count}}}}}"#
        );
        Index::read(pack(json.as_bytes()).as_slice(), 9000, LIMITS)
    }

    fn row(name: &str, preferred: u8, member: u64, offset: u64, length: u64) -> String {
        format!(
            r#"["pods","v1",{preferred},"a","{name}",{member},{offset},{length},"00112233445566778899aabbccddeeff"]"#
        )
    }

    fn told(read: Result<Index, IndexError>) -> Result<usize, String> {
        read.map(|index| index.rows().len()).map_err(|e| chain(&e))
    }

    #[test]
    fn an_index_says_nothing_that_the_archive_cannot_hold() {
        let two = "[[0,4000,4096],[4000,4000,4096]]";
        let good = [row("a", 1, 0, 0, 10), row("b", 0, 0, 2048, 513), row("a", 0, 1, 0, 1), row("b", 1, 1, 1024, 512)];
        assert_eq!(told(read(&good, two)), Ok(4));
        for (objects, members, expected) in [
            (vec![row("a", 1, 1, 0, 10)], "[[0,100,4096]]", "pods/a/a lies outside its member"),
            (vec![row("a", 1, 0, 0, 1600)], "[[0,100,4096]]", "pods/a/a lies outside its member"),
            (vec![row("a", 1, 0, 2560, 10)], "[[0,100,4096]]", "pods/a/a lies outside its member"),
            (vec![row("a", 1, 0, 0, 10)], "[[0,9001,16384]]", "members reach beyond the archive"),
            (vec![row("a", 1, 0, 0, 10)], "[[1,50,4096]]", "member 0 does not follow the one before"),
            (vec![], "[[0,1,1],[1,1,1]]", "there are members without objects"),
            // Either would be taken into memory.
            (vec![row("a", 1, 0, 0, 10)], "[[0,8000,1200000000]]", "member 0 is larger than any that is written"),
            (vec![row("a", 1, 0, 0, 10)], "[[0,70000,4096]]", "member 0 is larger than any that is written"),
            // The same bytes again and again.
            (vec![row("a", 1, 0, 0, 10), row("b", 1, 0, 0, 10)], two, "pods/a/b does not follow the object before"),
            (vec![row("a", 1, 0, 0, 10), row("b", 1, 0, 1024, 10)], two, "pods/a/b does not follow the object before"),
            (vec![row("a", 1, 1, 0, 10), row("b", 1, 0, 0, 10)], two, "pods/a/b does not follow the object before"),
        ] {
            let expected = format!("the index is inconsistent: {expected}");
            assert_eq!(told(read(&objects, members)), Err(expected), "{objects:?} {members}");
        }
        let twice = vec![row("a", 1, 0, 0, 10), row("a", 1, 1, 0, 10)];
        assert_eq!(told(read(&twice, two)), Err("pods/a/a stands in the archive twice".to_owned()));
        let other = Index::read(pack(b"{}").as_slice(), 1, LIMITS);
        assert!(matches!(other, Err(IndexError::Json(_))));
    }

    #[test]
    fn an_index_is_held_to_the_limits_of_the_archive() {
        let members = |count: u64| {
            let all: Vec<String> = (0..count).map(|n| format!("[{},10,10240]", n * 10)).collect();
            format!("[{}]", all.join(","))
        };
        let objects = |count: u64, length: u64| -> Vec<String> {
            (0..count).map(|n| row(&n.to_string(), 1, n, 0, length)).collect()
        };
        assert_eq!(told(read(&objects(9, 10), &members(9))), Ok(9));
        for (count, length, expected) in [
            (10, 10, "decompressed backup exceeds maximum allowed size of 102400 bytes"),
            (1, 8193, "entry \"pods/a/0\" has 8193 bytes, allowed are 8192"),
        ] {
            let members = if count == 1 { "[[0,10,20480]]".to_owned() } else { members(count) };
            let error = read(&objects(count, length), &members).unwrap_err();
            assert!(matches!(error, IndexError::Refused(_)), "{error:?}");
            let text = chain(&error);
            assert!(text.ends_with(expected), "{text}");
        }
        let small: Vec<String> = (0..10).map(|n| row(&n.to_string(), 1, 0, n * 2048, 1)).collect();
        let error = told(read(&small, "[[0,100,20480]]"));
        assert_eq!(error, Err("the archive is refused: it has more than 20 entries".to_owned()));
    }

    #[test]
    fn an_index_that_is_too_large_is_not_read_to_its_end() {
        // More rows than entries are allowed, and text without end.
        let many: Vec<String> = (0..30).map(|n| row(&n.to_string(), 0, 0, n * 1024, 1)).collect();
        let error = told(read(&many, "[[0,100,40960]]")).unwrap_err();
        assert!(error.starts_with("the index cannot be read: more than 20 rows at "), "{error}");
        let long = [row(&"x".repeat(1 << 20), 1, 0, 0, 10)];
        let error = told(read(&long, "[[0,100,4096]]")).unwrap_err();
        assert!(error.contains("exceeds maximum allowed size of 69536 bytes"), "{error}");
        let members: Vec<String> = (0..30).map(|n| format!("[{n},1,1024]")).collect();
        let error = told(read(&[], &format!("[{}]", members.join(",")))).unwrap_err();
        assert!(error.contains("more than 21 members"), "{error}");
    }
}
