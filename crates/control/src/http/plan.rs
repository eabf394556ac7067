//! Plans of restores for users: made with the user's own rights in the cluster, and with what only the server has, the credentials
//! of storage locations and its settings. A plan is never a resource.

use super::response::{HttpResponse, text};
use crate::buckets::{Buckets, Purpose};
use crate::extensions::Extensions;
use crate::options::Providers;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, stream};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Body, Frame};
use lifeboat_api::{Backup, BackupStorageLocation, GROUP, Restore};
use lifeboat_bucket::BucketError;
use lifeboat_client::Client;
use lifeboat_cluster::{Access, AccessRequest, Cluster};
use lifeboat_object::chain;
use lifeboat_operation::{Clock, Operation};
use lifeboat_restore::{Env, PreviewEnd, PreviewItem, RestoreError, Settings, preview};
use lifeboat_store::Store;
use serde_json::{Value, json};
use std::error::Error;
use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Bytes of a request: more than any Restore has that an API server takes.
const MOST_ASKED: usize = 2 << 20;
/// For a client to send its request.
const ASKING: Duration = Duration::from_secs(10);
/// Plans that are made at once; each reads an archive.
const AT_ONCE: usize = 2;
/// For one plan.
const LONGEST: Duration = Duration::from_secs(600);
/// Items waiting to be sent.
const WAITING: usize = 64;

/// Makes plans.
pub(crate) struct Plans {
    client: Client,
    providers: Arc<dyn Providers>,
    buckets: Arc<Buckets>,
    settings: Settings,
    extensions: Arc<dyn Extensions>,
    clock: Clock,
    scratch: PathBuf,
    places: Arc<Semaphore>,
}

impl Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plans").field("client", &self.client).finish_non_exhaustive()
    }
}

/// The reason for which there is no plan: a status, and a text for people.
type PlanRefusal = (StatusCode, String);

impl Plans {
    /// By the settings of a server, in the namespace of the client.
    pub(crate) fn new(client: Client, buckets: Arc<Buckets>, settings: Settings, env: &crate::options::Env) -> Self {
        Self {
            client,
            providers: Arc::clone(&env.providers),
            buckets,
            settings,
            extensions: Arc::clone(&env.extensions),
            clock: Arc::clone(&env.clock.0),
            scratch: env.scratch.clone(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// The plan of the Restore in the body: a line of JSON for each object, and a last one with `end` or `error`. Without that line
    /// it is not whole. Values of Secrets are hidden.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> HttpResponse
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        match self.begin(request).await {
            Ok(lines) => {
                let pieces = lines.map(|line| Ok::<_, BucketError>(Frame::data(Bytes::from(format!("{line}\n")))));
                let mut answer = Response::new(StreamBody::new(pieces).boxed_unsync());
                let kind = HeaderValue::from_static("application/x-ndjson");
                answer.headers_mut().insert(header::CONTENT_TYPE, kind);
                answer
            }
            Err((status, why)) => {
                let mut answer = text(status, format!("{why}\n"));
                if status == StatusCode::TOO_MANY_REQUESTS {
                    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
                }
                answer
            }
        }
    }

    async fn begin<B>(&self, request: Request<B>) -> Result<BoxStream<'static, Value>, PlanRefusal>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let token = bearer(&request).ok_or_else(|| {
            (StatusCode::UNAUTHORIZED, "a plan is made with the rights of its user: send a bearer token".to_owned())
        })?;
        let body = timeout(ASKING, Limited::new(request.into_body(), MOST_ASKED).collect()).await;
        let body = body.map_err(|_| (StatusCode::REQUEST_TIMEOUT, "the request did not come to its end".to_owned()))?;
        let body = body.map_err(|e| (StatusCode::PAYLOAD_TOO_LARGE, format!("the request cannot be read: {e}")))?;
        let mut restore: Restore = serde_json::from_slice(&body.to_bytes())
            .map_err(|e| (StatusCode::BAD_REQUEST, format!("the body is no Restore: {e}")))?;
        restore.metadata.namespace.clone_from(&self.client.namespace);
        let user = self.client.cluster.by_token(&token).map_err(|e| (StatusCode::BAD_GATEWAY, chain(&e)))?;
        may_restore(&user, &self.client.namespace).await?;
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            (StatusCode::TOO_MANY_REQUESTS, format!("{AT_ONCE} plans are being made already: ask again later"))
        })?;
        // Whoever has a place gives it back in time, also when a bucket or a plugin does not answer.
        let deadline = Instant::now() + LONGEST;
        let env = timeout_at(deadline, self.env(&restore, user)).await;
        let env = env.map_err(|_| (StatusCode::GATEWAY_TIMEOUT, too_late()))??;
        let request = lifeboat_restore::Request { restore, settings: self.settings.clone() };
        Ok(lines(PlanInProgress::begin(request, env, deadline, place)).boxed())
    }

    /// The environment of the preview of a restore.
    async fn env(&self, restore: &Restore, user: Cluster) -> Result<Env, PlanRefusal> {
        let store = self.store(&restore.spec.backup_name).await?;
        let subject = format!("restore={}/{}", restore.metadata.namespace, restore.metadata.name);
        let operation = Operation::new(Arc::clone(&self.clock), &subject, self.scratch.clone());
        let actions = self.extensions.actions(&operation.journal).await;
        let actions = actions.map_err(|why| (StatusCode::BAD_GATEWAY, why))?;
        Ok(Env { cluster: user, store, actions, operation })
    }

    /// Where the backup lies, by the server's rights.
    async fn store(&self, backup: &str) -> Result<Store, PlanRefusal> {
        let failed = |why: String| (StatusCode::BAD_GATEWAY, why);
        if backup.is_empty() {
            return Err((StatusCode::BAD_REQUEST, "spec.backupName is missing: a plan is of one backup".to_owned()));
        }
        let found = self.client.get::<Backup>(backup).await.map_err(|e| failed(e.to_string()))?;
        let missing = |what: &str, name: &str| (StatusCode::NOT_FOUND, format!("there is no {what} {name}"));
        let found = found.ok_or_else(|| missing("backup", backup))?;
        let name = &found.spec.storage_location;
        let location = self.client.get::<BackupStorageLocation>(name).await.map_err(|e| failed(e.to_string()))?;
        let location = location.ok_or_else(|| missing("storage location", name))?;
        let bucket = self.buckets.open(&self.client, &*self.providers, &location, Purpose::Operation).await;
        Ok(Store::new(bucket.map_err(failed)?).with_patience(self.client.cluster.patience()))
    }
}

/// The message that the time for a plan is over.
fn too_late() -> String {
    format!("the plan was not made within {} s", LONGEST.as_secs())
}

fn bearer<B>(request: &Request<B>) -> Option<String> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim().to_owned())
}

/// Refuses a plan to a user who may not create Restores in this namespace.
async fn may_restore(user: &Cluster, namespace: &str) -> Result<(), PlanRefusal> {
    let request = AccessRequest { verb: "create", group: GROUP, resource: "restores", namespace };
    let access = user.access(request).await.map_err(|e| match e.status().map(|status| status.code) {
        Some(401) => (StatusCode::UNAUTHORIZED, "the API server does not know the token".to_owned()),
        Some(403) => (StatusCode::FORBIDDEN, e.to_string()),
        _ => (StatusCode::BAD_GATEWAY, e.to_string()),
    })?;
    let Access::Denied(why) = access else { return Ok(()) };
    let why = if why.is_empty() { why } else { format!(": {why}") };
    Err((StatusCode::FORBIDDEN, format!("the user may not create restores in the namespace {namespace}{why}")))
}

/// A plan that is being made. Dropped, it is given up.
struct PlanInProgress {
    items: mpsc::Receiver<PreviewItem>,
    preview: BoxFuture<'static, Result<PreviewEnd, RestoreError>>,
    /// The result of the preview, once it has ended.
    ended: Option<Result<PreviewEnd, RestoreError>>,
    deadline: Instant,
    _place: OwnedSemaphorePermit,
}

impl PlanInProgress {
    fn begin(request: lifeboat_restore::Request, env: Env, deadline: Instant, place: OwnedSemaphorePermit) -> Self {
        let (sender, items) = mpsc::channel(WAITING);
        let preview = async move { preview(&request, &env, sender).await }.boxed();
        Self { items, preview, ended: None, deadline, _place: place }
    }

    /// The next line, and whether it is the last one.
    async fn next(&mut self) -> (Value, bool) {
        loop {
            tokio::select! {
                biased;
                item = self.items.recv() => match item {
                    Some(mut item) => {
                        item.hide_secret_values();
                        return (item.to_json(), false);
                    }
                    // All items were sent.
                    None => return (self.end().await, true),
                },
                ended = &mut self.preview, if self.ended.is_none() => self.ended = Some(ended),
                () = sleep_until(self.deadline) => return (json!({"error": too_late()}), true),
            }
        }
    }

    async fn end(&mut self) -> Value {
        let ended = match self.ended.take() {
            Some(ended) => ended,
            None => match timeout_at(self.deadline, &mut self.preview).await {
                Ok(ended) => ended,
                Err(_) => return json!({"error": too_late()}),
            },
        };
        match ended {
            Ok(end) => json!({"end": end.to_json()}),
            Err(e) => json!({"error": e.to_string()}),
        }
    }
}

/// The lines of a plan.
fn lines(making: PlanInProgress) -> impl Stream<Item = Value> + Send {
    stream::unfold(Some(making), |making| async {
        let mut making = making?;
        let (line, is_last) = making.next().await;
        Some((line, (!is_last).then_some(making)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extensions::NoPlugins;
    use crate::stub::sandbox;
    use async_trait::async_trait;
    use http_body_util::Full;
    use lifeboat_bucket::BlobStore;
    use lifeboat_bucket::StorageAccess;
    use tokio::sync::Notify;

    #[test]
    fn who_asks_is_known_by_a_bearer_token() {
        let of = |value: Option<&str>| {
            let mut request = Request::builder();
            if let Some(value) = value {
                request = request.header(header::AUTHORIZATION, value);
            }
            bearer(&request.body(()).unwrap())
        };
        for (value, expected) in [
            (None, None),
            (Some("Basic dTpw"), None),
            (Some("Bearer"), None),
            (Some("Bearer  "), None),
            (Some("bearer abc"), Some("abc")),
            (Some("Bearer abc "), Some("abc")),
        ] {
            assert_eq!(of(value), expected.map(str::to_owned), "{value:?}");
        }
    }

    /// Storage that does not answer.
    #[derive(Debug, Default)]
    struct Hanging(Notify);

    #[async_trait]
    impl Providers for Hanging {
        async fn open(&self, _: &BackupStorageLocation, _: StorageAccess) -> Result<Arc<dyn BlobStore>, String> {
            self.0.notify_one();
            std::future::pending().await
        }

        fn may_keep(&self, _: &BackupStorageLocation) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn a_place_is_given_back_in_time_when_storage_does_not_answer() {
        let (sandbox, cluster) = sandbox().await;
        let object = |kind: &str, name: &str, spec: Value| {
            json!({"apiVersion": "velero.io/v1", "kind": kind, "spec": spec,
                "metadata": {"name": name, "namespace": "velero"}})
        };
        let location = json!({"provider": "aws", "objectStorage": {"bucket": "b"}});
        let objects =
            [object("BackupStorageLocation", "l", location), object("Backup", "b", json!({"storageLocation": "l"}))];
        sandbox.apply(objects.to_vec()).await.unwrap();
        let token = cluster.token().await.unwrap().unwrap();
        let storage = Arc::new(Hanging::default());
        let plans = Plans {
            client: Client { cluster, namespace: "velero".into() },
            providers: Arc::clone(&storage) as _,
            buckets: Arc::default(),
            settings: Settings::default(),
            extensions: Arc::new(NoPlugins),
            clock: Arc::new(|| jiff::Timestamp::UNIX_EPOCH),
            scratch: std::env::temp_dir(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
        };
        let restore = object("Restore", "r", json!({"backupName": "b"})).to_string();
        let request = Request::builder().header(header::AUTHORIZATION, format!("Bearer {token}"));
        let request = request.body(Full::new(Bytes::from(restore))).unwrap();
        let mut answer = Box::pin(plans.begin(request));
        tokio::select! {
            _ = &mut answer => panic!("storage does not answer"),
            () = storage.0.notified() => {}
        }
        assert_eq!(plans.places.available_permits(), AT_ONCE - 1);
        tokio::time::pause();
        tokio::time::advance(LONGEST).await;
        let refusal = answer.await.err();
        let late = (StatusCode::GATEWAY_TIMEOUT, "the plan was not made within 600 s".to_owned());
        assert_eq!((refusal, plans.places.available_permits()), (Some(late), AT_ONCE));
    }
}
