//! Files of earlier snapshots that are not whole in the repository any more. They are read anew, so that a loss does not go on
//! from snapshot to snapshot.

use super::directory::Directory;
use super::entry::Entry;
use super::run::Run;
use crate::MoverError;
use futures::{StreamExt, TryStreamExt};
use lifeboat_kopia::object::find_loss;

/// Files whose listings are read at once.
const AT_ONCE: usize = 16;

/// Drops what was taken over and has contents that are missing or marked deleted. Files of one content are looked up; of longer
/// ones the listing is read.
pub(super) async fn drop_lost(run: &Run, directory: &Directory, entries: &mut [Entry]) -> Result<(), MoverError> {
    let mut long = Vec::new();
    for (at, entry) in entries.iter_mut().enumerate() {
        match entry.object {
            Some(object) if object.levels > 0 => long.push((at, object)),
            Some(object) => {
                if let Some(why) = find_loss(run.writer.contents(), &object).await? {
                    drop_object(run, directory, entry, &why);
                }
            }
            None => {}
        }
    }
    let looks = futures::stream::iter(long).map(|(at, object)| async move {
        if run.whole.has(&object) {
            return Ok((at, None));
        }
        let loss = find_loss(run.writer.contents(), &object).await?;
        if loss.is_none() {
            run.whole.add(object);
        }
        Ok::<_, MoverError>((at, loss))
    });
    let mut looks = std::pin::pin!(looks.buffer_unordered(AT_ONCE));
    while let Some((at, loss)) = looks.try_next().await? {
        if let (Some(why), Some(entry)) = (loss, entries.get_mut(at)) {
            drop_object(run, directory, entry, &why);
        }
    }
    Ok(())
}

fn drop_object(run: &Run, directory: &Directory, entry: &mut Entry, why: &str) {
    entry.object = None;
    let path = directory.shown_path_of(entry.name());
    run.warn(format!(
        "{path} is read anew: what an earlier snapshot has of it is not whole in the repository any more: {why}"
    ));
}
