//! The rows of the benchmark, and their targets.

use anyhow::{Result, bail};

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) objects: usize,
    pub(crate) data: Data,
    pub(crate) work: RowWork,
    pub(crate) target: RowTarget,
}

impl Row {
    /// To a hundredth: too few to judge the speed.
    fn shrink(&mut self) {
        self.objects /= 100;
        self.target.ratio = None;
        self.target.more = None;
        self.target.seconds = None;
    }
}

/// The objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// ConfigMaps and Secrets of 1.4 kB, as many of each.
    Small,
    /// ConfigMaps of 900 kB.
    Large,
}

/// The numbers of objects of a mixed cluster, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mixture {
    /// Pods; a quarter of them has a claim that is bound to a volume.
    pub(crate) pods: usize,
    pub(crate) claims: usize,
    pub(crate) accounts: usize,
    /// Definitions, each with [`RESOURCES_OF_A_DEFINITION`] custom resources.
    pub(crate) definitions: usize,
}

/// Custom resources of one definition.
pub(crate) const RESOURCES_OF_A_DEFINITION: usize = 50;

impl Mixture {
    /// Of about as many objects: 20,000 pods and 200 definitions at 41,200.
    pub(crate) const fn of(objects: usize) -> Self {
        let pods = objects * 200 / 412;
        Self { pods, claims: pods / 4, accounts: pods / 20, definitions: pods / 100 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum RowWork {
    Backup(RowScope),
    /// Of what clusters are made of: a [`Mixture`] of as many objects.
    BackupMixed,
    /// Into an empty cluster.
    Restore,
    /// Over the very objects that were backed up.
    RestoreUnchanged,
    /// Reading a whole backup and comparing it with what was written.
    Verify,
    /// A restore over the very objects that were backed up, only previewed.
    Preview,
    /// A backup by custom resources, beside the local command.
    ServerBackup,
    /// A restore by custom resources, beside the local command.
    ServerRestore,
    /// A backup of claims whose driver takes its time, on a node.
    Snapshots,
    /// The plan of the server for all resources of its namespace, explained and printed, and beside it the plan alone.
    Plan,
    /// A server with many Backups, in many locations of which some hang: its start, and what it costs when there is
    /// nothing to do.
    ServerIdle,
    /// The table of many Backups.
    GetBackups,
    /// kubectl on a backup, beside the API server that it was made of.
    Browse,
    /// Two backups of the very same objects, compared.
    DiffBackups,
    /// A backup compared with the cluster that it was made of.
    DiffLive,
}

/// The namespaces of the objects, and with them the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowScope {
    /// A single namespace, named on the command line.
    Namespace,
    /// A hundred namespaces: the whole cluster.
    Cluster,
}

impl RowScope {
    pub(crate) fn namespaces(self) -> usize {
        match self {
            Self::Namespace => 1,
            Self::Cluster => 100,
        }
    }
}

/// The target of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowTarget {
    /// Times the floor; none where a constant part of some milliseconds decides.
    pub(crate) ratio: Option<f64>,
    /// Seconds more than the floor.
    pub(crate) more: Option<f64>,
    /// Seconds, of what has no floor to be compared with.
    pub(crate) seconds: Option<f64>,
    pub(crate) peak_mib: f64,
}

const BACKUP: RowTarget = RowTarget { ratio: Some(1.6), more: None, seconds: None, peak_mib: 96.0 };
const BACKUP_MEMORY: RowTarget = RowTarget { ratio: None, more: None, seconds: None, peak_mib: 96.0 };
/// 70 % of the rate at which a plain client creates.
const RESTORE: RowTarget = RowTarget { ratio: Some(1.43), more: None, seconds: None, peak_mib: 200.0 };
const RESTORE_UNCHANGED: RowTarget = RowTarget { ratio: Some(1.3), more: None, seconds: None, peak_mib: 200.0 };
/// The floor is the local command.
const SERVER: RowTarget = RowTarget { ratio: None, more: Some(1.0), seconds: None, peak_mib: 200.0 };

/// The objects of a real cluster cost the walk more than plain objects.
const BACKUP_MIXED: RowTarget = RowTarget { ratio: Some(2.0), more: None, seconds: None, peak_mib: 96.0 };
/// Only memory is bounded.
const MEMORY: RowTarget = RowTarget { ratio: None, more: None, seconds: None, peak_mib: 200.0 };

/// The floor is the driver's time for the same snapshots.
const SNAPSHOTS: RowTarget = RowTarget { ratio: Some(1.3), more: None, seconds: None, peak_mib: 96.0 };

/// Three times the 0.05 s and the 41 MiB that it took on two busy cores.
const PLAN: RowTarget = RowTarget { ratio: None, more: None, seconds: Some(0.15), peak_mib: 125.0 };

/// The promise to users of a server with 10,000 Backups.
const SERVER_IDLE: RowTarget = RowTarget { ratio: None, more: None, seconds: Some(5.0), peak_mib: 150.0 };
const GET_BACKUPS: RowTarget = RowTarget { ratio: None, more: None, seconds: Some(1.0), peak_mib: 150.0 };

/// The floor is kubectl on the API server. The other things that users of a backup are promised are in `browse`.
const BROWSE: RowTarget = RowTarget { ratio: Some(1.5), more: None, seconds: None, peak_mib: 96.0 };

const fn backup(name: &'static str, objects: usize, place: RowScope, target: RowTarget) -> Row {
    row(name, objects, RowWork::Backup(place), target)
}

const fn row(name: &'static str, objects: usize, work: RowWork, target: RowTarget) -> Row {
    Row { name, objects, data: Data::Small, work, target }
}

const ROWS: [Row; 20] = [
    backup("backup-1k", 1_000, RowScope::Namespace, BACKUP_MEMORY),
    backup("backup-10k", 10_000, RowScope::Namespace, BACKUP),
    backup("backup-30k", 30_000, RowScope::Namespace, BACKUP),
    backup("backup-1k-100ns", 1_000, RowScope::Cluster, BACKUP_MEMORY),
    backup("backup-10k-100ns", 10_000, RowScope::Cluster, BACKUP),
    SMALLER,
    Row { data: Data::Large, ..backup("backup-600-large", 600, RowScope::Namespace, BACKUP_MEMORY) },
    row("backup-mixed", 41_200, RowWork::BackupMixed, BACKUP_MIXED),
    row("restore-1k", 1_000, RowWork::Restore, RESTORE),
    row("restore-10k", 10_000, RowWork::Restore, RESTORE),
    row("restore-10k-unchanged", 10_000, RowWork::RestoreUnchanged, RESTORE_UNCHANGED),
    row("server-backup-1k", 1_000, RowWork::ServerBackup, SERVER),
    row("server-backup-10k", 10_000, RowWork::ServerBackup, SERVER),
    row("server-restore-1k", 1_000, RowWork::ServerRestore, SERVER),
    row("server-restore-10k", 10_000, RowWork::ServerRestore, SERVER),
    row("snapshots-500", 500, RowWork::Snapshots, SNAPSHOTS),
    row("plan-10k", 10_000, RowWork::Plan, PLAN),
    row("server-idle-10k", 10_000, RowWork::ServerIdle, SERVER_IDLE),
    row("get-backups-10k", 10_000, RowWork::GetBackups, GET_BACKUPS),
    row("browse-30k", 30_000, RowWork::Browse, BROWSE),
];

/// With which the growth of a backup to 300,000 objects is compared, in a cluster of its own.
pub(crate) const SMALLER: Row = backup("backup-30k-100ns", 30_000, RowScope::Cluster, BACKUP);

/// Of one cluster with many objects, in this order, behind [`SMALLER`].
const LARGE: [Row; 9] = [
    SMALLER,
    backup("backup-300k-100ns", 300_000, RowScope::Cluster, BACKUP),
    row("verify-300k", 300_000, RowWork::Verify, MEMORY),
    row("restore-300k-dry-run", 300_000, RowWork::Preview, MEMORY),
    row("restore-300k-unchanged", 300_000, RowWork::RestoreUnchanged, RESTORE_UNCHANGED),
    row("diff-300k", 300_000, RowWork::DiffBackups, MEMORY),
    row("diff-300k-live", 300_000, RowWork::DiffLive, MEMORY),
    row("browse-300k", 300_000, RowWork::Browse, BROWSE),
    row("restore-300k", 300_000, RowWork::Restore, RESTORE),
];

/// The rows of `bench-large` whose names contain one of the arguments.
pub(crate) fn large(args: &[String]) -> Result<Vec<Row>> {
    chosen_of(&LARGE, args)
}

/// The rows of `bench` whose names contain one of the arguments.
pub(crate) fn chosen(args: &[String]) -> Result<Vec<Row>> {
    chosen_of(&ROWS, args)
}

/// All without a name; with `--small`, of a hundredth of the objects.
fn chosen_of(rows: &[Row], args: &[String]) -> Result<Vec<Row>> {
    let (flags, names): (Vec<&String>, Vec<&String>) = args.iter().partition(|arg| arg.starts_with('-'));
    if let Some(unknown) = flags.iter().find(|flag| flag.as_str() != "--small") {
        bail!("unknown flag {unknown}: --small or names of rows");
    }
    let is_chosen = |row: &&Row| names.is_empty() || names.iter().any(|name| row.name.contains(name.as_str()));
    let mut chosen: Vec<Row> = rows.iter().filter(is_chosen).copied().collect();
    if chosen.is_empty() {
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        bail!("no row has such a name: {}", names.join(", "));
    }
    if !flags.is_empty() {
        chosen.iter_mut().for_each(Row::shrink);
    }
    Ok(chosen)
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
        let mixed = Mixture::of(41_200);
        assert_eq!(mixed, Mixture { pods: 20_000, claims: 5_000, accounts: 1_000, definitions: 200 });
        let custom = mixed.definitions * (1 + RESOURCES_OF_A_DEFINITION);
        assert_eq!(mixed.pods + 2 * mixed.claims + mixed.accounts + custom, 41_200);
        assert_eq!(Mixture::of(412), Mixture { pods: 200, claims: 50, accounts: 10, definitions: 2 });
        assert!(names(&["nothing"]).is_err() && names(&["--fast"]).is_err());
        let large = |name: &str| large(&[name.to_owned()]).map(|rows| rows.len());
        assert_eq!([large("300k").unwrap(), large("diff").unwrap()], [LARGE.len() - 1, 2]);
        assert!(large("backup-10k").is_err());
    }
}
