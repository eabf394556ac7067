//! Objects of some types, out of an archive.

use lifeboat_archive::index::Row;
use lifeboat_object::GroupResource;
use lifeboat_store::{Archive, StoreError};
use serde_json::Value;
use tokio::task::JoinSet;

/// Reads the objects of some types out of an archive, in the preferred version of each. One that cannot be read is left out.
pub(crate) async fn archived_objects(
    archive: &Archive,
    is_wanted: impl Fn(&GroupResource) -> bool,
) -> Result<Vec<Value>, StoreError> {
    let is_one = |row: &Row| row.preferred && is_wanted(&row.resource);
    let rows: Vec<usize> = archive.rows().enumerate().filter(|(_, row)| is_one(row)).map(|(n, _)| n).collect();
    let (mut objects, mut reading) = (Vec::new(), JoinSet::new());
    if rows.is_empty() {
        return Ok(objects);
    }
    let mut contents = archive.read(rows, &mut reading);
    while let Some(item) = contents.next().await? {
        objects.extend(serde_json::from_slice::<Value>(&item.body));
    }
    Ok(objects)
}
