//! The course of a transfer: wait, move, report.

use super::events::Events;
use super::failure::Failure;
use super::follow::{until_in_progress, until_stopped};
use super::resource::MoverResource;
use super::transfer::{MoverEnv, Transfer};
use lifeboat_mover::Progress;
use lifeboat_mover::protocol::{MovedData, TOLD_TO_END, VolumeMode, reason};
use std::sync::Arc;
use std::time::Duration;

/// The time between two Events with the progress.
const REPORTS: Duration = Duration::from_secs(10);

/// A transfer that goes on.
pub(super) struct Work<'a, R> {
    pub(super) env: &'a MoverEnv,
    pub(super) transfer: &'a Transfer,
    pub(super) resource: &'a R,
    pub(super) progress: &'a Arc<Progress>,
    pub(super) events: &'a Events<'a>,
}

/// The end of work that has done what it should.
pub(super) struct Done {
    /// The result as JSON.
    pub(super) result: String,
    /// Bytes in all.
    pub(super) total_bytes: i64,
    /// Files in all.
    pub(super) files: i64,
}

/// Performs the transfer of a resource from the wait for its turn to the termination message. Gives true where it has succeeded.
///
/// # Errors
/// A termination message that cannot be written: without it the node agent knows nothing of the end.
pub(super) async fn perform<R: MoverResource>(
    env: &MoverEnv,
    transfer: &Transfer,
    work: impl AsyncFnOnce(Work<'_, R>) -> Result<Done, Failure>,
) -> std::io::Result<bool> {
    let mut follow = env.client.follow::<R>(&transfer.name);
    let waited = tokio::select! {
        waited = until_in_progress(env, &mut follow, transfer) => waited,
        () = env.stop.cancelled() => Err(told_to_end()),
    };
    let resource = match waited {
        Ok(resource) => resource,
        Err(failure) => return end(env, &failure.text(), false),
    };
    let events = Events::on(&env.client, &env.clock, &resource);
    let text = format!("the transfer of {} {} begins", R::KIND, transfer.name);
    tracing::info!("{text}");
    events.tell(reason::STARTED, &text).await;
    let progress = Arc::new(Progress::default());
    let ended = tokio::select! {
        biased;
        ended = work(Work { env, transfer, resource: &resource, progress: &progress, events: &events }) => ended,
        stop = until_stopped(env, &mut follow, transfer, &resource) => Err(stop.failure(|| moved(&progress))),
        () = env.stop.cancelled() => Err(told_to_end()),
        () = report(&events, &progress, transfer.volume.volume_mode) => Err(told_to_end()),
    };
    match ended {
        Ok(done) => {
            let written = end(env, &done.result, true)?;
            let Done { total_bytes, files, .. } = done;
            let all = MovedData { total_bytes, done_bytes: total_bytes, total_files: files, done_files: files };
            events.tell(reason::PROGRESS, &text_of(&all)).await;
            events.tell(reason::COMPLETED, &done.result).await;
            events.tell(reason::STOPPED, "the transfer has ended").await;
            Ok(written)
        }
        Err(failure) => {
            let text = failure.text();
            let written = end(env, &text, false)?;
            match failure {
                // The resource and its Events are another mover's.
                Failure::Replaced | Failure::LostSight | Failure::LostTurn | Failure::NoTurn => return Ok(written),
                Failure::Canceled(_) => {
                    events.tell(reason::CANCELING, &text).await;
                    events.tell(reason::CANCELED, &text).await;
                }
                Failure::Failed(_) | Failure::BucketUnavailable(_) => events.tell(reason::FAILED, &text).await,
            }
            events.tell(reason::STOPPED, "the transfer has ended").await;
            Ok(written)
        }
    }
}

fn told_to_end() -> Failure {
    Failure::Failed(TOLD_TO_END.to_owned())
}

/// The part of a transfer that was moved, for people.
fn moved(progress: &Progress) -> String {
    let MovedData { total_bytes, done_bytes, .. } = moved_data(progress, VolumeMode::Filesystem);
    format!("{done_bytes} of {total_bytes} bytes were moved")
}

/// Writes the progress again and again, as long as it changes.
async fn report(events: &Events<'_>, progress: &Progress, mode: VolumeMode) {
    let mut last = MovedData::default();
    loop {
        tokio::time::sleep(REPORTS).await;
        let now = moved_data(progress, mode);
        if now != last {
            events.tell(reason::PROGRESS, &text_of(&now)).await;
            last = now;
        }
    }
}

/// The bytes and files of a transfer in either direction. A device, which is one file for the repository, has none.
fn moved_data(progress: &Progress, mode: VolumeMode) -> MovedData {
    let totals = progress.totals();
    let done = totals.bytes_read + totals.bytes_written + totals.bytes_unchanged;
    MovedData {
        total_bytes: wide(totals.expected_bytes.max(done)),
        done_bytes: wide(done),
        total_files: if mode == VolumeMode::Block { 0 } else { wide(totals.expected_files.max(totals.files)) },
        done_files: files_done(progress, mode),
    }
}

/// The files that a transfer has done.
pub(super) fn files_done(progress: &Progress, mode: VolumeMode) -> i64 {
    if mode == VolumeMode::Block { 0 } else { wide(progress.totals().files) }
}

fn wide(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn text_of(moved: &MovedData) -> String {
    // Numbers are always JSON.
    serde_json::to_string(moved).unwrap_or_default()
}

/// Leaves the termination message.
fn end(env: &MoverEnv, message: &str, has_succeeded: bool) -> std::io::Result<bool> {
    if has_succeeded {
        tracing::info!("the transfer is done: {message}");
    } else {
        tracing::error!("{message}");
    }
    std::fs::write(&env.termination_file, message)?;
    Ok(has_succeeded)
}
