//! A run of maintenance: claim, look, plan, perform, record.

use super::claim::{Claim, refuse_beside_others};
use super::full_bucket::{Deletions, put_refusal};
use super::gather::State;
use super::maintained::{Basis, Maintenance, due};
use super::perform::StepContext;
use super::plan::schedule::{self, Due};
use super::plan::{Action, Plan, REWRITES, Step};
use super::report::{MaintenanceOptions, MaintenanceReport, Preview, Requested, StepReport, split_fatal};
use super::settings::StoredSchedule;
use crate::KopiaError;
use crate::format::maintenance::{MaintenanceParameters, MaintenanceRun};
use crate::format::time::UnixNanos;
use std::pin::Pin;

/// The error of a rewrite whose end was not recorded.
const UNFINISHED: &str = "it has not ended";

/// The things that stay the same during a run.
struct RunContext<'a> {
    options: &'a MaintenanceOptions,
    claim: &'a Claim,
    state: &'a State,
    now: UnixNanos,
}

impl Maintenance {
    /// Plans a run by the clock of this machine. Nothing is written.
    ///
    /// # Errors
    /// Errors of the bucket; manifests or a schedule that cannot be read.
    pub async fn preview(&self, requested: Requested, identity: &str) -> Result<Preview, KopiaError> {
        let parameters = self.repository.maintenance_parameters().await?;
        let schedule = self.repository.maintenance_schedule().await?;
        let now = self.clock.now();
        let allowed = match schedule::require_owner(&parameters, identity) {
            Ok(()) => refuse_beside_others(self.repository.blobs(), now).await,
            refused => refused,
        };
        let refusal = match allowed {
            Ok(()) => None,
            Err(
                error @ (KopiaError::NotOwner { .. }
                | KopiaError::NotMaintained { .. }
                | KopiaError::MaintainedByOthers { .. }),
            ) => Some(error),
            Err(error) => return Err(error),
        };
        let due = due(requested, &schedule, &parameters, now);
        let Some(mode) = due.mode else { return Ok(Preview { due, plan: None, refusal }) };
        let basis = Basis { mode, schedule: &schedule, parameters: &parameters, now };
        let state = self.gather(&basis).await?;
        let plan = self.plan(&basis, &state);
        Ok(Preview { due, plan: Some(plan), refusal })
    }

    /// Runs maintenance to its end; see [`Maintenance::run_until`].
    ///
    /// # Errors
    /// As there.
    pub async fn run(
        &self,
        options: &MaintenanceOptions,
        on_step: impl Fn(&Step),
    ) -> Result<MaintenanceReport, KopiaError> {
        self.run_until(options, on_step, std::future::pending()).await
    }

    /// Runs maintenance. Each step is told before it begins. A step that fails leaves the others. When `cancelled` ends, the
    /// step under way is dropped, and the claim given back; a run whose future is dropped leaves the claim.
    ///
    /// # Errors
    /// Somebody else owns it, or runs it now; an upgrade; what the plan needs cannot be read; those of the bucket;
    /// [`KopiaError::Cancelled`].
    pub async fn run_until(
        &self,
        options: &MaintenanceOptions,
        on_step: impl Fn(&Step),
        cancelled: impl Future<Output = ()>,
    ) -> Result<MaintenanceReport, KopiaError> {
        let mut cancelled = std::pin::pin!(cancelled);
        let parameters = unless(cancelled.as_mut(), self.allowed(options)).await?;
        let mut refusal = None;
        let mut before = Vec::new();
        let claim = match self.claim(options).await {
            Ok(claim) => claim,
            Err(error) => {
                refusal = put_refusal(&error);
                if refusal.is_none() {
                    return Err(error);
                }
                let deleted = self.delete_in_full_bucket(options, &parameters, &on_step);
                let Some(Deletions { due, steps }) = unless(cancelled.as_mut(), deleted).await? else {
                    return Err(error);
                };
                let is_freed = steps.iter().any(|step| step.error.is_none());
                match self.claim(options).await {
                    Err(error) if is_freed && put_refusal(&error).is_some() => {
                        let reason = format!("{}: as much as can be deleted in a full bucket", due.reason);
                        let due = Due { reason, ..due };
                        return Ok(MaintenanceReport { due, steps, plan: None, put_refusal: refusal });
                    }
                    claim => {
                        before = steps;
                        claim?
                    }
                }
            }
        };
        let result = unless(cancelled, self.claimed(options, &parameters, &claim, &on_step)).await;
        let released = claim.release().await;
        if let (Err(KopiaError::Cancelled), Err(error)) = (&result, &released) {
            let why = format!(
                "it was interrupted, and its claim could not be given back ({error}): nothing is harmed, a new run is refused \
                 for half an hour"
            );
            return Err(KopiaError::NotMaintained { why });
        }
        let mut report = result?;
        released?;
        report.steps.splice(0..0, before);
        Ok(MaintenanceReport { put_refusal: refusal, ..report })
    }

    /// The parameters, where they allow this run.
    async fn allowed(&self, options: &MaintenanceOptions) -> Result<MaintenanceParameters, KopiaError> {
        self.repository.contents().refresh().await?;
        let parameters = self.repository.maintenance_parameters().await?;
        schedule::require_owner(&parameters, &options.identity)?;
        Ok(parameters)
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
            return Ok(MaintenanceReport { due, steps: Vec::new(), plan: None, put_refusal: None });
        };
        schedule::begin(&mut schedule.schedule, parameters, mode, now);
        schedule.try_save(&options.write.random).await?;
        let basis = Basis { mode, schedule: &schedule.schedule, parameters, now };
        let state = claim.during(self.gather(&basis)).await?;
        let plan = self.plan(&basis, &state);
        let context = RunContext { options, claim, state: &state, now };
        let mut steps = self.perform(&context, &plan, &mut schedule, on_step).await?;
        steps.extend(schedule.failed_save());
        Ok(MaintenanceReport { due, steps, plan: Some(plan), put_refusal: None })
    }

    async fn perform(
        &self,
        context: &RunContext<'_>,
        plan: &Plan,
        schedule: &mut StoredSchedule,
        on_step: &impl Fn(&Step),
    ) -> Result<Vec<StepReport>, KopiaError> {
        let random = &context.options.write.random;
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
                let run =
                    MaintenanceRun { start: Some(started), end: Some(started), success: false, error, extra: None };
                schedule.schedule.record(REWRITES[0], run);
                result = schedule.save(random).await;
            }
            if result.is_ok() {
                schedule.check().await?;
                let work = async {
                    // A writer whose put has failed writes nothing more.
                    let writer = self.repository.writer(context.options.write.clone()).await?;
                    let mut step_context = StepContext {
                        repository: &self.repository,
                        contents: writer.contents(),
                        data: context.state.data.as_ref(),
                        now: context.now,
                        has_collected,
                    };
                    step_context.perform(&step.action).await?;
                    Ok(step_context.has_collected)
                };
                result = context.claim.during(work).await.map(|collected| has_collected = collected);
            }
            let error = split_fatal(result)?;
            reports.push(StepReport::new(step, error.clone()));
            let mut run = MaintenanceRun {
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
                run.start = Some(context.now);
            }
            if let Some(task) = task.filter(|task| *task != REWRITES[0]) {
                schedule.schedule.record(task, run);
            }
            schedule.try_save(random).await?;
        }
        Ok(reports)
    }
}

/// True for an action that copies contents into new packs, so that readers may look for the old ones for a while.
fn copies(action: &Action) -> bool {
    matches!(action, Action::Rewrite { .. } | Action::Collect { undeleted: 1.., .. })
}

/// Does work, unless this ends first.
async fn unless<T>(
    cancelled: Pin<&mut impl Future<Output = ()>>,
    work: impl Future<Output = Result<T, KopiaError>>,
) -> Result<T, KopiaError> {
    tokio::select! {
        biased;
        () = cancelled => Err(KopiaError::Cancelled),
        result = work => result,
    }
}
