//! State behind `lifeboat status --watch`, kept up to date by watches.

use super::follow::{ask, begin};
use super::looked::ServerQuery;
use super::rhythm::RefreshTimer;
use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use lifeboat_client::Client;
use lifeboat_view::status::StatusInput;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// Reason why the watching ends.
const UNFOLLOWED: &str = "what is shown is followed no longer";
/// News that wait until they are taken in.
const WAITING: usize = 64;

/// Shows the status again and again: soon after something has changed, and when ages have. `show` is given what is known, or why something is
/// not; the first time, when all is known or something cannot be read.
///
/// # Errors
/// Returns the errors of `show`.
pub(super) async fn watch(
    client: &Client,
    asking: ServerQuery,
    mut show: impl FnMut(Result<StatusInput<'_>, String>) -> Result<()>,
) -> Result<()> {
    let (sender, mut news) = mpsc::channel(WAITING);
    let mut tasks = JoinSet::new();
    let mut known = begin(client, &mut tasks, &sender);
    // Where it cannot be read, the marks of backups say whose they are.
    known.inventory.lists.cluster = client.cluster.uid().await.unwrap_or_default();
    tasks.spawn(ask(asking, sender));
    let mut rhythm = RefreshTimer::begin(Instant::now());
    loop {
        let heard = tokio::select! {
            heard = timeout_at(rhythm.latest(Instant::now()), news.recv()) => heard,
            // Without the task that follows a type, its objects would be shown for ever as they were.
            Some(ended) = tasks.join_next() => {
                ended.context(UNFOLLOWED)?;
                bail!(UNFOLLOWED);
            }
        };
        match heard {
            Ok(Some(one)) => known.take(one),
            Ok(None) => bail!(UNFOLLOWED),
            Err(_) => {}
        }
        // What comes before the next screen is due is shown with it.
        while let Ok(Some(one)) = timeout_at(rhythm.earliest(), news.recv()).await {
            known.take(one);
        }
        let Some(shown) = known.shown(Timestamp::now()) else { continue };
        let begun = Instant::now();
        show(shown)?;
        rhythm.shown(begun, Instant::now());
    }
}
