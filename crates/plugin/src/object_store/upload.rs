//! Sends an object, piece by piece (velero: pkg/plugin/framework).

use crate::object_store::remote_bucket::RemoteBucket;
use crate::object_store::whole::{BodyEnd, WholeRequest};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use lifeboat_bucket::{BucketError, ByteStream, ErrorKind};
use lifeboat_plugin_proto::generated;
use lifeboat_plugin_proto::generated::object_store_client::ObjectStoreClient;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Response, Status};
use tower::ServiceExt;

/// Smallest piece that is sent while more follows; smaller ones are gathered.
const SMALLEST: usize = 16 << 10;
/// Largest piece: a plugin in Go takes no message above 4 MiB.
const LARGEST: usize = 1 << 20;

/// Time limit for breaking off a call that is given up, when nothing that was sent before blocks it.
const BREAKING: Duration = Duration::from_secs(2);

/// The final response of the plugin.
type UploadResult = Result<Response<generated::Empty>, Status>;

/// Reasons for which not all was sent.
enum UploadHalt {
    /// The object cannot be read from its source.
    Source(BucketError),
    /// The plugin takes nothing any more, for as long as a stream may be silent.
    Stuck,
    /// The plugin has closed the stream, so that its answer is under way.
    Closed,
    /// The plugin has answered; `None` when the connection was given up.
    Answered(Option<UploadResult>),
}

/// Sends an object and waits until it is stored; gives its size.
///
/// # Errors
/// The errors of the source, and of the plugin. On an error the call is broken off, not ended: its end would tell the
/// plugin that the object is complete.
pub(crate) async fn upload(store: &RemoteBucket, key: &str, body: ByteStream) -> Result<u64, BucketError> {
    let caller = &store.caller;
    let fail = |failure| store.failed("put", key, failure);
    let entry = caller.enter().await.map_err(fail)?;
    let (sender, bodies) = mpsc::channel(1);
    let request = generated::PutObjectRequest {
        plugin: store.name.to_string(),
        bucket: store.bucket.clone(),
        key: key.to_owned(),
        body: Bytes::new(),
    };
    let given_up = CancellationToken::new();
    let waited_for = given_up.clone().drop_guard();
    let call = put_object(entry.connection.channel.clone(), request, bodies);
    let mut call = entry.connection.run(until_broken_off(call, given_up));

    let sent = tokio::select! {
        biased;
        answer = &mut call => Err(UploadHalt::Answered(answer.ok().flatten())),
        sent = feed(body, &sender, caller.limit()) => sent,
    };
    drop(sender);
    let (size, answer) = match sent {
        Ok(size) => (Some(size), answer_within(caller.limit(), &mut call).await),
        Err(UploadHalt::Closed) => (None, answer_within(caller.limit(), &mut call).await),
        Err(UploadHalt::Answered(answer)) => (None, answer),
        Err(UploadHalt::Stuck) => (None, None),
        Err(UploadHalt::Source(error)) => {
            answer_within(BREAKING, &mut call).await;
            return Err(error);
        }
    };
    match (answer, size) {
        (Some(Ok(_)), Some(size)) => Ok(size),
        (Some(Ok(_)), None) => {
            let message = "the plugin says that it has stored the object, but it has not taken all of it";
            Err(store.error(ErrorKind::Other, "put", key, message))
        }
        (Some(Err(status)), _) => Err(fail(caller.failed(&entry, &store.name, &status).await)),
        (None, _) => {
            // What the plugin has not taken of it may fill the connection, so that no question gets through.
            drop(waited_for);
            answer_within(2 * BREAKING, &mut call).await;
            Err(fail(caller.late(&entry, &store.name).await))
        }
    }
}

/// The answer to a call; `None` when there is none in this time.
async fn answer_within(limit: Duration, call: &mut oneshot::Receiver<Option<UploadResult>>) -> Option<UploadResult> {
    timeout(limit, call).await.ok()?.ok()?
}

/// Makes a call that goes on for a moment when it is given up, so that it is seen to be broken off: cut off at once, it may look like
/// its end to the plugin.
async fn until_broken_off(
    call: impl Future<Output = UploadResult>,
    given_up: CancellationToken,
) -> Option<UploadResult> {
    tokio::select! {
        biased;
        answer = call => Some(answer),
        () = async {
            given_up.cancelled().await;
            sleep(BREAKING).await;
        } => None,
    }
}

/// Calls the plugin: a message for each body, until the end is said. When it is not, the request breaks off.
async fn put_object(
    channel: Channel,
    request: generated::PutObjectRequest,
    bodies: mpsc::Receiver<Option<Bytes>>,
) -> UploadResult {
    let end = BodyEnd::default();
    let messages = futures::stream::unfold((request, bodies, end.clone()), |(request, mut bodies, end)| async move {
        match bodies.recv().await? {
            Some(body) => {
                let message = generated::PutObjectRequest { body, ..request.clone() };
                Some((message, (request, bodies, end)))
            }
            None => {
                end.say();
                None
            }
        }
    });
    let whole = move |request: http::Request<Body>| request.map(|body| Body::new(WholeRequest::new(body, end.clone())));
    ObjectStoreClient::new(channel.map_request(whole)).put_object(messages).await
}

/// Hands on all of a body, and its end; gives its size.
async fn feed(
    mut body: ByteStream,
    sender: &mpsc::Sender<Option<Bytes>>,
    silence: Duration,
) -> Result<u64, UploadHalt> {
    let send = |piece: Option<Bytes>| async move {
        match timeout(silence, sender.reserve()).await {
            Ok(Ok(place)) => {
                place.send(piece);
                Ok(())
            }
            Ok(Err(_)) => Err(UploadHalt::Closed),
            Err(_) => Err(UploadHalt::Stuck),
        }
    };
    let (mut gathered, mut size, mut is_first) = (BytesMut::new(), 0, true);
    while let Some(piece) = body.next().await {
        let mut piece = piece.map_err(UploadHalt::Source)?;
        size += piece.len() as u64;
        if piece.len() < SMALLEST {
            gathered.extend_from_slice(&piece);
            piece = if gathered.len() < SMALLEST { Bytes::new() } else { gathered.split().freeze() };
        } else if !gathered.is_empty() {
            send(Some(gathered.split().freeze())).await?;
        }
        while !piece.is_empty() {
            send(Some(piece.split_to(piece.len().min(LARGEST)))).await?;
            is_first = false;
        }
    }
    // compat: a plugin in Go fails when there is no message at all, so an empty object has one.
    if !gathered.is_empty() || is_first {
        send(Some(gathered.freeze())).await?;
    }
    send(None).await?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the pieces in which pieces of these sizes are sent.
    async fn sent(sizes: &[usize]) -> Vec<usize> {
        let pieces: Vec<_> = sizes.iter().map(|size| Ok(Bytes::from(vec![7; *size]))).collect();
        let (sender, mut bodies) = mpsc::channel(1);
        let feeding = feed(futures::stream::iter(pieces).boxed(), &sender, Duration::from_secs(10));
        let taking = async {
            let mut out = Vec::new();
            while let Some(Some(body)) = bodies.recv().await {
                out.push(body.len());
            }
            out
        };
        let (size, out) = tokio::join!(feeding, taking);
        assert_eq!(size.ok(), Some(sizes.iter().sum::<usize>() as u64));
        out
    }

    #[tokio::test]
    async fn small_pieces_are_gathered_and_large_ones_cut() {
        for (sizes, expected) in [
            (&[][..], &[0][..]),
            (&[0, 0], &[0]),
            (&[7], &[7]),
            (&[10_000, 10_000, 10_000], &[20_000, 10_000]),
            (&[10, SMALLEST, 10], &[10, SMALLEST, 10]),
            (&[LARGEST + 5], &[LARGEST, 5]),
            (&[3 * LARGEST], &[LARGEST, LARGEST, LARGEST]),
        ] {
            assert_eq!(sent(sizes).await, expected, "{sizes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_taken_for_too_long_halts_it() {
        let pieces = (0..3).map(|_| Ok(Bytes::from(vec![7; SMALLEST])));
        let (sender, bodies) = mpsc::channel(1);
        let halt = feed(futures::stream::iter(pieces).boxed(), &sender, Duration::from_secs(10)).await;
        assert!(matches!(halt, Err(UploadHalt::Stuck)));
        drop(bodies);
        let halt = feed(futures::stream::iter([]).boxed(), &sender, Duration::from_secs(10)).await;
        assert!(matches!(halt, Err(UploadHalt::Closed)));
    }
}
