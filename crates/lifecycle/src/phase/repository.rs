//! Repositories of volumes: when they are made ready, and when they have to prove themselves again
//! (velero: pkg/controller/backup_repository_controller.go).

use super::Decision;
use lifeboat_api::{
    BackupRepository, BackupRepositoryPhase, BackupStorageLocation, Duration, Time, UploaderType, well_known,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration as StdDuration;

/// The message of a repository whose location is another one than it was prepared in.
pub const REESTABLISH: &str = "re-establish on BSL change, create or delete";
/// The annotation with the place in which a repository was found ready.
const NAME: &str = well_known::ANNOTATION_REPOSITORY_PLACE;
/// Time between two maintenances of a repository that names none, where the server names none either.
pub const MAINTENANCE_FREQUENCY: Duration = Duration::from_secs(3600);
/// Bytes of the digest of a place.
const DIGEST: usize = 8;

/// The next step for a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make it where it is missing, and see that it opens.
    Prepare,
    /// Take it as not ready: its location is gone, or another one than it was prepared in.
    Reestablish,
    /// Note where it lies: another program has made it ready.
    NotePlace,
}

/// The next step for a repository, whose location is this one; `None` when there is none. Repositories of another format than kopia
/// are left alone.
#[must_use]
pub fn next(repository: &BackupRepository, location: Option<&BackupStorageLocation>) -> Decision<Step> {
    if repository.metadata.deletion_timestamp.is_some() || repository.spec.repository_type != UploaderType::Kopia {
        return Decision::Rest;
    }
    let is_ready = repository.status.phase == Some(BackupRepositoryPhase::Ready);
    match (is_ready, location) {
        (true, None) => Decision::Do(Step::Reestablish),
        (false, None) => Decision::Rest,
        (false, Some(_)) => Decision::Do(Step::Prepare),
        (true, Some(location)) => match repository.metadata.annotations.get(NAME) {
            None => Decision::Do(Step::NotePlace),
            Some(noted) if *noted == place(location) => Decision::Rest,
            Some(_) => Decision::Do(Step::Reestablish),
        },
    }
}

/// Fills in what a new repository leaves to the server: how often it is maintained, and the settings of the server for its format.
pub fn fill_in(repository: &mut BackupRepository, frequency: Duration, config: BTreeMap<String, String>) {
    let spec = &mut repository.spec;
    if spec.maintenance_frequency <= Duration::ZERO {
        spec.maintenance_frequency = if frequency > Duration::ZERO { frequency } else { MAINTENANCE_FREQUENCY };
    }
    if spec.repository_config.is_empty() {
        spec.repository_config = config;
    }
}

/// Returns true if a repository was never ready: until then it takes settings of the server.
#[must_use]
pub fn is_new(repository: &BackupRepository) -> bool {
    repository.status.phase != Some(BackupRepositoryPhase::Ready) && repository.status.last_maintenance_time.is_none()
}

/// Notes that a repository was found ready in this location.
pub fn note_ready(repository: &mut BackupRepository, location: &BackupStorageLocation, now: Time) {
    let status = &mut repository.status;
    status.phase = Some(BackupRepositoryPhase::Ready);
    status.message.clear();
    // One that is new needs no maintenance yet.
    status.last_maintenance_time.get_or_insert(now);
    note_place(repository, location);
}

/// Notes that a repository cannot be used, for this reason.
pub fn note_not_ready(repository: &mut BackupRepository, why: &str) {
    repository.status.phase = Some(BackupRepositoryPhase::NotReady);
    why.clone_into(&mut repository.status.message);
}

/// Notes that a repository lies in this location as it is now.
pub fn note_place(repository: &mut BackupRepository, location: &BackupStorageLocation) {
    repository.metadata.annotations.insert(NAME.to_owned(), place(location));
}

/// The place that a location names: what decides which repository is found there, and by whom it is served. Credentials are
/// no part of it.
fn place(location: &BackupStorageLocation) -> String {
    let spec = &location.spec;
    let storage = &spec.object_storage;
    let authority = storage.ca_cert_ref.as_ref();
    let parts = [
        spec.provider.as_str(),
        &storage.bucket,
        &storage.prefix,
        &storage.ca_cert,
        authority.map_or("", |secret| &secret.name),
        authority.map_or("", |secret| &secret.key),
    ];
    let mut digest = Sha256::new();
    let config = spec.config.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]);
    for part in parts.into_iter().chain(config) {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize()[..DIGEST].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The interval of full maintenance that the configuration of a repository asks for, by Velero's names; `None` for the default.
///
/// # Errors
/// A message for people when it is no such name.
pub fn full_maintenance(config: &BTreeMap<String, String>) -> Result<Option<StdDuration>, String> {
    let hours = match config.get("fullMaintenanceInterval").map_or("", String::as_str) {
        "" => return Ok(None),
        "normalGC" => 24,
        "fastGC" => 12,
        "eagerGC" => 6,
        other => {
            return Err(format!(
                "invalid full maintenance interval option {other}: spec.repositoryConfig.fullMaintenanceInterval is normalGC (24 h), \
                 fastGC (12 h) or eagerGC (6 h)"
            ));
        }
    };
    Ok(Some(StdDuration::from_secs(hours * 3600)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location() -> BackupStorageLocation {
        let mut location = BackupStorageLocation::default();
        location.metadata.name = "main".into();
        location.spec.provider = "aws".into();
        location.spec.object_storage.bucket = "b".into();
        location
    }

    fn repository(phase: Option<BackupRepositoryPhase>) -> BackupRepository {
        let mut repository = BackupRepository::default();
        repository.spec.repository_type = UploaderType::Kopia;
        repository.status.phase = phase;
        repository
    }

    fn now() -> Time {
        Time::new("2026-11-28T12:00:00Z".parse().unwrap())
    }

    /// Found ready in the location.
    fn ready() -> BackupRepository {
        let mut ready = repository(None);
        note_ready(&mut ready, &location(), now());
        ready
    }

    #[test]
    fn a_repository_is_prepared_until_it_is_ready_and_then_left_alone() {
        use BackupRepositoryPhase as Phase;
        let of_velero = repository(Some(Phase::Ready));
        for (repository, there, expected) in [
            (repository(None), true, Decision::Do(Step::Prepare)),
            (repository(Some(Phase::New)), true, Decision::Do(Step::Prepare)),
            (repository(Some(Phase::NotReady)), true, Decision::Do(Step::Prepare)),
            (ready(), true, Decision::Rest),
            (of_velero.clone(), true, Decision::Do(Step::NotePlace)),
            (repository(None), false, Decision::Rest),
            (repository(Some(Phase::NotReady)), false, Decision::Rest),
            (ready(), false, Decision::Do(Step::Reestablish)),
            (of_velero, false, Decision::Do(Step::Reestablish)),
        ] {
            let location = location();
            assert_eq!(next(&repository, there.then_some(&location)), expected, "{repository:?} {there}");
        }
    }

    #[test]
    fn only_repositories_of_kopia_that_stay_are_looked_after() {
        for other in [UploaderType::Restic, UploaderType::Unset] {
            let mut repository = repository(None);
            repository.spec.repository_type = other;
            assert_eq!(next(&repository, Some(&location())), Decision::Rest);
        }
        let mut deleted = repository(None);
        deleted.metadata.deletion_timestamp = Some(now());
        assert_eq!(next(&deleted, Some(&location())), Decision::Rest);
    }

    #[test]
    fn a_repository_proves_itself_again_when_its_location_names_another_place() {
        let of = |change: &dyn Fn(&mut BackupStorageLocation)| {
            let mut location = location();
            change(&mut location);
            next(&ready(), Some(&location))
        };
        let reestablish = Decision::Do(Step::Reestablish);
        assert_eq!(of(&|l| l.spec.object_storage.bucket = "c".into()), reestablish);
        assert_eq!(of(&|l| l.spec.object_storage.prefix = "p".into()), reestablish);
        assert_eq!(of(&|l| l.spec.object_storage.ca_cert = "UEVN".into()), reestablish);
        let secret = serde_json::json!({"name": "ca", "key": "ca.crt"});
        assert_eq!(
            of(&|l| l.spec.object_storage.ca_cert_ref = serde_json::from_value(secret.clone()).unwrap()),
            reestablish
        );
        assert_eq!(of(&|l| drop(l.spec.config.insert("region".into(), "r".into()))), reestablish);
        // Neither its credentials nor its state are a place.
        let secret = serde_json::json!({"name": "cloud", "key": "cloud"});
        assert_eq!(of(&|l| l.spec.credential = serde_json::from_value(secret.clone()).unwrap()), Decision::Rest);
        assert_eq!(of(&|l| l.status.last_validation_time = Some(now())), Decision::Rest);
        assert_eq!(of(&|l| l.spec.default = true), Decision::Rest);
    }

    #[test]
    fn what_a_new_repository_leaves_open_is_filled_in() {
        let config = BTreeMap::from([("cacheLimitMB".to_owned(), "100".to_owned())]);
        let filled = |given: u64, server: u64| {
            let mut repository = repository(None);
            repository.spec.maintenance_frequency = Duration::from_secs(given as i64);
            fill_in(&mut repository, Duration::from_secs(server as i64), config.clone());
            assert_eq!(repository.spec.repository_config, config);
            repository.spec.maintenance_frequency
        };
        assert_eq!(filled(0, 0), Duration::from_secs(3600));
        assert_eq!(filled(0, 60), Duration::from_secs(60));
        assert_eq!(filled(5, 60), Duration::from_secs(5));
        let mut own = repository(None);
        own.spec.repository_config = BTreeMap::from([("cacheLimitMB".to_owned(), "1".to_owned())]);
        fill_in(&mut own, Duration::ZERO, config);
        assert_eq!(own.spec.repository_config["cacheLimitMB"], "1");
    }

    #[test]
    fn the_first_success_counts_as_a_maintenance_and_later_ones_do_not() {
        let mut repository = repository(None);
        note_not_ready(&mut repository, "no");
        assert!(is_new(&repository));
        assert_eq!((repository.status.message.as_str(), repository.status.last_maintenance_time), ("no", None));
        note_ready(&mut repository, &location(), now());
        assert_eq!((repository.status.message.as_str(), repository.status.last_maintenance_time), ("", Some(now())));
        let later = Time::new("2026-11-28T13:00:00Z".parse().unwrap());
        note_ready(&mut repository, &location(), later);
        assert_eq!(repository.status.last_maintenance_time, Some(now()));
        note_not_ready(&mut repository, "again");
        assert!(!is_new(&repository));
    }

    #[test]
    fn the_interval_of_full_maintenance_has_three_names() {
        let of =
            |value: &str| full_maintenance(&BTreeMap::from([("fullMaintenanceInterval".to_owned(), value.to_owned())]));
        let hours = |hours: u64| Ok(Some(StdDuration::from_secs(hours * 3600)));
        assert_eq!([of("normalGC"), of("fastGC"), of("eagerGC")], [hours(24), hours(12), hours(6)]);
        assert_eq!((of(""), full_maintenance(&BTreeMap::new())), (Ok(None), Ok(None)));
        assert!(of("neverGC").unwrap_err().starts_with("invalid full maintenance interval option neverGC: "));
    }
}
