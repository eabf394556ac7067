//! The indexes that count in a repository with epochs (kopia: internal/epoch). A pure decision over listings.
//!
//! Every writer adds `xn<epoch>_` blobs. Maintenance compacts an epoch that is settled into a set of `xs<epoch>_` blobs, and
//! many of those into a set of `xr<first>_<last>_` blobs; what was compacted is deleted hours later.

use crate::blobs::BlobInfo;
use crate::format::blob_name::{self, BlobKind};
use crate::format::time::UnixNanos;
use std::collections::{BTreeMap, HashMap};

/// A compaction of several epochs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeCompaction {
    /// The first epoch.
    pub first: u64,
    /// The last epoch.
    pub last: u64,
    /// The blobs of the set.
    pub blobs: Vec<BlobInfo>,
}

/// The state of the epochs, from the blobs whose names begin with `x`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EpochState {
    /// The epoch into which writers write.
    pub write_epoch: u64,
    /// Deleted entries up to this second count no more.
    pub watermark: u64,
    /// The markers of epochs, with the beginning of each.
    pub markers: BTreeMap<u64, BlobInfo>,
    /// The blobs of watermarks, by second.
    pub watermarks: BTreeMap<u64, BlobInfo>,
    /// The blobs that were not compacted, by epoch.
    pub uncompacted: BTreeMap<u64, Vec<BlobInfo>>,
    /// The first complete set of each epoch that was compacted by itself.
    pub single: BTreeMap<u64, Vec<BlobInfo>>,
    /// The compactions that follow each other from epoch 0 on and reach farthest.
    pub ranges: Vec<RangeCompaction>,
}

/// Finds the state. The listing must hold all blobs with prefix `x`; others in it do not matter.
pub fn state(listing: &[BlobInfo]) -> EpochState {
    let mut listing: Vec<&BlobInfo> = listing.iter().collect();
    // Which set of several is taken goes by the order of names.
    listing.sort_by(|a, b| a.name.cmp(&b.name));
    let mut state = EpochState::default();
    let mut single: BTreeMap<u64, Vec<&BlobInfo>> = BTreeMap::new();
    let mut ranges: BTreeMap<(u64, u64), Vec<&BlobInfo>> = BTreeMap::new();
    for blob in listing {
        match blob_name::parse(&blob.name) {
            BlobKind::Index { epoch } => state.uncompacted.entry(epoch).or_default().push(blob.clone()),
            BlobKind::SingleEpochIndex { epoch } => single.entry(epoch).or_default().push(blob),
            // A range that ends before it begins says nothing.
            BlobKind::RangeIndex { first, last } if first <= last => {
                ranges.entry((first, last)).or_default().push(blob);
            }
            BlobKind::EpochMarker { epoch } => drop(state.markers.insert(epoch, blob.clone())),
            BlobKind::Watermark { seconds } => drop(state.watermarks.insert(seconds, blob.clone())),
            _ => {}
        }
    }
    state.write_epoch = state.markers.last_key_value().map_or(0, |(epoch, _)| *epoch);
    state.watermark = state.watermarks.last_key_value().map_or(0, |(seconds, _)| *seconds);
    state.single = single.into_iter().filter_map(|(epoch, blobs)| Some((epoch, first_complete_set(&blobs)?))).collect();
    let complete = ranges
        .into_iter()
        .filter_map(|((first, last), blobs)| Some(RangeCompaction { first, last, blobs: first_complete_set(&blobs)? }));
    state.ranges = longest_chain(complete.collect());
    state
}

impl EpochState {
    /// The first epoch that no range has.
    pub fn first_after_ranges(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.last.saturating_add(1))
    }

    /// True where nobody writes into an epoch any more.
    pub fn is_settled(&self, epoch: u64) -> bool {
        self.write_epoch >= 2 && epoch <= self.write_epoch - 2
    }

    /// True where a compaction that counts has the entries of an index blob that does not count any more. One that went
    /// without that was withdrawn.
    pub fn has_compacted(&self, name: &str) -> bool {
        match blob_name::parse(name) {
            BlobKind::Index { epoch } | BlobKind::SingleEpochIndex { epoch } => {
                epoch < self.first_after_ranges() || self.single.contains_key(&epoch)
            }
            BlobKind::RangeIndex { last, .. } => last < self.first_after_ranges(),
            _ => false,
        }
    }

    /// The index blobs that count together, ordered by name. The epoch after the current one belongs to them: another
    /// writer may have gone on to it already.
    pub fn index_blobs(&self) -> Vec<BlobInfo> {
        let mut blobs: Vec<BlobInfo> = self.ranges.iter().flat_map(|range| range.blobs.clone()).collect();
        let epochs = self.first_after_ranges()..=self.write_epoch.saturating_add(1);
        if epochs.start() <= epochs.end() {
            let is_compacted = |epoch: &u64| self.is_settled(*epoch) && self.single.contains_key(epoch);
            let single = self.single.range(epochs.clone()).filter(|(epoch, _)| is_compacted(epoch));
            let uncompacted = self.uncompacted.range(epochs).filter(|(epoch, _)| !is_compacted(epoch));
            blobs.extend(single.chain(uncompacted).flat_map(|(_, blobs)| blobs.iter().cloned()));
        }
        blobs.sort_by(|a, b| a.name.cmp(&b.name));
        blobs
    }
}

/// The set that is complete first in the order of the blobs (kopia: internal/completeset).
fn first_complete_set(blobs: &[&BlobInfo]) -> Option<Vec<BlobInfo>> {
    let mut sets: HashMap<&str, Vec<BlobInfo>> = HashMap::new();
    for blob in blobs {
        let (set, members) = blob_name::set_of(&blob.name).unwrap_or((&blob.name, 1));
        let found = sets.entry(set).or_default();
        found.push((*blob).clone());
        if u32::try_from(found.len()) == Ok(members) {
            return sets.remove(set);
        }
    }
    None
}

/// The adjacent ranges from epoch 0 on that reach farthest; of several the ones with fewer members.
fn longest_chain(ranges: Vec<RangeCompaction>) -> Vec<RangeCompaction> {
    /// The best chain that begins with an epoch.
    struct Best {
        reaches: u64,
        members: usize,
        range: usize,
    }
    let mut best: HashMap<u64, Best> = HashMap::new();
    // Ordered by the first epoch, so that from the end every chain that can follow is known.
    for (number, range) in ranges.iter().enumerate().rev() {
        let follows = range.last.checked_add(1).and_then(|next| best.get(&next));
        let (reaches, members) = follows.map_or((range.last, 1), |next| (next.reaches, next.members + 1));
        let is_better = best
            .get(&range.first)
            .is_none_or(|known| reaches > known.reaches || reaches == known.reaches && members < known.members);
        if is_better {
            best.insert(range.first, Best { reaches, members, range: number });
        }
    }
    let mut chain = Vec::new();
    let mut next = Some(0);
    while let Some(range) = next.and_then(|first| best.get(&first)).and_then(|known| ranges.get(known.range)) {
        next = range.last.checked_add(1);
        chain.push(range.clone());
    }
    chain
}

/// The time until which a state that was listed at `begun` may be used.
pub fn valid_until(begun: UnixNanos, refresh_frequency: i64) -> UnixNanos {
    UnixNanos(begun.0.saturating_add(refresh_frequency.max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[&str]) -> Vec<BlobInfo> {
        names.iter().map(|name| BlobInfo { name: (*name).to_owned(), length: 1, modified: None }).collect()
    }

    /// The blobs that count.
    fn chosen(names: &[&str]) -> Vec<String> {
        state(&listing(names)).index_blobs().into_iter().map(|blob| blob.name).collect()
    }

    #[test]
    fn without_markers_epochs_zero_and_one_count() {
        let names =
            ["xn0_a-s1-c1", "xn1_b-s1-c1", "xn2_c-s1-c1", "xs0_d-s2-c1", "n00", "kopia.repository", "xw12", "xw7"];
        let state = state(&listing(&names));
        assert_eq!((state.write_epoch, state.watermark), (0, 12));
        assert_eq!(chosen(&names), ["xn0_a-s1-c1", "xn1_b-s1-c1"]);
        assert_eq!(chosen(&[]), [""; 0]);
    }

    #[test]
    fn a_compaction_counts_when_its_epoch_is_settled_and_its_set_is_complete() {
        let blobs = ["xn1_a-s1-c1", "xs1_b-s2-c2", "xs1_c-s2-c2"];
        for (marker, compacted) in [("xe1", false), ("xe2", false), ("xe3", true), ("xe4", true)] {
            let expected = if compacted { &blobs[1..] } else { &blobs[..1] };
            assert_eq!(chosen(&[blobs[0], blobs[1], blobs[2], marker]), expected, "{marker}");
        }
        // A member is missing: what was not compacted is there still, and counts.
        assert_eq!(chosen(&[blobs[0], blobs[1], "xe3"]), [blobs[0]]);
    }

    #[test]
    fn of_two_compactions_of_an_epoch_the_one_that_is_complete_first_counts() {
        let names = ["xs0_1-sA-c2", "xs0_2-sB-c2", "xs0_3-sB-c2", "xs0_4-sA-c2", "xe2"];
        assert_eq!(chosen(&names), ["xs0_2-sB-c2", "xs0_3-sB-c2"]);
        // More members than the set says: the first ones.
        assert_eq!(chosen(&["xs0_1-sA-c1", "xs0_2-sA-c1", "xe2"]), ["xs0_1-sA-c1"]);
        // A name without set is a set.
        assert_eq!(chosen(&["xs0_1", "xs0_2-sA-c1", "xe2"]), ["xs0_1"]);
    }

    #[test]
    fn the_chain_of_ranges_that_reaches_farthest_with_fewest_members_counts() {
        let names =
            ["xr0_3_a", "xr0_1_b", "xr2_9_c", "xr4_7_d", "xr0_9_e", "xr11_20_f", "xe20", "xs9_x", "xs10_y", "xn8_z"];
        // 0-9 by one member rather than by two; 11-20 does not follow it.
        assert_eq!(chosen(&names), ["xr0_9_e", "xs10_y"]);
        let without: Vec<&str> = names.into_iter().filter(|name| *name != "xr0_9_e").collect();
        assert_eq!(chosen(&without), ["xr0_1_b", "xr2_9_c", "xs10_y"]);
        // Without a range from 0 on none counts.
        assert_eq!(chosen(&["xr1_9_a", "xe12", "xs1_b", "xn2_c"]), ["xn2_c", "xs1_b"]);
        assert_eq!(chosen(&["xr0_0_a", "xr1_5_b", "xe8", "xn6_c", "xn0_d"]), ["xn6_c", "xr0_0_a", "xr1_5_b"]);
    }

    #[test]
    fn an_incomplete_range_leaves_what_it_was_made_of() {
        let names = ["xr0_2_a-s1-c2", "xs0_b-s2-c1", "xs1_c-s3-c1", "xn2_d-s4-c1", "xe6"];
        assert_eq!(chosen(&names), ["xn2_d-s4-c1", "xs0_b-s2-c1", "xs1_c-s3-c1"]);
    }

    #[test]
    fn numbers_of_any_size_end_and_ranges_that_end_before_they_begin_are_none() {
        let last = format!("xe{}", u64::MAX);
        let range = format!("xr0_{}_b", u64::MAX);
        assert_eq!(chosen(&[&last, "xn5_a"]), ["xn5_a"]);
        assert_eq!(chosen(&[&last, "xn5_a", &range]), [range.as_str()]);
        assert_eq!(chosen(&["xr5_1_a", "xr0_4_b", "xe9"]), ["xr0_4_b"]);
    }

    #[test]
    fn only_what_a_complete_compaction_covers_may_go() {
        let state = state(&listing(&["xr0_1_a-s1-c1", "xs2_b-s2-c1", "xs3_c-s3-c2", "xn4_d-s4-c1", "xe5"]));
        let covered = ["xn0_z-s5-c1", "xs1_z-s5-c1", "xr0_0_z-s5-c1", "xn2_z-s5-c1", "xs2_z-s5-c1"];
        let withdrawn = ["xn3_z-s5-c1", "xs3_z-s5-c1", "xn4_z-s5-c1", "xr0_3_z-s5-c1", "n00"];
        for (names, expected) in [(covered, true), (withdrawn, false)] {
            assert_eq!(names.map(|name| state.has_compacted(name)), [expected; 5], "{names:?}");
        }
    }

    #[test]
    fn a_state_is_valid_from_the_beginning_of_its_listing_on() {
        assert_eq!(valid_until(UnixNanos(5), 7), UnixNanos(12));
        assert_eq!(valid_until(UnixNanos(5), -7), UnixNanos(5));
        assert_eq!(valid_until(UnixNanos(i64::MAX), 7), UnixNanos(i64::MAX));
    }
}
