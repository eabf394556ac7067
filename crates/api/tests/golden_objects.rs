//! Objects that Velero 1.18.2 wrote are read and written back without loss.
#![allow(clippy::unwrap_used, reason = "a broken fixture fails the test")]

use lifeboat_api::{Backup, Restore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn round_trip<T: Serialize + DeserializeOwned>(text: &str) {
    let object: T = serde_json::from_str(text).unwrap();
    let expected: Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(object).unwrap(), expected);
}

#[test]
fn backups_lose_nothing() {
    round_trip::<Backup>(include_str!("golden/objects/backup-all.json"));
    round_trip::<Backup>(include_str!("golden/objects/backup-one-ns.json"));
    round_trip::<Backup>(include_str!("golden/objects/backup-policy-volumes.json"));
    round_trip::<Backup>(include_str!("golden/objects/backup-scoped.json"));
}

#[test]
fn restores_lose_nothing() {
    round_trip::<Restore>(include_str!("golden/objects/restore-r-modifiers.json"));
    round_trip::<Restore>(include_str!("golden/objects/restore-r-status.json"));
}

/// The names of all fields in the order of the text, those of managed fields left out: they are kept as they are.
fn names(text: &str) -> Vec<&str> {
    let quoted = text.lines().filter_map(|line| line.trim_start().strip_prefix('"')?.split_once("\":"));
    let mut names = Vec::new();
    let mut is_managed = false;
    for (name, _) in quoted {
        is_managed = (is_managed || name == "managedFields") && name != "spec";
        if !is_managed {
            names.push(name);
        }
    }
    names
}

#[test]
fn fields_of_a_backup_have_the_order_of_velero() {
    for golden in [
        include_str!("golden/objects/backup-all.json"),
        include_str!("golden/objects/backup-one-ns.json"),
        include_str!("golden/objects/backup-policy-volumes.json"),
        include_str!("golden/objects/backup-scoped.json"),
    ] {
        let backup: Backup = serde_json::from_str(golden).unwrap();
        assert_eq!(names(&serde_json::to_string_pretty(&backup).unwrap()), names(golden));
    }
}
