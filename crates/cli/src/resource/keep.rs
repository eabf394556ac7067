//! Retention rules of a schedule, which keep backups beyond their expiration: as flags, and as the cluster stores them.

use super::change::change;
use anyhow::Result;
use clap::Args;
use lifeboat_api::{Retention, Schedule, well_known};
use lifeboat_client::Client;
use std::io::Write;

/// Which backups of a schedule stay although their time is over.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeepArgs {
    /// Never let the newest good backup of the schedule go, also one that Velero has made; each of the other rules does that too. Without
    /// rules this is so for what Lifeboat has made
    #[arg(long)]
    keep_last_good: bool,
    /// Keep so many of the newest good backups, whatever their time
    #[arg(long, value_name = "N")]
    keep_last: Option<u32>,
    /// Keep the newest good backup of each of so many hours that have one
    #[arg(long, value_name = "N")]
    keep_hourly: Option<u32>,
    /// Keep the newest good backup of each of so many days that have one
    #[arg(long, value_name = "N")]
    keep_daily: Option<u32>,
    /// Keep the newest good backup of each of so many weeks that have one; they begin on a Monday
    #[arg(long, value_name = "N")]
    keep_weekly: Option<u32>,
    /// Keep the newest good backup of each of so many months that have one
    #[arg(long, value_name = "N")]
    keep_monthly: Option<u32>,
    /// Keep the newest good backup of each of so many years that have one
    #[arg(long, value_name = "N")]
    keep_yearly: Option<u32>,
}

impl KeepArgs {
    /// The rules; `None` when no flag was given.
    pub(crate) fn rules(&self) -> Option<Retention> {
        let rules = Retention {
            keep_last: self.keep_last.map(i64::from),
            keep_hourly: self.keep_hourly.map(i64::from),
            keep_daily: self.keep_daily.map(i64::from),
            keep_weekly: self.keep_weekly.map(i64::from),
            keep_monthly: self.keep_monthly.map(i64::from),
            keep_yearly: self.keep_yearly.map(i64::from),
            ..Retention::default()
        };
        (self.keep_last_good || rules != Retention::default()).then_some(rules)
    }
}

/// A schedule with its rules in an annotation, for a cluster whose definition of schedules has no field for them.
pub(crate) fn annotated(schedule: &Schedule) -> Result<Schedule> {
    let mut annotated = schedule.clone();
    if let Some(rules) = annotated.spec.retention.take() {
        annotate(&mut annotated, &rules)?;
        tell_of_annotation()?;
    }
    Ok(annotated)
}

fn annotate(schedule: &mut Schedule, rules: &Retention) -> Result<()> {
    let text = serde_json::to_string(rules)?;
    schedule.metadata.annotations.insert(well_known::ANNOTATION_RETENTION.to_owned(), text);
    Ok(())
}

fn tell_of_annotation() -> Result<()> {
    writeln!(
        std::io::stderr(),
        "The cluster's definition of schedules has no spec.retention: the annotation {} says it instead. \
         `install --crds-only --apply` brings the field.",
        well_known::ANNOTATION_RETENTION
    )?;
    Ok(())
}

/// Sets the rules of a schedule, or removes them. The first write has them twice, in the field and in the annotation,
/// because it is not known whether the definition has the field: so a server finds the rules at any time. Where the
/// field was stored, the annotation is removed then.
pub(crate) async fn set(client: &Client, name: &str, rules: Option<&Retention>) -> Result<()> {
    let goal = "given its rules";
    let (stored, _) = change(client, name, goal, |before: &Schedule| {
        let mut after = before.clone();
        after.metadata.annotations.remove(well_known::ANNOTATION_RETENTION);
        after.spec.retention = rules.cloned();
        if let Some(rules) = rules {
            annotate(&mut after, rules)?;
        }
        Ok(Some(after))
    })
    .await?;
    if rules.is_none() {
        return Ok(());
    }
    if stored.spec.retention.as_ref() != rules {
        return tell_of_annotation();
    }
    // Somebody who gave other rules meanwhile has removed the annotation already.
    let with_field = |before: &Schedule| {
        let mut after = before.clone();
        after.metadata.annotations.remove(well_known::ANNOTATION_RETENTION);
        Ok((before.spec.retention.as_ref() == rules).then_some(after))
    };
    change(client, name, goal, with_field).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_client::api_resource;
    use lifeboat_cluster::{Cluster, ConnectOptions};
    use lifeboat_reconcile::{MirrorEvent, MirroredType};
    use lifeboat_sandbox::{Sandbox, SandboxOptions};
    use lifeboat_terminal::output::retention::retention_text;
    use serde_json::json;
    use tokio::sync::mpsc;
    use tokio::task::JoinSet;

    /// A server sees each state that a schedule goes through, and may delete backups in each.
    #[tokio::test]
    async fn a_schedule_whose_rules_are_changed_has_rules_at_every_moment() {
        let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.unwrap();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "velero"}});
        sandbox.apply([namespace].into_iter().chain(lifeboat_api::crds()).collect()).await.unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&kubeconfig, sandbox.kubeconfig()).unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().into()), ..ConnectOptions::default() };
        let client = Client { cluster: Cluster::connect(&options).await.unwrap(), namespace: "velero".into() };
        // Made before the definition had the field.
        let mut schedule = Schedule::default();
        (schedule.metadata.name, schedule.metadata.namespace) = ("s".into(), "velero".into());
        annotate(&mut schedule, &Retention { keep_weekly: Some(3), ..Retention::default() }).unwrap();
        client.create("s", &schedule).await.unwrap().unwrap();
        let (sender, mut changes) = mpsc::channel(16);
        let mut tasks = JoinSet::new();
        let (cluster, resource) = (client.cluster.clone(), api_resource::<Schedule>());
        let mirrored = MirroredType {
            cluster,
            resource,
            namespace: Some("velero".into()),
            fields: String::new(),
            metadata_only: false,
        };
        tasks.spawn(mirrored.mirror(|seen| seen, sender));
        assert!(matches!(changes.recv().await, Some(MirrorEvent::All(_))));

        let rules = Retention { keep_daily: Some(7), ..Retention::default() };
        set(&client, "s", Some(&rules)).await.unwrap();
        let last: Schedule = client.get("s").await.unwrap().unwrap();
        assert_eq!((last.spec.retention.as_ref(), last.metadata.annotations.len()), (Some(&rules), 0));
        loop {
            let Some(MirrorEvent::Applied(body)) = changes.recv().await else { panic!("a change") };
            let seen: Schedule = serde_json::from_slice(&body).unwrap();
            assert_eq!(seen.retention(), Ok(Some(rules.clone())));
            if seen == last {
                break;
            }
        }
        set(&client, "s", None).await.unwrap();
        assert_eq!(client.get::<Schedule>("s").await.unwrap().unwrap().retention(), Ok(None));
    }

    #[test]
    fn any_flag_makes_rules() {
        assert_eq!(KeepArgs::default().rules(), None);
        let good = KeepArgs { keep_last_good: true, ..KeepArgs::default() }.rules().unwrap();
        assert_eq!((retention_text(&good).as_str(), &good), ("the last good one", &Retention::default()));
        let some = KeepArgs { keep_daily: Some(7), keep_yearly: Some(0), ..KeepArgs::default() }.rules().unwrap();
        let expected = Retention { keep_daily: Some(7), keep_yearly: Some(0), ..Retention::default() };
        assert_eq!((retention_text(&some).as_str(), some), ("keepDaily 7, keepYearly 0", expected));
    }

    #[test]
    fn rules_go_into_the_annotation_where_there_is_no_field() {
        let mut schedule = Schedule::default();
        schedule.spec.retention = Some(Retention { keep_daily: Some(7), ..Retention::default() });
        let annotated = annotated(&schedule).unwrap();
        assert_eq!(annotated.spec.retention, None);
        assert_eq!(annotated.retention(), Ok(schedule.spec.retention));
    }
}
