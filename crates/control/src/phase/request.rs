//! Requests of clients: deletion, download, server status (api-and-controllers.md 3.7, 3.13 and 3.14).

use super::Decision;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{
    DeleteBackupRequest, DeleteBackupRequestPhase, DownloadRequest, DownloadRequestPhase, ObjectMeta,
    ServerStatusRequest, ServerStatusRequestPhase, Time,
};

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Answer it.
    Answer,
    /// Delete it: its time is over.
    Forget,
}

/// A processed deletion is kept for a day.
const DELETION_KEPT: SignedDuration = SignedDuration::from_hours(24);
/// The status of the server is kept for a minute.
const STATUS_KEPT: SignedDuration = SignedDuration::from_mins(1);

/// A deletion that a server was cut off in is taken up again.
pub(crate) fn deletion(request: &DeleteBackupRequest, now: Timestamp) -> Decision<Step> {
    match request.status.phase {
        Some(DeleteBackupRequestPhase::Processed) => forget(made(&request.metadata), DELETION_KEPT, now),
        _ => Decision::Do(Step::Answer),
    }
}

/// One that was looked at has an expiration, also when there was nothing to give.
pub(crate) fn download(request: &DownloadRequest, now: Timestamp) -> Decision<Step> {
    let expiration = request.status.expiration.map(Time::timestamp);
    match (request.status.phase, expiration) {
        (_, Some(expiration)) if expiration <= now => Decision::Do(Step::Forget),
        (_, Some(expiration)) => Decision::Wait(expiration),
        (None | Some(DownloadRequestPhase::New), None) => Decision::Do(Step::Answer),
        (_, None) => Decision::Rest,
    }
}

pub(crate) fn status(request: &ServerStatusRequest, now: Timestamp) -> Decision<Step> {
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
