//! A session: its marker keeps its packs from maintenance until an index tells of them.

use super::context::Context;
use crate::KopiaError;
use crate::format::session::{SessionMarker, session_id};
use crate::format::time::UnixNanos;
use crate::options::random_bytes;
use tokio::sync::OnceCell;

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
        let marker = SessionMarker {
            id: self.id.clone(),
            start: self.begun,
            checkpoint: self.begun,
            user: context.options.user.clone(),
            host: context.options.host.clone(),
        };
        let plain = marker.write();
        let hash = context.crypto().hash(&plain);
        let name = format!("s{hash}-{}", self.id);
        let stored = context.crypto().seal_blob(&hash, &plain, context.nonce());
        let stored = stored.map_err(|e| KopiaError::damaged(format!("blob {name}"), e))?;
        context.put(&name, stored.into()).await?;
        Ok(name)
    }

    /// Deletes the marker, where there is one, and those of earlier sessions that stayed. One that cannot be deleted stays: the
    /// index is written, and maintenance deletes old markers.
    pub(super) async fn end(&self, context: &Context) {
        let mut names = context.take_left_markers();
        names.extend(self.marker.get().cloned());
        let list: Vec<String> = names.iter().cloned().collect();
        if !list.is_empty() && context.blobs().delete(&list).await.is_err() {
            context.leave_markers(names);
        }
    }

    /// The time at which it began.
    pub(super) fn begun(&self) -> UnixNanos {
        self.begun
    }
}
