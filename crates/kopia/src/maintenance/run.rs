//! A run of maintenance: claim, look, plan, perform, record.

use super::claim::{Claim, refuse_beside_others};
use super::delays::Delays;
use super::gather::{self, State};
use super::perform::Work;
use super::plan::schedule::{self, Due, Mode};
use super::plan::{Action, Plan, REWRITES, Step, View, plan};
use super::settings::StoredSchedule;
use super::storage_clock::StorageClock;
use crate::crypto::Password;
use crate::format::maintenance::{MaintenanceParameters, Run, Schedule};
use crate::format::time::UnixNanos;
use crate::{KopiaError, OpenOptions, Repository, WriteOptions};
use futures::TryStreamExt;
use lifeboat_bucket::{BlobStore, ErrorKind};
use std::sync::Arc;

/// The error of a rewrite whose end was not recorded.
const UNFINISHED: &str = "it has not ended";

/// The kind of maintenance that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// The kind that is due.
    Due,
    /// This kind, due or not.
    Now(Mode),
}

/// Options of a run.
#[derive(Debug, Clone)]
pub struct MaintenanceOptions {
    /// The kind.
    pub requested: Requested,
    /// The `user@host` that runs it: only the owner may.
    pub identity: String,
    /// Options of writing.
    pub write: WriteOptions,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaintenanceReport {
    /// The kind, and the reason; nothing was due where there is none.
    pub due: Due,
    /// The steps, as far as they were performed.
    pub steps: Vec<StepReport>,
    /// The plan; `None` where nothing was due.
    pub plan: Option<Plan>,
    /// The reason for which the storage took no new blob, so that only deletions were performed at first.
    pub takes_no_blobs: Option<String>,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepReport {
    /// The step with its reason.
    pub step: String,
    /// The error; `None` where it succeeded.
    pub error: Option<String>,
}

/// The plan of a run that is not performed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The kind, and the reason.
    pub due: Due,
    /// The plan; `None` where nothing is due.
    pub plan: Option<Plan>,
}

/// A repository that is to be maintained. Its clock is that of the storage, as soon as that is known.
#[derive(Debug)]
pub struct Maintenance {
    repository: Repository,
    clock: StorageClock,
    delays: Delays,
}

/// The things by which a plan is made, beside the state.
struct Basis<'a> {
    mode: Mode,
    schedule: &'a Schedule,
    parameters: &'a MaintenanceParameters,
    now: UnixNanos,
}

/// The things that stay the same during a run.
struct Frame<'a> {
    options: &'a MaintenanceOptions,
    claim: &'a Claim,
    state: &'a State,
    now: UnixNanos,
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

    /// Plans a run by the clock of this machine. Nothing is written.
    ///
    /// # Errors
    /// Errors of the bucket; manifests or a schedule that cannot be read.
    pub async fn preview(&self, requested: Requested) -> Result<Preview, KopiaError> {
        let parameters = self.repository.maintenance_parameters().await?;
        let schedule = self.repository.maintenance_schedule().await?;
        let now = self.clock.now();
        let due = due(requested, &schedule, &parameters, now);
        let Some(mode) = due.mode else { return Ok(Preview { due, plan: None }) };
        let basis = Basis { mode, schedule: &schedule, parameters: &parameters, now };
        let state = self.gather(&basis).await?;
        let plan = self.plan(&basis, &state);
        Ok(Preview { due, plan: Some(plan) })
    }

    /// Runs maintenance. Each step is told before it begins. A step that fails leaves the others.
    ///
    /// # Errors
    /// Somebody else owns it, or runs it now; an upgrade; what the plan needs cannot be read; those of the bucket.
    pub async fn run(
        &self,
        options: &MaintenanceOptions,
        on_step: impl Fn(&Step),
    ) -> Result<MaintenanceReport, KopiaError> {
        self.repository.contents().refresh().await?;
        let parameters = self.repository.maintenance_parameters().await?;
        schedule::refuse_stranger(&parameters, &options.identity).map_err(|why| KopiaError::NotMaintained { why })?;
        let mut takes_no_blobs = None;
        let mut first_steps = Vec::new();
        let mut claim = self.claim(options).await;
        if let Err(KopiaError::Bucket(error)) = &claim
            && error.operation == "put"
            && error.kind != ErrorKind::Denied
        {
            let why = error.to_string();
            takes_no_blobs = Some(why);
            first_steps = self.only_delete(options, &parameters, &on_step).await?;
            let is_freed = first_steps.iter().any(|step| step.error.is_none());
            claim = match self.claim(options).await {
                Err(KopiaError::Bucket(error)) if is_freed && error.operation == "put" => {
                    let reason = "as much as can be deleted in a full bucket".to_owned();
                    let due = Due { mode: Some(Mode::Full), reason };
                    return Ok(MaintenanceReport { due, steps: first_steps, plan: None, takes_no_blobs });
                }
                claim => claim,
            };
        }
        let claim = claim?;
        let result = self.claimed(options, &parameters, &claim, &on_step).await;
        let released = claim.release().await;
        let mut report = result?;
        released?;
        report.steps.splice(0..0, first_steps);
        Ok(MaintenanceReport { takes_no_blobs, ..report })
    }

    async fn claim(&self, options: &MaintenanceOptions) -> Result<Claim, KopiaError> {
        Claim::take(self.repository.blobs(), &options.identity, &options.write.random, &self.clock).await
    }

    async fn claimed(
        &self,
        options: &MaintenanceOptions,
        parameters: &MaintenanceParameters,
        claim: &Claim,
        on_step: &impl Fn(&Step),
    ) -> Result<MaintenanceReport, KopiaError> {
        let now = claim.begun();
        let format = self.repository.format();
        let mut schedule = StoredSchedule::load(self.repository.blobs(), &format).await?;
        let due = due(options.requested, &schedule.schedule, parameters, now);
        let Some(mode) = due.mode else {
            return Ok(MaintenanceReport { due, steps: Vec::new(), plan: None, takes_no_blobs: None });
        };
        schedule::begin(&mut schedule.schedule, parameters, mode, now);
        // Only what was recorded counts below; that the storage takes no schedule keeps nobody from deleting.
        tell_apart(schedule.save(&options.write.random).await)?;
        let basis = Basis { mode, schedule: &schedule.schedule, parameters, now };
        let state = claim.during(self.gather(&basis)).await?;
        let plan = self.plan(&basis, &state);
        let frame = Frame { options, claim, state: &state, now };
        let steps = self.perform(&frame, &plan, &mut schedule, on_step).await?;
        Ok(MaintenanceReport { due, steps, plan: Some(plan), takes_no_blobs: None })
    }

    async fn perform(
        &self,
        frame: &Frame<'_>,
        plan: &Plan,
        schedule: &mut StoredSchedule,
        on_step: &impl Fn(&Step),
    ) -> Result<Vec<StepReport>, KopiaError> {
        let random = &frame.options.write.random;
        let mut reports = Vec::new();
        let mut has_collected = false;
        for step in &plan.steps {
            on_step(step);
            let task = step.action.task(plan.mode);
            let started = self.clock.now();
            let mut result = Ok(());
            if copies(&step.action) {
                // Deletions wait after it, also where its end is never recorded.
                let error = UNFINISHED.to_owned();
                let run = Run { start: Some(started), end: Some(started), success: false, error, extra: None };
                schedule.schedule.record(REWRITES[0], run);
                result = schedule.save(random).await;
            }
            if result.is_ok() {
                schedule.check().await?;
                let work = async {
                    // A writer whose put has failed writes nothing more.
                    let writer = self.repository.writer(frame.options.write.clone()).await?;
                    let mut work = Work {
                        repository: &self.repository,
                        contents: writer.contents(),
                        data: frame.state.data.as_ref(),
                        now: frame.now,
                        has_collected,
                    };
                    work.perform(&step.action).await?;
                    Ok(work.has_collected)
                };
                result = frame.claim.during(work).await.map(|collected| has_collected = collected);
            }
            let error = tell_apart(result)?;
            reports.push(StepReport { step: step.to_string(), error: error.clone() });
            let mut run = Run {
                start: Some(started),
                end: Some(self.clock.now()),
                success: error.is_none(),
                error: error.unwrap_or_default(),
                extra: None,
            };
            if copies(&step.action) {
                let runs = schedule.schedule.runs.entry(REWRITES[0].to_owned()).or_default();
                runs.retain(|run| run.error != UNFINISHED || run.start != Some(started));
                schedule.schedule.record(REWRITES[0], run.clone());
            }
            if matches!(step.action, Action::Collect { .. }) {
                // Drops count from the time at which references were looked for.
                run.start = Some(frame.now);
            }
            if let Some(task) = task.filter(|task| *task != REWRITES[0]) {
                schedule.schedule.record(task, run);
            }
            tell_apart(schedule.save(random).await)?;
        }
        Ok(reports)
    }

    /// Deletes what can be deleted where the storage takes no new blob. The time is that of the newest blob: it is later in
    /// truth.
    async fn only_delete(
        &self,
        options: &MaintenanceOptions,
        parameters: &MaintenanceParameters,
        on_step: &impl Fn(&Step),
    ) -> Result<Vec<StepReport>, KopiaError> {
        let mut newest = None;
        let mut blobs = self.repository.blobs().list("");
        while let Some(blob) = blobs.try_next().await? {
            newest = newest.max(blob.modified);
        }
        drop(blobs);
        let Some(now) = newest else { return Ok(Vec::new()) };
        refuse_beside_others(self.repository.blobs(), now).await?;
        self.clock.set(now);
        let schedule = self.repository.maintenance_schedule().await?;
        let basis = Basis { mode: Mode::Full, schedule: &schedule, parameters, now };
        let state = self.gather(&basis).await?;
        let plan = self.plan(&basis, &state);
        let writer = self.repository.writer(options.write.clone()).await?;
        let mut work = Work {
            repository: &self.repository,
            contents: writer.contents(),
            data: state.data.as_ref(),
            now,
            has_collected: false,
        };
        let mut reports = Vec::new();
        for step in &plan.steps {
            let waits = matches!(step.action, Action::DeletePacks { after_watermark: Some(_), .. });
            if waits || step.action.deleted_blobs().is_empty() {
                continue;
            }
            on_step(step);
            let error = tell_apart(work.perform(&step.action).await)?;
            reports.push(StepReport { step: step.to_string(), error });
        }
        Ok(reports)
    }

    async fn gather(&self, basis: &Basis<'_>) -> Result<State, KopiaError> {
        match basis.mode {
            Mode::Quick => gather::lists(&self.repository).await,
            Mode::Full => gather::everything(&self.repository, basis.schedule, self.delays, basis.now).await,
        }
    }

    fn plan(&self, basis: &Basis<'_>, state: &State) -> Plan {
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
            indexes: &state.indexes,
            logs: &state.logs,
            survey,
        })
    }
}

fn due(requested: Requested, schedule: &Schedule, parameters: &MaintenanceParameters, now: UnixNanos) -> Due {
    match requested {
        Requested::Due => schedule::due(schedule, parameters, now),
        Requested::Now(mode) => Due { mode: Some(mode), reason: format!("{mode} maintenance was asked for") },
    }
}

/// True for an action that copies contents into new packs, so that readers may look for the old ones for a while.
fn copies(action: &Action) -> bool {
    matches!(action, Action::Rewrite { .. } | Action::Collect { undeleted: 1.., .. })
}

/// The error of one step as text; one after which nothing may go on is returned.
fn tell_apart(result: Result<(), KopiaError>) -> Result<Option<String>, KopiaError> {
    match result {
        Ok(()) => Ok(None),
        Err(
            error @ (KopiaError::NotMaintained { .. }
            | KopiaError::UpgradeInProgress { .. }
            | KopiaError::WrongPassword { .. }
            | KopiaError::Cancelled),
        ) => Err(error),
        Err(error) => Ok(Some(error.to_string())),
    }
}
