//! Packs that nobody refers to, and packs that are worth to be rewritten (kopia: repo/maintenance/blob_gc.go,
//! content_rewrite.go).

use crate::format::maintenance::MaintenanceRun;
use crate::format::time::UnixNanos;
use crate::maintenance::delays::Delays;

/// A pack or a marker of a session, as the listing and the entries tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobFacts {
    /// The time at which it was stored, by the clock of the storage.
    pub stored: Option<UnixNanos>,
    /// True where an entry refers to it that counts: live, or marked deleted and not dropped.
    pub is_used: bool,
    /// True where entries that were replaced a short time ago referred to it, so that readers may still look for it.
    pub was_used: bool,
    /// The youngest sign of life of its session: the time in its marker or that of the marker itself; `None` without one.
    pub session: Option<UnixNanos>,
}

/// The decision on a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobVerdict {
    /// An entry refers to it.
    Used,
    /// It is too young: its index may be under way.
    Young,
    /// Its session may go on.
    InSession,
    /// The storage does not say when it was stored.
    NoTime,
    /// Its contents were replaced a short time ago.
    Replaced,
    /// It is deleted.
    Delete,
}

/// Decides on a pack or a marker. `now` is the time of the storage at the beginning of maintenance; the entries were loaded
/// after it.
pub fn blob_verdict(blob: &BlobFacts, delays: &Delays, now: UnixNanos) -> BlobVerdict {
    let cutoff = now.0.saturating_add(delays.after_begin);
    let is_alive = |seen: UnixNanos| cutoff.saturating_sub(seen.0) < delays.session_age;
    match blob.stored {
        _ if blob.is_used => BlobVerdict::Used,
        None => BlobVerdict::NoTime,
        Some(stored) if cutoff.saturating_sub(stored.0) < delays.blob_age => BlobVerdict::Young,
        Some(_) if blob.session.is_some_and(is_alive) => BlobVerdict::InSession,
        Some(_) if blob.was_used => BlobVerdict::Replaced,
        Some(_) => BlobVerdict::Delete,
    }
}

/// True for a name that maintenance may delete as a pack or marker: kopia looks for no others.
pub fn is_collected_name(name: &str) -> bool {
    matches!(name.as_bytes(), [b'p' | b'q' | b's', digit, ..] if digit.is_ascii_hexdigit())
}

/// The time from which on packs may be deleted after the last rewrite: readers may still look for those that were replaced.
/// `runs` are those of both tasks that rewrite. A run that failed counts as well, and one that has no end goes on.
pub fn deletion_waits_until<'a>(
    runs: impl IntoIterator<Item = &'a MaintenanceRun>,
    delays: &Delays,
) -> Option<UnixNanos> {
    let end = runs.into_iter().filter_map(|run| run.end.max(run.start)).max()?;
    Some(UnixNanos(end.0.saturating_add(delays.after_rewrite)))
}

/// The contents of a pack, as far as they are not to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PackUse {
    /// The stored bytes of all entries that refer to it, those marked deleted among them.
    pub bytes: u64,
    /// The stored bytes of the live ones.
    pub live: u64,
    /// True for a pack of contents with a prefix, `q…`.
    pub is_metadata: bool,
    /// True where a content in it, or the pack itself, is too young to be rewritten.
    pub is_young: bool,
}

impl PackUse {
    /// True where it holds less than 60 % of what a pack may hold.
    fn is_short(&self, max_pack_size: u64) -> bool {
        self.bytes < max_pack_size.saturating_mul(60) / 100
    }
}

/// Chooses the packs whose live contents are copied into new ones: short ones, where there are at least two of a kind. One
/// without live contents goes by itself, and copying a deletion would renew its time.
pub fn short_packs(packs: impl Iterator<Item = (u32, PackUse)>, max_pack_size: u64) -> Vec<(u32, PackUse)> {
    let is_chosen = |pack: &PackUse| pack.live > 0 && !pack.is_young && pack.is_short(max_pack_size);
    let mut chosen: Vec<(u32, PackUse)> = packs.filter(|(_, pack)| is_chosen(pack)).collect();
    for is_metadata in [false, true] {
        let is_kind = |(_, pack): &(u32, PackUse)| pack.is_metadata == is_metadata;
        if chosen.iter().filter(|pack| is_kind(pack)).count() < 2 {
            chosen.retain(|pack| !is_kind(pack));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::time::HOUR;

    const NOW: UnixNanos = UnixNanos(1_795_900_000_000_000_000);

    fn ago(hours: i64) -> UnixNanos {
        UnixNanos(NOW.0 - hours * HOUR)
    }

    #[test]
    fn a_pack_goes_when_nobody_refers_to_it_and_its_session_is_over() {
        let old = BlobFacts { stored: Some(ago(24)), is_used: false, was_used: false, session: None };
        for (blob, expected) in [
            (old, BlobVerdict::Delete),
            (BlobFacts { is_used: true, ..old }, BlobVerdict::Used),
            (BlobFacts { stored: None, ..old }, BlobVerdict::NoTime),
            (BlobFacts { stored: Some(ago(23)), ..old }, BlobVerdict::Young),
            // Stored after maintenance began.
            (BlobFacts { stored: Some(ago(-1)), ..old }, BlobVerdict::Young),
            (BlobFacts { session: Some(ago(95)), ..old }, BlobVerdict::InSession),
            (BlobFacts { session: Some(ago(-48)), ..old }, BlobVerdict::InSession),
            (BlobFacts { session: Some(ago(96)), ..old }, BlobVerdict::Delete),
            (BlobFacts { was_used: true, ..old }, BlobVerdict::Replaced),
        ] {
            assert_eq!(blob_verdict(&blob, &Delays::SAFE, NOW), expected, "{blob:?}");
        }
    }

    #[test]
    fn blobs_of_other_names_are_never_deleted() {
        let names = ["p00", "qff-s1", "s4f", "p", "pz", "xn0_0", "n00", "kopia.repository", "io.lifeboat", "_log_"];
        assert_eq!(names.map(is_collected_name), [true, true, true, false, false, false, false, false, false, false]);
    }

    #[test]
    fn an_hour_passes_between_a_rewrite_and_the_next_deletion() {
        let run =
            |end: Option<i64>| MaintenanceRun { start: Some(ago(9)), end: end.map(ago), ..MaintenanceRun::default() };
        assert_eq!(deletion_waits_until([], &Delays::SAFE), None);
        assert_eq!(deletion_waits_until([&run(Some(3)), &run(Some(5))], &Delays::SAFE), Some(ago(2)));
        assert_eq!(deletion_waits_until([&run(None)], &Delays::SAFE), Some(ago(8)));
    }

    #[test]
    fn two_short_packs_of_a_kind_are_rewritten_and_one_is_not() {
        let pack = |bytes: u64, live: u64, is_metadata: bool| PackUse { bytes, live, is_metadata, is_young: false };
        let packs = [
            pack(599, 10, false),
            pack(600, 10, false),
            pack(100, 100, false),
            // Nothing in it lives.
            pack(100, 0, false),
            pack(100, 100, true),
            PackUse { is_young: true, ..pack(100, 100, true) },
        ];
        let chosen = |packs: &[PackUse]| {
            let numbered = (0..).zip(packs.iter().copied());
            short_packs(numbered, 1000).into_iter().map(|(number, _)| number).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&packs), [0, 2]);
        assert_eq!(chosen(&packs[1..]), [0_u32; 0]);
    }
}
