//! Reads the whole archive once before anything is changed: every object is checked, and its head kept.

use crate::env::Env;
use lifeboat_store::{Archive, StoreError};
use tokio::task::JoinSet;

/// What planning needs of one object; the rest is read again when its turn comes.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Its number among the archive's rows.
    pub(crate) row: usize,
}

/// Reads every object, in preferred versions. A damaged or hostile archive is refused here.
pub(crate) async fn scan(archive: &Archive, env: &Env) -> Result<Vec<Facts>, StoreError> {
    let rows = archive.rows().enumerate().filter(|(_, row)| row.preferred).map(|(number, _)| number).collect();
    let mut tasks = JoinSet::new();
    let mut contents = archive.read(rows, &mut tasks);
    let mut out = Vec::new();
    while let Some(item) = contents.recv().await {
        let item = item?;
        if env.cancel.is_cancelled() {
            break;
        }
        out.push(Facts { row: item.row });
    }
    Ok(out)
}
