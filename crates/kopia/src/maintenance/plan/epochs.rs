//! Epochs: begun, merged, cleaned up (kopia: internal/epoch). A pure decision over the listing of blobs with prefix `x`.

use super::schedule::Mode;
use super::step::{Action, Step};
use crate::blobs::BlobInfo;
use crate::content::epochs::{EpochState, state};
use crate::format::blob_name::{self, BlobKind};
use crate::format::repository::EpochParameters;
use crate::format::time::{HOUR, UnixNanos};
use crate::maintenance::delays::in_words;

/// Plans what is done with indexes. What deletes comes first; everything is decided on this one listing, so that what a step
/// writes is acted upon by a later run only.
pub fn epochs(listing: &[BlobInfo], parameters: &EpochParameters, mode: Mode, now: UnixNanos) -> Vec<Step> {
    let state = state(listing);
    let mut steps = Vec::new();
    if mode == Mode::Full {
        steps.extend(superseded(&state, parameters, now));
        steps.extend(old_markers(&state, parameters, now));
    }
    if !has_range_without_beginning(listing, &state) {
        steps.extend(single(listing, &state));
    }
    steps.extend(advance(&state, parameters));
    if mode == Mode::Full && !has_range_without_beginning(listing, &state) {
        steps.extend(range(listing, &state, parameters));
    }
    steps
}

/// True where epochs were merged into a range and the epochs before it were not: the order of things is not understood then.
fn has_range_without_beginning(listing: &[BlobInfo], state: &EpochState) -> bool {
    let is_range = |blob: &BlobInfo| matches!(blob_name::parse(&blob.name), BlobKind::RangeIndex { .. });
    state.ranges.is_empty() && listing.iter().any(is_range)
}

/// Merges each settled epoch that was never merged. One that has a complete set is never merged again: of its own blobs some
/// may be deleted already.
fn single(listing: &[BlobInfo], state: &EpochState) -> Vec<Step> {
    let epochs = state.uncompacted.range(state.first_after_ranges()..);
    let open = epochs
        .filter(|(epoch, blobs)| state.is_settled(**epoch) && !state.single.contains_key(epoch) && !blobs.is_empty());
    let step = |(epoch, blobs): (&u64, &Vec<BlobInfo>)| Step {
        action: Action::MergeEpoch { epoch: *epoch, blobs: with_incomplete_sets(listing, *epoch, blobs) },
        reason: format!("nobody writes into it any more, the current epoch is {}", state.write_epoch),
    };
    open.map(step).collect()
}

/// The blobs of an epoch without a complete set, and those of its incomplete ones: where a blob of a set was lost after some
/// blobs of the epoch were deleted, they have entries that nothing else has.
fn with_incomplete_sets(listing: &[BlobInfo], epoch: u64, own: &[BlobInfo]) -> Vec<BlobInfo> {
    let is_of_set = |blob: &&BlobInfo| blob_name::parse(&blob.name) == BlobKind::SingleEpochIndex { epoch };
    own.iter().chain(listing.iter().filter(is_of_set)).cloned().collect()
}

/// Begins the next epoch where the current one has lasted long enough and has many or large indexes.
fn advance(state: &EpochState, parameters: &EpochParameters) -> Option<Step> {
    let blobs = state.uncompacted.get(&state.write_epoch)?;
    let times: Option<Vec<i64>> = blobs.iter().map(|blob| Some(blob.modified?.0)).collect();
    let times = times?;
    let lasted = times.iter().max()?.checked_sub(*times.iter().min()?)?;
    let bytes: u64 = blobs.iter().map(|blob| blob.length).sum();
    let is_reached = |number: u64, threshold: i64| u64::try_from(threshold).is_ok_and(|threshold| number >= threshold);
    let is_large = is_reached(blobs.len() as u64, parameters.epoch_advance_on_count_threshold)
        || is_reached(bytes, parameters.epoch_advance_on_total_size_bytes_threshold);
    if lasted < parameters.min_epoch_duration || !is_large {
        return None;
    }
    let reason = format!("epoch {} lasts {} and has {} index blobs", state.write_epoch, in_words(lasted), blobs.len());
    Some(Step { action: Action::AdvanceEpoch { to: state.write_epoch.checked_add(1)? }, reason })
}

/// Merges the settled epochs after the last range when they are many.
fn range(listing: &[BlobInfo], state: &EpochState, parameters: &EpochParameters) -> Option<Step> {
    let first = state.first_after_ranges();
    let last = state.write_epoch.checked_sub(2)?;
    let epochs = last.checked_sub(first)?;
    if !u64::try_from(parameters.full_checkpoint_frequency).is_ok_and(|frequency| epochs >= frequency) {
        return None;
    }
    let mut blobs = Vec::new();
    for epoch in first..=last {
        match (state.single.get(&epoch), state.uncompacted.get(&epoch)) {
            (Some(set), _) => blobs.extend(set.iter().cloned()),
            (None, own) => {
                blobs.extend(with_incomplete_sets(listing, epoch, own.map(Vec::as_slice).unwrap_or_default()));
            }
        }
    }
    if blobs.is_empty() {
        return None;
    }
    let reason = format!("{} epochs are settled since the last such merge", epochs.saturating_add(1));
    Some(Step { action: Action::MergeEpochs { first, last, blobs }, reason })
}

/// Deletes the indexes of each epoch whose complete set is older than the margin: no reader has an older choice of blobs.
fn superseded(state: &EpochState, parameters: &EpochParameters, now: UnixNanos) -> Option<Step> {
    let is_old = |blob: &BlobInfo| is_older(blob, parameters.cleanup_safety_margin, now);
    let replaced = state.single.iter().filter(|(epoch, set)| state.is_settled(**epoch) && set.iter().all(is_old));
    let blobs: Vec<BlobInfo> =
        replaced.filter_map(|(epoch, _)| state.uncompacted.get(epoch)).flatten().cloned().collect();
    let margin = in_words(parameters.cleanup_safety_margin);
    let reason = format!("merges of their epochs have replaced them for more than {margin}");
    (!blobs.is_empty()).then_some(Step { action: Action::DeleteIndexes { blobs }, reason })
}

/// Deletes markers that say nothing any more.
fn old_markers(state: &EpochState, parameters: &EpochParameters, now: UnixNanos) -> Option<Step> {
    let before = state.write_epoch.saturating_sub(1);
    let epochs = state.markers.range(..before).map(|(_, blob)| blob);
    let is_old = |blob: &&BlobInfo| is_older(blob, parameters.cleanup_safety_margin, now);
    let watermarks = state.watermarks.range(..state.watermark).map(|(_, blob)| blob).filter(is_old);
    let markers: Vec<BlobInfo> = epochs.chain(watermarks).cloned().collect();
    let reason = "later ones have replaced them".to_owned();
    (!markers.is_empty()).then_some(Step { action: Action::DeleteMarkers { markers }, reason })
}

/// True for a blob that was stored longer ago than the margin. One without time is not.
fn is_older(blob: &BlobInfo, margin: i64, now: UnixNanos) -> bool {
    // A margin of 0 would leave readers no time at all.
    let margin = if margin > 0 { margin } else { DEFAULT_MARGIN };
    blob.modified.is_some_and(|stored| now.0.saturating_sub(stored.0) > margin)
}

/// The margin where the format has none: four hours.
const DEFAULT_MARGIN: i64 = 4 * HOUR;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixNanos = UnixNanos(1_795_900_000_000_000_000);

    fn parameters() -> EpochParameters {
        EpochParameters {
            enabled: true,
            epoch_refresh_frequency: HOUR / 3,
            full_checkpoint_frequency: 7,
            cleanup_safety_margin: 4 * HOUR,
            min_epoch_duration: 24 * HOUR,
            epoch_advance_on_count_threshold: 20,
            epoch_advance_on_total_size_bytes_threshold: 1000,
            delete_parallelism: 4,
        }
    }

    /// Blobs of a byte that were stored so many hours ago.
    fn listing(blobs: &[(&str, i64)]) -> Vec<BlobInfo> {
        let blob = |(name, hours): &(&str, i64)| BlobInfo {
            name: (*name).to_owned(),
            length: 1,
            modified: Some(UnixNanos(NOW.0 - hours * HOUR)),
        };
        blobs.iter().map(blob).collect()
    }

    fn planned(blobs: &[(&str, i64)], mode: Mode) -> Vec<String> {
        epochs(&listing(blobs), &parameters(), mode, NOW).into_iter().map(|step| step.action.to_string()).collect()
    }

    #[test]
    fn a_settled_epoch_is_merged_once_and_an_unsettled_one_never() {
        let blobs = [("xn0_a", 90), ("xn0_b", 80), ("xn1_c", 70), ("xn2_d", 60), ("xe1", 75)];
        assert_eq!(planned(&blobs, Mode::Quick), [""; 0]);
        let advanced = [&blobs[..], &[("xe2", 65)]].concat();
        assert_eq!(planned(&advanced, Mode::Quick), ["merge 2 index blobs of epoch 0"]);
        // A part of it is deleted already: what is left is not the epoch.
        let merged = [&advanced[1..], &[("xs0_e-s1-c1", 5)]].concat();
        assert_eq!(planned(&merged, Mode::Quick), [""; 0]);
        // The set is not complete: the merge was interrupted.
        let cut = [&advanced[..], &[("xs0_e-s1-c2", 5)]].concat();
        assert_eq!(planned(&cut, Mode::Quick), ["merge 3 index blobs of epoch 0"]);
    }

    #[test]
    fn a_merge_takes_what_is_left_of_a_set_as_well() {
        // One of two blobs of the set was lost, after `xn0_b` was deleted.
        let blobs = [("xn0_a", 90), ("xs0_e-s1-c2", 5), ("xn2_d", 60), ("xe1", 75), ("xe2", 65)];
        let steps = epochs(&listing(&blobs), &parameters(), Mode::Quick, NOW);
        let Action::MergeEpoch { epoch: 0, blobs } = &steps[0].action else { panic!("{steps:?}") };
        let names: Vec<&str> = blobs.iter().map(|blob| blob.name.as_str()).collect();
        assert_eq!(names, ["xn0_a", "xs0_e-s1-c2"]);
    }

    #[test]
    fn an_epoch_ends_when_it_has_lasted_a_day_and_has_many_or_large_indexes() {
        let names: Vec<String> = (0..20).map(|number| format!("xn0_{number}")).collect();
        let many = |oldest: i64| {
            let blobs: Vec<(&str, i64)> =
                names.iter().map(|name| (name.as_str(), 1)).chain([("xn0_z", oldest)]).collect();
            planned(&blobs, Mode::Quick)
        };
        assert_eq!(many(25), ["begin epoch 1"]);
        assert_eq!(many(24), [""; 0]);
        assert_eq!(planned(&[("xn0_a", 25), ("xn0_b", 1)], Mode::Quick), [""; 0]);
        let mut large = listing(&[("xn0_a", 25), ("xn0_b", 1)]);
        large[0].length = 1000;
        let steps = epochs(&large, &parameters(), Mode::Quick, NOW);
        assert_eq!(steps[0].to_string(), "begin epoch 1: epoch 0 lasts 24 hours and has 2 index blobs");
        large[0].modified = None;
        assert_eq!(epochs(&large, &parameters(), Mode::Quick, NOW), []);
    }

    #[test]
    fn indexes_are_deleted_hours_after_they_were_merged() {
        let blobs = |merged: i64, marker: &'static str| {
            planned(&[("xn0_a", 90), ("xs0_b-s1-c1", merged), (marker, 60)], Mode::Full)
        };
        assert_eq!(blobs(5, "xe2"), ["delete 1 index blob, 1 byte"]);
        assert_eq!(blobs(4, "xe2"), [""; 0]);
        // Readers do not look at the merge of an epoch that is not settled.
        assert_eq!(blobs(5, "xe1"), [""; 0]);
        assert_eq!(planned(&[("xn0_a", 90), ("xs0_b-s1-c1", 9), ("xe2", 60)], Mode::Quick), [""; 0]);
    }

    #[test]
    fn old_markers_go_and_the_current_ones_stay() {
        let blobs = [("xe1", 90), ("xe2", 80), ("xe3", 70), ("xe4", 60), ("xw5", 50), ("xw6", 3), ("xw7", 2)];
        let steps = epochs(&listing(&blobs), &parameters(), Mode::Full, NOW);
        let names: Vec<&str> = steps[0].action.deleted_blobs().iter().map(|blob| blob.name.as_str()).collect();
        assert_eq!(names, ["xe1", "xe2", "xw5"]);
    }

    #[test]
    fn eight_settled_epochs_are_merged_into_a_range() {
        let names: Vec<String> = (0..8).map(|number| format!("xs{number}_a-s{number}-c1")).collect();
        let merge = |count: usize, marker: &'static str| {
            let blobs = names[..count].iter().map(|name| (name.as_str(), 1)).chain([("xn7_b", 1), (marker, 1)]);
            planned(&blobs.collect::<Vec<_>>(), Mode::Full)
        };
        assert_eq!(merge(8, "xe9"), ["merge 8 index blobs of epochs 0 to 7"]);
        // An epoch that was not merged by itself gives its own blobs.
        assert_eq!(merge(7, "xe9"), ["merge 1 index blob of epoch 7", "merge 8 index blobs of epochs 0 to 7"]);
        assert_eq!(merge(8, "xe8"), [""; 0]);
        // A range that does not begin at 0: nothing is merged.
        assert_eq!(planned(&[("xr3_9_a", 1), ("xn0_b", 1), ("xe12", 1)], Mode::Full), [""; 0]);
    }
}
