//! The rows by name, and the arguments.

use crate::bench::flags::Flags;
use anyhow::{Result, bail};

/// A row, or several that are measured together. Those on the node run in this order; the last of them leaves the
/// installation without a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowName {
    Files,
    File,
    Many,
    Idle,
    Server,
}

impl RowName {
    const ALL: [Self; 5] = [Self::Files, Self::File, Self::Many, Self::Idle, Self::Server];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Files => "files-100k",
            Self::File => "file-10g",
            Self::Many => "volumes-50",
            Self::Idle => "agent-idle",
            Self::Server => "server-2000",
        }
    }

    pub(super) fn needs_node(self) -> bool {
        self != Self::Server
    }
}

/// The rows to run, and how.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MoverOptions {
    pub(super) rows: Vec<RowName>,
    /// The number by which sizes are divided.
    pub(super) scale: u64,
    /// The number of times that each side runs; the best counts.
    pub(super) rounds: usize,
}

impl MoverOptions {
    /// Words choose rows by a part of their name; without one all run.
    pub(super) fn parse(args: &[String]) -> Result<Self> {
        let Flags { words, scale, rounds } = Flags::parse(args, 1)?;
        let is_chosen = |row: &RowName| words.is_empty() || words.iter().any(|word| row.name().contains(word.as_str()));
        let rows: Vec<RowName> = RowName::ALL.into_iter().filter(is_chosen).collect();
        if rows.is_empty() {
            bail!("no row has such a name: {}", RowName::ALL.map(RowName::name).join(", "));
        }
        Ok(Self { rows, scale, rounds })
    }

    /// Returns true if Velero's programs are measured too.
    pub(super) fn need_velero(&self) -> bool {
        self.rows.iter().any(|row| matches!(row, RowName::Files | RowName::File))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_rows_of_movers() {
        let parse = |args: &[&str]| MoverOptions::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        let options = |rows: &[RowName], scale, rounds| MoverOptions { rows: rows.to_vec(), scale, rounds };
        assert_eq!(parse(&[]).unwrap(), options(&RowName::ALL, 1, 1));
        let chosen = parse(&["file", "--small"]).unwrap();
        assert_eq!(chosen, options(&[RowName::Files, RowName::File], 100, 1));
        assert!(chosen.need_velero());
        assert!(!parse(&["idle", "server"]).unwrap().need_velero());
        assert!(parse(&["nothing"]).is_err());
    }
}
