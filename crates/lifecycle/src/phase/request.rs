//! Requests of clients: deletion, download, server status (velero: pkg/controller/backup_deletion_controller.go,
//! pkg/controller/download_request_controller.go).

use super::Decision;
use super::facts::{deletion_has_begun, is_running};
use super::hold::Hold;
use super::location::NoLocation;
use super::restore::has_ended;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::well_known::{self, ANNOTATION_WAIT_FOR_RESTORES};
use lifeboat_api::{
    Backup, BackupStorageLocation, BackupStorageLocationPhase, DeleteBackupRequest, DeleteBackupRequestPhase,
    DownloadRequest, DownloadRequestPhase, ObjectMeta, Restore, ServerStatusRequest, ServerStatusRequestPhase, Time,
};
use lifeboat_object::first_names;
use std::collections::HashMap;
use std::fmt;

/// The next step for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Answer it.
    Answer,
    /// Delete it: its time is over.
    Forget,
}

/// A processed deletion is kept for a day.
const DELETION_KEPT: SignedDuration = SignedDuration::from_hours(24);
/// The status of the server is kept for a minute.
const STATUS_KEPT: SignedDuration = SignedDuration::from_mins(1);

/// Returns true if a request is for this very backup: the client, or the server when it began, has noted its UID.
pub fn is_meant(request: &DeleteBackupRequest, backup: &Backup) -> bool {
    let uid = request.metadata.labels.get(well_known::LABEL_BACKUP_UID);
    uid.is_none_or(|uid| uid.is_empty() || *uid == backup.metadata.uid)
}

/// The requests to delete a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// True when one is not processed yet: the deletion is asked for, and not refused.
    pub is_open: bool,
    /// True when expiry alone has asked, and the deletion has not begun: it is withdrawn where something keeps the backup.
    pub may_be_withdrawn: bool,
    /// Time at which the newest of the failed requests was made.
    pub failed: Option<Timestamp>,
}

/// Requests by the namespace and the name of the backup that they name.
#[derive(Debug, Default)]
pub struct ByBackup<'r>(HashMap<(&'r str, &'r str), Vec<&'r DeleteBackupRequest>>);

impl<'r> FromIterator<&'r DeleteBackupRequest> for ByBackup<'r> {
    fn from_iter<I: IntoIterator<Item = &'r DeleteBackupRequest>>(all: I) -> Self {
        let mut found = Self::default();
        for request in all {
            let backup = (request.metadata.namespace.as_str(), request.spec.backup_name.as_str());
            found.0.entry(backup).or_default().push(request);
        }
        found
    }
}

impl<'r> ByBackup<'r> {
    /// The request for this very backup that waits for claims.
    pub fn waiting_for_claims(&self, backup: &Backup) -> Option<&'r DeleteBackupRequest> {
        self.meant(backup).find(|request| claims_waited_for(request).is_some())
    }

    /// The restore elsewhere for which a request for this very backup waits, as it says itself.
    pub fn restore_waited_for(&self, backup: &Backup) -> Option<&'r str> {
        self.meant(backup).find_map(restore_waited_for)
    }

    fn meant<'s>(&'s self, backup: &'s Backup) -> impl Iterator<Item = &'r DeleteBackupRequest> + use<'r, 's> {
        let named = self.0.get(&(backup.metadata.namespace.as_str(), backup.metadata.name.as_str()));
        named.into_iter().flatten().copied().filter(|request| is_meant(request, backup))
    }

    /// The requests for this very backup.
    pub fn of(&self, backup: &Backup) -> Requests {
        let mut found = Requests::default();
        let mut is_for_good = deletion_has_begun(backup);
        for request in self.meant(backup) {
            match request.status.phase {
                Some(DeleteBackupRequestPhase::Processed) => {
                    found.failed = found.failed.max(request.metadata.creation_timestamp.map(Time::timestamp));
                }
                _ => {
                    found.is_open = true;
                    is_for_good |= !is_of_expiry(request);
                }
            }
        }
        found.may_be_withdrawn = found.is_open && !is_for_good;
        found
    }
}

impl Requests {
    /// Returns true if the backup goes, whatever would keep it. One that expiry alone has asked for is there until its deletion begins.
    #[must_use]
    pub fn cannot_be_withdrawn(&self) -> bool {
        self.is_open && !self.may_be_withdrawn
    }
}

/// Returns true if expiry has made a request whose deletion has not begun.
#[must_use]
pub fn is_of_expiry(request: &DeleteBackupRequest) -> bool {
    is_new(request) && request.metadata.says_true(well_known::ANNOTATION_BY_EXPIRY)
}

/// Time limit for a deletion that waits for claims that have no volume yet.
pub const WAITS_FOR_CLAIMS: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The claims for which a request to delete a backup waits, for people, as it says itself; `None` for one that does not wait, or has begun.
pub fn claims_waited_for(request: &DeleteBackupRequest) -> Option<&str> {
    told_of_claims(request).map(|(_, claims)| claims)
}

/// Since when a request says for which claims it waits, and these. One without a time has told nobody when it goes on.
fn told_of_claims(request: &DeleteBackupRequest) -> Option<(Option<Timestamp>, &str)> {
    let text = annotation_of_new(request, well_known::ANNOTATION_WAITS_FOR_CLAIMS)?;
    let parted = text.split_once(' ').and_then(|(since, claims)| Some((Some(since.parse().ok()?), claims)));
    Some(parted.unwrap_or((None, text)))
}

/// Says in a request for which claims it waits; since when it says so stays as it is.
pub fn tell_of_claims(request: &mut DeleteBackupRequest, claims: &str, now: Timestamp) {
    let since = told_of_claims(request).and_then(|(since, _)| since).unwrap_or(now);
    let told = format!("{} {claims}", Time::new(since));
    request.metadata.annotations.insert(well_known::ANNOTATION_WAITS_FOR_CLAIMS.to_owned(), told);
}

/// Takes back that a request waits for claims, where it waits for something else: the claims that were named may have got
/// their volumes meanwhile, and others may have come. Those that are found afterwards are told anew, and waited for as long.
pub fn forget_claims(request: &mut DeleteBackupRequest) {
    request.metadata.annotations.remove(well_known::ANNOTATION_WAITS_FOR_CLAIMS);
}

/// The time at which a request waits no longer for claims; `None` as long as it has not told for which.
pub fn waits_for_claims_until(request: &DeleteBackupRequest) -> Option<Timestamp> {
    let (since, _) = told_of_claims(request)?;
    // A time before the request was made is that of a clock that was wrong.
    let since = since?.max(request.metadata.creation_timestamp.map_or(Timestamp::MIN, Time::timestamp));
    Some(since.saturating_add(WAITS_FOR_CLAIMS).unwrap_or(Timestamp::MAX))
}

/// A sentence about claims for which the deletion of a backup waits: the next step for the user, and the time at which
/// it goes on otherwise.
pub fn way_out_of_claims(request: &DeleteBackupRequest) -> String {
    let until = waits_for_claims_until(request).map(|until| format!(", otherwise it goes on at {}", Time::new(until)));
    format!("use each of these claims in a pod, or delete it{}", until.unwrap_or_default())
}

/// A restore of another cluster or namespace, or of a command, that reads a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRestore {
    /// Its name.
    pub restore: String,
    /// The place where it runs, after its name.
    pub place: String,
    /// Until when it counts, unless it gives another sign of life before.
    pub until: Timestamp,
}

impl ForeignRestore {
    /// Its name and place, by which it is known among what requests say.
    #[must_use]
    pub fn named(&self) -> String {
        format!("the restore {} {}", self.restore, self.place)
    }
}

impl fmt::Display for ForeignRestore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = Time::new(self.until);
        write!(
            f,
            "{}, which reads the backup: until it ends, or until {until} if it gives no other sign of life",
            self.named()
        )
    }
}

/// The restore of another cluster or namespace, or of a command, for which a request waits, for people, as it says itself; `None` for one
/// that does not wait, or has begun.
pub fn restore_waited_for(request: &DeleteBackupRequest) -> Option<&str> {
    annotation_of_new(request, well_known::ANNOTATION_WAITS_FOR_RESTORE)
}

/// The text of an annotation of a request that has not begun.
fn annotation_of_new<'r>(request: &'r DeleteBackupRequest, annotation: &str) -> Option<&'r str> {
    request.metadata.annotations.get(annotation).filter(|_| is_new(request)).map(String::as_str)
}

fn is_new(request: &DeleteBackupRequest) -> bool {
    matches!(request.status.phase, None | Some(DeleteBackupRequestPhase::New))
}

/// Says in a request for which restore it waits.
pub fn tell_of_restore(request: &mut DeleteBackupRequest, restore: &ForeignRestore) {
    request.metadata.annotations.insert(well_known::ANNOTATION_WAITS_FOR_RESTORE.to_owned(), restore.to_string());
}

/// Returns true if the deletion of a backup is asked for, and neither refused yet nor withdrawn when something keeps it.
#[must_use]
pub fn deletion_is_asked(backup: &Backup, requests: &[DeleteBackupRequest]) -> bool {
    requests.iter().collect::<ByBackup<'_>>().of(backup).cannot_be_withdrawn()
}

/// Returns true if a restore reads the backup of this name in its namespace.
#[must_use]
pub fn reads(restore: &Restore, backup: &str) -> bool {
    restore.spec.backup_name == backup && !has_ended(restore)
}

/// The message for people that a backup is not deleted because this restore reads it.
#[must_use]
pub fn refusal_for_restore(backup: &str, restore: &str) -> String {
    format!(
        "the restore {restore} reads the backup and has not ended: delete the backup when the restore has ended, cancel the restore \
         (`restore cancel {restore}`), or {}",
        waiting(backup)
    )
}

/// The message for people that a backup is not deleted because a restore elsewhere reads it.
#[must_use]
pub fn refusal_for_foreign_restore(backup: &str, restore: &ForeignRestore) -> String {
    let until = Time::new(restore.until);
    format!(
        "{} reads the backup and has not ended; it counts until {until}, unless it gives another sign of life: delete the backup when the \
         restore has ended, or {}",
        restore.named(),
        waiting(backup)
    )
}

/// The message for people that a backup is not deleted because these claims still need its snapshots.
#[must_use]
pub fn refusal_for_claims(backup: &str, claims: &[String]) -> String {
    format!(
        "claims that were restored from its snapshots have no volume yet ({}), and get none without them: use each in a pod, or delete it, \
         and delete the backup then, or {}",
        first_names(claims),
        waiting(backup)
    )
}

/// The advice to let a deletion wait, by a command or in the request.
fn waiting(backup: &str) -> String {
    format!(
        "let the deletion wait (`backup delete {backup} --wait-for-restores`, the annotation {ANNOTATION_WAIT_FOR_RESTORES}: \"true\" of \
         the request)"
    )
}

/// Tells whether claims may still need the snapshots of a backup, so that they are looked at before its deletion begins.
#[must_use]
pub fn claims_may_need(backup: &Backup) -> bool {
    !deletion_has_begun(backup) && backup.status.start_timestamp.is_some()
}

/// The location whose files go with a backup, which is its own.
///
/// # Errors
/// The reason for which the deletion cannot begin, for `status.errors` of the request.
pub fn check_deletion<'l>(
    backup: &Backup,
    location: Result<&'l BackupStorageLocation, NoLocation>,
    now: Timestamp,
) -> Result<&'l BackupStorageLocation, String> {
    if is_running(backup) {
        return Err("backup is still in progress".to_owned());
    }
    let hold = Hold::at(&backup.metadata, now).filter(|_| !deletion_has_begun(backup));
    if let Some(hold) = hold {
        return Err(hold.refusal(&backup.metadata.name));
    }
    let location = location.map_err(|none| match none {
        // compat: these are Velero's words.
        NoLocation::Named(name) => format!("backup storage location {name} not found"),
        NoLocation::NoDefault => format!("the backup names no backup storage location, and {none}"),
    })?;
    let name = &location.metadata.name;
    let cannot =
        |why: &str| Err(format!("cannot delete backup because backup storage location {name} is currently in {why}"));
    if location.is_read_only() {
        return cannot("read-only mode");
    }
    if location.status.phase != Some(BackupStorageLocationPhase::Available) {
        return cannot("Unavailable state");
    }
    Ok(location)
}

/// A deletion that a server was cut off in is taken up again.
pub fn deletion(request: &DeleteBackupRequest, now: Timestamp) -> Decision<Step> {
    match request.status.phase {
        Some(DeleteBackupRequestPhase::Processed) => forget(made(&request.metadata), DELETION_KEPT, now),
        _ => Decision::Do(Step::Answer),
    }
}

/// Decides the next step for a download. An answered request has an expiration, even when there was nothing to
/// download.
pub fn download(request: &DownloadRequest, now: Timestamp) -> Decision<Step> {
    let expiration = request.status.expiration.map(Time::timestamp);
    match (request.status.phase, expiration) {
        (_, Some(expiration)) if expiration <= now => Decision::Do(Step::Forget),
        (_, Some(expiration)) => Decision::Wait(expiration),
        (None | Some(DownloadRequestPhase::New), None) => Decision::Do(Step::Answer),
        (_, None) => Decision::Rest,
    }
}

/// Decides the next step for a request for the status of the server.
pub fn status(request: &ServerStatusRequest, now: Timestamp) -> Decision<Step> {
    match request.status.phase {
        Some(ServerStatusRequestPhase::Processed) => {
            forget(request.status.processed_timestamp.map(Time::timestamp), STATUS_KEPT, now)
        }
        _ => Decision::Do(Step::Answer),
    }
}

fn made(meta: &ObjectMeta) -> Option<Timestamp> {
    meta.creation_timestamp.map(Time::timestamp)
}

fn forget(since: Option<Timestamp>, kept: SignedDuration, now: Timestamp) -> Decision<Step> {
    match since.and_then(|since| since.checked_add(kept).ok()) {
        Some(end) if end > now => Decision::Wait(end),
        _ => Decision::Do(Step::Forget),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_deletion_that_expiry_asked_for_may_be_withdrawn_until_it_begins() {
        use DeleteBackupRequestPhase::{InProgress, New, Processed};
        let request = |by_expiry: bool, phase| {
            let mut request = DeleteBackupRequest::default();
            request.spec.backup_name = "b".into();
            request.status.phase = phase;
            let note = (well_known::ANNOTATION_BY_EXPIRY.to_owned(), by_expiry.to_string());
            request.metadata.annotations = [note].into();
            request
        };
        let of = |backup: &Backup, requests: &[DeleteBackupRequest]| {
            let found = requests.iter().collect::<ByBackup<'_>>().of(backup);
            (found.is_open, found.may_be_withdrawn, found.cannot_be_withdrawn())
        };
        let mut backup = Backup::default();
        backup.metadata.name = "b".into();
        for (requests, expected) in [
            (vec![], (false, false, false)),
            (vec![request(true, Some(Processed))], (false, false, false)),
            (vec![request(true, None)], (true, true, false)),
            (vec![request(true, Some(New)), request(false, Some(Processed))], (true, true, false)),
            (vec![request(true, Some(InProgress))], (true, false, true)),
            (vec![request(false, None)], (true, false, true)),
            (vec![request(true, None), request(false, None)], (true, false, true)),
        ] {
            assert_eq!(of(&backup, &requests), expected, "{requests:?}");
        }
        backup.status.phase = Some(lifeboat_api::BackupPhase::Deleting);
        assert_eq!(of(&backup, &[request(true, None)]), (true, false, true), "it may be half gone");
    }

    #[test]
    fn a_deletion_waits_for_claims_for_thirty_days_from_the_first_telling() {
        let day = |day: i64| at(day * 24 * 3600);
        let mut request = DeleteBackupRequest::default();
        request.metadata.creation_timestamp = Some(Time::new(day(0)));
        assert_eq!(
            (waits_for_claims_until(&request), claims_waited_for(&request)),
            (None, None),
            "nobody was told yet"
        );
        for (told, claims) in [(40, "n/a, n/b and 3 more"), (50, "n/a")] {
            tell_of_claims(&mut request, claims, day(told));
            let found = (waits_for_claims_until(&request), claims_waited_for(&request));
            assert_eq!(found, (Some(day(70)), Some(claims)), "day {told}");
        }
        for (told, until, claims) in
            [("1960-01-01T00:00:00Z n/a", Some(day(30)), "n/a"), ("n/a, n/b", None, "n/a, n/b"), ("n/a", None, "n/a")]
        {
            request.metadata.annotations.insert(well_known::ANNOTATION_WAITS_FOR_CLAIMS.into(), told.into());
            assert_eq!(
                (waits_for_claims_until(&request), claims_waited_for(&request)),
                (until, Some(claims)),
                "{told}"
            );
        }
        tell_of_claims(&mut request, "n/a", day(80));
        assert_eq!(waits_for_claims_until(&request), Some(day(110)), "one without a time begins then");
        forget_claims(&mut request);
        assert_eq!((waits_for_claims_until(&request), claims_waited_for(&request)), (None, None));
        tell_of_claims(&mut request, "n/a", day(100));
        assert_eq!(waits_for_claims_until(&request), Some(day(130)), "nor does what was told before count then");
    }

    #[test]
    fn requests_are_answered_once_and_kept_for_a_while() {
        use DeleteBackupRequestPhase as D;
        let day = 24 * 3600;
        for (phase, now, expected) in [
            (None, day, Decision::Do(Step::Answer)),
            (Some(D::New), day, Decision::Do(Step::Answer)),
            (Some(D::InProgress), day, Decision::Do(Step::Answer)),
            (Some(D::Processed), day, Decision::Wait(at(100 + day))),
            (Some(D::Processed), 100 + day, Decision::Do(Step::Forget)),
        ] {
            let mut request = DeleteBackupRequest::default();
            request.metadata.creation_timestamp = Some(Time::new(at(100)));
            request.status.phase = phase;
            assert_eq!(deletion(&request, at(now)), expected, "{phase:?} {now}");
        }
        use DownloadRequestPhase as L;
        for (phase, expiration, expected) in [
            (None, None, Decision::Do(Step::Answer)),
            (Some(L::New), None, Decision::Do(Step::Answer)),
            (Some(L::New), Some(200), Decision::Wait(at(200))),
            (Some(L::New), Some(100), Decision::Do(Step::Forget)),
            (Some(L::Processed), Some(200), Decision::Wait(at(200))),
            (Some(L::Processed), Some(99), Decision::Do(Step::Forget)),
            (Some(L::Failed), Some(200), Decision::Wait(at(200))),
        ] {
            let mut request = DownloadRequest::default();
            request.status.phase = phase;
            request.status.expiration = expiration.map(|second| Time::new(at(second)));
            assert_eq!(download(&request, at(100)), expected, "{phase:?} {expiration:?}");
        }
        use ServerStatusRequestPhase as S;
        for (phase, processed, expected) in [
            (None, None, Decision::Do(Step::Answer)),
            (Some(S::New), None, Decision::Do(Step::Answer)),
            (Some(S::Processed), Some(50), Decision::Wait(at(110))),
            (Some(S::Processed), Some(40), Decision::Do(Step::Forget)),
        ] {
            let mut request = ServerStatusRequest::default();
            request.status.phase = phase;
            request.status.processed_timestamp = processed.map(|second| Time::new(at(second)));
            assert_eq!(status(&request, at(100)), expected, "{phase:?}");
        }
    }
}
