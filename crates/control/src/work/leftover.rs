//! Volume work that a Velero server has left with the node agents, and for whose end no server waits
//! (velero: pkg/cmd/server/server.go).

use super::{Context, StepError};
use lifeboat_api::{
    Backup, DataDownload, DataPathPhase, DataUpload, PodVolumeBackup, PodVolumeRestore, Restore, well_known,
};
use lifeboat_client::{Object, is_refused};

/// Work on one volume by a node agent.
trait DataPath: Object {
    /// The first words of messages about it.
    const WORD: &'static str;

    fn phase(&self) -> Option<DataPathPhase>;

    /// Asks its agent to stop; `why` is for people.
    fn cancel(&mut self, why: String);

    fn name(&self) -> &str;
}

macro_rules! data_path {
    ($($kind:ident: $word:literal),*) => {
        $(impl DataPath for $kind {
            const WORD: &'static str = $word;

            fn phase(&self) -> Option<DataPathPhase> {
                self.status.phase
            }

            fn cancel(&mut self, why: String) {
                self.spec.cancel = true;
                self.status.message = why;
            }

            fn name(&self) -> &str {
                &self.metadata.name
            }
        })*
    };
}

data_path!(DataUpload: "Dataupload is", DataDownload: "Datadownload is", PodVolumeBackup: "PVB is", PodVolumeRestore: "PVR is");

/// Stops what the node agents do for a backup that has failed.
pub(crate) async fn stop_backup(context: &Context, backup: &Backup) -> Result<(), StepError> {
    let selector = format!("{}={}", well_known::LABEL_BACKUP_UID, backup.metadata.uid);
    stop::<DataUpload>(context, &selector).await?;
    stop::<PodVolumeBackup>(context, &selector).await
}

/// Stops what the node agents do for a restore that has failed.
pub(crate) async fn stop_restore(context: &Context, restore: &Restore) -> Result<(), StepError> {
    let selector = format!("{}={}", well_known::LABEL_RESTORE_UID, restore.metadata.uid);
    stop::<DataDownload>(context, &selector).await?;
    stop::<PodVolumeRestore>(context, &selector).await
}

async fn stop<T: DataPath>(context: &Context, selector: &str) -> Result<(), StepError> {
    let all = match context.client.list::<T>(selector).await {
        Ok(all) => all,
        // Without the definition there are none.
        Err(e) if e.is_not_found() => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    for one in all {
        let Some(why) = reason(&one) else { continue };
        tracing::info!(kind = T::KIND, name = one.name(), "told a node agent to stop");
        let mut after = one.clone();
        after.cancel(why);
        match context.client.change(&one, &after).await {
            Err(e) if is_refused(&e) => {
                tracing::warn!(kind = T::KIND, name = one.name(), error = %e, "a node agent could not be told to stop");
            }
            // Its agent writes it too: the step is done again, as it is when this one is cut off.
            Err(e) if !e.is_not_found() => return Err(e.into()),
            _ => {}
        }
    }
    Ok(())
}

/// The reason for which work that has not ended is stopped; `None` for work that has ended.
fn reason<T: DataPath>(one: &T) -> Option<String> {
    use DataPathPhase as P;
    let word = match one.phase() {
        None => "",
        Some(phase @ (P::New | P::Accepted | P::Prepared | P::InProgress)) => phase.as_str(),
        Some(_) => return None,
    };
    Some(format!("{} in status \"{word}\" during the velero server starting, mark it as cancel", T::WORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_ended_is_stopped() {
        use DataPathPhase as P;
        let reason = |phase| {
            let mut upload = DataUpload::default();
            upload.status.phase = phase;
            reason(&upload)
        };
        let text = |word: &str| {
            Some(format!("Dataupload is in status \"{word}\" during the velero server starting, mark it as cancel"))
        };
        assert_eq!(reason(None), text(""));
        for phase in [P::New, P::Accepted, P::Prepared, P::InProgress] {
            assert_eq!(reason(Some(phase)), text(phase.as_str()));
        }
        for phase in [P::Canceling, P::Canceled, P::Completed, P::Failed] {
            assert_eq!(reason(Some(phase)), None, "{phase:?}");
        }
    }
}
