//! Changes of objects that others write at the same time.

use crate::{Client, Object};
use lifeboat_cluster::ClusterError;

/// How often a change is tried: the server writes the status of some objects once a second.
const TRIES: u32 = 8;

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// It was made; the object as stored.
    Made(T),
    /// There was nothing to change in this object.
    Nothing(T),
    /// There is no such object.
    Missing,
    /// Others have changed the object each time meanwhile; so many times it was tried.
    Conflicts(u32),
}

impl Client {
    /// Changes an object as it is: reads it, asks `change` what it should be (`None` for as it is), and writes that; again when others have
    /// changed it meanwhile, a few times.
    ///
    /// # Errors
    /// Those of `change`, and [`ClusterError`].
    pub async fn change_as_it_is<T: Object, E: From<ClusterError>>(
        &self,
        name: &str,
        mut change: impl FnMut(&T) -> Result<Option<T>, E>,
    ) -> Result<Change<T>, E> {
        for _ in 0..TRIES {
            let Some(before) = self.get::<T>(name).await? else { return Ok(Change::Missing) };
            let Some(after) = change(&before)? else { return Ok(Change::Nothing(before)) };
            match self.change(&before, &after).await {
                Err(e) if e.is_conflict() => {}
                stored => return Ok(Change::Made(stored?)),
            }
        }
        Ok(Change::Conflicts(TRIES))
    }
}
