//! Maintenance of a bucket that takes no new blob: full maintenance, where it is asked for or due, deletes what it can
//! without one, so that there is space for the rest.

use super::claim::refuse_beside_others;
use super::maintained::{Basis, Maintenance, due};
use super::perform::StepContext;
use super::plan::schedule::{Due, Mode};
use super::plan::{Action, Step};
use super::report::{MaintenanceOptions, StepReport, split_fatal};

use crate::KopiaError;
use crate::format::maintenance::MaintenanceParameters;
use crate::format::time::UnixNanos;
use futures::TryStreamExt;
use lifeboat_bucket::ErrorKind;

/// Deletions in a full bucket.
pub(super) struct Deletions {
    pub(super) due: Due,
    pub(super) steps: Vec<StepReport>,
}

/// The reason for which the storage takes no new blob, where an error may say that it is full: a put that cannot succeed.
/// A put that may succeed later, or that is denied, says nothing of space.
pub(super) fn put_refusal(error: &KopiaError) -> Option<String> {
    match error {
        KopiaError::Bucket(error) if error.operation == "put" && error.kind == ErrorKind::Other => {
            Some(error.to_string())
        }
        _ => None,
    }
}

impl Maintenance {
    /// Deletes what can be deleted where the storage takes no new blob. The time is that of the newest blob: it is later in
    /// truth. Where that is in the future, as a machine with a wrong clock may have stored it, it is this machine's. `None` where nothing may be deleted: full maintenance is neither asked for nor due.
    ///
    /// # Errors
    /// Another run; those of the bucket; what the plan needs cannot be read.
    pub(super) async fn delete_in_full_bucket(
        &self,
        options: &MaintenanceOptions,
        parameters: &MaintenanceParameters,
        on_step: &impl Fn(&Step),
    ) -> Result<Option<Deletions>, KopiaError> {
        let mut newest = None;
        let mut blobs = self.repository.blobs().list("");
        while let Some(blob) = blobs.try_next().await? {
            newest = newest.max(blob.modified);
        }
        drop(blobs);
        let Some(now) = newest.map(|newest: UnixNanos| newest.min(self.clock.now())) else { return Ok(None) };
        let schedule = self.repository.maintenance_schedule().await?;
        let due = due(options.requested, &schedule, parameters, now);
        if due.mode != Some(Mode::Full) {
            return Ok(None);
        }
        refuse_beside_others(self.repository.blobs(), now).await?;
        self.clock.set(now);
        let basis = Basis { mode: Mode::Full, schedule: &schedule, parameters, now };
        let state = self.gather(&basis).await?;
        let plan = self.plan(&basis, &state);
        let writer = self.repository.writer(options.write.clone()).await?;
        let mut context = StepContext {
            repository: &self.repository,
            contents: writer.contents(),
            data: state.data.as_ref(),
            now,
            has_collected: false,
        };
        let mut steps = Vec::new();
        for step in &plan.steps {
            let waits = matches!(step.action, Action::DeletePacks { after_watermark: Some(_), .. });
            if waits || step.action.deleted_blobs().is_empty() {
                continue;
            }
            on_step(step);
            let error = split_fatal(context.perform(&step.action).await)?;
            steps.push(StepReport::new(step, error));
        }
        Ok(Some(Deletions { due, steps }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::BucketError;

    #[test]
    fn only_a_put_that_cannot_succeed_says_that_the_bucket_is_full() {
        for (operation, kind, expected) in [
            ("put", ErrorKind::Other, true),
            ("put", ErrorKind::Throttled, false),
            ("put", ErrorKind::Transient, false),
            ("put", ErrorKind::Denied, false),
            ("put", ErrorKind::Invalid, false),
            ("put", ErrorKind::NotFound, false),
            ("list", ErrorKind::Other, false),
        ] {
            let (key, store, message) = ("k".to_owned(), "s".to_owned(), "m".to_owned());
            let error = BucketError { kind, operation, key, store, message, source: None };
            assert_eq!(put_refusal(&error.into()).is_some(), expected, "{operation} {kind:?}");
        }
        assert_eq!(put_refusal(&KopiaError::Cancelled), None);
    }
}
