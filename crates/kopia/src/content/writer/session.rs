//! A session: its marker keeps its packs from maintenance until an index tells of them.

use super::context::Context;
use crate::KopiaError;
use crate::format::blob_name::session_marker_name;
use crate::format::session::{SessionMarker, session_id};
use crate::format::time::{HOUR, UnixNanos};
use crate::options::random_bytes;
use tokio::sync::OnceCell;

/// The age from which packs without an index are not relied on.
const MAX_HOURS: i64 = 12;

/// A session, from the first entry to the flush.
pub(super) struct Session {
    pub(super) id: String,
    begun: UnixNanos,
    /// The name of the blob, once it is put.
    marker: OnceCell<String>,
}

impl Session {
    pub(super) fn begin(context: &Context) -> Self {
        let begun = context.now();
        Self { id: session_id(random_bytes(&context.options.random), begun), begun, marker: OnceCell::new() }
    }

    /// Puts the marker, once. It is there before the first pack.
    pub(super) async fn mark(&self, context: &Context) -> Result<(), KopiaError> {
        self.marker.get_or_try_init(|| self.put_marker(context)).await.map(drop)
    }

    async fn put_marker(&self, context: &Context) -> Result<String, KopiaError> {
        // In a repository that was made anew nobody could read it, and no collection would go on beside it.
        context.contents.inner.guard.look_again().await?;
        let marker = SessionMarker {
            id: self.id.clone(),
            start: self.begun,
            checkpoint: self.begun,
            user: context.options.user.clone(),
            host: context.options.host.clone(),
        };
        let plain = marker.write();
        let sealed = context.crypto().seal_blob(&plain, context.nonce());
        let (hash, stored) = sealed.map_err(|e| KopiaError::damaged(format!("blob s…-{}", self.id), e))?;
        let name = session_marker_name(&hash, &self.id);
        context.put(&name, stored.into()).await?;
        Ok(name)
    }

    /// Refuses an index of packs that maintenance may have deleted: it keeps them for four days after the beginning of
    /// their session, which lasts some minutes unless the process stands still.
    pub(super) fn check_age(&self, context: &Context) -> Result<(), KopiaError> {
        let hours = context.now().since(self.begun) / HOUR;
        if hours < MAX_HOURS {
            return Ok(());
        }
        let why = format!(
            "its packs were begun {hours} hours ago and may be deleted by now, since this process stood still or the clock \
             was set on: run it again"
        );
        Err(KopiaError::refused("write an index", why))
    }

    /// Deletes the marker, where there is one, and those that could not be deleted before. Where it fails the next session
    /// tries again: the index is stored, and a marker that stays only keeps packs longer.
    pub(super) async fn end(&self, context: &Context) {
        if let Some(name) = self.marker.get() {
            context.add_marker(name);
        }
        let names = context.undeleted_markers();
        if !names.is_empty() && context.blobs().delete(&names).await.is_ok() {
            context.forget_markers(&names);
        }
    }
}
