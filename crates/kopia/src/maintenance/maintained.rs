//! A repository that is to be maintained, and the plan for it.

use super::delays::Delays;
use super::gather::{self, State};
use super::plan::schedule::{self, Due, Mode};
use super::plan::{Plan, View, plan};
use super::report::Requested;
use super::storage_clock::StorageClock;
use crate::crypto::Password;
use crate::format::maintenance::{MaintenanceParameters, Schedule};
use crate::format::time::UnixNanos;
use crate::{KopiaError, OpenOptions, Repository};
use lifeboat_bucket::BlobStore;
use std::sync::Arc;

/// A repository that is to be maintained. Its clock is that of the storage, as soon as that is known.
#[derive(Debug)]
pub struct Maintenance {
    pub(super) repository: Repository,
    pub(super) clock: StorageClock,
    pub(super) delays: Delays,
}

/// The things by which a plan is made, beside the state.
pub(super) struct Basis<'a> {
    pub(super) mode: Mode,
    pub(super) schedule: &'a Schedule,
    pub(super) parameters: &'a MaintenanceParameters,
    pub(super) now: UnixNanos,
}

impl Maintenance {
    /// Opens a repository to maintain it.
    ///
    /// # Errors
    /// As [`Repository::open`].
    pub async fn open(store: Arc<dyn BlobStore>, password: Password, options: OpenOptions) -> Result<Self, KopiaError> {
        let clock = StorageClock::new(options.clock.clone());
        let options = OpenOptions { clock: clock.clock(), ..options };
        let repository = Repository::open(store, password, options).await?;
        Ok(Self::new(repository, clock))
    }

    /// Takes a repository that was opened with this clock.
    pub fn new(repository: Repository, clock: StorageClock) -> Self {
        Self { repository, clock, delays: Delays::SAFE }
    }

    /// The repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    pub(super) async fn gather(&self, basis: &Basis<'_>) -> Result<State, KopiaError> {
        match basis.mode {
            Mode::Quick => gather::lists(&self.repository).await,
            Mode::Full => gather::everything(&self.repository, basis.schedule, self.delays, basis.now).await,
        }
    }

    pub(super) fn plan(&self, basis: &Basis<'_>, state: &State) -> Plan {
        let format = self.repository.format();
        let survey = match &state.data {
            Some(data) if state.problems.is_empty() => Ok(&data.survey),
            _ => Err(state.problems.as_slice()),
        };
        plan(&View {
            mode: basis.mode,
            now: basis.now,
            delays: self.delays,
            schedule: basis.schedule,
            parameters: basis.parameters,
            epochs: &format.epochs,
            max_pack_size: format.max_pack_size,
            retention: state.retention,
            indexes: &state.indexes,
            logs: &state.logs,
            survey,
        })
    }
}

/// Decides which maintenance is due.
pub(super) fn due(
    requested: Requested,
    schedule: &Schedule,
    parameters: &MaintenanceParameters,
    now: UnixNanos,
) -> Due {
    match requested {
        Requested::Due => schedule::due(schedule, parameters, now),
        Requested::Now(mode) => Due { mode: Some(mode), reason: format!("{mode} maintenance was asked for") },
    }
}
