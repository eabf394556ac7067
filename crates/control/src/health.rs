//! Health of the server, for liveness and readiness probes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The loop looks at everything once a minute at least; after this long without a look it hangs.
const LONGEST: Duration = Duration::from_secs(180);

/// The state of the server. Written by the one loop, read by probes.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<HealthState>);

#[derive(Clone, Copy, Debug, Default)]
enum HealthState {
    #[default]
    Starting,
    Waiting(&'static str),
    StandsBy,
    /// Leads since, without having seen all resources yet.
    Leads(Option<Instant>),
}

impl Health {
    fn set(&self, state: HealthState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn get(&self) -> HealthState {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the server waits before it can take part. That counts as ready: otherwise a rollout that replaces the
    /// awaited server would wait for us.
    pub(crate) fn waits(&self, what: &'static str) {
        self.set(HealthState::Waiting(what));
    }

    /// Notes that another server leads.
    pub(crate) fn stands_by(&self) {
        self.set(HealthState::StandsBy);
    }

    /// Notes that this server leads from now on.
    pub(crate) fn leads(&self) {
        self.set(HealthState::Leads(None));
    }

    /// Notes that the loop has looked at everything.
    pub(crate) fn looked(&self, at: Instant) {
        self.set(HealthState::Leads(Some(at)));
    }

    /// Tells whether the process should go on; the error is the reason to restart it.
    pub(crate) fn is_alive(&self) -> Result<&'static str, &'static str> {
        match self.get() {
            HealthState::Leads(Some(at)) if at.elapsed() > LONGEST => Err("the loop hangs"),
            _ => Ok("ok"),
        }
    }

    /// Tells whether the server does its part: it leads with all resources in sight, or is ready to take over. The
    /// error says what is missing.
    pub(crate) fn is_ready(&self) -> Result<&'static str, &'static str> {
        match self.get() {
            HealthState::Starting => Err("starting"),
            HealthState::Waiting(what) => Ok(what),
            HealthState::StandsBy => Ok("standing by"),
            HealthState::Leads(None) => Err("reading the resources"),
            HealthState::Leads(Some(at)) if at.elapsed() > LONGEST => Err("the loop hangs"),
            HealthState::Leads(Some(_)) => Ok("leading"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_hangs_is_not_well() {
        let health = Health::default();
        health.waits("a Velero server runs");
        assert_eq!((health.is_alive(), health.is_ready()), (Ok("ok"), Ok("a Velero server runs")));
        let Some(long_ago) = Instant::now().checked_sub(LONGEST * 2) else { return };
        health.looked(long_ago);
        assert_eq!((health.is_alive(), health.is_ready()), (Err("the loop hangs"), Err("the loop hangs")));
    }
}
