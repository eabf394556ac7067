//! The flush: packs, index, and the end of the session.

use super::batch::Batch;
use super::context::Written;
use super::state::lock;
use super::{ContentWriter, index};
use crate::KopiaError;
use crate::format::time::MINUTE;
use crate::tasks::join;
use std::sync::Arc;

/// The time after which entries are flushed, in nanoseconds.
const FLUSH_AFTER: i64 = 10 * MINUTE;
/// The number of entries that are flushed at once: they take some 40 MiB until then.
const FLUSH_ENTRIES: usize = 200_000;

impl ContentWriter {
    /// Writes what is pending: packs, then the index, and then the marker of the session goes. What it gives is counted from
    /// the call before.
    ///
    /// # Errors
    /// Errors of the bucket. What was not flushed is lost then, and every later call fails for the same reason.
    pub async fn flush(&self) -> Result<Written, KopiaError> {
        let mut flushing = self.inner.flushing.lock().await;
        if flushing.is_some() {
            // It was cut off.
            self.flush_once(&mut flushing).await?;
        }
        self.flush_once(&mut flushing).await?;
        Ok(self.inner.context.take_counts())
    }

    /// Flushes by time and by number of entries.
    pub(super) async fn flush_when_due(&self) -> Result<(), KopiaError> {
        if !self.is_due() {
            return Ok(());
        }
        let mut flushing = self.inner.flushing.lock().await;
        // Somebody else may have done it while this one waited.
        if self.is_due() { self.flush_once(&mut flushing).await } else { Ok(()) }
    }

    fn is_due(&self) -> bool {
        let state = lock(&self.inner.state);
        let is_old = || !self.inner.context.contents.is_younger(state.flushed_at, FLUSH_AFTER);
        state.batch.entries.len() >= FLUSH_ENTRIES || is_old() && !state.batch.entries.is_empty()
    }

    async fn flush_once(&self, flushing: &mut Option<Batch>) -> Result<(), KopiaError> {
        let context = &self.inner.context;
        context.check()?;
        let result = self.flush_batch(flushing).await;
        if let Err(error) = &result {
            context.fail(error);
        }
        result
    }

    /// Takes the batch, unless one was cut off, and writes it. Every step can be done again.
    async fn flush_batch(&self, flushing: &mut Option<Batch>) -> Result<(), KopiaError> {
        let context = &self.inner.context;
        if flushing.is_none() {
            let mut state = lock(&self.inner.state);
            if state.batch.entries.is_empty() {
                state.flushed_at = context.now();
                return Ok(());
            }
            state.batch.close(context)?;
            let mut batch = std::mem::take(&mut state.batch);
            state.flushing = Arc::new(std::mem::take(&mut batch.entries));
            *flushing = Some(batch);
        }
        let Some(batch) = flushing else { return Ok(()) };
        while let Some(done) = batch.uploads.join_next().await {
            join(done)??;
        }
        // A pack may have failed before.
        context.check()?;
        let entries = lock(&self.inner.state).flushing.clone();
        let entries = entries.iter().map(|(id, entry)| entry.entry(id)).collect();
        let session = batch.session(context);
        session.check_age(context)?;
        index::write_index(context, &session.id, entries).await?;
        session.end(context).await;
        let mut state = lock(&self.inner.state);
        state.flushing = Arc::default();
        state.flushed_at = context.now();
        *flushing = None;
        Ok(())
    }
}
