//! The movers of a backup that nobody needs any more: asked to stop, and waited for.

use crate::env::Env;
use lifeboat_api::Backup;
use lifeboat_api::well_known::LABEL_BACKUP_UID;
use lifeboat_cluster::ClusterError;
use lifeboat_object::{ResultScope, counted};
use lifeboat_volume::data_movement::backup::{goes_well, stop_uploads, uploads_of, working_uploads};
use lifeboat_volume::fs_backup::{stop_file_backups, working_file_backups};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The longest wait for the next step while the snapshots of a backup are cleaned up at its end.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);
/// The longest wait for data movers that were asked to stop, which node agents end within seconds.
const STOPPING: Duration = Duration::from_secs(60);
/// The pauses between two looks at them: the first, which doubles, and the longest.
const STOPPING_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// Asks the data movers of a backup to stop, but those whose DataUpload is wanted, by its name: nobody can restore what they would
/// bring into a repository. Those that cannot be asked are told of.
pub(crate) async fn stop_useless_uploads(backup: &Backup, env: &Env, is_wanted: impl Fn(&str) -> bool) -> bool {
    let stopped = timeout(LONGEST, stop_uploads(backup, is_wanted, &env.cluster)).await;
    is_asked_to_stop(stopped.map_err(|_| late()), "DataUploads", backup, env)
}

/// Asks the movers that save files for a backup which has not come to its end to stop. Those that cannot be asked are told of.
pub(crate) async fn stop_useless_files(backup: &Backup, env: &Env) -> bool {
    let stopped = timeout(LONGEST, stop_file_backups(backup, &env.cluster)).await;
    is_asked_to_stop(stopped.map_err(|_| late()), "PodVolumeBackups", backup, env)
}

/// Returns true if all movers of these resources were asked, and tells of them otherwise.
fn is_asked_to_stop(
    stopped: Result<Result<(), ClusterError>, String>,
    resources: &str,
    backup: &Backup,
    env: &Env,
) -> bool {
    let why = match stopped {
        Ok(Ok(())) => return true,
        // Who may not see them has not made any.
        Ok(Err(e)) if e.is_denied() => return true,
        Ok(Err(e)) => e.to_string(),
        Err(why) => why,
    };
    let text = format!(
        "data movers that work for this backup could not be asked to stop: {why}; set spec.cancel of the {resources} with the label \
         {LABEL_BACKUP_UID}={}",
        backup.metadata.uid
    );
    env.operation.journal.warn(&ResultScope::Velero, text);
    false
}

/// Returns true if data movers work for a backup, or have done so, with an outcome that another attempt takes up. Where that is not known,
/// they may.
pub(crate) async fn has_uploads_at_work(backup: &Backup, env: &Env) -> bool {
    match timeout(LONGEST, uploads_of(backup, &env.cluster)).await {
        Ok(Ok(all)) => all.iter().any(goes_well),
        // Who may not see them has not made any.
        Ok(Err(e)) => !e.is_denied(),
        Err(_) => true,
    }
}

/// Waits until no data mover works for a backup any more, all of which were asked to stop. Gives the reason for which it is not so.
pub(crate) async fn await_uploads(backup: &Backup, env: &Env) -> Option<String> {
    let deadline = Instant::now() + STOPPING;
    let [mut pause, longest] = STOPPING_PAUSES;
    loop {
        let why = match working_movers(backup, env).await {
            Ok(0) => return None,
            // Who may not see them has not made any.
            Err(e) if e.is_denied() => return None,
            Ok(count) => format!("{} still work for this backup", counted(count as u64, "data mover")),
            Err(e) => format!("it is not known if data movers still work for this backup: {e}"),
        };
        if Instant::now() >= deadline || env.operation.cancel.is_cancelled() {
            return Some(format!("{why}: delete it again when they have ended"));
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// The number of movers that still work for a backup.
async fn working_movers(backup: &Backup, env: &Env) -> Result<usize, ClusterError> {
    Ok(working_uploads(backup, &env.cluster).await? + working_file_backups(backup, &env.cluster).await?)
}

pub(crate) fn late() -> String {
    format!("it took longer than {} s", LONGEST.as_secs())
}
