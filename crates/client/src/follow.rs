//! Follows one object: by a get, then by watches from its revision on, until it is gone.

use crate::client::object;
use crate::{Client, Object, api_resource};
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use bytes::Bytes;
use lifeboat_cluster::{ClusterError, Failure, ListRequest, Watch, WatchEvent, WatchRequest};
use lifeboat_object::{ApiResource, Head, chain};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The server ends a watch after this long, so that a connection that was lost in silence is noticed.
const LASTING: Duration = Duration::from_secs(60);
/// Pause after a watch that has ended or a request that has failed. Each further one doubles it, up to [`LONGEST_PAUSE`],
/// until a watch brings something.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A watch that does not begin for so long gives way to a get: something on the way may not let it through.
const OPENING: Duration = Duration::from_secs(10);
/// Between two gets, where the object may not be watched.
const LOOK: Duration = Duration::from_secs(1);

/// The state of an object that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowedObject<T> {
    /// It is like this now.
    Is(T),
    /// It was deleted, or was never there.
    Gone,
}

/// Follows an object: call [`Follow::next`] until the object is gone, or is in the state that the caller waits for.
#[derive(Debug)]
pub struct Follow<T> {
    client: Client,
    resource: Arc<ApiResource>,
    name: String,
    at: NextRequest,
    seen: Option<LastSeen>,
    /// Waited for before the next request.
    pause: Option<Duration>,
    pauses: ExponentialBackoff,
    of: PhantomData<fn() -> T>,
}

/// The state that was given last.
#[derive(Clone, Debug)]
struct LastSeen {
    uid: String,
    revision: String,
}

/// The next request.
#[derive(Debug)]
enum NextRequest {
    Get,
    /// A get gives the revision of the object, which can be too old for a watch; a list gives that of the cluster.
    List,
    /// A watch from this revision on.
    Watch(String),
    Watching(Watch),
    /// A get each second: the object may not be watched.
    Poll,
    End,
}

impl Client {
    /// Follows the object of this name. The first request is made by the first [`Follow::next`].
    #[must_use]
    pub fn follow<T: Object>(&self, name: &str) -> Follow<T> {
        Follow {
            client: self.clone(),
            resource: api_resource::<T>(),
            name: name.to_owned(),
            at: NextRequest::Get,
            seen: None,
            pause: None,
            pauses: pauses(),
            of: PhantomData,
        }
    }
}

fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::default().with_min_delay(PAUSE).with_max_delay(LONGEST_PAUSE).without_max_times().build()
}

impl<T: Object> Follow<T> {
    /// The object as it is now, and afterwards each state that it gets; in the end that it is gone, and that again and again.
    ///
    /// A state that is followed by another one while no watch runs may be left out; the last one never is. An object that
    /// takes the name of one that was deleted is another one. An API server that is away is waited for without end. Dropping
    /// the future loses no state, but a request that was made is made again.
    ///
    /// # Errors
    /// [`ClusterError`] when no later attempt would go well: the object may not be read, its type is not served, or `T`
    /// cannot hold it.
    pub async fn next(&mut self) -> Result<FollowedObject<T>, ClusterError> {
        loop {
            if let Some(pause) = self.pause {
                sleep(pause).await;
                self.pause = None;
            }
            let body = match &mut self.at {
                NextRequest::End => return Ok(FollowedObject::Gone),
                NextRequest::Get | NextRequest::Poll => self.get().await?,
                NextRequest::List => self.list().await?,
                NextRequest::Watch(from) => {
                    let from = from.clone();
                    self.begin(from).await;
                    None
                }
                NextRequest::Watching(watch) => {
                    let event = watch.next().await;
                    self.take(event)
                }
            };
            if let Some(body) = body
                && self.is_new(&body)?
            {
                return object("read", &self.name, &body).map(FollowedObject::Is);
            }
        }
    }

    async fn get(&mut self) -> Result<Option<Bytes>, ClusterError> {
        let namespace = Some(self.client.namespace.as_str());
        match self.client.cluster.get_existing(&self.resource, namespace, &self.name).await {
            Ok(body) => {
                match self.at {
                    NextRequest::Poll => self.pause = Some(LOOK),
                    _ => self.at = NextRequest::Watch(self.head(&body)?.resource_version),
                }
                Ok(Some(body))
            }
            Err(e) if e.is_not_found() && !e.is_unserved() => {
                self.at = NextRequest::End;
                Ok(None)
            }
            Err(e) => self.wait_out(e).map(|()| None),
        }
    }

    async fn list(&mut self) -> Result<Option<Bytes>, ClusterError> {
        let request = ListRequest::all(Arc::clone(&self.resource)).in_namespace(self.client.namespace.clone());
        let mut list = self.client.cluster.list(request).with_fields(self.fields());
        let mut found = None;
        loop {
            match list.next().await {
                Ok(Some(bodies)) => found = bodies.into_iter().next_back().or(found),
                Ok(None) => break,
                Err(e) if is_for_good(&e) => {
                    self.poll(&e);
                    return Ok(None);
                }
                Err(e) => return self.wait_out(e).map(|()| None),
            }
        }
        self.at = match found {
            Some(_) => NextRequest::Watch(list.end().resource_version.clone()),
            None => NextRequest::End,
        };
        Ok(found)
    }

    async fn begin(&mut self, from: String) {
        let request = WatchRequest {
            resource: Arc::clone(&self.resource),
            namespace: Some(self.client.namespace.clone()),
            selector: String::new(),
            fields: self.fields(),
            resource_version: from,
            lasting: LASTING,
        };
        match timeout(OPENING, self.client.cluster.watch(&request)).await {
            Ok(Ok(watch)) => self.at = NextRequest::Watching(watch),
            Ok(Err(e)) => self.begin_again(&e),
            Err(_) => self.after_a_pause(NextRequest::Get),
        }
    }

    /// Takes an event of the watch; gives the object when the event has a state of it.
    fn take(&mut self, event: Result<Option<WatchEvent>, ClusterError>) -> Option<Bytes> {
        match event {
            Ok(Some(event)) => {
                self.pauses = pauses();
                match event {
                    WatchEvent::Applied(body) => return Some(body),
                    WatchEvent::Deleted(_) => self.at = NextRequest::End,
                    WatchEvent::Bookmark(_) => {}
                }
            }
            Ok(None) => self.after_a_pause(NextRequest::Get),
            Err(e) => self.begin_again(&e),
        }
        None
    }

    /// After a watch that could not be begun, or has broken.
    fn begin_again(&mut self, error: &ClusterError) {
        if is_for_good(error) {
            return self.poll(error);
        }
        tracing::debug!(name = self.name, %error, "the watch is begun again");
        self.after_a_pause(if error.is_expired() { NextRequest::List } else { NextRequest::Get });
    }

    fn after_a_pause(&mut self, at: NextRequest) {
        self.at = at;
        self.pause = self.pauses.next();
    }

    /// Goes on by gets alone. They fail too, if it is not only the watch that is refused.
    fn poll(&mut self, error: &ClusterError) {
        tracing::debug!(name = self.name, %error, "it is read each second instead");
        self.at = NextRequest::Poll;
    }

    /// Lets a failed read pause before it is made again, or gives the failure back when that would not help.
    fn wait_out(&mut self, error: ClusterError) -> Result<(), ClusterError> {
        if !error.can_pass() || matches!(error.failure, Failure::Invalid(_)) {
            return Err(error);
        }
        tracing::warn!(name = self.name, %error, "lost sight, looking again");
        self.pause = self.pauses.next();
        Ok(())
    }

    /// Returns true if this state was not given yet. A state of another object with the same name ends the following.
    fn is_new(&mut self, body: &[u8]) -> Result<bool, ClusterError> {
        let Head { uid, resource_version: revision, .. } = self.head(body)?;
        if let Some(seen) = &self.seen {
            if seen.uid != uid {
                self.at = NextRequest::End;
                return Ok(false);
            }
            if seen.revision == revision {
                return Ok(false);
            }
        }
        self.seen = Some(LastSeen { uid, revision });
        Ok(true)
    }

    fn head(&self, body: &[u8]) -> Result<Head, ClusterError> {
        Head::parse(body).map_err(|e| ClusterError {
            verb: "read",
            what: self.name.clone(),
            failure: Failure::Invalid(chain(&e)),
        })
    }

    fn fields(&self) -> String {
        format!("metadata.name={}", self.name)
    }
}

/// Returns true if the server would refuse the same request again.
fn is_for_good(error: &ClusterError) -> bool {
    error.status().is_some_and(|status| (400..500).contains(&status.code) && !matches!(status.code, 408 | 410 | 429))
}

#[cfg(test)]
mod tests;
