//! The tables of docs/compatibility/, as far as they concern an installation.

use serde::Serialize;

/// The pages; the first table of each has a row for each difference: topic, Velero, Lifeboat.
const PAGES: [&str; 8] = [
    include_str!("../../../docs/compatibility/archive.md"),
    include_str!("../../../docs/compatibility/restores.md"),
    include_str!("../../../docs/compatibility/volumes.md"),
    include_str!("../../../docs/compatibility/api.md"),
    include_str!("../../../docs/compatibility/server.md"),
    include_str!("../../../docs/compatibility/cli.md"),
    include_str!("../../../docs/compatibility/installation.md"),
    include_str!("../../../docs/compatibility/plugins.md"),
];

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    pub(super) topic: String,
    pub(super) velero: String,
    pub(super) lifeboat: String,
}

/// Features that an installation uses, which decide the rows that concern it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UsedFeatures {
    pub(super) hooks: bool,
    pub(super) csi: bool,
    pub(super) snapshot_locations: bool,
    pub(super) policies: bool,
    pub(super) modifiers: bool,
    pub(super) schedules: bool,
    pub(super) plugins: bool,
    pub(super) group_versions: bool,
}

type FeatureTest = fn(&UsedFeatures) -> bool;

/// Topics that begin with these words concern only installations that use the feature; the first match counts. All
/// other topics concern everyone.
const TOPICS: [(&str, FeatureTest); 18] = [
    ("hooks of a", |of| of.hooks),
    ("groups of claims", |of| of.csi),
    ("CSI snapshot", |of| of.csi),
    ("VolumeSnapshots that users", |of| of.csi),
    ("restore: CSI snapshots", |of| of.csi),
    ("restore: VolumeSnapshots", |of| of.csi),
    ("server: `velero_csi_snapshot_", |of| of.csi),
    ("snapshots by plugins", |of| of.snapshot_locations),
    ("volume snapshot locations", |of| of.snapshot_locations),
    ("restore: snapshots by plugins", |of| of.snapshot_locations),
    ("plugins: snapshotters", |of| of.snapshot_locations),
    ("resource policies", |of| of.policies),
    ("policies for volumes", |of| of.policies),
    ("resource modifiers", |of| of.modifiers),
    ("schedule:", |of| of.schedules),
    ("plugins:", |of| of.plugins),
    ("backup with `EnableAPIGroupVersions`", |of| of.group_versions),
    ("restore: objects of one type in different versions", |of| of.group_versions),
];

/// The rows that concern an installation, in the order of the pages.
pub(super) fn differences(concerns: &UsedFeatures) -> Vec<Difference> {
    rows().filter(|row| first_met(row).is_none_or(|at| TOPICS[at].1(concerns))).collect()
}

/// The place in [`TOPICS`] of the first that a row begins with.
fn first_met(row: &Difference) -> Option<usize> {
    TOPICS.iter().position(|(start, _)| row.topic.starts_with(start))
}

fn rows() -> impl Iterator<Item = Difference> {
    lines().filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(|cell| plain(cell.trim()));
        Some(Difference { topic: cells.next()?, velero: cells.next()?, lifeboat: cells.next()? })
    })
}

/// The lines of the tables below their heads.
fn lines() -> impl Iterator<Item = &'static str> {
    PAGES.into_iter().flat_map(|page| {
        let table = page.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        table.take_while(|line| line.starts_with('|'))
    })
}

/// Text without the targets of its links.
fn plain(cell: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(cell.len()), cell);
    while let Some((before, after)) = rest.split_once("](") {
        let Some((_, behind)) = after.split_once(')') else { break };
        match before.rsplit_once('[') {
            Some((text, words)) => out.extend([text, words]),
            None => out.push_str(before),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_pages_has_three_cells_and_every_rule_a_row() {
        let all: Vec<Difference> = rows().collect();
        assert!(all.len() > 200, "{}", all.len());
        for row in &all {
            assert!(!row.topic.is_empty(), "{row:?}");
        }
        for line in lines() {
            assert_eq!(line.matches('|').count(), 4, "{line}");
        }
        for (at, (start, _)) in TOPICS.iter().enumerate() {
            let is_met = all.iter().any(|row| first_met(row) == Some(at));
            assert!(is_met, "no row begins with {start:?}, or all that do belong to a topic before it");
        }
    }

    #[test]
    fn a_row_concerns_those_who_use_what_it_is_about() {
        let of = |concerns: UsedFeatures| differences(&concerns).into_iter().map(|row| row.topic).collect::<Vec<_>>();
        let none = of(UsedFeatures::default());
        let with = of(UsedFeatures { schedules: true, ..UsedFeatures::default() });
        let new: Vec<&String> = with.iter().filter(|topic| !none.contains(topic)).collect();
        assert!(!new.is_empty() && new.iter().all(|topic| topic.starts_with("schedule:")), "{new:?}");
        assert!(none.contains(
            &"label selectors that Kubernetes knows and Velero's command line does not (`-l 'tier!=gold'`)".to_owned()
        ));
    }

    #[test]
    fn links_are_read_as_their_text() {
        for (cell, expected) in [
            ("see [plans](a.md) and [more](b.md#c).", "see plans and more."),
            ("no link", "no link"),
            ("`a[0](b`", "`a[0](b`"),
        ] {
            assert_eq!(plain(cell), expected);
        }
    }
}
