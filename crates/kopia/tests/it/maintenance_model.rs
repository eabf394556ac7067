//! A model of a repository under maintenance: contents, snapshots, clocks, writers with old indexes, maintainers, any order
//! of their steps, and crashes. Each history is made from a number; the rules are the real ones.

mod actors;
mod epochs;
mod maintainer;
mod world;

use lifeboat_kopia::maintenance::delays::Delays;
use world::{History, HistorySettings};

const HOUR: i64 = 3600 * 1_000_000_000;

const SAFE: HistorySettings = HistorySettings {
    delays: Delays::SAFE,
    maintainers: 2,
    has_claim: true,
    writes_above_watermark: true,
    looks_back: true,
    is_skewed: true,
};

/// The first history that loses something, with the reason.
fn first_loss(settings: HistorySettings, histories: std::ops::Range<u64>) -> Option<String> {
    histories.into_iter().find_map(|seed| {
        let lost = History::new(seed, settings).run().err()?;
        Some(format!("history {seed}: {lost}"))
    })
}

/// The histories of the first test: those that `LIFEBOAT_HISTORIES` asks for, or few.
fn histories() -> u64 {
    std::env::var("LIFEBOAT_HISTORIES").ok().and_then(|number| number.parse().ok()).unwrap_or(3000)
}

#[test]
fn nothing_that_a_snapshot_needs_is_ever_deleted_and_garbage_goes() {
    let histories = histories();
    assert_eq!(first_loss(SAFE, 0..histories), None);
    assert_eq!(first_loss(HistorySettings { maintainers: 1, ..SAFE }, histories..histories + histories / 3), None);
}

/// A content that is marked deleted and needed by a snapshot is written again: its old pack has no entry that counts, and
/// readers that have loaded the old entry look there.
#[test]
fn packs_whose_contents_were_just_written_again_are_kept_for_readers() {
    let lost = first_loss(HistorySettings { looks_back: false, ..SAFE }, 0..20_000);
    assert!(lost.as_ref().is_some_and(|lost| lost.contains("for a reader with old indexes")), "{lost:?}");
}

/// The model finds the loss, so that it would find one in the rules, too.
#[test]
fn shorter_delays_lose_data() {
    let delays = Delays::SAFE;
    for (name, delays) in [
        ("content age", Delays { content_age: 0, between_collections: 0, before_collection: 0, ..delays }),
        ("age of packs", Delays { blob_age: 0, session_age: 0, ..delays }),
        ("time between collections", Delays { between_collections: -HOUR, before_collection: -HOUR, ..delays }),
        ("time after a rewrite", Delays { after_rewrite: 0, ..delays }),
    ] {
        assert!(first_loss(HistorySettings { delays, ..SAFE }, 0..20_000).is_some(), "{name}");
    }
}

/// Two maintainers that share an identity, as all clients of Velero do, and know nothing of each other.
#[test]
fn two_maintainers_without_a_claim_lose_data() {
    assert!(first_loss(HistorySettings { has_claim: false, ..SAFE }, 0..100_000).is_some());
}

/// A deletion that was dropped hides what a writer with a clock that is behind writes again.
#[test]
fn a_writer_whose_clock_is_behind_must_write_above_the_watermark() {
    assert!(first_loss(HistorySettings { writes_above_watermark: false, ..SAFE }, 0..20_000).is_some());
}
