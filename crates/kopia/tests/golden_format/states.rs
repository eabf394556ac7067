//! Formats, schedules, policies, sessions.

use crate::matrix;
use lifeboat_kopia::compression::decompress;
use lifeboat_kopia::crypto::{CipherAlgorithm, HashAlgorithm};
use lifeboat_kopia::format::blob_name::{BlobKind, parse, session_of};
use lifeboat_kopia::format::maintenance::{MaintenanceParameters, Schedule};
use lifeboat_kopia::format::manifest::{self, ManifestEntry};
use lifeboat_kopia::format::policy::Policy;
use lifeboat_kopia::format::repository::open_blob_config;
use lifeboat_kopia::format::session::SessionMarker;
use lifeboat_kopia::format::time::UnixNanos;

fn manifests(fixture: &matrix::Fixture) -> Vec<ManifestEntry> {
    let mut manifests = Vec::new();
    for entry in fixture.entries().values() {
        let is_manifest = entry.id.prefix() == Some(b'm');
        let Some(stored) = fixture.stored(entry).filter(|_| is_manifest) else {
            continue;
        };
        let mut plain = fixture.crypto.open_content(&entry.id, stored).unwrap();
        if entry.compression != 0 {
            plain = decompress(entry.compression, &plain, 1 << 20).unwrap();
        }
        manifests.extend(manifest::parse(&plain, 1 << 20).unwrap());
    }
    manifests
}

#[test]
fn every_policy_and_every_maintenance_manifest_is_written_again_as_kopia_wrote_it() {
    let (mut policies, mut parameters) = (0, 0);
    for fixture in matrix::all() {
        for manifest in manifests(fixture) {
            let text = manifest.data.get();
            let written = match manifest.labels.get("type").map(String::as_str) {
                Some("policy") => {
                    policies += 1;
                    Policy::parse(text).unwrap().write()
                }
                Some("maintenance") => {
                    parameters += 1;
                    MaintenanceParameters::parse(text).unwrap().write()
                }
                _ => continue,
            };
            assert_eq!(str::from_utf8(&written).unwrap(), text, "{}", fixture.name);
        }
    }
    assert!(policies > 100 && parameters >= 59, "{policies} {parameters}");
}

#[test]
fn every_schedule_opens_and_is_written_again_as_it_was() {
    let mut schedules = 0;
    for fixture in matrix::all() {
        let Some(stored) = fixture.blobs.get("kopia.maintenance") else {
            continue;
        };
        let schedule = Schedule::open(&fixture.format, stored).unwrap();
        let sealed = schedule.seal(&fixture.format, *stored.first_chunk().unwrap()).unwrap();
        assert_eq!(&sealed, stored, "{}", fixture.name);
        schedules += 1;
    }
    assert!(schedules > 50, "{schedules}");
}

#[test]
fn the_schedule_tells_what_kopia_tells_of_it() {
    let fixture = matrix::get("epochs");
    let schedule = Schedule::open(&fixture.format, &fixture.blobs["kopia.maintenance"]).unwrap();
    let expected = &fixture.expected["maintenance"]["schedule"];
    let next = expected["nextFullMaintenance"].as_str().unwrap();
    assert_eq!(schedule.next_full, UnixNanos::parse(next).ok());
    let tasks: Vec<&String> = expected["runs"].as_object().unwrap().keys().collect();
    assert_eq!(schedule.runs.keys().collect::<Vec<_>>(), tasks);
}

#[test]
fn no_repository_has_object_lock() {
    for fixture in matrix::all() {
        let config = open_blob_config(&fixture.format, &fixture.blobs["kopia.blobcfg"]);
        assert_eq!(config, Ok(None), "{}", fixture.name);
    }
}

#[test]
fn a_session_that_was_killed_has_left_its_marker() {
    let mut markers = Vec::new();
    for fixture in matrix::all() {
        for (name, stored) in &fixture.blobs {
            if parse(name) == BlobKind::Session {
                let plain = fixture.crypto.open_blob(name, stored).unwrap();
                let marker = SessionMarker::parse(&plain).unwrap();
                assert_eq!(str::from_utf8(&marker.write()), str::from_utf8(&plain));
                assert_eq!((Some(marker.id.as_str()), marker.host.as_str()), (session_of(name), "matrix"));
                markers.push(fixture.name.as_str());
            }
        }
    }
    assert!(markers.contains(&"crashed"), "{markers:?}");
}

#[test]
fn formats_have_the_algorithms_of_their_names() {
    for hash in HashAlgorithm::ALL {
        let fixture = matrix::get(&format!("hash-{}", hash.name().to_lowercase()));
        assert_eq!(fixture.format.hash, hash);
    }
    let chacha = &matrix::get("enc-chacha20").format;
    assert_eq!(chacha.encryption, CipherAlgorithm::ChaCha20Poly1305HmacSha256);
    let splitter = &matrix::get("splitter-dynamic-8m-rabinkarp").format.splitter;
    assert_eq!(splitter, "DYNAMIC-8M-RABINKARP");
}

#[test]
fn parameters_of_old_upgraded_and_locked_repositories_go_their_own_ways() {
    let of = |name: &str| {
        let format = &matrix::get(name).format;
        (format.version, format.epochs.enabled, format.enable_password_change, format.index_version)
    };
    assert_eq!(of("format-v1"), (1, false, false, 1));
    assert_eq!(of("format-v2"), (2, true, true, 2));
    assert_eq!(of("format-v3"), (3, true, true, 2));
    assert_eq!(of("format-v1-upgraded"), (3, true, false, 2));
    assert_eq!(of("format-v1-locked"), (3, false, false, 1));
    let percents =
        ["ecc-1-v3", "ecc-50-v3", "ecc-5-v1-ignored"].map(|name| matrix::get(name).format.ecc_overhead_percent);
    assert_eq!(percents, [1, 50, 0]);
}

#[test]
fn the_lock_of_kopia_s_command_binds_at_once() {
    let format = &matrix::get("format-v1-locked").format;
    let lock = format.upgrade_lock.as_ref().unwrap();
    assert_eq!((lock.owner.as_str(), lock.advance_notice), ("golden-owner", 0));
    assert!(lock.message.contains("->"), "{}", lock.message);
    assert!(lock.binds_at(lock.created) && lock.binds_at(UnixNanos(0)));
}
