//! Progress of commands that walk over snapshots.

use lifeboat_kopia::progress::WalkTotals;
use std::time::Duration;

/// Counts, the rate, and the time that is left where the most that there is to do is known.
pub(super) fn describe(totals: &WalkTotals, elapsed: Duration) -> String {
    let WalkTotals { snapshots, expected_snapshots, directories, files, .. } = totals;
    let seconds = elapsed.as_secs_f64().max(f64::EPSILON);
    let (bytes, rate) = (mebibytes(totals.bytes as f64), mebibytes(totals.bytes as f64 / seconds));
    let (done, most) = match totals.expected_bytes {
        0 => (totals.contents, totals.expected_contents),
        most => (totals.bytes, most),
    };
    let left = time_left(most.saturating_sub(done), done as f64 / seconds, "at most ");
    format!(
        "{snapshots} of {expected_snapshots} snapshots, {directories} directories, {files} files, {bytes}, {rate}/s{left}"
    )
}

/// A number of bytes, or of bytes in a second.
pub(super) fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

/// The time for the rest at a rate in a second, as the end of a line, with a word before it; empty below a second, and where nothing is
/// known.
pub(super) fn time_left(rest: u64, rate: f64, word: &str) -> String {
    let left = rest as f64 / rate;
    if left.is_finite() && left >= 1.0 { format!(", {word}{left:.0} s left") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_tells_how_far_it_is_and_how_long_it_takes_at_most() {
        let mut totals =
            WalkTotals { snapshots: 2, expected_snapshots: 9, directories: 5, files: 7, ..WalkTotals::default() };
        let after = |totals: &WalkTotals| describe(totals, Duration::from_secs(10));
        assert_eq!(after(&totals), "2 of 9 snapshots, 5 directories, 7 files, 0.0 MiB, 0.0 MiB/s");
        (totals.contents, totals.expected_contents, totals.bytes) = (10, 40, 10 << 20);
        let line = "2 of 9 snapshots, 5 directories, 7 files, 10.0 MiB, 1.0 MiB/s, at most 30 s left";
        assert_eq!(after(&totals), line);
        totals.expected_bytes = 110 << 20;
        let line = "2 of 9 snapshots, 5 directories, 7 files, 10.0 MiB, 1.0 MiB/s, at most 100 s left";
        assert_eq!(after(&totals), line);
    }
}
