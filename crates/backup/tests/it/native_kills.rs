//! A backup that dies at each of its steps, and is taken up again.

use crate::cloud::Cloud;
use crate::ground::{Ground, NAME};
use crate::native::{ground, recorded, request};
use crate::trip::{Kept, Trip};
use lifeboat_api::{Backup, BackupPhase};
use lifeboat_backup::{Env, noted_beside_claim, record_failure, remove_snapshots, run, run_delete_actions};
use lifeboat_bucket::Memory;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The environment of a process that dies after so many steps.
fn process(ground: &Ground, cloud: &Cloud, kept: &Kept, steps: usize) -> (Env, Arc<Trip>) {
    let trip = Arc::new(Trip::after(steps));
    cloud.count_steps(&trip);
    let mut env = ground.env(ground.store());
    env.operation.records = noted_beside_claim(kept.by(&trip), &env.store, NAME, &env.operation.cancel);
    (env, trip)
}

/// Runs a backup in a process that dies after so many steps; gives the backup and its warnings when it ended before.
async fn attempt(ground: &Ground, cloud: &Cloud, kept: &Kept, steps: usize) -> Option<(Backup, Vec<String>)> {
    let (env, trip) = process(ground, cloud, kept, steps);
    let request = request();
    tokio::select! {
        outcome = Box::pin(run(&request, &env)) => {
            let outcome = outcome.unwrap();
            let warnings = outcome.results.warnings.messages().map(str::to_owned).collect();
            Some((outcome.backup, warnings))
        }
        () = trip.dead() => None,
    }
}

/// Snapshots in the storage that are not recorded, by the names of their volumes; each is told by its tags.
async fn orphans(ground: &Ground, cloud: &Cloud, warnings: &[String]) -> BTreeSet<String> {
    let recorded = recorded(ground).await;
    assert!(recorded.keys().all(|id| cloud.snapshots().contains_key(id)), "a record without a snapshot");
    let orphans = cloud.snapshots().into_iter().filter(|(id, _)| !recorded.contains_key(id));
    let orphans: Vec<String> = orphans.map(|(_, disk)| disk).collect();
    for disk in &orphans {
        let told =
            |text: &String| text.contains(&format!("(volume {disk}, ")) && text.contains("look for one with the tags");
        assert!(warnings.iter().any(told), "{disk} is told by nobody: {warnings:?}");
    }
    orphans.into_iter().collect()
}

async fn notes_beside_claim(ground: &Ground) -> Vec<String> {
    ground
        .store()
        .note_names(NAME, "")
        .await
        .unwrap()
        .into_iter()
        .filter(|name| name.starts_with("snapshot-"))
        .collect()
}

const DISKS: [(&str, &str); 2] = [("a", "east-1"), ("bb", "east-2")];
/// More than any run has.
const MANY: usize = 200;

#[tokio::test]
async fn whenever_a_backup_dies_no_snapshot_is_lost_and_none_is_there_twice() {
    let (mut ground, _) = ground(&DISKS).await;
    let (mut died, mut with_orphans) = (0, 0);
    for steps in 0..MANY {
        ground.bucket = Arc::new(Memory::default());
        let cloud = Cloud::new("east");
        ground.actions.volume_snapshotters = vec![cloud.located()];
        let kept = Kept::default();
        let first = attempt(&ground, &cloud, &kept, steps).await;
        let is_last = first.is_some();
        // Every other time the next one dies too.
        let second = match first {
            None if steps % 2 == 1 => attempt(&ground, &cloud, &kept, steps * 5 % 23).await,
            ended => ended,
        };
        let (backup, warnings) = match second {
            Some(ended) => ended,
            None => attempt(&ground, &cloud, &kept, usize::MAX).await.unwrap(),
        };
        let mut volumes: Vec<String> = recorded(&ground).await.into_values().collect();
        volumes.sort();
        assert_eq!(volumes, ["east-1", "east-2"], "after {steps} steps");
        assert_eq!(notes_beside_claim(&ground).await, [""; 0], "after {steps} steps");
        let orphans = orphans(&ground, &cloud, &warnings).await;
        with_orphans += usize::from(!orphans.is_empty());
        let (env, _) = process(&ground, &cloud, &kept, usize::MAX);
        assert_eq!(run_delete_actions(&backup, "u", &env).await, Ok(()));
        let left: BTreeSet<String> = cloud.snapshots().into_values().collect();
        assert_eq!(left, orphans, "after {steps} steps");
        if is_last {
            break;
        }
        died += 1;
    }
    // Between the effect of the call and the note of its answer nobody can know; everywhere else it is known.
    assert!(died > 15 && died < MANY && with_orphans > 0 && with_orphans < died / 2, "{died} {with_orphans}");
}

#[tokio::test]
async fn whenever_a_backup_dies_that_is_given_up_nothing_is_lost() {
    let (mut ground, _) = ground(&DISKS).await;
    for steps in 0..MANY {
        ground.bucket = Arc::new(Memory::default());
        let cloud = Cloud::new("east");
        ground.actions.volume_snapshotters = vec![cloud.located()];
        let kept = Kept::default();
        if attempt(&ground, &cloud, &kept, steps).await.is_some() {
            assert!(steps > 15);
            return;
        }
        let mut failed = request().backup;
        failed.status.phase = Some(BackupPhase::Failed);
        failed.status.failure_reason = "given up".to_owned();
        let (env, _) = process(&ground, &cloud, &kept, usize::MAX);
        let recorded = record_failure(failed.clone(), &request().settings, &env).await.unwrap();
        assert_eq!(recorded.status.phase, Some(BackupPhase::Failed));
        let results = env.operation.journal.close().results;
        let warnings: Vec<String> = results.warnings.messages().map(str::to_owned).collect();
        let orphans = orphans(&ground, &cloud, &warnings).await;
        // What is known is recorded, deleted at once, by one that dies at that too, and would be deleted with the backup.
        for steps in [steps % 7, usize::MAX] {
            let (env, trip) = process(&ground, &cloud, &kept, steps);
            tokio::select! {
                _ = remove_snapshots(&failed, &env) => {}
                () = trip.dead() => {}
            }
        }
        let left = || cloud.snapshots().into_values().collect::<BTreeSet<String>>();
        assert_eq!(left(), orphans, "after {steps} steps");
        let (env, _) = process(&ground, &cloud, &kept, usize::MAX);
        assert_eq!(run_delete_actions(&failed, "u", &env).await, Ok(()));
        assert_eq!(left(), orphans, "after {steps} steps");
        assert!(ground.store().backup(NAME).await.is_ok());
    }
    panic!("it never comes to its end");
}

/// Its Backup is deleted while no server runs, and all notes in the cluster with it: what is left is the bucket.
#[tokio::test]
async fn without_notes_a_dead_backup_is_cleaned_by_the_file_beside_its_claim() {
    let (mut ground, _) = ground(&DISKS).await;
    let mut deleted = 0;
    for steps in 0..MANY {
        ground.bucket = Arc::new(Memory::default());
        let cloud = Cloud::new("east");
        ground.actions.volume_snapshotters = vec![cloud.located()];
        if attempt(&ground, &cloud, &Kept::default(), steps).await.is_some() {
            assert!(steps > 15 && deleted > 0, "{steps} {deleted}");
            return;
        }
        let (env, _) = process(&ground, &cloud, &Kept::default(), usize::MAX);
        assert!(remove_snapshots(&request().backup, &env).await, "after {steps} steps");
        let warnings: Vec<String> =
            env.operation.journal.close().results.warnings.messages().map(str::to_owned).collect();
        let orphans = orphans(&ground, &cloud, &warnings).await;
        // One call is under way at a time at most whose answer nobody has noted, for each volume.
        assert!(orphans.len() <= DISKS.len(), "after {steps} steps");
        deleted += cloud.calls().iter().filter(|call| call.contains("delete_snapshot")).count();
        env.store.sweep(NAME).await.unwrap();
        assert_eq!(notes_beside_claim(&ground).await, [""; 0]);
    }
    panic!("it never comes to its end");
}

/// The same, and somebody makes another backup of that name.
#[tokio::test]
async fn a_backup_with_the_name_of_a_vanished_one_deletes_its_snapshots() {
    let (mut ground, _) = ground(&DISKS).await;
    for steps in 0..MANY {
        ground.bucket = Arc::new(Memory::default());
        let cloud = Cloud::new("east");
        ground.actions.volume_snapshotters = vec![cloud.located()];
        assert!(
            attempt(&ground, &cloud, &Kept::default(), steps).await.is_none(),
            "it has never noted what it has taken"
        );
        let mut known = Vec::new();
        for note in notes_beside_claim(&ground).await {
            let note = ground.store().note(NAME, &note).await.unwrap().unwrap();
            let note: serde_json::Value = serde_json::from_slice(&note).unwrap();
            known.extend(note["snapshotID"].as_str().map(str::to_owned));
        }
        if known.is_empty() {
            continue;
        }
        let (env, _) = process(&ground, &cloud, &Kept::default(), usize::MAX);
        let mut another = request();
        another.backup.metadata.uid = "another".to_owned();
        // As a server does that finds a claim of its own cluster and namespace.
        another.settings.take_over = true;
        let outcome = Box::pin(run(&another, &env)).await.unwrap();
        let warnings: Vec<String> = outcome.results.warnings.messages().map(str::to_owned).collect();
        orphans(&ground, &cloud, &warnings).await;
        assert!(known.iter().all(|id| !cloud.snapshots().contains_key(id)), "after {steps} steps");
        assert_eq!(notes_beside_claim(&ground).await, [""; 0]);
        return;
    }
}

/// A snapshot that the next attempt cannot delete either is deleted with the backup.
#[tokio::test]
async fn a_snapshot_that_an_attempt_cannot_delete_is_deleted_with_the_backup() {
    use crate::cloud::Fate;
    use lifeboat_action::ActionError;
    let (ground, cloud) = ground(&DISKS[..1]).await;
    let kept = Kept::default();
    // Two questions, and the note, the call and the note again: that is the last of its steps.
    assert!(attempt(&ground, &cloud, &kept, 9).await.is_none());
    assert_eq!((cloud.snapshots().len(), kept.count()), (1, 1));
    cloud.let_be(|name, subject, _| match (name, subject) {
        ("delete_snapshot", "snap-1") => Fate::Fails(ActionError::item("locked")),
        _ => Fate::Good,
    });
    let (backup, warnings) = attempt(&ground, &cloud, &kept, usize::MAX).await.unwrap();
    let told = "the snapshot snap-1 of the PersistentVolume pv-a (volume east-1, location east) that this backup has taken and \
                does not need is not deleted: test/cloud of the location east: locked";
    assert_eq!(warnings, [told]);
    assert_eq!(backup.status.volume_snapshots_attempted, 1);
    assert_eq!(recorded(&ground).await, cloud.snapshots());
    cloud.let_be(|_, _, _| Fate::Good);
    assert_eq!(run_delete_actions(&backup, "u", &ground.env(ground.store())).await, Ok(()));
    assert!(cloud.snapshots().is_empty());
}
