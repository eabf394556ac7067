//! `lifeboat expiry --release`, `schedule delete` and `schedule retention --none`: release of backups that the rules of
//! a schedule keep.

use super::change::change;
use super::together;
use crate::commands::backup::hold::unrecorded;
use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{Backup, BackupStorageLocation, KeptBy, Resource, SourceCluster, Time, label_value, well_known};
use lifeboat_client::Client;
use lifeboat_lifecycle::phase::backup_expiry::{BackupExpiry, ExpiryInput, expiries};
use lifeboat_lifecycle::phase::expiry::ExpiryOutcome;
use lifeboat_lifecycle::phase::facts::is_good;
use lifeboat_lifecycle::phase::keep::Keeper;
use lifeboat_lifecycle::phase::kept_by::{is_released, schedule_label};
use lifeboat_object::{counted, first_names_of};
use lifeboat_terminal::flags::confirm::{ConfirmationTarget, asked, nobody_to_ask, question, refuse_without_terminal};
use lifeboat_terminal::output::errors::{missing, tell};
use std::io::Write;
use std::process::ExitCode;

/// Backups that rules need not keep any more.
#[derive(Debug, Args)]
pub(crate) struct RulesReleaseArgs {
    /// Let backups go when their time is over, which the rules of a schedule keep: those of --schedule, or of these names. It shows what
    /// becomes of them, and asks
    #[arg(long)]
    release: bool,
    /// Names of backups to be released
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Release all that this schedule has kept: one that is not here any more, or has no rules
    #[arg(long, default_value = "", value_name = "NAME")]
    schedule: String,
    /// The schedule is one of the cluster of this UID, or of any of that name with "any", instead of this cluster's
    #[arg(long, default_value = "", value_name = "UID")]
    source_cluster: String,
    /// Only show what would become of them
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    confirm: bool,
}

impl RulesReleaseArgs {
    /// Returns true if backups are to be released.
    ///
    /// # Errors
    /// When something else is said that only a release knows.
    pub(crate) fn is_asked(&self) -> Result<bool> {
        let is_more = !self.names.is_empty() || !self.schedule.is_empty() || !self.source_cluster.is_empty();
        if !self.release && (is_more || self.dry_run || self.confirm) {
            bail!(
                "expiry: names, --schedule, --source-cluster, --dry-run and --confirm are for --release, which is missing"
            );
        }
        Ok(self.release)
    }

    /// Releases backups of these lists; `show` prints what becomes of some.
    pub(crate) async fn run(
        &self,
        client: &Client,
        lists: &ExpiryInput,
        now: Timestamp,
        show: impl Fn(&[BackupExpiry]) -> Result<ExitCode>,
    ) -> Result<ExitCode> {
        if self.names.is_empty() == self.schedule.is_empty() {
            bail!("expiry --release: say which backups are meant, either by --schedule NAME or by their names");
        }
        let is_answered = self.confirm || self.dry_run;
        refuse_without_terminal(is_answered || self.schedule.is_empty(), || {
            nobody_to_ask("released", "--schedule", ConfirmationTarget::of(client))
        })?;
        let all = expiries(lists, &TimeZone::UTC, now);
        let chosen = self.chosen(&all, &lists.cluster)?;
        if chosen.is_empty() {
            writeln!(std::io::stdout(), "No backups that rules keep were found")?;
            return Ok(ExitCode::SUCCESS);
        }
        show(&after_release(lists, &chosen, now))?;
        let names: Vec<&str> = chosen.iter().map(|expiry| expiry.backup.metadata.name.as_str()).collect();
        let question = question("Release", Backup::KIND, &names, ConfirmationTarget::of(client));
        if self.dry_run || !asked(&question, self.confirm)? {
            return Ok(ExitCode::SUCCESS);
        }
        release(client, &chosen, &lists.locations, now).await
    }

    /// The backups that are meant, of all; `this` is the UID of the cluster.
    fn chosen<'f>(&self, all: &'f [BackupExpiry], this: &str) -> Result<Vec<&'f BackupExpiry>> {
        if !self.schedule.is_empty() {
            return self.of_schedule(all, this);
        }
        let mut chosen = Vec::new();
        for name in &self.names {
            match all.iter().find(|expiry| expiry.backup.metadata.name == *name) {
                None => return Err(missing::<Backup>(name)),
                Some(expiry) if expiry.is_kept_by_schedule() => chosen.push(expiry),
                Some(_) => writeln!(std::io::stderr(), "Backup \"{name}\" is kept by no rules.")?,
            }
        }
        Ok(chosen)
    }

    fn of_schedule<'f>(&self, all: &'f [BackupExpiry], this: &str) -> Result<Vec<&'f BackupExpiry>> {
        let name = &self.schedule;
        let kept = to_be_released(all, name);
        let from = SourceCluster::parse(&self.source_cluster);
        let (chosen, others): (Vec<&BackupExpiry>, Vec<&BackupExpiry>) =
            kept.into_iter().partition(|expiry| from.admits(&expiry.backup, this));
        let by_schedule =
            |expiry: &&BackupExpiry| expiry.keepers.iter().any(|keeper| matches!(keeper, Keeper::Rules { .. }));
        if chosen.iter().any(by_schedule) {
            bail!(
                "schedule {name} is here, and its rules keep its backups: take the rules away first (`schedule retention {name} --none`), \
                 or name the backups"
            );
        }
        let mut clusters: Vec<&str> = others.iter().filter_map(|expiry| expiry.source.as_deref()).collect();
        clusters.sort_unstable();
        clusters.dedup();
        if chosen.is_empty() && !clusters.is_empty() {
            let clusters = clusters.join(", ");
            writeln!(
                std::io::stderr(),
                "Schedules of this name in other clusters keep some (--source-cluster UID, or any): {clusters}"
            )?;
        }
        Ok(chosen)
    }
}

/// Returns the backups of a schedule that it keeps: by its rules, or as the last good one.
pub(crate) fn kept_by_schedule<'f>(all: &'f [BackupExpiry], schedule: &str) -> Vec<&'f BackupExpiry> {
    let mut kept = labelled(all, schedule);
    kept.retain(|expiry| expiry.is_kept_by_schedule());
    kept
}

/// Returns the backups that have the label of a schedule.
fn labelled<'f>(all: &'f [BackupExpiry], schedule: &str) -> Vec<&'f BackupExpiry> {
    let label = label_value(schedule);
    all.iter().filter(|expiry| schedule_label(&expiry.backup).as_deref() == Some(label.as_str())).collect()
}

/// Returns the backups of a schedule that are released with it: those that rules keep, and where the last good one stays without rules, all
/// others of its cluster too, each of which would be the last good one after it.
pub(crate) fn to_be_released<'f>(all: &'f [BackupExpiry], schedule: &str) -> Vec<&'f BackupExpiry> {
    let mut found = labelled(all, schedule);
    let source = |expiry: &BackupExpiry| (expiry.is_own, expiry.source.clone());
    let without_rules: Vec<_> =
        found.iter().filter(|expiry| is_kept_without_rules(expiry)).map(|expiry| source(expiry)).collect();
    let is_next = |expiry: &BackupExpiry| {
        is_good(&expiry.backup, expiry.becomes == ExpiryOutcome::Going)
            && !is_released(&expiry.backup.metadata)
            && without_rules.contains(&source(expiry))
    };
    found.retain(|expiry| expiry.is_kept_by_schedule() || is_next(expiry));
    found
}

fn is_kept_without_rules(expiry: &BackupExpiry) -> bool {
    expiry.keepers.iter().any(|keeper| matches!(keeper, Keeper::WithoutRules { .. }))
}

/// Computes the expiry of these backups after their release.
fn after_release(lists: &ExpiryInput, chosen: &[&BackupExpiry], now: Timestamp) -> Vec<BackupExpiry> {
    let mut lists = lists.clone();
    let is_chosen = |backup: &Backup| chosen.iter().any(|expiry| expiry.backup.metadata.name == backup.metadata.name);
    lists.backups.iter_mut().filter(|backup| is_chosen(backup)).for_each(|backup| note_release(backup, now));
    let mut expiries = expiries(&lists, &TimeZone::UTC, now);
    expiries.retain(|expiry| is_chosen(&expiry.backup));
    expiries
}

fn note_release(backup: &mut Backup, now: Timestamp) {
    let said = KeptBy::of(&backup.metadata).and_then(Result::ok).unwrap_or_else(|| KeptBy {
        schedule: backup.schedule_label().unwrap_or_default().to_owned(),
        ..KeptBy::default()
    });
    let said = KeptBy { released: Some(Time::new(now)), recorded: false, ..said };
    backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.to_owned(), said.value());
}

/// Releases backups, and reports it.
pub(crate) async fn release(
    client: &Client,
    chosen: &[&BackupExpiry],
    locations: &[BackupStorageLocation],
    now: Timestamp,
) -> Result<ExitCode> {
    let mut errors = Vec::new();
    for expiry in chosen {
        let name = &expiry.backup.metadata.name;
        let released = change(client, name, "released", |before: &Backup| {
            let mut after = before.clone();
            note_release(&mut after, now);
            Ok(Some(after))
        });
        match released.await {
            Ok((backup, _)) => {
                writeln!(std::io::stdout(), "Backup \"{name}\" is not kept for its schedule any more.")?;
                tell(unrecorded(&backup, Some(locations), "goes on keeping it"))?;
            }
            Err(e) => errors.push(e),
        }
    }
    together(errors)
}

/// The most names that are listed one by one.
const LISTED: usize = 5;

/// Says which backups stay by the rules of a schedule that has none any more; `None` when there are none.
pub(crate) fn staying(schedule: &str, kept: &[&BackupExpiry]) -> Option<String> {
    let own = own_names(kept);
    let (stay, them) = if own.len() == 1 { ("stays", "it") } else { ("stay", "them") };
    let why = match kept.iter().filter(|expiry| expiry.is_own).all(|expiry| is_kept_without_rules(expiry)) {
        true => "it is the last good one".to_owned(),
        false => format!("its rules have kept {them}"),
    };
    (!own.is_empty()).then(|| {
        format!(
            "{} of schedule {schedule} {stay} until somebody releases {them}, because {why}: {} (`expiry --release \
             --schedule {schedule}`).",
            counted(own.len() as u64, "backup"),
            first_names_of(&own, LISTED)
        )
    })
}

/// Says which backups the deletion of a schedule releases; `None` when there are none.
pub(crate) fn released_with(schedule: &str, kept: &[&BackupExpiry]) -> Option<String> {
    let own = own_names(kept);
    let each = if own.len() == 1 { "It goes when its" } else { "Each goes when its" };
    (!own.is_empty()).then(|| {
        format!(
            "The deletion of schedule {schedule} releases {} that {}: {}. {each} time is over.",
            counted(own.len() as u64, "backup"),
            if kept.iter().any(|expiry| is_kept_without_rules(expiry)) { "would stay" } else { "its rules keep" },
            first_names_of(&own, LISTED)
        )
    })
}

fn own_names<'f>(kept: &[&'f BackupExpiry]) -> Vec<&'f str> {
    kept.iter().filter(|expiry| expiry.is_own).map(|expiry| expiry.backup.metadata.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// The backups of a schedule that kept two, and of another cluster with one of its name; and what is chosen by these arguments.
    fn lists(schedules: &[Value]) -> ExpiryInput {
        let mut lists = ExpiryInput::default();
        let kept_by = r#"{"schedule":"nightly","rules":{"keepLast":2}}"#;
        for (day, annotations) in [
            (20, json!({})),
            (21, json!({"lifeboat.io/kept-by": kept_by})),
            (22, json!({"lifeboat.io/kept-by": kept_by})),
            (
                23,
                json!({"lifeboat.io/kept-by": kept_by, "lifeboat.io/taken-over": "another-cluster", "lifeboat.io/source-cluster": "u"}),
            ),
        ] {
            let name = format!("nightly-202611{day}030000");
            lists.backups.push(read(json!({"apiVersion": "velero.io/v1", "kind": "Backup",
                "metadata": {"name": name, "labels": {"velero.io/schedule-name": "nightly"}, "annotations": annotations},
                "spec": {"storageLocation": "main"},
                "status": {"phase": "Completed", "expiration": "2026-11-24T03:00:00Z"}})));
        }
        lists.schedules = schedules.iter().cloned().map(read).collect();
        lists.locations = vec![read(json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
            "metadata": {"name": "main"}, "spec": {"provider": "aws"}, "status": {"phase": "Available"}}))];
        lifeboat_lifecycle::phase::writable::note_writable(
            &mut lists.locations[0],
            "2026-11-01T00:00:00Z".parse().unwrap(),
        );
        lists
    }

    fn args(names: &[&str], schedule: &str, cluster: &str) -> RulesReleaseArgs {
        RulesReleaseArgs {
            release: true,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            schedule: schedule.into(),
            source_cluster: cluster.into(),
            dry_run: false,
            confirm: false,
        }
    }

    fn now() -> Timestamp {
        "2026-11-25T00:00:00Z".parse().unwrap()
    }

    fn days(chosen: &[&BackupExpiry]) -> Vec<String> {
        chosen.iter().map(|expiry| expiry.backup.metadata.name["nightly-202611".len()..][..2].to_owned()).collect()
    }

    #[test]
    fn backups_kept_by_a_deleted_schedule_are_released_by_its_name_or_theirs() {
        let lists = lists(&[]);
        let all = expiries(&lists, &TimeZone::UTC, now());
        let chosen = |args: &RulesReleaseArgs| args.chosen(&all, "").map(|chosen| days(&chosen));
        assert_eq!(chosen(&args(&[], "nightly", "")).unwrap(), ["21", "22"]);
        assert_eq!(chosen(&args(&[], "nightly", "u")).unwrap(), ["23"]);
        assert_eq!(chosen(&args(&[], "nightly", "any")).unwrap(), ["21", "22", "23"], "those of all clusters");
        assert_eq!(chosen(&args(&[], "other", "")).unwrap(), [""; 0]);
        let names = ["nightly-20261122030000", "nightly-20261120030000"];
        assert_eq!(chosen(&args(&names, "", "")).unwrap(), ["22"]);
        assert!(chosen(&args(&["nope"], "", "")).unwrap_err().to_string().contains("\"nope\" not found"));
        let own = args(&[], "nightly", "");
        let after = after_release(&lists, &own.chosen(&all, "").unwrap(), now());
        let becomes: Vec<&ExpiryOutcome> = after.iter().map(|expiry| &expiry.becomes).collect();
        let over: Timestamp = "2026-11-24T03:00:00Z".parse().unwrap();
        assert_eq!(becomes, [&ExpiryOutcome::Goes(over); 2]);
        let expected = "2 backups of schedule nightly stay until somebody releases them, because its rules have kept them: nightly-20261121030000, \
                        nightly-20261122030000 (`expiry --release --schedule nightly`).";
        assert_eq!(staying("nightly", &kept_by_schedule(&all, "nightly")).as_deref(), Some(expected));
        assert_eq!(staying("other", &kept_by_schedule(&all, "other")), None);
        let expected = "The deletion of schedule nightly releases 2 backups that its rules keep: nightly-20261121030000, \
                        nightly-20261122030000. Each goes when its time is over.";
        assert_eq!(released_with("nightly", &kept_by_schedule(&all, "nightly")).as_deref(), Some(expected));
    }

    #[test]
    fn all_backups_of_a_schedule_without_rules_are_released_by_its_name() {
        let mut lists = lists(&[]);
        for backup in &mut lists.backups {
            let annotations = &mut backup.metadata.annotations;
            annotations.remove("lifeboat.io/kept-by");
            annotations.entry("lifeboat.io/source-cluster".to_owned()).or_insert_with(|| "here".to_owned());
        }
        let all = expiries(&lists, &TimeZone::UTC, now());
        let kept = kept_by_schedule(&all, "nightly");
        assert_eq!(days(&kept), ["22"], "the last good one of this cluster");
        let stays = "1 backup of schedule nightly stays until somebody releases it, because it is the last good one: nightly-20261122030000 \
                     (`expiry --release --schedule nightly`).";
        assert_eq!(staying("nightly", &kept).as_deref(), Some(stays));
        let own = args(&[], "nightly", "");
        assert_eq!(days(&own.chosen(&all, "").unwrap()), ["20", "21", "22"]);
        let after = after_release(&lists, &own.chosen(&all, "").unwrap(), now());
        assert!(after.iter().all(|expiry| matches!(expiry.becomes, ExpiryOutcome::Goes(_))), "{after:?}");
        let goes = "The deletion of schedule nightly releases 3 backups that would stay: nightly-20261120030000, nightly-20261121030000, \
                    nightly-20261122030000. Each goes when its time is over.";
        assert_eq!(released_with("nightly", &to_be_released(&all, "nightly")).as_deref(), Some(goes));
    }

    #[test]
    fn a_backup_that_lost_its_label_is_released_with_those_of_its_schedule() {
        let mut lists = lists(&[]);
        lists.backups[1].metadata.labels.clear();
        let all = expiries(&lists, &TimeZone::UTC, now());
        assert_eq!(days(&args(&[], "nightly", "").chosen(&all, "").unwrap()), ["21", "22"]);
    }

    #[test]
    fn what_only_a_release_knows_is_refused_without_it() {
        let mut other = RulesReleaseArgs { release: false, ..args(&[], "", "") };
        assert!(!other.is_asked().unwrap());
        other.dry_run = true;
        assert!(other.is_asked().unwrap_err().to_string().contains("are for --release, which is missing"));
    }

    #[test]
    fn what_a_schedule_keeps_that_stands_is_released_by_names_alone() {
        let schedule = json!({"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 3 * * *", "template": {}, "retention": {"keepLast": 2}}});
        let lists = lists(&[schedule]);
        let all = expiries(&lists, &TimeZone::UTC, now());
        let why = args(&[], "nightly", "").chosen(&all, "").unwrap_err().to_string();
        let expected = "schedule nightly is here, and its rules keep its backups: take the rules away first (`schedule retention nightly \
                        --none`), or name the backups";
        assert_eq!(why, expected);
        assert_eq!(days(&args(&["nightly-20261121030000"], "", "").chosen(&all, "").unwrap()), ["21"]);
    }
}
