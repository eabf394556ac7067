//! A run of maintenance in the place of Velero's, and a report of it that fits into a termination message.

use crate::volume_repository::{OWNER, RepositoryError, WriterOptions, trimmed, write_options};
use lifeboat_bucket::BlobStore;
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::maintenance::plan::{Step, Waiting};
use lifeboat_kopia::maintenance::{Maintenance, MaintenanceOptions, MaintenanceReport, Requested};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The most puts at once.
const UPLOADS: usize = 4;
/// The most entries of a list of a report, and the most bytes of a text in it: with all of them it stays below the 4096 bytes that
/// Kubernetes keeps of a termination message.
const MOST: usize = 3;
const LONGEST: usize = 140;

/// The mark in front of the error of a run, in the termination message of its pod and in its log. A server, Velero's too, takes all that
/// follows for the error (velero: pkg/repository/maintenance).
pub const MAINTENANCE_ERROR: &str = "Repo maintenance error: ";

/// The report of a run that came to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MaintenanceSummary {
    /// `quick` or `full`; empty where nothing was due.
    pub mode: String,
    /// The reason for which that was due, or nothing.
    pub reason: String,
    /// Blobs that were deleted.
    pub deleted_blobs: u64,
    /// Their bytes.
    pub deleted_bytes: u64,
    /// The other steps that were performed, such as marks and merges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<String>,
    /// Space that comes back later, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
    /// Things that cannot be read, for which nothing is collected, and what is asked for and not done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
    /// Steps that failed, each with its error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// The last sign of life of another run, beside which this one was not begun or did not go on; empty where there was none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub other_run: String,
}

/// Maintains the repository of a namespace: what is due by its own schedule, as the owner that Velero gives it.
///
/// # Errors
/// [`RepositoryError`]: it cannot be opened, somebody else owns its maintenance, or the run was cancelled. Another run that maintains it
/// now, such as that of another cluster, is none: [`MaintenanceSummary::other_run`].
pub async fn maintain(
    blobs: Arc<dyn BlobStore>,
    password: &Password,
    options: &WriterOptions,
    cancelled: impl Future<Output = ()>,
) -> Result<MaintenanceSummary, RepositoryError> {
    let maintenance = Maintenance::open(blobs, trimmed(password), options.open.clone()).await?;
    let run = MaintenanceOptions {
        requested: Requested::Due,
        identity: OWNER.to_owned(),
        write: write_options(options, UPLOADS),
    };
    let deletions = Mutex::new(Vec::new());
    let on_step = |step: &Step| {
        let blobs = step.action.deleted_blobs();
        let bytes = blobs.iter().map(|blob| blob.length).sum();
        deletions.lock().unwrap_or_else(PoisonError::into_inner).push(Deleted { blobs: blobs.len() as u64, bytes });
    };
    match maintenance.run_until(&run, on_step, cancelled).await {
        Ok(report) => Ok(summary(report, &deletions.into_inner().unwrap_or_else(PoisonError::into_inner))),
        Err(KopiaError::MaintainedByOthers { why }) => {
            Ok(MaintenanceSummary { other_run: why, ..MaintenanceSummary::default() })
        }
        Err(error) => Err(advised(error)),
    }
}

/// The blobs that a step deletes.
#[derive(Clone, Copy)]
struct Deleted {
    blobs: u64,
    bytes: u64,
}

fn advised(error: KopiaError) -> RepositoryError {
    match error {
        KopiaError::NotOwner { owner, .. } => RepositoryError::OwnedByOthers { owner },
        error => error.into(),
    }
}

/// The summary of a report, of whose steps these were begun, in their order.
fn summary(report: MaintenanceReport, begun: &[Deleted]) -> MaintenanceSummary {
    let MaintenanceReport { due, steps, plan, put_refusal } = report;
    let mut summary = MaintenanceSummary {
        mode: due.mode.map(|mode| mode.to_string()).unwrap_or_default(),
        reason: cut(&due.reason),
        ..MaintenanceSummary::default()
    };
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (step, deleted) in steps.iter().zip(begun) {
        match &step.error {
            Some(error) => failed.push(format!("{}: {error}", step.action)),
            None if deleted.blobs > 0 => {
                summary.deleted_blobs += deleted.blobs;
                summary.deleted_bytes += deleted.bytes;
            }
            None => done.push(step.action.clone()),
        }
    }
    let (waiting, mut blocked) = match plan {
        Some(plan) => (plan.waiting.iter().map(Waiting::to_string).collect(), [plan.blockers, plan.undone].concat()),
        None => (Vec::new(), Vec::new()),
    };
    if let Some(why) = put_refusal {
        blocked.push(format!("the bucket takes no new blobs, so that deletions came first: {why}"));
    }
    MaintenanceSummary {
        done: bounded(done),
        waiting: bounded(waiting),
        blocked: bounded(blocked),
        failed: bounded(failed),
        ..summary
    }
}

/// The first of these texts, each not too long, and how many more there are.
fn bounded(texts: Vec<String>) -> Vec<String> {
    let more = texts.len().saturating_sub(MOST);
    let mut out: Vec<String> = texts.iter().take(MOST).map(|text| cut(text)).collect();
    if more > 0 {
        out.push(format!("and {more} more"));
    }
    out
}

fn cut(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    match text.char_indices().find(|(at, c)| at + c.len_utf8() > LONGEST) {
        None => text.chars().map(plain).collect(),
        Some((end, _)) => text.get(..end).unwrap_or_default().chars().map(plain).chain(['…']).collect(),
    }
}

impl MaintenanceSummary {
    /// Returns true if something was due.
    #[must_use]
    pub fn has_run(&self) -> bool {
        !self.mode.is_empty()
    }

    /// The error of a run of which steps failed; `None` where none did.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        (!self.failed.is_empty())
            .then(|| format!("{} maintenance could not do everything: {}", self.mode, self.failed.join("; ")))
    }

    /// A sentence about what keeps space from coming back for good; `None` where nothing does.
    #[must_use]
    pub fn blocked(&self) -> Option<String> {
        (!self.blocked.is_empty()).then(|| format!("space does not come back: {}", self.blocked.join("; ")))
    }
}

impl fmt::Display for MaintenanceSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.other_run.is_empty() {
            return write!(f, "the repository is maintained by somebody else now: {}", self.other_run);
        }
        if !self.has_run() {
            return write!(f, "no maintenance was due: {}", self.reason);
        }
        let Self { mode, deleted_blobs, deleted_bytes, .. } = self;
        write!(f, "{mode} maintenance deleted {deleted_blobs} blobs with {deleted_bytes} bytes")?;
        for (what, texts) in [
            ("done", &self.done),
            ("stays for now", &self.waiting),
            ("blocked", &self.blocked),
            ("failed", &self.failed),
        ] {
            if !texts.is_empty() {
                write!(f, "; {what}: {}", texts.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_kopia::format::time::UnixNanos;
    use lifeboat_kopia::maintenance::StepReport;
    use lifeboat_kopia::maintenance::plan::Plan;
    use lifeboat_kopia::maintenance::plan::schedule::{Due, Mode};

    fn step(action: &str, error: Option<&str>) -> StepReport {
        StepReport { action: action.to_owned(), reason: "because".to_owned(), error: error.map(str::to_owned) }
    }

    fn report(steps: Vec<StepReport>, blockers: Vec<String>) -> MaintenanceReport {
        let waiting = Waiting { thing: "pack", things: "packs", count: 2, bytes: 30, reason: "they are young" };
        let plan = Plan {
            mode: Mode::Full,
            now: UnixNanos(0),
            steps: Vec::new(),
            blockers,
            waiting: vec![waiting],
            undone: Vec::new(),
        };
        let due = Due { mode: Some(Mode::Full), reason: "full maintenance has not run yet".to_owned() };
        MaintenanceReport { due, steps, plan: Some(plan), put_refusal: None }
    }

    #[test]
    fn a_report_says_what_was_given_back_and_what_stays() {
        let steps =
            vec![step("delete 3 packs", None), step("delete 1 log", Some("denied")), step("merge 2 indexes", None)];
        let begun = [(3, 900), (1, 5), (0, 0)].map(|(blobs, bytes)| Deleted { blobs, bytes });
        let summary = summary(report(steps, vec!["snapshot k1: damaged".to_owned()]), &begun);
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let expected = MaintenanceSummary {
            mode: "full".to_owned(),
            reason: "full maintenance has not run yet".to_owned(),
            deleted_blobs: 3,
            deleted_bytes: 900,
            done: texts(&["merge 2 indexes"]),
            waiting: texts(&["2 packs, 30 bytes: they are young"]),
            blocked: texts(&["snapshot k1: damaged"]),
            failed: texts(&["delete 1 log: denied"]),
            other_run: String::new(),
        };
        assert_eq!(summary, expected);
        assert_eq!(
            summary.to_string(),
            "full maintenance deleted 3 blobs with 900 bytes; done: merge 2 indexes; stays for now: 2 packs, 30 bytes: they are young; \
             blocked: snapshot k1: damaged; failed: delete 1 log: denied"
        );
        assert_eq!(
            (summary.failure(), summary.blocked()),
            (
                Some("full maintenance could not do everything: delete 1 log: denied".to_owned()),
                Some("space does not come back: snapshot k1: damaged".to_owned())
            )
        );
    }

    #[test]
    fn a_report_fits_into_a_termination_message_however_much_is_wrong() {
        let long = "\"".repeat(3000);
        let steps: Vec<_> = (0..90).map(|n| step(&long, (n % 2 == 0).then_some("no"))).collect();
        let begun = vec![Deleted { blobs: 0, bytes: 0 }; 90];
        let mut report = report(steps, vec![long.clone(); 80]);
        report.due.reason.clone_from(&long);
        let waiting = report.plan.as_ref().unwrap().waiting.clone();
        report.plan.as_mut().unwrap().waiting = [waiting.clone(), waiting.clone(), waiting.clone(), waiting].concat();
        let text = serde_json::to_string(&summary(report, &begun)).unwrap();
        assert!(text.len() < 4096, "{}", text.len());
        assert!(text.contains("and 77 more"));
        assert_eq!(cut(&format!("a\u{1}{}", "é".repeat(100))), format!("a {}…", "é".repeat(69)));
    }
}
