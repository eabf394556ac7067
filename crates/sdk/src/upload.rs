//! Uploads into an object store (velero: pkg/plugin/framework).
//!
//! The pieces that a server sends are passed on one by one: when the store is slow, the server waits. A server that
//! breaks a call off takes the call's future with it; so the store works in a task of its own, which sees the end of
//! the pieces and can tidy up.

use crate::call::call;
use crate::object_store::{ByteStream, ObjectStore};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use lifeboat_action::ActionError;
use lifeboat_plugin_proto::generated::PutObjectRequest;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Pieces between the server and the store; Velero's have 16 KiB.
const QUEUE: usize = 4;
/// Time limit for reading pieces from a server that the store no longer wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// The uploads that are going on.
pub(crate) struct Uploads {
    tasks: Mutex<JoinSet<()>>,
    ended: CancellationToken,
}

enum UploadPiece {
    Bytes(Bytes),
    /// There are no more.
    End,
    /// There should be more, and this is why they do not come.
    Broken(String),
}

impl Uploads {
    /// None yet. When `ended` is set, they break off.
    pub(crate) fn new(ended: CancellationToken) -> Self {
        Self { tasks: Mutex::default(), ended }
    }

    /// Stores what the server sends; its first message says where.
    pub(crate) async fn put<M>(
        &self,
        store: Arc<dyn ObjectStore>,
        first: PutObjectRequest,
        rest: M,
    ) -> Result<(), Status>
    where
        M: Stream<Item = Result<PutObjectRequest, Status>> + Send + Unpin,
    {
        let PutObjectRequest { bucket, key, body, plugin: _ } = first;
        let (pieces, received) = mpsc::channel(QUEUE);
        let (answer, mut answered) = oneshot::channel();
        self.spawn(async move {
            let stored = call(store.put_object(&bucket, &key, body_of(received))).await;
            // When the server has broken off, nobody wants to know.
            let _ = answer.send(stored);
        });
        let mut messages = stream::iter([Ok(body)]).chain(rest.map(|message| Ok(message?.body))).fuse();
        let answer = tokio::select! {
            answer = &mut answered => answer,
            () = self.feed(&mut messages, pieces) => answered.await,
        };
        let stored = answer.unwrap_or_else(|_| Err(Status::unavailable("the plugin has ended during the upload")));
        // compat: Velero learns of an answer only when it has sent everything, and takes one that comes before for the end of the
        // connection (`EOF`). So it may go on for a while; after that, the log has what is wrong.
        let is_heard = tokio::select! {
            () = drained(messages) => true,
            () = self.ended.cancelled() => true,
            () = sleep(PATIENCE) => false,
        };
        if let Err(error) = &stored
            && !is_heard
        {
            tracing::error!(error = error.message(), "An object could not be stored");
        }
        stored
    }

    /// Hands the pieces on, until there are no more or nobody wants them.
    async fn feed<M>(&self, messages: &mut M, pieces: mpsc::Sender<UploadPiece>)
    where
        M: Stream<Item = Result<Bytes, Status>> + Unpin,
    {
        loop {
            let message = tokio::select! {
                message = messages.next() => message,
                () = self.ended.cancelled() => Some(Err(Status::cancelled("the plugin is to end"))),
            };
            let (piece, is_last) = match message {
                Some(Ok(body)) if body.is_empty() => continue,
                Some(Ok(body)) => (UploadPiece::Bytes(body), false),
                Some(Err(why)) => (UploadPiece::Broken(why.message().to_owned()), true),
                None => (UploadPiece::End, true),
            };
            if pieces.send(piece).await.is_err() || is_last {
                return;
            }
        }
    }

    /// Waits until none is going on.
    pub(crate) async fn finish(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }

    fn spawn(&self, upload: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(upload);
    }
}

/// The pieces as a store gets them. Ones that end without saying so were broken off.
fn body_of(received: mpsc::Receiver<UploadPiece>) -> ByteStream {
    let next = |received: Option<mpsc::Receiver<UploadPiece>>| async {
        let mut received = received?;
        let why = match received.recv().await {
            Some(UploadPiece::Bytes(body)) => return Some((Ok(body), Some(received))),
            Some(UploadPiece::End) => return None,
            Some(UploadPiece::Broken(why)) => why,
            None => "it has broken the call off".to_owned(),
        };
        Some((Err(ActionError::item(format!("the server does not send the rest: {why}"))), None))
    };
    stream::unfold(Some(received), next).boxed()
}

async fn drained<T>(mut messages: impl Stream<Item = Result<T, Status>> + Unpin) {
    while let Some(Ok(_)) = messages.next().await {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use futures::TryStreamExt;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::timeout;

    /// The bucket and key of an upload, with the bytes or the error that the store got.
    type Got = (String, Result<Vec<u8>, ActionError>);

    /// Keeps what it is given; the key says how it behaves.
    #[derive(Default)]
    struct Kept {
        objects: Mutex<Vec<Got>>,
    }

    #[async_trait]
    impl ObjectStore for Kept {
        async fn put_object(&self, bucket: &str, key: &str, body: ByteStream) -> Result<(), ActionError> {
            if key == "refused" {
                return Err(ActionError::item("no space"));
            }
            if key == "known" {
                return Ok(());
            }
            if key == "slow" {
                return std::future::pending().await;
            }
            let pieces: Result<Vec<Bytes>, ActionError> = body.try_collect().await;
            let content = pieces.map(|pieces| pieces.concat());
            self.objects.lock().unwrap().push((format!("{bucket}/{key}"), content.clone()));
            content.map(drop)
        }

        async fn object_exists(&self, _: &str, _: &str) -> Result<bool, ActionError> {
            Ok(true)
        }

        async fn get_object(&self, _: &str, _: &str) -> Result<ByteStream, ActionError> {
            Ok(stream::empty().boxed())
        }

        async fn list_common_prefixes(&self, _: &str, _: &str, _: &str) -> Result<Vec<String>, ActionError> {
            Ok(vec![])
        }

        async fn list_objects(&self, _: &str, _: &str) -> Result<Vec<String>, ActionError> {
            Ok(vec![])
        }

        async fn delete_object(&self, _: &str, _: &str) -> Result<(), ActionError> {
            Ok(())
        }

        async fn create_signed_url(&self, _: &str, _: &str, _: Duration) -> Result<String, ActionError> {
            Ok(String::new())
        }
    }

    fn message(key: &str, body: &str) -> PutObjectRequest {
        let body = Bytes::from(body.to_owned());
        PutObjectRequest { plugin: "a.io/x".to_owned(), bucket: "b".to_owned(), key: key.to_owned(), body }
    }

    /// Sends these messages after the first; then nothing more comes, or the end does. Gives the response to the
    /// server, and the uploads that the store has got.
    async fn put(
        key: &str,
        messages: Vec<Result<PutObjectRequest, Status>>,
        is_ended: bool,
    ) -> (Option<Result<(), String>>, Vec<Got>) {
        let store = Arc::new(Kept::default());
        let uploads = Uploads::new(CancellationToken::new());
        let rest = stream::iter(messages);
        let rest = if is_ended { rest.boxed() } else { rest.chain(stream::pending()).boxed() };
        let putting = uploads.put(store.clone(), message(key, "one"), rest);
        let told = timeout(Duration::from_secs(60), putting).await.ok();
        uploads.finish().await;
        let objects = store.objects.lock().unwrap().clone();
        (told.map(|told| told.map_err(|error| error.message().to_owned())), objects)
    }

    #[tokio::test]
    async fn all_pieces_are_stored_under_what_the_first_says() {
        let rest = vec![Ok(message("other", "")), Ok(message("k", "two"))];
        let expected = vec![("b/k".to_owned(), Ok(b"onetwo".to_vec()))];
        assert_eq!(put("k", rest, true).await, (Some(Ok(())), expected));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_breaks_off_is_seen_by_the_store() {
        let broken = Err(ActionError::item("the server does not send the rest: it has broken the call off"));
        assert_eq!(put("k", vec![], false).await, (None, vec![("b/k".to_owned(), broken)]));
        let why = "the server does not send the rest: reset";
        let (told, objects) = put("k", vec![Err(Status::cancelled("reset"))], true).await;
        assert_eq!(told, Some(Err(why.to_owned())));
        assert_eq!(objects, vec![("b/k".to_owned(), Err(ActionError::item(why)))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_needs_no_more_lets_the_server_go_on() {
        assert_eq!(put("known", vec![Ok(message("k", "two"))], true).await, (Some(Ok(())), vec![]));
        assert_eq!(put("known", vec![], false).await, (Some(Ok(())), vec![]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_refuses_is_heard_although_the_server_goes_on() {
        let refused = (Some(Err("no space".to_owned())), vec![]);
        assert_eq!(put("refused", vec![Ok(message("k", "two"))], true).await, refused);
        assert_eq!(put("refused", vec![], false).await, refused);
    }

    #[tokio::test]
    async fn the_end_of_the_plugin_is_seen_by_the_store() {
        let store = Arc::new(Kept::default());
        let ended = CancellationToken::new();
        let uploads = Uploads::new(ended.clone());
        let putting = uploads.put(store.clone(), message("k", "one"), stream::pending());
        let (told, ()) = tokio::join!(putting, async { ended.cancel() });
        let why = "the server does not send the rest: the plugin is to end";
        assert_eq!(told.unwrap_err().message(), why);
        assert_eq!(*store.objects.lock().unwrap(), [("b/k".to_owned(), Err(ActionError::item(why)))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_waits_for_a_store_that_is_slow() {
        let taken = AtomicUsize::new(0);
        let messages = (0..1000).map(|_| Ok(message("slow", "x"))).inspect(|_| {
            taken.fetch_add(1, Ordering::Relaxed);
        });
        let uploads = Uploads::new(CancellationToken::new());
        let putting = uploads.put(Arc::new(Kept::default()), message("slow", "x"), stream::iter(messages));
        assert!(timeout(Duration::from_secs(60), putting).await.is_err());
        // The queue, which has the first piece too, and the one that waits for it.
        assert_eq!(taken.into_inner(), QUEUE);
    }
}
