//! What is measured, and what is aimed at.

use anyhow::{Result, bail};

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) objects: usize,
    pub(crate) data: Data,
    pub(crate) work: Work,
    pub(crate) target: Target,
}

/// The objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// ConfigMaps and Secrets of 1.4 kB, as many of each.
    Small,
    /// ConfigMaps of 900 kB.
    Large,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Backup(Place),
    /// Into an empty cluster.
    Restore,
    /// Over the very objects that were backed up.
    RestoreUnchanged,
    /// A backup by custom resources, beside the local command.
    ServerBackup,
    /// A restore by custom resources, beside the local command.
    ServerRestore,
}

/// Where the objects are and what is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One namespace, named on the command line.
    Namespace,
    /// A hundred namespaces: the whole cluster.
    Cluster,
}

impl Place {
    pub(crate) fn namespaces(self) -> usize {
        match self {
            Self::Namespace => 1,
            Self::Cluster => 100,
        }
    }
}

/// What is aimed at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target {
    /// Times the floor; none where a constant part of some milliseconds decides.
    pub(crate) ratio: Option<f64>,
    /// Seconds more than the floor.
    pub(crate) more: Option<f64>,
    pub(crate) peak_mib: f64,
}

const BACKUP: Target = Target { ratio: Some(1.6), more: None, peak_mib: 96.0 };
const BACKUP_MEMORY: Target = Target { ratio: None, more: None, peak_mib: 96.0 };
/// 70 % of the rate at which a plain client creates.
const RESTORE: Target = Target { ratio: Some(1.43), more: None, peak_mib: 200.0 };
const RESTORE_UNCHANGED: Target = Target { ratio: Some(1.3), more: None, peak_mib: 200.0 };
/// The floor is the local command.
const SERVER: Target = Target { ratio: None, more: Some(1.0), peak_mib: 200.0 };

const fn backup(name: &'static str, objects: usize, place: Place, target: Target) -> Row {
    row(name, objects, Work::Backup(place), target)
}

const fn row(name: &'static str, objects: usize, work: Work, target: Target) -> Row {
    Row { name, objects, data: Data::Small, work, target }
}

const ROWS: [Row; 14] = [
    backup("backup-1k", 1_000, Place::Namespace, BACKUP_MEMORY),
    backup("backup-10k", 10_000, Place::Namespace, BACKUP),
    backup("backup-30k", 30_000, Place::Namespace, BACKUP),
    backup("backup-1k-100ns", 1_000, Place::Cluster, BACKUP_MEMORY),
    backup("backup-10k-100ns", 10_000, Place::Cluster, BACKUP),
    backup("backup-30k-100ns", 30_000, Place::Cluster, BACKUP),
    Row { data: Data::Large, ..backup("backup-600-large", 600, Place::Namespace, BACKUP_MEMORY) },
    row("restore-1k", 1_000, Work::Restore, RESTORE),
    row("restore-10k", 10_000, Work::Restore, RESTORE),
    row("restore-10k-unchanged", 10_000, Work::RestoreUnchanged, RESTORE_UNCHANGED),
    row("server-backup-1k", 1_000, Work::ServerBackup, SERVER),
    row("server-backup-10k", 10_000, Work::ServerBackup, SERVER),
    row("server-restore-1k", 1_000, Work::ServerRestore, SERVER),
    row("server-restore-10k", 10_000, Work::ServerRestore, SERVER),
];

/// The rows whose names contain one of the arguments.
pub(crate) fn chosen(args: &[String]) -> Result<Vec<Row>> {
    let (flags, names): (Vec<&String>, Vec<&String>) = args.iter().partition(|arg| arg.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| flag.as_str() != "--small") {
        bail!("unknown flag {unknown}: --small or names of rows");
    }
    let is_chosen = |row: &Row| names.is_empty() || names.iter().any(|name| row.name.contains(name.as_str()));
    let mut rows: Vec<Row> = ROWS.into_iter().filter(is_chosen).collect();
    if rows.is_empty() {
        bail!("no row has such a name: {}", ROWS.map(|row| row.name).join(", "));
    }
    if !flags.is_empty() {
        for row in &mut rows {
            row.objects /= 100;
            row.target.ratio = None;
            row.target.more = None;
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> Result<Vec<(&'static str, usize, Option<f64>)>> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Ok(chosen(&args)?.iter().map(|row| (row.name, row.objects, row.target.ratio)).collect())
    }

    #[test]
    fn arguments_choose_by_a_part_of_the_name() {
        assert_eq!(
            names(&["restore-10k", "1k-100ns"]).unwrap(),
            [
                ("backup-1k-100ns", 1_000, None),
                ("restore-10k", 10_000, Some(1.43)),
                ("restore-10k-unchanged", 10_000, Some(1.3)),
                ("server-restore-10k", 10_000, None)
            ]
        );
        assert_eq!(names(&[]).unwrap().len(), ROWS.len());
        assert_eq!(
            names(&["--small", "10k-100ns"]).unwrap(),
            [("backup-10k-100ns", 100, None)],
            "too few to judge the speed"
        );
        assert!(names(&["nothing"]).is_err() && names(&["--fast"]).is_err());
    }
}
