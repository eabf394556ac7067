//! The movers of a backup that nobody needs any more: asked to stop, and waited for.

use crate::env::Env;
use lifeboat_api::Backup;
use lifeboat_api::well_known::LABEL_BACKUP_UID;
use lifeboat_cluster::ClusterError;
use lifeboat_object::{ResultScope, counted};
use lifeboat_volume::data_movement::backup::{goes_well, stop_uploads, uploads_of, working_uploads};
use lifeboat_volume::fs_backup::{node_agents, stop_file_backups, working_file_backups};
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
    asked(failure_of(stop_uploads(backup, is_wanted, &env.cluster)).await, "DataUploads", backup, env)
}

/// Asks the movers that save files for a backup which has not come to its end to stop. Those that cannot be asked are told of.
pub(crate) async fn stop_useless_files(backup: &Backup, env: &Env) -> bool {
    asked(failure_of(stop_file_backups(backup, &env.cluster)).await, "PodVolumeBackups", backup, env)
}

/// Tells of movers that could not be asked to stop, for this reason. Gives false then.
fn asked(failure: Option<String>, resources: &str, backup: &Backup, env: &Env) -> bool {
    let Some(why) = failure else { return true };
    let text = format!(
        "data movers that work for this backup could not be asked to stop: {why}; set spec.cancel of the {resources} with the label \
         {LABEL_BACKUP_UID}={}",
        backup.metadata.uid
    );
    env.operation.journal.warn(&ResultScope::Velero, text);
    false
}

/// The reason why movers could not be asked to stop; `None` where they were. Who may not see them has not made any.
async fn failure_of(stopping: impl Future<Output = Result<(), ClusterError>>) -> Option<String> {
    match timeout(LONGEST, stopping).await {
        Ok(Err(e)) if !e.is_denied() => Some(e.to_string()),
        Ok(_) => None,
        Err(_) => Some(late()),
    }
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

/// Waits until no mover works for a backup any more, all of which were asked to stop. Gives the reason for which it is not so. A
/// PodVolumeBackup that no node agent can end, because none is ready, is told of and not waited for.
pub(crate) async fn await_movers(backup: &Backup, env: &Env) -> Option<String> {
    let deadline = Instant::now() + STOPPING;
    let [mut pause, longest] = STOPPING_PAUSES;
    loop {
        let why = match WorkingMovers::of(backup, env).await {
            Ok(WorkingMovers { uploads: 0, files: 0 }) => return None,
            Ok(WorkingMovers { uploads: 0, files }) if has_no_agent(backup, env).await => {
                let text = format!(
                    "{} of this backup will not end, because no node agent is ready: their snapshots, if there are any, stay in the repository",
                    counted(files as u64, "PodVolumeBackup")
                );
                env.operation.journal.warn(&ResultScope::Velero, text);
                return None;
            }
            Ok(WorkingMovers { uploads, files }) => {
                format!("{} still work for this backup", counted((uploads + files) as u64, "data mover"))
            }
            Err(e) => format!("it is not known if data movers still work for this backup: {e}"),
        };
        if Instant::now() >= deadline || env.operation.cancel.is_cancelled() {
            return Some(format!("{why}: delete it again when they have ended"));
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// The movers that still work for a backup. Who may not see them has not made any.
struct WorkingMovers {
    uploads: usize,
    files: usize,
}

impl WorkingMovers {
    async fn of(backup: &Backup, env: &Env) -> Result<Self, ClusterError> {
        let seen = |count: Result<usize, ClusterError>| match count {
            Err(e) if e.is_denied() => Ok(0),
            count => count,
        };
        let uploads = seen(working_uploads(backup, &env.cluster).await)?;
        Ok(Self { uploads, files: seen(working_file_backups(backup, &env.cluster).await)? })
    }
}

/// Returns true if no node agent is there, or none is ready.
async fn has_no_agent(backup: &Backup, env: &Env) -> bool {
    let agents = node_agents(&env.cluster, &backup.metadata.namespace).await;
    agents.is_ok_and(|agents| !agents.are_there || agents.are_unready)
}

pub(crate) fn late() -> String {
    format!("it took longer than {} s", LONGEST.as_secs())
}
