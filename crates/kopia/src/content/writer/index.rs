//! The index of a flush, put where every reader looks (kopia: internal/epoch).

use super::context::Context;
use crate::KopiaError;
use crate::content::LoadState;
use crate::format::blob_name::{IndexKind, IndexSetName, legacy_index_name};
use crate::format::content_id::ContentHash;
use crate::format::index::{Entry, build_shards};
use crate::tasks::blocking;
use bytes::Bytes;

/// The attempts of writing an index before its epoch is too old.
const ATTEMPTS: u32 = 10;

/// A part of an index, and the hash in its name.
struct Shard {
    hash: ContentHash,
    stored: Bytes,
}

/// Writes entries, in the order of IDs, as an index of the session, and loads it: what it tells of is found from then on.
pub(super) async fn write_index(context: &Context, session: &str, entries: Vec<Entry>) -> Result<(), KopiaError> {
    let shards = seal_shards(context, entries).await?;
    let guard = &context.contents.inner.guard;
    // An upgrade may have come since the last look: nobody reads `n` blobs after it. Or the repository was deleted and made
    // anew: with an index under the old keys it would open for nobody.
    guard.look_again().await?;
    if !guard.has_epochs() {
        return write_without_epochs(context, session, &shards).await;
    }
    write_into_epoch(context, session, &shards).await
}

/// Puts blobs that only repositories without epochs have. Whether an upgrade that came meanwhile has taken them over nobody
/// can tell: they are withdrawn.
async fn write_without_epochs(context: &Context, session: &str, shards: &[Shard]) -> Result<(), KopiaError> {
    let mut names = Vec::new();
    for shard in shards {
        let name = legacy_index_name(&shard.hash, session);
        put(context, &name, shard).await?;
        names.push(name);
    }
    let guard = &context.contents.inner.guard;
    let seen = guard.look_again().await;
    if guard.has_epochs() || matches!(seen, Err(KopiaError::UpgradeInProgress { .. })) {
        context.blobs().delete(&names).await?;
        let why = "the repository was upgraded while it was written: try again, after the upgrade";
        return Err(KopiaError::refused("write an index", why));
    }
    seen?;
    context.contents.refresh().await
}

async fn seal_shards(context: &Context, entries: Vec<Entry>) -> Result<Vec<Shard>, KopiaError> {
    let version = context.format().index_version;
    let crypto = context.crypto().clone();
    let random = context.options.random.clone();
    blocking(move || {
        let refused = |why| KopiaError::refused("write an index", why);
        let plains = build_shards(version, &entries).map_err(refused)?;
        let seal = |plain: Vec<u8>| {
            let (hash, stored) = crypto.seal_blob(&plain, crate::options::random_bytes(&random)).map_err(refused)?;
            Ok(Shard { hash, stored: stored.into() })
        };
        plains.into_iter().map(seal).collect()
    })
    .await
}

async fn put(context: &Context, name: &str, shard: &Shard) -> Result<(), KopiaError> {
    context.check_pauses()?;
    context.put(name, shard.stored.clone()).await?;
    context.count(|written| {
        written.index_blobs += 1;
        written.index_bytes += shard.stored.len() as u64;
    });
    Ok(())
}

/// Blobs of an index in one epoch.
struct InEpoch {
    epoch: u64,
    names: Vec<String>,
}

async fn write_into_epoch(context: &Context, session: &str, shards: &[Shard]) -> Result<(), KopiaError> {
    let mut written: Option<InEpoch> = None;
    for _ in 0..ATTEMPTS {
        let state = fresh_state(context).await?;
        let mut target = match written.take() {
            Some(before) if before.epoch == state.write_epoch => before,
            before => {
                // Another epoch has begun since then.
                if let Some(before) = before {
                    withdraw(context, &before).await?;
                }
                InEpoch { epoch: state.write_epoch, names: Vec::new() }
            }
        };
        if put_shards(context, session, shards, &state, &mut target).await? {
            context.contents.refresh().await?;
            return check_epoch(context, &target).await;
        }
        written = Some(target);
    }
    if let Some(written) = &written {
        withdraw(context, written).await?;
    }
    let why = "each attempt took longer than the state of the epochs is good for: the bucket is too slow";
    Err(KopiaError::refused("write an index", why))
}

/// Puts what is missing in the epoch; false where the state became too old meanwhile.
async fn put_shards(
    context: &Context,
    session: &str,
    shards: &[Shard],
    state: &LoadState,
    target: &mut InEpoch,
) -> Result<bool, KopiaError> {
    let set = IndexSetName { kind: IndexKind::Flush(target.epoch), session, count: shards.len() as u64 };
    for shard in shards {
        let name = set.of_blob(&shard.hash);
        if target.names.contains(&name) {
            continue;
        }
        if !is_good_for(context, state, 100) {
            return Ok(false);
        }
        put(context, &name, shard).await?;
        target.names.push(name);
    }
    Ok(true)
}

/// A state that is good for three quarters of its time at least. One from before an upgrade says nothing of epochs.
async fn fresh_state(context: &Context) -> Result<LoadState, KopiaError> {
    match context.contents.load_state() {
        Some(state) if state.has_epochs && is_good_for(context, &state, 25) => return Ok(state),
        _ => context.contents.refresh().await?,
    }
    context.contents.load_state().ok_or(KopiaError::Cancelled)
}

/// True where at most so many percent of the time are over for which a state is good.
fn is_good_for(context: &Context, state: &LoadState, percent: i64) -> bool {
    let age = context.contents.inner.guard.refresh_frequency();
    age.is_none_or(|age| context.contents.is_younger(state.begun, age / 100 * percent))
}

/// Readers look into the current epoch and those beside it: an index in an older one might be missed, as soon as that is
/// compacted.
async fn check_epoch(context: &Context, target: &InEpoch) -> Result<(), KopiaError> {
    let now = context.contents.load_state().map_or(0, |state| state.write_epoch);
    if now < target.epoch.saturating_add(2) {
        return Ok(());
    }
    withdraw(context, target).await?;
    let why = format!("epoch {now} began while it was written into epoch {}: try again", target.epoch);
    Err(KopiaError::refused("write an index", why))
}

async fn withdraw(context: &Context, blobs: &InEpoch) -> Result<(), KopiaError> {
    if blobs.names.is_empty() {
        return Ok(());
    }
    context.blobs().delete(&blobs.names).await
}
