//! The rows of schedules.

use crate::table::TableKind;
use jiff::Timestamp;
use lifeboat_api::{ObjectMeta, Schedule, SchedulePhase, Time};
use lifeboat_terminal::output::table::{selector, time, until};

impl TableKind for Schedule {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "STATUS", "CREATED", "SCHEDULE", "BACKUP TTL", "LAST BACKUP", "SELECTOR", "PAUSED"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let (spec, status) = (&self.spec, &self.status);
        vec![
            self.metadata.name.clone(),
            status.phase.map_or("New", SchedulePhase::as_str).to_owned(),
            time(self.metadata.creation_timestamp),
            spec.schedule.clone(),
            spec.template.ttl.to_string(),
            until(status.last_backup.map(Time::timestamp), now),
            selector(spec.template.label_selector.as_ref()),
            spec.paused.to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_terminal::flags;

    #[test]
    fn a_row_is_that_of_velero() {
        let at = |text: &str| Time::new(text.parse().unwrap());
        let mut schedule = Schedule::default();
        schedule.metadata.name = "s".into();
        schedule.spec.schedule = "0 3 * * *".into();
        let now = at("2026-11-21T10:00:00Z").timestamp();
        assert_eq!(schedule.cells(now), ["s", "New", "n/a", "0 3 * * *", "0s", "n/a", "<none>", "false"]);
        schedule.status.phase = Some(SchedulePhase::FailedValidation);
        schedule.status.last_backup = Some(at("2026-11-21T03:00:00Z"));
        schedule.spec.template.ttl = "48h".parse().unwrap();
        schedule.spec.template.label_selector = Some(flags::selector("a=b").unwrap());
        schedule.spec.paused = true;
        let cells = schedule.cells(now);
        assert_eq!(cells[..2], ["s", "FailedValidation"]);
        assert_eq!(cells[3..], ["0 3 * * *", "48h0m0s", "7h ago", "a=b", "true"]);
    }
}
