//! Changes of objects that the server writes too.

use super::missing;
use anyhow::{Result, bail};
use lifeboat_client::{Change, Client, Object};

/// Changes an object to what `to` makes of it, `None` for as it is; gives it, and whether it was changed. `goal` says for the error what it
/// was to be.
pub(super) async fn change<T: Object>(
    client: &Client,
    name: &str,
    goal: &str,
    to: impl FnMut(&T) -> Result<Option<T>>,
) -> Result<(T, bool)> {
    match client.change_as_it_is(name, to).await? {
        Change::Made(object) => Ok((object, true)),
        Change::Nothing(object) => Ok((object, false)),
        Change::Missing => Err(missing::<T>(name)),
        Change::Conflicts(tries) => bail!(
            "{}.velero.io \"{name}\" was changed by others {tries} times while it was to be {goal}: try again",
            T::PLURAL
        ),
    }
}
