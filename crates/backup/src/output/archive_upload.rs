//! Stores the archive of a backup while it is written.

use crate::collect::tally::Tally;
use crate::env::Env;
use crate::error::BackupError;
use crate::output::entry::Entries;
use crate::output::write::{Written, write};
use crate::stage_error::{ActionRefusal, StageError};
use lifeboat_store::{BackupWriter, StreamReceiver, stream};
use tokio::sync::oneshot;

/// Pieces of the archive waiting for the upload.
const WAITING: usize = 4;

/// Writes an archive and stores it.
pub(crate) struct ArchiveUpload<'a> {
    pub(crate) level: u32,
    pub(crate) writer: &'a BackupWriter,
    pub(crate) tally: &'a Tally,
    pub(crate) env: &'a Env,
}

impl ArchiveUpload<'_> {
    /// Writes the archive and stores it, both at once. Nothing of it is visible when a stage before it died, or an action
    /// ended the operation.
    pub(crate) async fn put(
        &self,
        entries: StreamReceiver<Entries>,
        refusal: oneshot::Receiver<ActionRefusal>,
    ) -> Result<Written, BackupError> {
        let (pieces, upload) = stream(WAITING, "making the archive");
        let writing = async {
            let result = tokio::select! {
                biased;
                Ok(refusal) = refusal => Err(StageError::ActionRefused(Box::new(refusal))),
                result = write(entries, self.level, &pieces, self.tally, self.env) => result,
            };
            // The upload must not take a half-written archive for a whole one.
            if result.is_ok() && !self.env.operation.cancel.is_cancelled() {
                pieces.end();
            } else {
                drop(pieces);
            }
            result
        };
        let (written, uploaded) = tokio::join!(writing, self.writer.put_tarball(upload));
        if self.env.operation.cancel.is_cancelled() {
            return Err(BackupError::Cancelled);
        }
        match written {
            // What the upload says then is only that it was given up.
            Err(StageError::StageDied(broken)) => Err(broken.into()),
            Err(StageError::ActionRefused(refusal)) => Err((*refusal).into()),
            Err(StageError::OperationEnded) => {
                Err(uploaded.err().map_or(BackupError::Worker("uploading the archive"), Into::into))
            }
            Ok(written) => uploaded.map(|_| written).map_err(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::test_env;
    use crate::output::seal::{UnrecordedBackup, Unsealed, seal};
    use lifeboat_api::{Backup, BackupPhase, OperationPhase, OperationStatus, Time};
    use lifeboat_archive::ReadLimits;
    use lifeboat_archive::layout::BackupFile;
    use lifeboat_archive::operations::{BackupOperation, BackupOperationSpec};
    use lifeboat_hook::HookTally;
    use lifeboat_object::{GroupResource, ObjectKey, Results};
    use lifeboat_store::{ClaimOutcome, ClaimRequest, OpenOptions};

    async fn writer(env: &Env) -> BackupWriter {
        let request = ClaimRequest {
            name: "b".into(),
            backup_uid: "u".into(),
            cluster_uid: "c".into(),
            namespace: String::new(),
            take_over: false,
            now: (env.operation.clock)(),
        };
        let ClaimOutcome::Writer(writer) = env.store.claim(&request).await.unwrap() else { panic!("a new name") };
        *writer
    }

    async fn is_visible(env: &Env) -> bool {
        let options = OpenOptions { limits: ReadLimits::default(), scratch: std::env::temp_dir(), ignore_index: true };
        env.store.open_archive("b", &options).await.is_ok()
    }

    fn pod() -> ObjectKey {
        ObjectKey::new(GroupResource::new("", "pods"), Some("n"), "web")
    }

    #[tokio::test]
    async fn a_stage_that_died_is_named_and_leaves_no_archive() {
        let env = test_env().await;
        let writer = writer(&env).await;
        let archive = ArchiveUpload { level: 1, writer: &writer, tally: &Tally::default(), env: &env };
        for (ends, expected) in [(false, Err("a worker thread died while listing objects".to_owned())), (true, Ok(0))] {
            let (sender, entries) = stream(4, "listing objects");
            sender.send(Entries { entries: Vec::new(), budget: None }).await.unwrap();
            if ends {
                sender.end();
            } else {
                drop(sender);
            }
            let put = archive.put(entries, oneshot::channel().1).await;
            assert_eq!(put.map(|w| w.summary.objects).map_err(|e| e.to_string()), expected);
            assert_eq!(is_visible(&env).await, ends, "an archive is visible only when it is whole");
        }
    }

    #[tokio::test]
    async fn an_action_that_ends_the_backup_is_named_and_leaves_no_archive() {
        let env = test_env().await;
        let writer = writer(&env).await;
        let archive = ArchiveUpload { level: 1, writer: &writer, tally: &Tally::default(), env: &env };
        // Nothing ends the stream: the other lane goes on.
        let (_sender, entries) = stream(4, "processing objects");
        let (refusal_sender, refusal) = oneshot::channel();
        let said = ActionRefusal { action: "x/y".into(), object: pod(), message: "no licence".into() };
        refusal_sender.send(said).unwrap();
        let error = archive.put(entries, refusal).await.unwrap_err();
        let expected = "the action x/y ended the backup when it was called for pods/n/web: no licence: nothing of this backup \
                        is visible in the bucket";
        assert_eq!((error.to_string().as_str(), is_visible(&env).await), (expected, false));
    }

    #[tokio::test]
    async fn a_backup_waits_for_operations_that_actions_have_begun() {
        let env = test_env().await;
        let writer = writer(&env).await;
        let (sender, entries) = stream(4, "processing objects");
        sender.end();
        let archive = ArchiveUpload { level: 1, writer: &writer, tally: &Tally::default(), env: &env };
        let written = archive.put(entries, oneshot::channel().1).await.unwrap();
        let created = Some(Time::new((env.operation.clock)()));
        let operation = BackupOperation {
            spec: BackupOperationSpec {
                backup_name: "b".into(),
                backup_uid: "u".into(),
                backup_item_action: "x/y".into(),
                resource_identifier: (&pod()).into(),
                operation_id: "op-1".into(),
                post_operation_items: None,
            },
            status: OperationStatus { phase: Some(OperationPhase::New), created, ..OperationStatus::default() },
        };
        let mut backup = Backup::default();
        backup.metadata.name = "b".into();
        backup.metadata.uid = "u".into();
        let operations = vec![operation.clone()];
        let (volumes, native, tool, cluster_version) = Default::default();
        let hooks = HookTally::default();
        let unsealed = Unsealed {
            backup,
            writer,
            written,
            volumes,
            native,
            pod_volumes: Vec::new(),
            operations,
            hooks,
            tool,
            cluster_version,
        };
        let UnrecordedBackup { backup, closed, .. } = seal(unsealed, &env).await.unwrap();
        let status =
            (backup.status.phase, backup.status.backup_item_operations_attempted, backup.status.completion_timestamp);
        assert_eq!(status, (Some(BackupPhase::WaitingForPluginOperations), 1, None));
        assert_eq!(closed.results, Results::default());
        let stored: Vec<BackupOperation> =
            env.store.backup_file("b", BackupFile::ItemOperations).await.unwrap().unwrap();
        assert_eq!(stored, [operation]);
    }
}
