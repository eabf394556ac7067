//! The programs that are compared, and what a run of one costs.

use crate::bench::measure::MeasuredRun;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::process::Command;

/// A program that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Lifeboat,
    Kopia,
    /// Velero's mover, node agent and server.
    Velero,
    /// A program that does only the work that cannot be left out: `repository-floor`, or `tar`.
    Floor,
}

impl Side {
    pub(crate) const ALL: [Self; 4] = [Self::Lifeboat, Self::Kopia, Self::Velero, Self::Floor];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Lifeboat => "lifeboat",
            Self::Kopia => "kopia",
            Self::Velero => "velero",
            Self::Floor => "floor",
        }
    }
}

/// The cost of a run, or the least of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) wall: f64,
    pub(crate) user: f64,
    pub(crate) system: f64,
    pub(crate) peak_mib: f64,
}

impl Cost {
    /// Runs a command, which has to end well, and gives what it prints as well.
    pub(crate) fn of(command: &Command) -> Result<(Self, String)> {
        let run = MeasuredRun::of_command(command)?;
        let (args, code) = (command.get_args().collect::<Vec<_>>(), run.code);
        ensure!(code == Some(0), "{:?} {args:?} ended with {code:?}: {}", command.get_program(), run.stderr.trim());
        let peak_mib = run.peak_mib();
        Ok((Self { wall: run.seconds, user: run.user_seconds, system: run.system_seconds, peak_mib }, run.stdout))
    }

    /// Seconds of the processors.
    pub(crate) fn cpu(&self) -> f64 {
        self.user + self.system
    }

    /// The cost of two commands that are run one after the other.
    pub(crate) fn and(self, then: Self) -> Self {
        Self {
            wall: self.wall + then.wall,
            user: self.user + then.user,
            system: self.system + then.system,
            peak_mib: self.peak_mib.max(then.peak_mib),
        }
    }

    /// The least time and work, and the most memory. What other programs of the machine add is noise on one side only.
    fn best(runs: &[Self]) -> Self {
        let least = |of: fn(&Self) -> f64| runs.iter().map(of).fold(f64::INFINITY, f64::min);
        Self {
            wall: least(|run| run.wall),
            user: least(|run| run.user),
            system: least(|run| run.system),
            peak_mib: runs.iter().map(|run| run.peak_mib).fold(0.0, f64::max),
        }
    }
}

/// The costs of each side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Costs {
    runs: BTreeMap<Side, Vec<Cost>>,
}

impl Costs {
    /// Runs the sides in turn, so often. Every other round the last one goes first.
    pub(crate) fn in_turn(rounds: usize, sides: &[Side], mut run: impl FnMut(Side) -> Result<Cost>) -> Result<Self> {
        let mut costs = Self::default();
        for round in 0..rounds {
            let mut order = sides.to_vec();
            if round % 2 == 1 {
                order.reverse();
            }
            for side in order {
                costs.add(side, run(side)?);
            }
        }
        Ok(costs)
    }

    pub(crate) fn add(&mut self, side: Side, cost: Cost) {
        self.runs.entry(side).or_default().push(cost);
    }

    /// The best of a side; zeros for one that did not run.
    pub(crate) fn best(&self, side: Side) -> Cost {
        self.runs.get(&side).map_or_else(Cost::default, |runs| Cost::best(runs))
    }

    pub(crate) fn has(&self, side: Side) -> bool {
        self.runs.contains_key(&side)
    }

    /// All runs, for people.
    pub(crate) fn listed(&self) -> String {
        let side = |(side, runs): (&Side, &Vec<Cost>)| {
            let runs: Vec<String> =
                runs.iter().map(|run| format!("{:.2} s ({:.2} + {:.2})", run.wall, run.user, run.system)).collect();
            format!("{} {}", side.word(), runs.join(", "))
        };
        self.runs.iter().map(side).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_has_the_least_time_and_the_most_memory() {
        let mut walls = [3.0, 1.0, 2.0, 4.0].into_iter();
        let mut order = Vec::new();
        let costs = Costs::in_turn(2, &[Side::Lifeboat, Side::Kopia], |side| {
            order.push(side);
            let wall = walls.next().unwrap_or_default();
            Ok(Cost { wall, user: wall, system: 10.0 - wall, peak_mib: wall })
        })
        .unwrap();
        assert_eq!(order, [Side::Lifeboat, Side::Kopia, Side::Kopia, Side::Lifeboat]);
        assert_eq!(costs.best(Side::Lifeboat), Cost { wall: 3.0, user: 3.0, system: 6.0, peak_mib: 4.0 });
        assert_eq!(costs.best(Side::Kopia), Cost { wall: 1.0, user: 1.0, system: 8.0, peak_mib: 2.0 });
        assert!(!costs.has(Side::Floor));
    }
}
