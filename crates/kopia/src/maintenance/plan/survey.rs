//! The state of all contents and packs, gathered entry by entry: some 80 bytes for each pack, nothing for a content.

use super::collection::{ContentFacts, PackTime, Verdict, verdict};
use super::packs::{BlobFacts, BlobVerdict, PackUse, blob_verdict, is_collected_name, short_packs};
use super::step::{Action, Step, Waiting};
use crate::blobs::BlobInfo;
use crate::format::blob_name::session_of;
use crate::format::time::UnixNanos;
use crate::maintenance::delays::{Delays, in_words};
use std::collections::BTreeMap;

/// The contents with manifests from which on they are merged.
const MANY_MANIFESTS: u64 = 16;

/// The most packs that one run deletes: their names take 50 MB.
const MOST_DELETED: usize = 500_000;

/// The rules of a survey.
#[derive(Debug, Clone, Copy)]
pub struct SurveyRules {
    /// The time of the storage at the beginning.
    pub now: UnixNanos,
    /// The delays.
    pub delays: Delays,
    /// The watermark as it is.
    pub watermark: u64,
    /// The watermark to which it may be raised; `None` where it may not.
    pub next_watermark: Option<u64>,
}

/// An entry that counts, as the index set has it.
#[derive(Debug, Clone, Copy)]
pub struct EntryFacts {
    /// The Unix second of the entry.
    pub timestamp: u64,
    /// True where it is marked deleted.
    pub is_deleted: bool,
    /// True where a snapshot reaches it.
    pub is_referenced: bool,
    /// The prefix of the content.
    pub prefix: Option<u8>,
    /// The number of its pack.
    pub pack: u32,
    /// The length in the pack.
    pub length: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct PackRow {
    exists: bool,
    stored: Option<UnixNanos>,
    length: u64,
    is_used: bool,
    /// True where something refers to it that the next watermark does not drop.
    is_used_after_drop: bool,
    /// True where an earlier entry referred to it, which readers may still have.
    was_used: bool,
    /// True for such an entry that the next watermark does not drop.
    was_used_after_drop: bool,
    content: PackUse,
}

/// A number of things and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Total {
    /// The number.
    pub count: u64,
    /// The bytes.
    pub bytes: u64,
}

impl Total {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// A survey in the making: first all packs, then all entries and earlier ones, then [`Surveying::finish`].
#[derive(Debug)]
pub struct Surveying {
    unknown: Vec<BlobInfo>,
    survey: Survey,
}

/// The state of all contents and packs.
#[derive(Debug)]
pub struct Survey {
    rules: SurveyRules,
    rows: Vec<PackRow>,
    delete: Total,
    undelete: u64,
    young: Total,
    hidden: Total,
    manifests: u64,
    next_watermark: Option<u64>,
    unused: Vec<BlobInfo>,
    unused_after_drop: Vec<BlobInfo>,
    sessions: Vec<BlobInfo>,
    waiting: BTreeMap<&'static str, Total>,
}

impl Surveying {
    /// Begins for packs with numbers below `packs`.
    pub fn new(rules: SurveyRules, packs: usize) -> Self {
        let survey = Survey {
            rules,
            rows: vec![PackRow::default(); packs],
            delete: Total::default(),
            undelete: 0,
            young: Total::default(),
            hidden: Total::default(),
            manifests: 0,
            next_watermark: rules.next_watermark.filter(|next| *next > rules.watermark),
            unused: Vec::new(),
            unused_after_drop: Vec::new(),
            sessions: Vec::new(),
            waiting: BTreeMap::new(),
        };
        Self { unknown: Vec::new(), survey }
    }

    /// Adds a pack of the listing. `number` is its number in the index set; no entry names one without.
    pub fn pack(&mut self, blob: &BlobInfo, number: Option<u32>) {
        let rules = self.survey.rules;
        match number.and_then(|number| self.survey.rows.get_mut(number as usize)) {
            Some(row) => {
                (row.exists, row.stored, row.length) = (true, blob.modified, blob.length);
                row.content.is_metadata = blob.name.starts_with('q');
                let is_young = |stored: UnixNanos| rules.now.since(stored) < rules.delays.rewrite_age;
                row.content.is_young = blob.modified.is_none_or(is_young);
            }
            None => self.unknown.push(blob.clone()),
        }
    }

    /// Adds an entry and decides on its content.
    pub fn entry(&mut self, entry: &EntryFacts) -> Verdict {
        let survey = &mut self.survey;
        let verdict = survey.verdict(entry);
        let length = u64::from(entry.length);
        match verdict {
            Verdict::Delete => survey.delete.add(length),
            Verdict::Undelete => survey.undelete += 1,
            Verdict::Young => survey.young.add(length),
            Verdict::Deleted => survey.hidden.add(length),
            Verdict::Needed => {}
        }
        let has_manifests = entry.prefix == Some(crate::manifest::PREFIX);
        survey.manifests += u64::from(has_manifests && !entry.is_deleted);
        let rules = survey.rules;
        let is_dropped = entry.is_deleted
            && verdict != Verdict::Undelete
            && survey.next_watermark.is_some_and(|next| entry.timestamp <= next);
        if let Some(row) = survey.rows.get_mut(entry.pack as usize) {
            row.is_used = true;
            row.is_used_after_drop |= !is_dropped;
            row.content.bytes = row.content.bytes.saturating_add(length);
            if !entry.is_deleted && verdict != Verdict::Delete {
                row.content.live = row.content.live.saturating_add(length);
            }
            // Copied, it would be as young as its new pack: never old enough where a run copies it every day.
            row.content.is_young |= verdict == Verdict::Young;
            let age = rules.now.since(UnixNanos::of_seconds(entry.timestamp));
            row.content.is_young |= (0..rules.delays.rewrite_age).contains(&age);
        }
        verdict
    }

    /// Adds an entry that counted before the time that readers are given after a rewrite. Whoever has loaded it may look for
    /// its pack, though another entry counts by now: the copy of a rewrite, or what a writer has written again because it was
    /// marked deleted.
    pub fn earlier(&mut self, entry: &EntryFacts) {
        let survey = &mut self.survey;
        let is_dropped = |watermark: u64| entry.is_deleted && !entry.is_referenced && entry.timestamp <= watermark;
        let watermark = survey.rules.watermark;
        let next = survey.next_watermark.unwrap_or(watermark);
        if let Some(row) = survey.rows.get_mut(entry.pack as usize) {
            row.was_used |= !is_dropped(watermark);
            row.was_used_after_drop |= !is_dropped(next);
        }
    }

    /// Decides on all packs and markers. `name` gives the name of a pack by its number, `markers` the markers of sessions
    /// with the time in each.
    pub fn finish(mut self, name: impl Fn(u32) -> String, markers: &[(BlobInfo, UnixNanos)]) -> Survey {
        let mut sessions: BTreeMap<&str, UnixNanos> = BTreeMap::new();
        for (marker, checkpoint) in markers {
            let Some(session) = session_of(&marker.name) else { continue };
            // The clock of the writer may be behind; one without time of the storage may be as young as now.
            let seen = marker.modified.unwrap_or(self.survey.rules.now).max(*checkpoint);
            let known = sessions.entry(session).or_insert(seen);
            *known = seen.max(*known);
        }
        let rules = self.survey.rules;
        let judge = |blob: &BlobInfo, was_used: bool| {
            let session = session_of(&blob.name).and_then(|session| sessions.get(session)).copied();
            if !is_collected_name(&blob.name) {
                return BlobVerdict::Used;
            }
            let facts = BlobFacts { stored: blob.modified, is_used: false, was_used, session };
            blob_verdict(&facts, &rules.delays, rules.now)
        };
        let survey = &mut self.survey;
        let rows = std::mem::take(&mut survey.rows);
        for (marker, _) in markers {
            match judge(marker, false) {
                BlobVerdict::Delete => push(&mut survey.sessions, &mut survey.waiting, marker.clone()),
                other => wait(&mut survey.waiting, other, marker),
            }
        }
        let unknown = std::mem::take(&mut self.unknown);
        let mut decide = |blob: BlobInfo, row: &PackRow| match judge(&blob, row.was_used_after_drop) {
            BlobVerdict::Delete if row.is_used || row.was_used => {
                push(&mut survey.unused_after_drop, &mut survey.waiting, blob);
            }
            BlobVerdict::Delete => push(&mut survey.unused, &mut survey.waiting, blob),
            other => wait(&mut survey.waiting, other, &blob),
        };
        for blob in unknown {
            decide(blob, &PackRow::default());
        }
        for (number, row) in (0..).zip(&rows) {
            if row.exists && !row.is_used_after_drop {
                let blob = BlobInfo { name: name(number), length: row.length, modified: row.stored };
                decide(blob, row);
            }
        }
        survey.rows = rows;
        self.survey
    }
}

/// Adds a blob to those that are deleted. One beyond the most is counted.
fn push(blobs: &mut Vec<BlobInfo>, waiting: &mut BTreeMap<&'static str, Total>, blob: BlobInfo) {
    if blobs.len() < MOST_DELETED {
        blobs.push(blob);
    } else {
        waiting.entry("one run deletes no more: the next one goes on").or_default().add(blob.length);
    }
}

fn wait(waiting: &mut BTreeMap<&'static str, Total>, verdict: BlobVerdict, blob: &BlobInfo) {
    let reason = match verdict {
        BlobVerdict::Young => "they are younger than a day: their index may be under way",
        BlobVerdict::InSession => "the session that wrote them may go on",
        BlobVerdict::NoTime => "the storage does not say when they were stored",
        BlobVerdict::Replaced => {
            "their contents were replaced a short time ago, and readers may still look for the old ones"
        }
        BlobVerdict::Used | BlobVerdict::Delete => return,
    };
    waiting.entry(reason).or_default().add(blob.length);
}

fn step(action: Action, reason: impl Into<String>) -> Step {
    Step { action, reason: reason.into() }
}

impl Survey {
    /// Decides on the content of an entry; nothing is noted.
    pub fn verdict(&self, entry: &EntryFacts) -> Verdict {
        let pack = match self.rows.get(entry.pack as usize) {
            Some(PackRow { exists: true, stored: Some(stored), .. }) => PackTime::At(*stored),
            Some(PackRow { exists: true, .. }) => PackTime::Unknown,
            _ => PackTime::Missing,
        };
        let facts = ContentFacts {
            timestamp: entry.timestamp,
            is_deleted: entry.is_deleted,
            is_referenced: entry.is_referenced,
            has_manifests: entry.prefix == Some(crate::manifest::PREFIX),
            pack,
        };
        verdict(&facts, &self.rules.delays, self.rules.now)
    }

    /// The time at which a pack was stored, by its number.
    pub(crate) fn stored(&self, pack: u32) -> Option<UnixNanos> {
        self.rows.get(pack as usize)?.stored
    }

    /// Unreferenced things that stay for now.
    /// `has_epochs` is false for a repository whose marks only kopia drops.
    pub fn waiting(&self, has_epochs: bool) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        let mut add = |thing, things, total: Total, reason| {
            if total.count > 0 {
                waiting.push(Waiting { thing, things, count: total.count, bytes: total.bytes, reason });
            }
        };
        add(
            "content",
            "contents",
            self.young,
            "nothing refers to them, but they are younger than a day: a snapshot may be under way",
        );
        let hidden = match has_epochs {
            true => "they are marked deleted, and are dropped when later collections have seen that",
            false => "they are marked deleted; in a repository without epochs only kopia's own maintenance drops them",
        };
        add("content", "contents", self.hidden, hidden);
        for (reason, total) in &self.waiting {
            add("pack or marker", "packs and markers", *total, reason);
        }
        waiting
    }

    /// Deletions that need nothing before them.
    pub(super) fn deletions(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.unused.is_empty() {
            let action = Action::DeletePacks { packs: self.unused.clone(), after_watermark: None };
            steps.push(step(action, "no index refers to them, and they are older than a day"));
        }
        if !self.sessions.is_empty() {
            let action = Action::DeleteSessions { markers: self.sessions.clone() };
            steps.push(step(action, "their writers have not ended them for four days"));
        }
        steps
    }

    /// The packs that would be deleted, had no rewrite ended shortly before.
    pub(super) fn deletions_that_wait(&self) -> Option<Waiting> {
        let mut total = Total::default();
        for blob in self.unused.iter().chain(&self.unused_after_drop) {
            total.add(blob.length);
        }
        let reason = "packs were rewritten a short time ago, and readers may still look for the old ones";
        (total.count > 0).then_some(Waiting {
            thing: "pack",
            things: "packs",
            count: total.count,
            bytes: total.bytes,
            reason,
        })
    }

    /// The collection. It is recorded also where there is nothing to mark, because later drops count from it.
    pub(super) fn collection(&self) -> Step {
        let action = Action::Collect { deleted: self.delete.count, bytes: self.delete.bytes, undeleted: self.undelete };
        let reason = match (self.delete.count, self.undelete) {
            (0, 0) => "nothing that is old enough and not marked yet is without a snapshot",
            (_, 0) => "no snapshot refers to them",
            (0, _) => "snapshots refer to them again",
            _ => {
                "no snapshot refers to those that are marked; snapshots refer again to those whose marks are taken back"
            }
        };
        step(action, reason)
    }

    /// The raise of the watermark.
    pub(super) fn plan_drop_of_deletions(&self) -> Option<Step> {
        let action = Action::RaiseWatermark { seconds: self.next_watermark? };
        Some(step(action, "two collections, hours apart, have seen their marks"))
    }

    /// Deletions of packs to which only dropped deletions have referred.
    pub(super) fn deletions_after_drop(&self) -> Option<Step> {
        let action =
            Action::DeletePacks { packs: self.unused_after_drop.clone(), after_watermark: self.next_watermark };
        let reason = "only dropped contents are in them, and they are older than a day";
        (!self.unused_after_drop.is_empty()).then(|| step(action, reason))
    }

    /// The merge of manifests.
    pub(super) fn plan_merge_of_manifests(&self) -> Option<Step> {
        let action = Action::MergeManifests { contents: self.manifests };
        (self.manifests >= MANY_MANIFESTS)
            .then(|| step(action, "each of them is a request whenever the repository is opened"))
    }

    /// The rewrite of short packs.
    pub(super) fn rewrite(&self, max_pack_size: u64) -> Option<Step> {
        let used = (0..).zip(&self.rows).filter(|(_, row)| row.exists && row.content.live > 0);
        let chosen = short_packs(used.map(|(number, row)| (number, row.content)), max_pack_size);
        let bytes = chosen.iter().map(|(_, pack)| pack.live).sum();
        let packs: Vec<u32> = chosen.into_iter().map(|(number, _)| number).collect();
        let after = in_words(self.rules.delays.after_rewrite);
        let reason =
            format!("less than 60 % of a pack is in them; the old ones are deleted after {after} at the earliest");
        (!packs.is_empty()).then_some(step(Action::Rewrite { packs, bytes }, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::time::DAY;
    use crate::marks::Marks;

    const NOW: UnixNanos = UnixNanos(1_795_900_000_000_000_000);

    fn surveying(packs: usize) -> Surveying {
        let rules = SurveyRules { now: NOW, delays: Delays::SAFE, watermark: 0, next_watermark: None };
        Surveying::new(rules, packs)
    }

    fn blob(name: &str) -> BlobInfo {
        BlobInfo { name: name.to_owned(), length: 100, modified: Some(UnixNanos(NOW.0 - 2 * DAY)) }
    }

    /// Fifty million contents in a hundred thousand packs: nothing but bits and rows, which are dropped again here.
    #[test]
    fn memory_goes_by_packs_and_a_content_takes_a_bit() {
        assert!(size_of::<PackRow>() <= 80, "{}", size_of::<PackRow>());
        let marks = Marks::new(50_000_000);
        let mut surveying = surveying(100_000);
        for pack in 0..100_000_u32 {
            surveying.pack(&blob(&format!("p{pack:032x}-s1")), Some(pack));
        }
        for number in 0..1_000_000_u32 {
            let number = u64::from(number) * 50;
            if number % 100 == 0 {
                marks.add(number);
            }
            surveying.entry(&EntryFacts {
                timestamp: (NOW.0 / 1_000_000_000 - 3 * 86_400).unsigned_abs(),
                is_deleted: false,
                is_referenced: marks.has(number),
                prefix: None,
                pack: u32::try_from(number / 500).unwrap(),
                length: 10,
            });
        }
        let survey = surveying.finish(|pack| format!("p{pack:032x}-s1"), &[]);
        let Action::Collect { deleted, bytes, undeleted } = survey.collection().action else { panic!() };
        assert_eq!((deleted, bytes, undeleted), (500_000, 5_000_000, 0));
        assert_eq!(survey.deletions(), []);
    }

    /// A copy is as young as its pack, and would be copied again by the next run, and so on.
    #[test]
    fn a_pack_with_garbage_that_is_too_young_to_be_marked_is_not_rewritten() {
        let rewritten = |is_referenced: bool| {
            let mut surveying = surveying(2);
            let stored = Some(UnixNanos(NOW.0 - DAY + DAY / 24));
            for number in 0..2 {
                surveying.pack(&BlobInfo { modified: stored, ..blob(&format!("p0{number}-s1")) }, Some(number));
            }
            for pack in 0..2 {
                surveying.entry(&EntryFacts { is_referenced, pack, ..entry(3) });
            }
            surveying.finish(|pack| format!("p0{pack}-s1"), &[]).rewrite(1000).is_some()
        };
        assert_eq!([true, false].map(rewritten), [true, false]);
    }

    /// An entry that was written so many days ago.
    fn entry(days: i64) -> EntryFacts {
        let timestamp = ((NOW.0 - days * DAY) / 1_000_000_000).unsigned_abs();
        EntryFacts { timestamp, is_deleted: false, is_referenced: true, prefix: None, pack: 0, length: 9 }
    }

    #[test]
    fn a_pack_stays_while_readers_may_have_the_entries_that_were_replaced() {
        let next_watermark = Some(entry(2).timestamp);
        let rules = SurveyRules { now: NOW, delays: Delays::SAFE, watermark: entry(9).timestamp, next_watermark };
        // Deleted before the drop, deleted after it, or neither.
        let judged = |earlier: EntryFacts| {
            let mut surveying = Surveying::new(rules, 2);
            surveying.pack(&blob("p00-s1"), Some(0));
            surveying.pack(&blob("p01-s1"), Some(1));
            surveying.entry(&EntryFacts { pack: 1, ..entry(0) });
            surveying.earlier(&earlier);
            let survey = surveying.finish(|pack| format!("p0{pack}-s1"), &[]);
            (!survey.deletions().is_empty(), survey.deletions_after_drop().is_some())
        };
        let deleted = |days: i64| EntryFacts { is_deleted: true, is_referenced: false, ..entry(days) };
        for (earlier, expected) in [
            (entry(3), (false, false)),
            (deleted(1), (false, false)),
            (deleted(3), (false, true)),
            // A snapshot needs it again.
            (EntryFacts { is_referenced: true, ..deleted(3) }, (false, false)),
            (deleted(10), (true, false)),
        ] {
            assert_eq!(judged(earlier), expected, "{earlier:?}");
        }
    }

    #[test]
    fn packs_beyond_the_most_that_a_run_deletes_are_told() {
        let mut waiting = BTreeMap::new();
        let mut blobs = vec![blob("p0a-s1"); MOST_DELETED];
        push(&mut blobs, &mut waiting, blob("p0b-s1"));
        assert_eq!(blobs.len(), MOST_DELETED);
        let expected = ("one run deletes no more: the next one goes on", Total { count: 1, bytes: 100 });
        assert_eq!(waiting, BTreeMap::from([expected]));
    }

    #[test]
    fn packs_without_entries_go_and_those_of_a_session_stay_with_the_reason() {
        let mut surveying = surveying(1);
        for (name, number) in [("p0a-s1", Some(0)), ("p0b-s2", None), ("q0c-s3", None), ("z0d", None)] {
            surveying.pack(&blob(name), number);
        }
        let markers = [(blob("s0e-s3"), UnixNanos(NOW.0 - 9 * DAY)), (blob("s0f-s4"), UnixNanos(NOW.0 - 9 * DAY))];
        let survey = surveying.finish(|_| "p0a-s1".to_owned(), &markers);
        let deleted: Vec<String> = survey
            .deletions()
            .iter()
            .flat_map(|step| step.action.deleted_blobs())
            .map(|blob| blob.name.clone())
            .collect();
        // The marker was stored two days ago, whatever time stands in it.
        assert_eq!(deleted, ["p0b-s2", "p0a-s1"]);
        let waiting: Vec<(u64, &str)> = survey.waiting(true).iter().map(|one| (one.count, one.reason)).collect();
        assert_eq!(waiting, [(3, "the session that wrote them may go on")]);
    }
}
