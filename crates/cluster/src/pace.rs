//! Limits how many writes are made at once, and how many a second.

use crate::ClusterError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Limits that a user sets.
#[derive(Clone, Copy, Debug)]
pub struct PaceOptions {
    /// Writes a second; `None` for as many as the server answers well.
    pub qps: Option<f64>,
    /// Writes that may be made at once after a pause, when `qps` is set.
    pub burst: u32,
    /// Writes in flight at the most.
    pub most: u32,
}

impl Default for PaceOptions {
    fn default() -> Self {
        Self { qps: None, burst: 100, most: 64 }
    }
}

/// Allows as many writes at once as the server answers well. The number grows while answers stay as quick as the quickest
/// seen, shrinks when they slow down, and is cut by half when the server refuses with 429 or 503.
#[derive(Debug)]
pub struct Pace {
    options: PaceOptions,
    state: Mutex<PaceState>,
    changed: Notify,
}

#[derive(Debug)]
struct PaceState {
    limit: f64,
    in_flight: u32,
    /// Latency of the quickest response. It grows slowly, so that an old one is forgotten.
    best: Option<Duration>,
    recent: Option<Duration>,
    cut: Option<Instant>,
    tokens: f64,
    refilled: Instant,
}

/// The right to make one write. [`Permit::leave`] gives it back.
#[must_use]
#[derive(Debug)]
pub struct Permit<'a> {
    pace: &'a Pace,
    began: Instant,
}

const FEWEST: f64 = 2.0;
const FIRST: f64 = 16.0;
/// The longest wait for a token before [`Pace::enter`] looks for one again.
const LONGEST: Duration = Duration::from_secs(3600);

impl Pace {
    /// A pace with these limits.
    #[must_use]
    pub fn new(options: PaceOptions) -> Self {
        let state = PaceState {
            limit: FIRST.min(f64::from(options.most.max(1))),
            in_flight: 0,
            best: None,
            recent: None,
            cut: None,
            tokens: f64::from(options.burst.max(1)),
            refilled: Instant::now(),
        };
        Self { options, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Writes that may be in flight right now.
    #[must_use]
    pub fn limit(&self) -> usize {
        // Between FEWEST and `most`.
        self.lock().limit as usize
    }

    /// The most that will ever be in flight: how many tasks are worth starting.
    #[must_use]
    pub fn most(&self) -> usize {
        self.options.most.max(1) as usize
    }

    /// Waits for the right to write.
    pub async fn enter(&self) -> Permit<'_> {
        loop {
            let changed = self.changed.notified();
            let wait = {
                let mut state = self.lock();
                if f64::from(state.in_flight) < state.limit.floor().max(1.0) {
                    match self.token(&mut state) {
                        None => {
                            state.in_flight += 1;
                            return Permit { pace: self, began: Instant::now() };
                        }
                        until => until,
                    }
                } else {
                    None
                }
            };
            match wait {
                Some(until) => sleep_until(until).await,
                None => changed.await,
            }
        }
    }

    /// Takes a token of the rate limit, or says when there will be one.
    fn token(&self, state: &mut PaceState) -> Option<Instant> {
        let qps = self.options.qps.filter(|q| *q > 0.0)?;
        let now = Instant::now();
        let passed = now.duration_since(state.refilled).as_secs_f64();
        state.tokens = (state.tokens + passed * qps).min(f64::from(self.options.burst.max(1)));
        state.refilled = now;
        if state.tokens >= 1.0 {
            state.tokens -= 1.0;
            return None;
        }
        let wait = Duration::try_from_secs_f64((1.0 - state.tokens) / qps).unwrap_or(LONGEST).min(LONGEST);
        Some(now + wait)
    }

    fn lock(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the number of writes because the server refused a request for now. The client repeats that request by itself.
    pub(crate) fn slow_down(&self) {
        self.adjust(Duration::ZERO, true);
    }

    fn adjust(&self, took: Duration, refused: bool) {
        let mut state = self.lock();
        let now = Instant::now();
        if refused {
            // One cut per wave of refusals.
            if state.cut.is_none_or(|at| now.duration_since(at) > Duration::from_secs(1)) {
                state.limit = (state.limit / 2.0).max(FEWEST);
                state.cut = Some(now);
            }
            return;
        }
        let recent = state.recent.map_or(took, |r| (r * 7 + took) / 8);
        let best = state.best.map_or(took, |b| (b + b / 256).min(took));
        state.recent = Some(recent);
        state.best = Some(best);
        // A queue in the server shows as answers much slower than the quickest. Throughput still grows a while
        // with it, so only a clear multiple counts.
        let per_answer = 1.0 / state.limit;
        if recent > best * 12 + Duration::from_millis(50) {
            state.limit = (state.limit - per_answer).max(FEWEST);
        } else {
            state.limit = (state.limit + per_answer).min(f64::from(self.options.most.max(1)));
        }
    }
}

impl Permit<'_> {
    /// Gives the right back, and lets the pace learn from how the write went.
    pub fn leave<T>(self, result: &Result<T, ClusterError>) {
        let refused = match result {
            Ok(_) => false,
            Err(e) => e.status().is_none_or(|s| matches!(s.code, 429 | 503)),
        };
        self.pace.adjust(self.began.elapsed(), refused);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.pace.lock().in_flight -= 1;
        self.pace.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ApiStatus, Failure};

    fn refused() -> Result<(), ClusterError> {
        let failure = Failure::Api(Box::new(ApiStatus { code: 429, ..ApiStatus::default() }));
        Err(ClusterError { verb: "create", what: String::new(), failure })
    }

    #[tokio::test(start_paused = true)]
    async fn grows_while_answers_are_quick_and_halves_when_refused() {
        let pace = Pace::new(PaceOptions { most: 32, ..PaceOptions::default() });
        for _ in 0..1000 {
            pace.enter().await.leave(&Ok(()));
        }
        assert_eq!(pace.limit(), 32);
        pace.enter().await.leave(&refused());
        pace.enter().await.leave(&refused());
        assert_eq!(pace.limit(), 16, "one cut per wave");
        tokio::time::advance(Duration::from_secs(2)).await;
        pace.enter().await.leave(&refused());
        assert_eq!(pace.limit(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_kept_after_the_burst() {
        let pace = Pace::new(PaceOptions { qps: Some(10.0), burst: 5, most: 8 });
        let began = Instant::now();
        for _ in 0..25 {
            pace.enter().await.leave(&Ok(()));
        }
        let took = began.elapsed();
        assert!((Duration::from_millis(1950)..Duration::from_millis(2100)).contains(&took), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_permit_is_given_back() {
        let pace = Pace::new(PaceOptions { most: 1, ..PaceOptions::default() });
        drop(pace.enter().await);
        pace.enter().await.leave(&Ok(()));
    }
}
