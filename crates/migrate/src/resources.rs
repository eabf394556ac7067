//! Findings about the resources of an installation, and about the settings of its users.

use super::finding::{Finding, SwitchEffect};
use super::installation::VeleroInstallation;
use super::workload::is_called;
use jiff::tz::TimeZone;
use lifeboat_api::well_known::LABEL_PLUGIN_CONFIG;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationPhase, Schedule};
use lifeboat_backup::CheckedPolicies;
use lifeboat_lifecycle::phase::facts::is_running as backup_is_running;
use lifeboat_lifecycle::phase::restore::is_running as restore_is_running;
use lifeboat_lifecycle::phase::schedule::refusal as schedule_refusal;
use lifeboat_object::{counted, first_names};
use std::collections::BTreeMap;

/// Returns the findings about the resources.
pub(super) fn findings(found: &VeleroInstallation, program: &str) -> Vec<Finding> {
    let mut out = Vec::new();
    out.extend(found.locations.iter().map(|one| location(one, found)));
    for one in &found.snapshot_locations {
        let name = &one.metadata.name;
        out.push(by_plugin(found, &format!("volume snapshot location {name}"), &one.spec.provider));
    }
    for one in &found.schedules {
        out.push(schedule(one, found));
    }
    backups(found, &mut out);
    rules(found, &mut out);
    annotations(found, &mut out);
    out.extend(in_progress(found, program));
    out
}

fn location(location: &BackupStorageLocation, found: &VeleroInstallation) -> Finding {
    let subject = format!("backup storage location {}", location.metadata.name);
    let spec = &location.spec;
    let Some(provider) = lifeboat_provider::find(&spec.provider) else {
        return by_plugin(found, &subject, &spec.provider);
    };
    if let Err(why) = provider.check(location) {
        return Finding::new(SwitchEffect::Mend, subject, format!("it could not be used: {why}"))
            .next("change its spec");
    }
    match location.status.phase {
        Some(BackupStorageLocationPhase::Unavailable) => {
            let what = format!("was not available when Velero's server looked last: {}", location.status.message);
            Finding::new(SwitchEffect::Differs, subject, what).next("mend it before the switch")
        }
        _ => Finding::new(SwitchEffect::Works, subject, "is built in"),
    }
}

/// Returns the finding for a provider that needs a plugin. The plugin is guessed from the names of images, because
/// their programs cannot be asked.
fn by_plugin(found: &VeleroInstallation, subject: &str, provider: &str) -> Finding {
    match found.plugin_images().iter().find(|image| is_called(image, provider)) {
        Some(image) => {
            let what = format!(
                "its provider {provider} is taken to be that of the plugin in {image}, by its name: what it brings cannot be seen from here"
            );
            Finding::new(SwitchEffect::Works, subject, what)
        }
        None => Finding::new(
            SwitchEffect::Differs,
            subject,
            format!("its provider {provider} is a plugin's, and no image of an init container has its name"),
        )
        .next("look which plugin it is: it has to stay among the init containers"),
    }
}

fn schedule(one: &Schedule, found: &VeleroInstallation) -> Finding {
    let subject = format!("schedule {}", one.metadata.name);
    if let Some(why) = schedule_refusal(one, &TimeZone::UTC) {
        let next = "change the schedule as the reason says, or delete it";
        return Finding::new(SwitchEffect::Mend, subject, format!("Lifeboat refuses it: {why}")).next(next);
    }
    let policies: Vec<&String> = policies_of(one, found).collect();
    if let Some(name) = policies.iter().find(|name| matches!(found.policies.get(**name), Some(Err(_)))) {
        let what = format!("its backups would be refused: the resource policies in ConfigMap {name} are wrong");
        return Finding::new(SwitchEffect::Mend, subject, what).next("mend the ConfigMap");
    }
    if let Some(who) = asks_for_movers(one, &policies, found).filter(|_| !one.spec.template.allow_unprotected) {
        let what = format!(
            "{who} for data to be moved: without a node agent nothing does that, and its backups are refused where they have such volumes"
        );
        let next = "bring in a node agent (`install --use-node-agent`), save these volumes by snapshots, or set spec.template.allowUnprotected where it may go on without them";
        return Finding::new(SwitchEffect::Missing, subject, what).next(next);
    }
    Finding::new(SwitchEffect::Works, subject, format!("{} goes on", one.spec.schedule))
}

/// The ConfigMaps with resource policies that count for the backups of a schedule: its own, and that of the server.
fn policies_of<'a>(one: &'a Schedule, found: &'a VeleroInstallation) -> impl Iterator<Item = &'a String> {
    let of_server = found.server.as_ref().and_then(|server| server.flags.policies.as_ref());
    one.spec.template.resource_policy.as_ref().map(|named| &named.name).into_iter().chain(of_server)
}

/// Returns the setting that asks for movers of volume data in the backups of a schedule, if there is one and no node agent.
fn asks_for_movers(one: &Schedule, policies: &[&String], found: &VeleroInstallation) -> Option<String> {
    if !found.node_agents.is_empty() {
        return None;
    }
    let template = &one.spec.template;
    // The old name of the field counts more than the new one.
    let by_files = match template.default_volumes_to_restic {
        Some(true) => Some(true),
        _ => template.default_volumes_to_fs_backup,
    };
    if [by_files, template.snapshot_move_data].contains(&Some(true)) {
        return Some("it asks".to_owned());
    }
    let by_default = |flag: &str, own: Option<bool>| {
        let given = found.server.iter().any(|server| server.flags.for_movers.iter().any(|given| given == flag));
        (given && own.is_none()).then(|| format!("the server's flag --{flag} asks"))
    };
    let by_policies = || {
        let asking =
            |name: &&&String| matches!(found.policies.get(**name), Some(Ok(checked)) if checked.ask_for_movers);
        policies.iter().find(asking).map(|name| format!("a rule in ConfigMap {name} asks"))
    };
    let of_files = by_default("default-volumes-to-fs-backup", by_files);
    of_files.or_else(|| by_default("default-snapshot-move-data", template.snapshot_move_data)).or_else(by_policies)
}

fn backups(found: &VeleroInstallation, out: &mut Vec<Finding>) {
    let whole = found.backups.iter().filter(|one| !found.moved.contains(&one.metadata.name)).count();
    if whole > 0 {
        let what = format!("the cluster keeps {}, to be restored from as before", counted(whole, "backup"));
        out.push(Finding::new(SwitchEffect::Works, "backups", what));
    }
    if !found.restores.is_empty() {
        let what = format!("the cluster keeps {}", counted(found.restores.len(), "restore"));
        out.push(Finding::new(SwitchEffect::Works, "restores", what));
    }
    if !found.moved.is_empty() {
        let what = format!(
            "the data of volumes of {} lies in repositories, or may: it comes back through node agents; without one its claims are held \
             back, which each restore says",
            counted(found.moved.len(), "backup")
        );
        let next = "bring in node agents: install --use-node-agent";
        out.push(Finding::new(SwitchEffect::Differs, "data of volumes", what).next(next));
    }
    if !found.repositories.is_empty() {
        let names: Vec<&String> = found.repositories.iter().collect();
        let what = format!(
            "{} are maintained as before, and what a backup has in them is deleted with it; repositories of restic are only read by lifeboat repo snapshots, ls, cat and restore",
            first_names(&names)
        );
        out.push(Finding::new(SwitchEffect::Works, "backup repositories", what));
    }
}

fn rules(found: &VeleroInstallation, out: &mut Vec<Finding>) {
    let wrong = |checked: &Result<CheckedPolicies, String>| checked.as_ref().err().cloned();
    let policies = found.policies.iter().map(|(name, checked)| (name, wrong(checked)));
    let modifiers = found.modifiers.iter().map(|(name, wrong)| (name, wrong.clone()));
    let named = "the schedule's spec.template.resourcePolicy or --global-backup-volume-policies-configmap";
    rules_of("resource policies", named, policies, out);
    rules_of("resource modifiers", "--default-resource-modifier-configmap", modifiers, out);
    out.extend(found.action_config_maps.iter().map(|(name, labels)| action(name, labels)));
}

/// Adds the findings about ConfigMaps with rules, to which `named_by` refers.
fn rules_of<'a>(
    what: &str,
    named_by: &str,
    all: impl Iterator<Item = (&'a String, Option<String>)>,
    out: &mut Vec<Finding>,
) {
    for (name, wrong) in all {
        let subject = format!("ConfigMap {name}");
        out.push(match wrong {
            None => Finding::new(SwitchEffect::Works, subject, format!("its {what} are read as before")),
            Some(why) => Finding::new(SwitchEffect::Mend, subject, why)
                .next(format!("change the ConfigMap as the reason says, or take its name off {named_by}")),
        });
    }
}

/// The name of the action that a ConfigMap configures is a label beside the one that all of them have.
fn action(name: &str, labels: &BTreeMap<String, String>) -> Finding {
    let subject = format!("ConfigMap {name}");
    let named = labels.keys().find(|key| *key != LABEL_PLUGIN_CONFIG && key.contains('/'));
    match named.map(String::as_str) {
        Some(action @ "velero.io/change-pvc-node-selector") => Finding::new(
            SwitchEffect::Works,
            subject,
            format!("configures {action}, which is not read, as by Velero 1.18"),
        ),
        Some(action) => Finding::new(SwitchEffect::Works, subject, format!("configures {action} as before")),
        None => {
            Finding::new(SwitchEffect::Differs, subject, "does not say which action it configures; nothing reads it")
        }
    }
}

fn annotations(found: &VeleroInstallation, out: &mut Vec<Finding>) {
    let pods = &found.pods;
    let hooks = [("backup hooks", pods.with_backup_hooks.len()), ("restore hooks", pods.with_restore_hooks.len())];
    for (what, number) in hooks.into_iter().filter(|(_, number)| *number > 0) {
        out.push(Finding::new(
            SwitchEffect::Works,
            format!("annotations with {what}"),
            format!("of {}, which count as before", counted(number, "pod")),
        ));
    }
    if !pods.with_volumes_by_files.is_empty() {
        let (of, subject) =
            (counted(pods.with_volumes_by_files.len(), "pod"), "annotations backup.velero.io/backup-volumes");
        out.push(match found.node_agents.is_empty() {
            false => Finding::new(SwitchEffect::Works, subject, format!("of {of}, which count as before")),
            true => Finding::new(
                SwitchEffect::Missing,
                subject,
                format!(
                    "of {of} ask for volumes to be saved by their files, and there is no node agent: an error of each volume, and the \
                     backup ends PartiallyFailed"
                ),
            )
            .next("bring in node agents: install --use-node-agent"),
        });
    }
}

fn in_progress(found: &VeleroInstallation, program: &str) -> Option<Finding> {
    let backups = found.backups.iter().filter(|one| backup_is_running(one));
    let backups = backups.map(|one| format!("backup {}", one.metadata.name));
    let restores = found.restores.iter().filter(|one| restore_is_running(one));
    let all: Vec<String> = backups.chain(restores.map(|one| format!("restore {}", one.metadata.name))).collect();
    let first = all.first()?;
    let others = if all.len() > 1 { format!(" and {} more", all.len() - 1) } else { String::new() };
    let what =
        format!("{first}{others}: Lifeboat would begin it again, or end it as failed where Velero had moved data");
    Some(
        Finding::new(SwitchEffect::Mend, "in progress", what)
            .next(format!("wait until they have ended: {program} status")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{VeleroServer, Workload};
    use serde_json::json;

    fn told(found: &VeleroInstallation) -> Vec<String> {
        findings(found, "lifeboat")
            .into_iter()
            .map(|one| format!("{:?} {}: {}", one.verdict, one.subject, one.what))
            .collect()
    }

    #[test]
    fn locations_are_built_in_or_by_a_plugin() {
        let location = |name: &str, provider: &str, config: serde_json::Value, phase: &str| {
            serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": {"name": name}, "spec": {"provider": provider, "config": config,
                "objectStorage": {"bucket": "b"}}, "status": {"phase": phase, "message": "no route"}}))
            .unwrap()
        };
        let server =
            Workload { plugin_images: vec!["velero/velero-plugin-for-gcp:v1.14.2".to_owned()], ..Workload::default() };
        let found = VeleroInstallation {
            server: Some(VeleroServer { workload: server, ..VeleroServer::default() }),
            locations: vec![
                location("a", "aws", json!({"region": "x"}), "Available"),
                location("b", "velero.io/aws", json!({"region": "x"}), "Unavailable"),
                location("c", "aws", json!({"zone": "x"}), "Available"),
                location("d", "velero.io/gcp", json!({}), "Available"),
                location("e", "example.io/mine", json!({}), "Available"),
            ],
            ..VeleroInstallation::default()
        };
        let all = told(&found);
        assert_eq!(all[0], "Works backup storage location a: is built in");
        assert_eq!(
            all[1],
            "Differs backup storage location b: was not available when Velero's server looked last: no route"
        );
        assert!(all[2].starts_with("Mend backup storage location c: it could not be used: "), "{}", all[2]);
        assert_eq!(
            all[3],
            "Works backup storage location d: its provider velero.io/gcp is taken to be that of the plugin in \
             velero/velero-plugin-for-gcp:v1.14.2, by its name: what it brings cannot be seen from here"
        );
        assert_eq!(
            all[4],
            "Differs backup storage location e: its provider example.io/mine is a plugin's, and no image of an init container has its name"
        );
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn a_schedule_whose_backups_would_be_refused_does_not_go_on() {
        let policy = |name: &str| json!({"resourcePolicy": {"kind": "configmap", "name": name}});
        for (flags, template, expected) in [
            (&[][..], json!({}), "Works"),
            (&[], policy("plain"), "Works"),
            (&[], policy("files"), "Missing a rule in ConfigMap files asks"),
            (&[], policy("wrong"), "Mend its backups would be refused: the resource policies in ConfigMap wrong"),
            (&[], json!({"snapshotMoveData": true}), "Missing it asks"),
            (&[], json!({"snapshotMoveData": true, "allowUnprotected": true}), "Works"),
            // The old name of the field counts more.
            (&[], json!({"defaultVolumesToFsBackup": false, "defaultVolumesToRestic": true}), "Missing it asks"),
            (
                &["default-volumes-to-fs-backup"],
                json!({}),
                "Missing the server's flag --default-volumes-to-fs-backup asks",
            ),
            (&["default-volumes-to-fs-backup"], json!({"defaultVolumesToFsBackup": false}), "Works"),
            (&["default-snapshot-move-data"], json!({}), "Missing the server's flag --default-snapshot-move-data asks"),
            (&["default-snapshot-move-data"], json!({"snapshotMoveData": false}), "Works"),
        ] {
            let one: Schedule = serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "Schedule",
                "metadata": {"name": "s"}, "spec": {"schedule": "@daily", "template": template}}))
            .unwrap();
            let mut server = VeleroServer::default();
            server.flags.for_movers = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let found = VeleroInstallation {
                server: Some(server),
                policies: [
                    ("plain".to_owned(), Ok(CheckedPolicies::default())),
                    ("files".to_owned(), Ok(CheckedPolicies { ask_for_movers: true })),
                    ("wrong".to_owned(), Err("why".to_owned())),
                ]
                .into(),
                ..VeleroInstallation::default()
            };
            let told = schedule(&one, &found);
            assert!(format!("{:?} {}", told.verdict, told.what).starts_with(expected), "{expected}: {}", told.what);
        }
    }

    #[test]
    fn what_runs_is_waited_for_and_what_needs_movers_is_named() {
        let backup = |name: &str, phase: &str| {
            serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name}, "spec": {}, "status": {"phase": phase}})).unwrap()
        };
        let schedule = |name: &str, template: serde_json::Value| {
            serde_json::from_value(
                json!({"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": {"name": name}, "spec": {"schedule": "@daily", "template": template}}),
            )
            .unwrap()
        };
        let config_map = |name: &str, action: &str| {
            (name.to_owned(), [LABEL_PLUGIN_CONFIG, action].map(|key| (key.to_owned(), String::new())).into())
        };
        let found = VeleroInstallation {
            backups: [
                ("done", "Completed"),
                ("runs", "InProgress"),
                ("waits", "Queued"),
                ("goes", "Deleting"),
                ("operates", "WaitingForPluginOperations"),
            ]
            .map(|(name, phase)| backup(name, phase))
            .into(),
            schedules: vec![schedule("plain", json!({})), schedule("files", json!({"defaultVolumesToRestic": true}))],
            moved: ["done".to_owned()].into(),
            repositories: ["a", "b"].map(str::to_owned).into(),
            action_config_maps: [
                config_map("classes", "velero.io/change-storage-class"),
                config_map("helper", "velero.io/pod-volume-restore"),
            ]
            .into(),
            policies: [
                ("p".to_owned(), Ok(CheckedPolicies::default())),
                ("q".to_owned(), Err("it is wrong".to_owned())),
            ]
            .into(),
            ..VeleroInstallation::default()
        };
        assert_eq!(
            told(&found),
            [
                "Works schedule plain: @daily goes on",
                "Missing schedule files: it asks for data to be moved: without a node agent nothing does that, and its backups are refused where \
                 they have such volumes",
                "Works backups: the cluster keeps 4 backups, to be restored from as before",
                "Differs data of volumes: the data of volumes of 1 backup lies in repositories, or may: it comes back through node agents; \
                 without one its claims are held back, which each restore says",
                "Works backup repositories: a, b are maintained as before, and what a backup has in them is deleted with it; repositories of \
                 restic are only read by lifeboat repo snapshots, ls, cat and restore",
                "Works ConfigMap p: its resource policies are read as before",
                "Mend ConfigMap q: it is wrong",
                "Works ConfigMap classes: configures velero.io/change-storage-class as before",
                "Works ConfigMap helper: configures velero.io/pod-volume-restore as before",
                "Mend in progress: backup runs and 1 more: Lifeboat would begin it again, or end it as failed where Velero had moved data",
            ]
        );
    }
}
