//! The results, for people and for programs.

use super::rows::{Row, RowTarget};
use anyhow::{Context, Result};
use serde_json::json;
use std::fmt::Write;
use std::path::Path;

/// Seconds of one row.
#[derive(Debug)]
pub(crate) struct Times {
    /// The command, as often as it was run.
    pub(crate) walls: Vec<f64>,
    /// The same command with nothing to do.
    pub(crate) empty: f64,
    /// The floor.
    pub(crate) floors: Vec<f64>,
}

/// The one in the middle; of an even number, the better one of the two in the middle.
pub(crate) fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// All in their order.
fn listed(seconds: &[f64]) -> String {
    seconds.iter().map(|one| format!("{one:.2}")).collect::<Vec<_>>().join(" ")
}

/// A row that was measured.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    name: &'static str,
    n: usize,
    wall: f64,
    empty: f64,
    floor_seconds: f64,
    peak_mib: f64,
    target: RowTarget,
    details: String,
    /// Other measurements of the row that were too slow.
    late: Vec<&'static str>,
}

impl Measured {
    pub(crate) fn new(row: &Row, times: &Times, peak_mib: f64, note: String) -> Self {
        let Times { walls, empty, floors } = times;
        Self {
            name: row.name,
            n: row.objects,
            wall: median(walls),
            empty: *empty,
            floor_seconds: median(floors),
            peak_mib,
            target: row.target,
            details: format!("{} s, empty {empty:.2} s; floor {} s; {note}", listed(walls), listed(floors)),
            late: Vec::new(),
        }
    }

    /// The same with something that was measured beside it, and may take so many seconds.
    pub(crate) fn with(mut self, what: &'static str, seconds: &[f64], most: f64) -> Self {
        let milliseconds: Vec<String> = seconds.iter().map(|one| format!("{:.0}", one * 1000.0)).collect();
        let _ = write!(self.details, "; {what} {} ms, ≤ {:.0}", milliseconds.join(" "), most * 1000.0);
        if median(seconds) > most {
            self.late.push(what);
        }
        self
    }

    fn seconds(&self) -> f64 {
        self.wall - self.empty
    }

    fn ratio(&self) -> f64 {
        self.seconds() / self.floor_seconds
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The single times behind the result.
    pub(crate) fn line(&self) -> &str {
        &self.details
    }

    fn verdict(&self) -> String {
        let slow = self.target.ratio.is_some_and(|most| self.ratio() > most)
            || self.target.more.is_some_and(|most| self.seconds() > self.floor_seconds + most)
            || self.target.seconds.is_some_and(|most| self.seconds() > most);
        let large = self.peak_mib > self.target.peak_mib;
        let missed = [slow.then_some("speed"), large.then_some("memory")].into_iter().flatten();
        let missed: Vec<&str> = missed.chain(self.late.iter().copied()).collect();
        if missed.is_empty() { "met".to_owned() } else { format!("missed: {}", missed.join(", ")) }
    }
}

/// A line for each row.
pub(crate) fn table(rows: &[Measured]) -> String {
    let mut out = format!(
        "{:<22} {:>7} {:>8} {:>8} {:>6} {:>9} {:>9}  {:<20} {}\n",
        "row", "objects", "seconds", "floor", "ratio", "objects/s", "peak MiB", "target", "verdict"
    );
    for row in rows {
        let memory = format!("≤ {} MiB", row.target.peak_mib);
        let target = match row.target {
            RowTarget { ratio: Some(ratio), .. } => format!("≤ {ratio}, {memory}"),
            RowTarget { more: Some(more), .. } => format!("≤ +{more} s, {memory}"),
            RowTarget { seconds: Some(seconds), .. } => format!("≤ {seconds} s, {memory}"),
            _ => memory,
        };
        let _ = writeln!(
            out,
            "{:<22} {:>7} {:>8.2} {:>8.2} {:>6.2} {:>9.0} {:>9.1}  {target:<20} {}",
            row.name,
            row.n,
            row.seconds(),
            row.floor_seconds,
            row.ratio(),
            row.n as f64 / row.seconds(),
            row.peak_mib,
            row.verdict()
        );
    }
    out
}

/// The growth of the time with the objects, where both sizes were measured.
pub(crate) fn growth(rows: &[Measured]) -> Vec<String> {
    let seconds = |name: &str, n: usize| rows.iter().find(|row| row.name == name && row.n == n).map(Measured::seconds);
    let mut out = Vec::new();
    for (what, (small, few), (large, many)) in [
        ("one namespace", ("backup-10k", 10_000), ("backup-30k", 30_000)),
        ("100 namespaces", ("backup-10k-100ns", 10_000), ("backup-30k-100ns", 30_000)),
        ("100 namespaces", ("backup-30k-100ns", 30_000), ("backup-300k-100ns", 300_000)),
    ] {
        if let (Some(small), Some(large)) = (seconds(small, few), seconds(large, many)) {
            let ratio = large / small;
            out.push(format!("t({}k)/t({}k), backup of {what}: {ratio:.2}", many / 1000, few / 1000));
        }
    }
    out
}

/// A JSON list.
pub(crate) fn json(rows: &[Measured]) -> Result<String> {
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    let list: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "n": row.n,
                "seconds": round(row.seconds()),
                "wall_seconds": round(row.wall),
                "empty_seconds": round(row.empty),
                "floor_seconds": round(row.floor_seconds),
                "ratio": round(row.ratio()),
                "peak_rss_mib": round(row.peak_mib),
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// Writes a report, and makes its folder.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::rows::chosen;

    fn measured(name: &str, wall: f64, peak_mib: f64) -> Measured {
        let row = chosen(&[name.to_owned()]).unwrap().into_iter().find(|row| row.name == name).unwrap();
        Measured::new(
            &row,
            &Times { walls: vec![wall + 1.0, wall], empty: 0.25, floors: vec![0.75, 0.5] },
            peak_mib,
            "note".to_owned(),
        )
    }

    #[test]
    fn speed_is_less_the_empty_run_over_the_floor() {
        let rows = [
            measured("backup-1k", 9.25, 24.0),
            measured("backup-10k", 1.0, 24.5),
            measured("backup-30k", 2.5, 30.0),
            measured("restore-10k", 1.0, 201.0),
            measured("plan-10k", 0.75, 24.0),
        ];
        assert_eq!(
            table(&rows),
            "row                    objects  seconds    floor  ratio objects/s  peak MiB  target               verdict\n\
             backup-1k                 1000     9.00     0.50  18.00       111      24.0  ≤ 96 MiB             met\n\
             backup-10k               10000     0.75     0.50   1.50     13333      24.5  ≤ 1.6, ≤ 96 MiB      met\n\
             backup-30k               30000     2.25     0.50   4.50     13333      30.0  ≤ 1.6, ≤ 96 MiB      missed: speed\n\
             restore-10k              10000     0.75     0.50   1.50     13333     201.0  ≤ 1.43, ≤ 200 MiB    missed: speed, memory\n\
             plan-10k                 10000     0.50     0.50   1.00     20000      24.0  ≤ 0.15 s, ≤ 125 MiB  missed: speed\n"
        );
        let [_, met, ..] = rows.clone();
        let with = met.with("ready", &[0.7, 0.9, 1.2], 1.0).with("first page", &[0.12], 0.1);
        assert_eq!(
            with.line(),
            "2.00 1.00 s, empty 0.25 s; floor 0.75 0.50 s; note; ready 700 900 1200 ms, ≤ 1000; first page 120 ms, ≤ 100"
        );
        assert_eq!(with.verdict(), "missed: first page");
        assert_eq!(growth(&rows), ["t(30k)/t(10k), backup of one namespace: 3.00"]);
        assert_eq!(rows[1].line(), "2.00 1.00 s, empty 0.25 s; floor 0.75 0.50 s; note");
        let report: serde_json::Value = serde_json::from_str(&json(&rows[1..2]).unwrap()).unwrap();
        assert_eq!(
            report,
            serde_json::json!([{"name": "backup-10k", "n": 10000, "seconds": 0.75, "wall_seconds": 1.0, "empty_seconds": 0.25, "floor_seconds": 0.5, "ratio": 1.5, "peak_rss_mib": 24.5}])
        );
    }
}
