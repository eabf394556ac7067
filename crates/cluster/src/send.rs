//! Sends a request, with deadline and retries.

use crate::{ApiStatus, Cluster, ClusterError, Failure};
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use lifeboat_object::chain;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Time limit of one attempt; the API server ends requests after 60 s itself.
const ATTEMPT: Duration = Duration::from_secs(70);
/// Default time limit of all attempts together.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// The first pause; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause between attempts when the server names none.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause that a server can ask for; a longer one is cut to this.
const LONGEST_NAMED: Duration = Duration::from_secs(60);
/// Largest answer that is taken into memory.
const LARGEST: usize = 128 << 20;

/// A request that can be made again.
#[derive(Clone)]
pub(crate) struct ApiCall {
    pub(crate) verb: &'static str,
    pub(crate) what: String,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) accept: Option<&'static str>,
    pub(crate) body: Option<(&'static str, Bytes)>,
}

impl Cluster {
    /// Sends a GET and gives the whole answer.
    pub(crate) async fn read(
        &self,
        verb: &'static str,
        what: &str,
        path: &str,
        accept: Option<&'static str>,
    ) -> Result<Bytes, ClusterError> {
        let call =
            ApiCall { verb, what: what.to_owned(), method: Method::GET, path: path.to_owned(), accept, body: None };
        self.call(&call).await
    }

    /// Sends a request and gives the whole answer. Sends it again until the deadline after 429, after a server error that
    /// can pass, and after a broken connection. When a create took effect before the connection broke, its repetition is
    /// answered "already exists".
    pub(crate) async fn call(&self, call: &ApiCall) -> Result<Bytes, ClusterError> {
        self.attempts(call, || self.whole(call)).await
    }

    /// Sends a request and gives the answer as soon as its head is there; the body comes as it is read. Until then, sends it
    /// again as [`Cluster::call`] does.
    pub(crate) async fn open(&self, call: &ApiCall) -> Result<Response<Body>, ClusterError> {
        self.attempts(call, || self.head(call)).await
    }

    async fn attempts<T, F>(&self, call: &ApiCall, mut attempt: impl FnMut() -> F) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let deadline = Instant::now() + self.patience;
        // However short the patience is, it leaves time for a second attempt.
        let most = ATTEMPT.min(self.patience / 2);
        let mut tries = 0;
        let mut before = None;
        loop {
            let began = Instant::now();
            let failure = match timeout_at(deadline.min(began + most), attempt()).await {
                Ok(Ok(done)) => {
                    self.note_answer(before.as_ref());
                    return Ok(done);
                }
                Ok(Err(failure)) => {
                    if is_final_answer(&failure) {
                        self.note_answer(before.as_ref());
                    }
                    failure
                }
                // An attempt that the deadline cut short says nothing; the failure before it does.
                Err(_) => match before.filter(|_| deadline < began + most) {
                    Some(failure) => failure,
                    None => Failure::Timeout(began.elapsed()),
                },
            };
            tries += 1;
            let deadline = self.common_deadline(&failure).map_or(deadline, |common| common.min(deadline));
            before = Some(self.pause_or_give_up(call, failure, tries, deadline).await?);
        }
    }

    /// Notes for the requests that belong together that this one is answered for good, after this failure.
    fn note_answer(&self, before: Option<&Failure>) {
        if let Some(trouble) = &self.trouble {
            trouble.passed(before);
        }
    }

    /// When a request that has failed like this is tried again no more, because all that belong together have failed for so long;
    /// `None` when it is not tried again anyway, or goes by itself.
    fn common_deadline(&self, failure: &Failure) -> Option<Instant> {
        let trouble = self.trouble.as_ref().filter(|_| pause(failure, 1).is_some())?;
        Some(trouble.since(failure) + self.patience)
    }

    /// Waits before the next attempt and gives the failure back, or gives up with it.
    pub(crate) async fn pause_or_give_up(
        &self,
        call: &ApiCall,
        failure: Failure,
        tries: u32,
        deadline: Instant,
    ) -> Result<Failure, ClusterError> {
        if let Failure::Api(status) = &failure
            && matches!(status.code, 429 | 503)
        {
            self.pace.slow_down();
        }
        match pause(&failure, tries) {
            Some(pause) if pause < deadline.saturating_duration_since(Instant::now()) => {
                tracing::debug!(verb = call.verb, what = call.what, tries, %failure, "trying again");
                sleep(pause).await;
                Ok(failure)
            }
            _ => Err(ClusterError { verb: call.verb, what: call.what.clone(), failure }),
        }
    }

    async fn whole(&self, call: &ApiCall) -> Result<Bytes, Failure> {
        let response = self.head(call).await?;
        collect(response.into_body()).await
    }

    async fn head(&self, call: &ApiCall) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder().method(&call.method).uri(&call.path);
        request = request.header(ACCEPT, call.accept.unwrap_or("application/json"));
        let body = match &call.body {
            None => Body::empty(),
            Some((content_type, bytes)) => {
                request = request.header(CONTENT_TYPE, *content_type);
                Body::from(bytes.to_vec())
            }
        };
        let request = request.body(body).map_err(|e| Failure::Invalid(e.to_string()))?;
        let response = self.client.send(request).await.map_err(|e| Failure::connection(&e, &self.address.url))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.parse().ok())
            .map(Duration::from_secs);
        let body = collect(response.into_body()).await.unwrap_or_default();
        Err(Failure::Api(Box::new(ApiStatus::parse(code, retry_after, &body))))
    }
}

async fn collect(body: Body) -> Result<Bytes, Failure> {
    match Limited::new(body, LARGEST).collect().await {
        Ok(all) => Ok(all.to_bytes()),
        Err(e) => Err(Failure::Connection { message: chain(&*e) }),
    }
}

/// The pause before the next attempt; `None` when the next attempt would get the same response.
fn pause(failure: &Failure, tries: u32) -> Option<Duration> {
    let pauses = ExponentialBuilder::default().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
    let ours = pauses.without_max_times().build().nth(tries.min(10) as usize).unwrap_or(LONGEST_PAUSE);
    match failure {
        Failure::Api(status) if !may_pass(status) => None,
        Failure::Invalid(_) => None,
        Failure::Api(status) => Some(status.retry_after.map_or(ours, |named| named.min(LONGEST_NAMED))),
        _ => Some(ours),
    }
}

/// Says whether this is the answer of a server that works: one that a later attempt would get again, such as "already exists"
/// of a create that was carried out before.
fn is_final_answer(failure: &Failure) -> bool {
    matches!(failure, Failure::Api(_)) && pause(failure, 1).is_none()
}

/// Returns true if a later attempt may get another response. A server answers 500, among others, while etcd changes its
/// leader. A webhook that does not answer may need objects that a restore has yet to make, so the caller decides about
/// waiting.
fn may_pass(status: &ApiStatus) -> bool {
    match status.code {
        429 | 502 | 503 | 504 => true,
        500 => {
            let says = |text: &str| status.message.contains(text);
            status.reason != "Invalid"
                && !status.is_too_large()
                && !says("conversion webhook")
                && !says("failed calling webhook")
        }
        _ => false,
    }
}

/// Parses an answer.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(
    verb: &'static str,
    what: &str,
    body: &[u8],
) -> Result<T, ClusterError> {
    serde_json::from_slice(body).map_err(|e| ClusterError {
        verb,
        what: what.to_owned(),
        failure: Failure::Invalid(e.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_waits_for_is_not_tried_again_here() {
        for (code, reason, message, expected) in [
            (429, "", "", true),
            (503, "", "", true),
            (500, "InternalError", "etcdserver: leader changed", true),
            (500, "Invalid", "", false),
            (500, "", "etcdserver: request is too large", false),
            (
                500,
                "",
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2 vs. 1)",
                false,
            ),
            (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", false),
            (500, "InternalError", "failed calling webhook \"a.example.com\"", false),
            (500, "InternalError", "conversion webhook for b failed", false),
            (404, "NotFound", "", false),
            (409, "Conflict", "", false),
        ] {
            let status = ApiStatus { code, reason: reason.into(), message: message.into(), ..ApiStatus::default() };
            assert_eq!(may_pass(&status), expected, "{code} {reason} {message}");
        }
    }
    #[test]
    fn a_server_cannot_ask_for_a_pause_without_end() {
        let refused = |seconds: Option<u64>| {
            let retry_after = seconds.map(Duration::from_secs);
            Failure::Api(Box::new(ApiStatus { code: 429, retry_after, ..ApiStatus::default() }))
        };
        for (failure, tries, expected) in [
            (refused(Some(3)), 1, Some(3_000)),
            (refused(Some(0)), 1, Some(0)),
            (refused(Some(u64::MAX)), 1, Some(60_000)),
            (refused(None), 1, Some(100)),
            (refused(None), u32::MAX, Some(5_000)),
            (Failure::Timeout(Duration::ZERO), 2, Some(200)),
            (Failure::Invalid(String::new()), 1, None),
            (Failure::Api(Box::new(ApiStatus { code: 404, ..ApiStatus::default() })), 1, None),
        ] {
            let found = pause(&failure, tries).map(|pause| pause.as_millis());
            assert_eq!(found, expected, "{failure:?} {tries}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_share_a_common_patience_and_try_once_each_when_it_is_over() {
        let cluster = Cluster::nowhere(Duration::from_secs(180)).with_common_patience();
        let call = ApiCall {
            verb: "get",
            what: "x".to_owned(),
            method: Method::GET,
            path: "/".to_owned(),
            accept: None,
            body: None,
        };
        let refused = || Failure::Api(Box::new(ApiStatus { code: 500, ..ApiStatus::default() }));
        let broken = || Failure::Unreachable { message: String::new() };
        /// Seconds until a request that always fails like this, and then perhaps goes well, is over.
        async fn took(cluster: &Cluster, call: &ApiCall, fails: impl Fn() -> Failure, times: usize) -> u64 {
            let (begun, tries) = (Instant::now(), std::cell::Cell::new(0));
            let attempt = || {
                tries.set(tries.get() + 1);
                std::future::ready(if tries.get() > times { Ok(()) } else { Err(fails()) })
            };
            let _ = cluster.attempts(call, attempt).await;
            begun.elapsed().as_secs()
        }
        const ALWAYS: usize = usize::MAX;
        let over = Duration::from_secs(10);
        let first = took(&cluster, &call, refused, ALWAYS).await;
        tokio::time::advance(over).await;
        let later = [took(&cluster, &call, refused, ALWAYS).await, took(&cluster, &call, broken, 3).await];
        assert!((170..=180).contains(&first) && later == [0, 0], "{first} {later:?}");
        // Others that go well say nothing about what was refused.
        assert_eq!(took(&cluster, &call, refused, ALWAYS).await, 0);
        let first = took(&cluster, &call, broken, ALWAYS).await;
        tokio::time::advance(over).await;
        let later = took(&cluster, &call, broken, ALWAYS).await;
        assert!((170..=180).contains(&first) && later == 0, "{first} {later}");
        // Any answer says that the server is there.
        took(&cluster, &call, broken, 0).await;
        assert!(took(&cluster, &call, broken, ALWAYS).await >= 170);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_tried_again_after_a_refusal_that_has_passed_or_is_old() {
        let refused =
            |code| -> Result<(), Failure> { Err(Failure::Api(Box::new(ApiStatus { code, ..ApiStatus::default() }))) };
        /// The number of attempts that a request makes to which these are the answers, the last for ever.
        async fn tries(cluster: &Cluster, answers: &[&dyn Fn() -> Result<(), Failure>]) -> usize {
            let call = ApiCall {
                verb: "create",
                what: "x".to_owned(),
                method: Method::POST,
                path: "/".to_owned(),
                accept: None,
                body: None,
            };
            let tries = std::cell::Cell::new(0);
            let attempt = || {
                tries.set(tries.get() + 1);
                std::future::ready(answers[tries.get().min(answers.len()) - 1]())
            };
            let _ = cluster.attempts(&call, attempt).await;
            tries.get()
        }
        let (busy, exists, done) = (|| refused(503), || refused(409), || -> Result<(), Failure> { Ok(()) });
        let (over, an_hour) = (Duration::from_secs(10), Duration::from_secs(3_600));

        // It was carried out, and its repetition is answered so.
        let cluster = Cluster::nowhere(Duration::from_secs(180)).with_common_patience();
        assert_eq!(tries(&cluster, &[&busy, &exists]).await, 2);
        tokio::time::advance(an_hour).await;
        assert_eq!(tries(&cluster, &[&busy, &done]).await, 2);

        // One that never goes well ends the patience for what comes soon after it, and not for what comes later.
        assert!(tries(&cluster, &[&busy]).await > 2);
        tokio::time::advance(over).await;
        assert_eq!(tries(&cluster, &[&done]).await, 1);
        assert_eq!(tries(&cluster, &[&busy, &done]).await, 1);
        assert_eq!(tries(&cluster, &[&done]).await, 1);
        tokio::time::advance(an_hour).await;
        assert_eq!(tries(&cluster, &[&busy, &done]).await, 2);

        // Where nothing goes well the time alone changes nothing.
        assert!(tries(&cluster, &[&busy]).await > 2);
        tokio::time::advance(an_hour).await;
        assert_eq!(tries(&cluster, &[&busy, &done]).await, 1);
    }

    /// A pause that was added to the clock without a look would end the task that waits.
    #[tokio::test]
    async fn a_pause_beyond_the_end_of_time_lasts_no_longer_than_the_deadline() {
        let cluster = Cluster::nowhere(Duration::from_secs(10));
        let call = ApiCall {
            verb: "get",
            what: "x".to_owned(),
            method: Method::GET,
            path: "/".to_owned(),
            accept: None,
            body: None,
        };
        let status = ApiStatus { code: 429, retry_after: Some(Duration::MAX), ..ApiStatus::default() };
        let deadline = Instant::now() + Duration::from_secs(10);
        assert!(cluster.pause_or_give_up(&call, Failure::Api(Box::new(status)), 1, deadline).await.is_err());
    }
}
