//! Looks at what the next backups of schedules would do with volumes, by the settings of this server and today's claims.

use super::{Context, SnapshotLocations};
use lifeboat_api::Schedule;
use lifeboat_backup::{Env, Request, VolumeExplanation, explain_volumes};
use lifeboat_lifecycle::next_backups::{NextBackup, NextBackups};
use lifeboat_lifecycle::phase::facts::saves_volumes;
use lifeboat_lifecycle::phase::schedule::ScheduleStanding;
use lifeboat_object::ResultSet;
use lifeboat_operation::Operation;
use lifeboat_store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Longest time of the look, for which the user waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// So many schedules are looked at.
const MOST: usize = 50;

/// Looks at the schedules that run and are to save what is in volumes. What is not known is said, with the reason.
pub(super) async fn next_backups(context: &Context) -> NextBackups {
    let mut found = NextBackups::default();
    let looked = timeout(PATIENCE, Box::pin(look(context, &mut found))).await;
    found.unknown = match looked {
        Ok(Ok(())) => String::new(),
        Ok(Err(why)) => why,
        Err(_) => format!("the server has not found it out within {} seconds", PATIENCE.as_secs()),
    };
    found
}

async fn look(context: &Context, found: &mut NextBackups) -> Result<(), String> {
    let schedules = context.client.list::<Schedule>("").await.map_err(|e| e.to_string())?;
    let runs = |schedule: &&Schedule| {
        let standing = ScheduleStanding::of(schedule);
        matches!(standing, ScheduleStanding::New | ScheduleStanding::Enabled) && saves_volumes(&schedule.spec.template)
    };
    let schedules: Vec<&Schedule> = schedules.iter().filter(runs).collect();
    if schedules.is_empty() {
        return Ok(());
    }
    let clock = &context.env.clock.0;
    let quiet = || Operation::new(Arc::clone(clock), "", context.env.scratch.clone());
    let actions = context.actions(&quiet().journal, SnapshotLocations::All).await?;
    for schedule in schedules.iter().take(MOST) {
        let env = Env {
            cluster: context.client.cluster.clone(),
            // The bucket is asked nothing.
            store: Store::in_memory(),
            actions: actions.clone(),
            operation: quiet(),
        };
        let next = next_backup(context, schedule, &env).await;
        found.schedules.insert(schedule.metadata.name.clone(), next);
    }
    match schedules.len() > MOST {
        true => Err(format!("of {} schedules {MOST} were looked at", schedules.len())),
        false => Ok(()),
    }
}

async fn next_backup(context: &Context, schedule: &Schedule, env: &Env) -> NextBackup {
    let mut backup = schedule.backup();
    backup.metadata.name.clone_from(&schedule.metadata.name);
    let request = Request { backup, settings: context.options.backup.clone() };
    match explain_volumes(&request, env).await {
        Err(e) => NextBackup::of(&[], e.to_string()),
        Ok(VolumeExplanation { unprotected, refusal, results, .. }) => {
            let errors = || first_error(results.errors);
            let all: Vec<_> = unprotected.into_iter().map(|volume| (volume.name, volume.reason)).collect();
            NextBackup::of(&all, refusal.or_else(errors).unwrap_or_default())
        }
    }
}

fn first_error(errors: ResultSet) -> Option<String> {
    let of_namespaces = errors.namespaces.into_values().flatten();
    errors.velero.into_iter().chain(errors.cluster).chain(of_namespaces).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{OneBucket, context};
    use crate::work::status::answer;
    use lifeboat_api::{ObjectMeta, ServerStatusRequest};
    use lifeboat_bucket::Memory;
    use lifeboat_cluster::{Cluster, ConnectOptions};
    use lifeboat_sandbox::{Sandbox, SandboxOptions};
    use serde_json::{Value, json};

    #[tokio::test]
    async fn the_status_says_which_volumes_the_next_backup_would_not_save() {
        let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.unwrap();
        let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv-1", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Bound"}
        });
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "csi.example.com", "volumeHandle": "1"},
                "claimRef": {"namespace": "shop", "name": "data"}
            },
            "status": {"phase": "Bound"}
        });
        let schedule = |name: &str, template: &Value| {
            json!({
                "apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": {"name": name, "namespace": "velero"},
                "spec": {"schedule": "0 3 * * *", "template": template}
            })
        };
        let objects = [
            namespace("kube-system"),
            namespace("velero"),
            namespace("shop"),
            volume,
            claim,
            schedule("nightly", &json!({"includedNamespaces": ["shop"]})),
            schedule("other", &json!({"includedNamespaces": ["velero"]})),
            schedule("without", &json!({"includedNamespaces": ["shop"], "snapshotVolumes": false})),
        ];
        let (objects, schedules) = objects.split_at(5);
        sandbox.apply(objects.iter().cloned().chain(lifeboat_api::crds()).collect()).await.unwrap();
        sandbox.apply(schedules.to_vec()).await.unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&kubeconfig, sandbox.kubeconfig()).unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().into()), ..ConnectOptions::default() };
        let cluster = Cluster::connect(&options).await.unwrap();
        let context = context(cluster, Arc::new(OneBucket(Arc::new(Memory::default()))));
        let mut answers = Vec::new();
        for asks in [false, true] {
            let metadata =
                ObjectMeta { name: format!("asks-{asks}"), namespace: "velero".to_owned(), ..ObjectMeta::default() };
            let mut request = ServerStatusRequest { metadata, ..ServerStatusRequest::default() };
            if asks {
                NextBackups::ask(&mut request);
            }
            let name = request.metadata.name.clone();
            let request = context.client.create(&name, &request).await.unwrap().unwrap();
            answer(&context, request).await.unwrap();
            let answered = context.client.get::<ServerStatusRequest>(&name).await.unwrap().unwrap();
            answers.push(NextBackups::of(&answered));
        }
        let why = "snapshots are taken by default, but it is of a CSI driver, the feature EnableCSI is off, and no volume snapshot location is \
                   there";
        let nightly = NextBackup { unprotected: 1, first: vec![format!("shop/data ({why})")], trouble: String::new() };
        let schedules = [("nightly".to_owned(), nightly), ("other".to_owned(), NextBackup::default())].into();
        assert_eq!(answers, [None, Some(NextBackups { schedules, unknown: String::new() })]);
    }
}
