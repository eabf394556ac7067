//! Reads an object, piece by piece.

use crate::caller::CallGuard;
use crate::client;
use crate::failure::CallFailure;
use crate::object_store::remote_bucket::RemoteBucket;
use bytes::Bytes;
use futures::StreamExt;
use lifeboat_bucket::{BucketError, ByteStream};
use lifeboat_plugin_proto::generated;
use tokio::time::timeout;
use tonic::{Status, Streaming};

/// Largest piece. Plugins in Go send 16 KiB at once.
const LARGEST_PIECE: usize = 32 << 20;

/// An object that is being read. Dropping it tells the plugin to send no more.
pub(crate) struct Download {
    store: RemoteBucket,
    key: String,
    entry: CallGuard,
    pieces: Streaming<generated::Bytes>,
    /// Bytes that were read and not given out.
    ready: Bytes,
}

impl Download {
    /// Begins to read, up to the first piece: that there is no such object may be said as late as with it.
    pub(crate) async fn begin(store: &RemoteBucket, key: &str) -> Result<Self, CallFailure> {
        let entry = store.caller.enter().await?;
        let request = generated::GetObjectRequest {
            plugin: store.name.to_string(),
            bucket: store.bucket.clone(),
            key: key.to_owned(),
        };
        let mut client =
            client::object_store(entry.connection.channel.clone()).max_decoding_message_size(LARGEST_PIECE);
        let opening = timeout(store.caller.limit(), client.get_object(request)).await;
        let pieces = match opening {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => return Err(store.caller.failed(&entry, &store.name, &status).await),
            Err(_) => return Err(store.caller.late(&entry, &store.name).await),
        };
        let mut download = Self { store: store.clone(), key: key.to_owned(), entry, pieces, ready: Bytes::new() };
        download.ready = download.next().await?.unwrap_or_default();
        Ok(download)
    }

    /// The next piece that is not empty.
    async fn next(&mut self) -> Result<Option<Bytes>, CallFailure> {
        if !self.ready.is_empty() {
            return Ok(Some(std::mem::take(&mut self.ready)));
        }
        let caller = &self.store.caller;
        loop {
            let status: Status = match timeout(caller.limit(), self.pieces.message()).await {
                Ok(Ok(Some(piece))) if piece.data.is_empty() => continue,
                Ok(Ok(piece)) => return Ok(piece.map(|piece| piece.data)),
                Ok(Err(status)) => status,
                Err(_) => return Err(caller.late(&self.entry, &self.store.name).await),
            };
            return Err(caller.failed(&self.entry, &self.store.name, &status).await);
        }
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, BucketError> {
        let next = self.next().await;
        next.map_err(|failure| self.store.failed("get", &self.key, failure))
    }

    /// All of it.
    pub(crate) fn all(self) -> ByteStream {
        futures::stream::try_unfold(self, |mut download| async move {
            Ok(download.piece().await?.map(|piece| (piece, download)))
        })
        .boxed()
    }
}
