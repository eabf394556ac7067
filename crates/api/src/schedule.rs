//! The `Schedule` resource (velero: pkg/apis/velero/v1/schedule_types.go).

use crate::schema::{object, resource, words};
use crate::{BackupSpec, Retention, Time};

resource! {
    /// Makes a backup again and again.
    Schedule, "schedules", "v1",
    /// The template of the backups, and the times at which they are made.
    ScheduleSpec,
    /// When it last ran.
    ScheduleStatus
}

object! {
    /// The template of the backups, and the times at which they are made.
    pub struct ScheduleSpec {
        /// The backups to make.
        template: BackupSpec = "template" required;
        /// When to make one: a cron expression of five fields, or a word such as `@daily` or `@every 6h`.
        schedule: String = "schedule" required;
        /// True when the backups are owned by the schedule, and so deleted with it.
        use_owner_references_in_backup: Option<bool> = "useOwnerReferencesInBackup" nullable;
        /// True when the schedule is paused.
        paused: bool = "paused";
        /// True when the run that is due now is left out; unset for the server's setting.
        skip_immediately: Option<bool> = "skipImmediately";
        /// Which backups stay although their time is over; an addition of Lifeboat.
        retention: Option<Retention> = "retention";
    }
}

words! {
    /// Phase of a schedule; absent means `New`.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum SchedulePhase {
        New,
        Enabled,
        FailedValidation,
    }
}

object! {
    /// When a schedule last ran.
    pub struct ScheduleStatus {
        /// Phase.
        phase: Option<SchedulePhase> = "phase";
        /// When the newest backup was made.
        last_backup: Option<Time> = "lastBackup" nullable;
        /// When a run was left out on purpose.
        last_skipped: Option<Time> = "lastSkipped" nullable;
        /// Validation errors, for which the spec was refused.
        validation_errors: Vec<String> = "validationErrors";
        /// Reason for which a run that is due has not begun; an addition of Lifeboat.
        message: String = "message";
    }
}
