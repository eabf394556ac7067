//! A plan as a file (docs/formats/plan.md): read, written, packed line by line, and compared with another one. Pure.

use crate::plan::line::{PlanDigest, PlanLine};
use crate::plan::word::PlanWord;
use lifeboat_archive::gzip::{self, Pieces};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

/// The most bytes of the lines of a plan that a restore is held to: some two million objects.
pub(crate) const LARGEST: u64 = 512 << 20;
/// The most bytes of one line. Names of Kubernetes have 253 characters.
const LONGEST_LINE: u64 = 64 << 10;

/// A plan in a file: a line that says which, and a line for each object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFile {
    /// The digest of its lines.
    pub digest: String,
    /// The restore that stored it; empty for one that a user saved.
    pub restore_uid: String,
    /// Its lines, in the order of the restore.
    pub lines: Vec<PlanLine>,
}

impl PlanFile {
    /// Reads one; `None` when it is none, or its lines are not those of its digest.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (digest, restore_uid) = first(lines.next()?)?;
        let lines: Vec<PlanLine> = lines.map(PlanLine::parse).collect::<Option<_>>()?;
        let mut sum = PlanDigest::default();
        lines.iter().for_each(|line| sum.add(line));
        (sum.end() == digest).then_some(Self { digest, restore_uid, lines })
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = first_line(&self.digest, &self.restore_uid);
        for line in &self.lines {
            out.push_str(line.text());
            out.push('\n');
        }
        out
    }

    /// The differences between two plans, in the order of the objects' names. An object may have several lines, because
    /// two namespaces can become one: lines that both plans have are equal, and the others are paired in their order.
    #[must_use]
    pub fn changes(&self, now: &Self) -> Vec<PlanChange> {
        let mut objects: BTreeMap<String, [Vec<&PlanLine>; 2]> = BTreeMap::new();
        for (side, plan) in [self, now].into_iter().enumerate() {
            for line in &plan.lines {
                let object = line.object().unwrap_or_default();
                objects.entry(object).or_default()[side].push(line);
            }
        }
        let mut out = Vec::new();
        for (object, [mut before, mut now]) in objects {
            before.retain(|line| match now.iter().position(|one| one == line) {
                Some(at) => {
                    now.remove(at);
                    false
                }
                None => true,
            });
            for at in 0..before.len().max(now.len()) {
                let action = |lines: &[&PlanLine]| lines.get(at).and_then(|line| line.action());
                out.push(PlanChange { object: object.clone(), before: action(&before), now: action(&now) });
            }
        }
        out
    }
}

/// A line of which two plans differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanChange {
    /// Type, namespace and name of its object.
    pub object: String,
    /// The planned action of the plan before; `None` when that plan lacks the line.
    pub before: Option<PlanWord>,
    /// The planned action of this plan; `None` when this plan lacks the line.
    pub now: Option<PlanWord>,
}

/// The first line of a plan, with its end.
fn first_line(digest: &str, restore_uid: &str) -> String {
    format!("{}\n", json!({"planDigest": digest, "restoreUID": restore_uid}))
}

/// The digest and the restore of a first line.
fn first(line: &str) -> Option<(String, String)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    Some((field("planDigest"), field("restoreUID")))
}

/// A plan that is packed line by line: neither all lines nor their text are in memory.
#[derive(Default)]
pub(crate) struct PackedPlan {
    digest: PlanDigest,
    lines: Pieces,
    counts: BTreeMap<PlanWord, u64>,
    bytes: u64,
}

impl PackedPlan {
    /// Takes a line.
    pub(crate) fn add(&mut self, line: &PlanLine) {
        self.digest.add(line);
        if let Some(word) = line.action() {
            *self.counts.entry(word).or_default() += 1;
        }
        for piece in [line.text(), "\n"] {
            self.lines.add(piece.as_bytes());
            self.bytes += piece.len() as u64;
        }
    }

    /// Returns true if it has more bytes than can be read again.
    pub(crate) fn is_too_large(&self) -> bool {
        self.bytes > LARGEST
    }

    /// Number of objects that it would create, update and so on, for people.
    pub(crate) fn counts(&self) -> String {
        self.counts.iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ")
    }

    /// Its digest, and how it is packed when it is stored as that of a restore. The first line, which has the digest, is a gzip
    /// member of its own.
    pub(crate) fn end(self, restore_uid: impl FnOnce(&str) -> String) -> (String, Vec<u8>) {
        let digest = self.digest.end();
        let mut packed = gzip::pack(first_line(&digest, &restore_uid(&digest)).as_bytes());
        packed.extend(self.lines.end());
        (digest, packed)
    }
}

/// Reads a packed plan line by line, if it is that of a restore and has this digest. `None` when it is another one, or is not whole,
/// which may be known only after the last line.
pub(crate) fn read_packed(
    packed: &[u8],
    restore_uid: &str,
    digest: &str,
    mut take: impl FnMut(&PlanLine),
) -> Option<()> {
    // The first line does not count.
    let mut text = BufReader::new(gzip::capped(packed, LARGEST + LONGEST_LINE));
    let (stored_digest, stored_uid) = first(&next_line(&mut text)??)?;
    if (&*stored_digest, &*stored_uid) != (digest, restore_uid) {
        return None;
    }
    let mut sum = PlanDigest::default();
    while let Some(line) = next_line(&mut text)? {
        let line = PlanLine::parse(&line)?;
        sum.add(&line);
        take(&line);
    }
    (sum.end() == digest).then_some(())
}

/// The next line, without its end; `Some(None)` at the end of the text, `None` when it cannot be read.
fn next_line(text: &mut impl BufRead) -> Option<Option<String>> {
    let mut line = String::new();
    text.by_ref().take(LONGEST_LINE).read_line(&mut line).ok()?;
    match line.pop() {
        None => Some(None),
        Some('\n') => Some(Some(line)),
        // Cut off, or too long.
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::guard::PlanGuard;
    use crate::plan::planned::{Planned, PreviewItem};
    use lifeboat_object::{GroupResource, ObjectKey};

    fn line(name: &str, planned: Planned, written: &str) -> PlanLine {
        let key = ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name);
        PlanLine::of(&PreviewItem {
            pin: PlanGuard::of(None, &json!({"data": written})),
            ..PreviewItem::of(key, planned)
        })
    }

    fn file(lines: Vec<PlanLine>) -> PlanFile {
        let mut digest = PlanDigest::default();
        lines.iter().for_each(|line| digest.add(line));
        PlanFile { digest: digest.end(), restore_uid: "r".to_owned(), lines }
    }

    #[test]
    fn a_plan_is_read_as_it_was_written_and_not_when_somebody_changed_it() {
        let plan = file(vec![line("a", Planned::Create, "a"), line("b", Planned::Unchanged, "b")]);
        let text = plan.text();
        assert_eq!(PlanFile::parse(&text), Some(plan));
        assert_eq!(PlanFile::parse(&text.replace("create", "update")), None);
        assert_eq!((PlanFile::parse(""), PlanFile::parse("{}")), (None, None));
    }

    #[test]
    fn a_plan_is_packed_line_by_line_into_what_it_would_be_as_a_whole() {
        let plan = file(vec![line("a", Planned::Create, "a"), line("b", Planned::Unchanged, "b")]);
        let mut packing = PackedPlan::default();
        plan.lines.iter().for_each(|line| packing.add(line));
        assert_eq!((packing.counts(), packing.is_too_large()), ("create 1, unchanged 1".to_owned(), false));
        let (digest, packed) = packing.end(|_| "r".to_owned());
        assert_eq!(digest, plan.digest);
        let text = gzip::unpack(&packed, LARGEST).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), plan.text());
        let read = |packed: &[u8], uid: &str, digest: &str| {
            let mut lines = Vec::new();
            read_packed(packed, uid, digest, |line| lines.push(line.clone())).map(|()| lines)
        };
        assert_eq!(read(&packed, "r", &digest), Some(plan.lines.clone()));
        // Also as a whole, in one member.
        assert_eq!(read(&gzip::pack(plan.text().as_bytes()), "r", &digest), Some(plan.lines.clone()));
        let lacking = plan.text().lines().next().unwrap().to_owned() + "\n";
        let long = format!("{lacking}{}\n", "x".repeat(1 << 20));
        for (packed, uid, digest) in [
            (packed.clone(), "other", &*digest),
            (packed.clone(), "r", "sha256:0"),
            (packed[..packed.len() - 1].to_vec(), "r", &digest),
            (gzip::pack(lacking.as_bytes()), "r", &digest),
            (gzip::pack(long.as_bytes()), "r", &digest),
            (Vec::new(), "r", &digest),
        ] {
            assert_eq!(read(&packed, uid, digest), None);
        }
    }

    fn change(object: &str, before: Option<&str>, now: Option<&str>) -> PlanChange {
        let [before, now] = [before, now].map(|word| word.map(|word| word.parse().unwrap()));
        PlanChange { object: format!("configmaps/shop/{object}"), before, now }
    }

    #[test]
    fn two_plans_differ_by_objects() {
        let before = file(vec![line("a", Planned::Create, "a"), line("b", Planned::Unchanged, "b")]);
        let now = file(vec![line("a", Planned::Update(Vec::new()), "a"), line("c", Planned::Create, "c")]);
        let expected = [
            change("a", Some("create"), Some("update")),
            change("b", Some("unchanged"), None),
            change("c", None, Some("create")),
        ];
        assert_eq!(before.changes(&now), expected);
        assert_eq!(before.changes(&before), []);
    }

    #[test]
    fn every_line_of_an_object_with_several_counts() {
        let [first, second, third] = ["1", "2", "3"].map(|written| line("a", Planned::Create, written));
        let plan = |lines: &[&PlanLine]| file(lines.iter().map(|line| (*line).clone()).collect());
        let before = plan(&[&first, &second]);
        for (now, expected) in [
            (plan(&[&second, &first]), vec![]),
            (plan(&[&third, &second]), vec![change("a", Some("create"), Some("create"))]),
            (plan(&[&second]), vec![change("a", Some("create"), None)]),
            (plan(&[&first, &second, &second]), vec![change("a", None, Some("create"))]),
        ] {
            assert_eq!(before.changes(&now), expected);
        }
    }
}
