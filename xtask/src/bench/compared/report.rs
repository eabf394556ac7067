//! The results, for people and for programs.

use super::sides::{Costs, Side};
use anyhow::Result;
use serde_json::json;
use std::fmt::Write;

/// A bound, and the value that was measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckedBound {
    what: &'static str,
    value: f64,
    most: f64,
}

impl CheckedBound {
    fn is_met(&self) -> bool {
        self.value <= self.most
    }
}

/// A row that was measured.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredRow {
    name: String,
    /// The bytes that were saved or restored.
    bytes: u64,
    costs: Costs,
    bounds: Vec<CheckedBound>,
    notes: Vec<String>,
}

impl MeasuredRow {
    pub(crate) fn new(name: impl Into<String>, bytes: u64, costs: Costs) -> Self {
        Self { name: name.into(), bytes, costs, bounds: Vec::new(), notes: Vec::new() }
    }

    /// The same with a bound.
    pub(crate) fn bounded(mut self, what: &'static str, value: f64, most: f64) -> Self {
        self.bounds.push(CheckedBound { what, value, most });
        self
    }

    /// The same with the wall time beside that of another side as a bound.
    pub(crate) fn beside(self, side: Side, most: f64) -> Self {
        let (own, other) = (self.costs.best(Side::Lifeboat).wall, self.costs.best(side).wall);
        let what = match side {
            Side::Floor => "wall time / the floor's",
            Side::Velero => "wall time / Velero's",
            Side::Kopia | Side::Lifeboat => "wall time / kopia's",
        };
        self.bounded(what, own / other, most)
    }

    /// The same with a bound on memory.
    pub(crate) fn within(self, mib: f64) -> Self {
        let peak = self.costs.best(Side::Lifeboat).peak_mib;
        self.bounded("peak MiB", peak, mib)
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The single runs, the bounds and the notes.
    pub(crate) fn details(&self) -> String {
        let mut out = format!("   {}: {}", self.name, self.costs.listed());
        for CheckedBound { what, value, most } in &self.bounds {
            let word = if value <= most { "met" } else { "missed" };
            let _ = write!(out, "\n   {what}: {value:.2}, at most {most}: {word}");
        }
        for note in &self.notes {
            let _ = write!(out, "\n   {note}");
        }
        out
    }

    fn per_gigabyte(&self, side: Side) -> f64 {
        self.costs.best(side).cpu() / (self.bytes as f64 / 1e9)
    }

    fn verdict(&self) -> String {
        let missed: Vec<&str> = self.bounds.iter().filter(|bound| !bound.is_met()).map(|bound| bound.what).collect();
        if missed.is_empty() { "met".to_owned() } else { format!("missed: {}", missed.join(", ")) }
    }
}

/// A line for each row, with the costs of ours, of a peer and of the floor. Of what was not measured there is a dash.
pub(crate) fn table(rows: &[MeasuredRow], peer: Side) -> String {
    let word = peer.word();
    let mut out = format!(
        "{:<26} {:>8} {:>8} {:>8} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8}  {}\n",
        "row", "seconds", word, "floor", "ratio", "CPU s/GB", word, "floor", "MiB", word, "bounds"
    );
    for row in rows {
        let shown = |side: Side, value: f64| {
            if row.costs.has(side) { format!("{value:.2}") } else { "-".to_owned() }
        };
        let wall = |side: Side| shown(side, row.costs.best(side).wall);
        let work = |side: Side| {
            if row.bytes > 0 { shown(side, row.per_gigabyte(side)) } else { "-".to_owned() }
        };
        let memory = |side: Side| shown(side, row.costs.best(side).peak_mib);
        let ratio = row.costs.best(Side::Lifeboat).wall / row.costs.best(peer).wall;
        let _ = writeln!(
            out,
            "{:<26} {:>8} {:>8} {:>8} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8}  {}",
            row.name,
            wall(Side::Lifeboat),
            wall(peer),
            wall(Side::Floor),
            shown(peer, ratio),
            work(Side::Lifeboat),
            work(peer),
            work(Side::Floor),
            memory(Side::Lifeboat),
            memory(peer),
            row.verdict()
        );
    }
    out
}

/// A JSON list.
pub(crate) fn json(rows: &[MeasuredRow]) -> Result<String> {
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    let list: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut value = json!({"name": row.name, "bytes": row.bytes, "notes": row.notes});
            for side in Side::ALL.into_iter().filter(|side| row.costs.has(*side)) {
                let cost = row.costs.best(side);
                value[side.word()] = json!({
                    "seconds": round(cost.wall),
                    "user_seconds": round(cost.user),
                    "system_seconds": round(cost.system),
                    "peak_rss_mib": round(cost.peak_mib),
                });
            }
            let bound = |bound: &CheckedBound| {
                let CheckedBound { what, value, most } = bound;
                json!({"what": what, "value": round(*value), "most": most, "met": bound.is_met()})
            };
            value["bounds"] = row.bounds.iter().map(bound).collect();
            value
        })
        .collect();
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::super::sides::Cost;
    use super::*;

    fn row() -> MeasuredRow {
        let mut costs = Costs::default();
        costs.add(Side::Lifeboat, Cost { wall: 2.0, user: 1.0, system: 1.0, peak_mib: 100.0 });
        costs.add(Side::Kopia, Cost { wall: 4.0, user: 5.0, system: 1.0, peak_mib: 200.0 });
        MeasuredRow::new("one", 2_000_000_000, costs)
    }

    #[test]
    fn a_bound_is_told_as_met_or_missed_and_what_did_not_run_has_a_dash() {
        let rows = [row().beside(Side::Kopia, 0.5), row().beside(Side::Kopia, 0.4).within(128.0).note("so")];
        assert_eq!(
            table(&rows, Side::Kopia),
            "row                         seconds    kopia    floor  ratio  CPU s/GB     kopia     floor      MiB    kopia  bounds\n\
             one                            2.00     4.00        -   0.50      1.00      3.00         -   100.00   200.00  met\n\
             one                            2.00     4.00        -   0.50      1.00      3.00         -   100.00   200.00  missed: wall time / kopia's\n"
        );
        assert_eq!(
            rows[1].details(),
            "   one: lifeboat 2.00 s (1.00 + 1.00); kopia 4.00 s (5.00 + 1.00)\n   wall time / kopia's: 0.50, at most 0.4: missed\n   \
             peak MiB: 100.00, at most 128: met\n   so"
        );
        let report: serde_json::Value = serde_json::from_str(&json(&rows[..1]).unwrap()).unwrap();
        assert_eq!(
            report,
            serde_json::json!([{
                "name": "one", "bytes": 2_000_000_000, "notes": [],
                "lifeboat": {"seconds": 2.0, "user_seconds": 1.0, "system_seconds": 1.0, "peak_rss_mib": 100.0},
                "kopia": {"seconds": 4.0, "user_seconds": 5.0, "system_seconds": 1.0, "peak_rss_mib": 200.0},
                "bounds": [{"what": "wall time / kopia's", "value": 0.5, "most": 0.5, "met": true}]
            }])
        );
    }
}
