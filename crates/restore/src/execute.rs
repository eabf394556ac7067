//! Level by level, inside a level many at once.

use crate::env::Env;
use crate::item::{Context, Done, Source};
use crate::plan::Level;
use lifeboat_store::{Archive, StoreError};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Restores the objects of one level and waits for all of them. Objects go to the cluster as many at once as its pace
/// allows; reading the archive keeps just ahead.
pub(crate) async fn level(
    level: Level,
    archive: &Archive,
    context: &Arc<Context>,
    env: &Env,
) -> Result<Vec<Done>, StoreError> {
    let mut reading = JoinSet::new();
    let mut contents = archive.read(level.rows, &mut reading);
    let mut running: JoinSet<Option<Done>> = JoinSet::new();
    let most = env.cluster.pace().most();
    let mut out = Vec::new();
    while let Some(item) = contents.recv().await {
        let item = item?;
        if env.cancel.is_cancelled() {
            break;
        }
        while running.len() >= most {
            finish(running.join_next().await, &mut out, env);
        }
        let Some(row) = archive.row(item.row) else { continue };
        let source = Source { key: row.key(), body: item.body };
        let context = Arc::clone(context);
        running.spawn(async move { context.restore(source).await });
    }
    // A write in flight is awaited even when cancelled, so that its outcome is known.
    while let Some(done) = running.join_next().await {
        finish(Some(done), &mut out, env);
    }
    Ok(out)
}

fn finish(done: Option<Result<Option<Done>, tokio::task::JoinError>>, out: &mut Vec<Done>, env: &Env) {
    env.progress.finished(1);
    match done {
        Some(Ok(Some(done))) => out.push(done),
        Some(Ok(None)) | None => {}
        Some(Err(e)) => {
            env.journal.error(&lifeboat_object::Place::Velero, format!("a task of the restore died: {e}"));
        }
    }
}
