//! `lifeboat schedule describe` (velero: pkg/cmd/util/output/schedule_describer.go).

use super::page::{Page, Style, Tone};
use super::spec;
use lifeboat_api::{Schedule, SchedulePhase};
use lifeboat_terminal::output::retention::retention_text;

/// The whole text.
pub fn describe(schedule: &Schedule, style: &Style) -> String {
    let mut page = Page::new(style);
    let (spec, status) = (&schedule.spec, &schedule.status);
    page.metadata(&schedule.metadata);
    page.blank();
    let phase = status.phase.unwrap_or(SchedulePhase::New);
    let tone = match phase {
        SchedulePhase::New => Tone::Plain,
        SchedulePhase::Enabled => Tone::Good,
        SchedulePhase::FailedValidation => Tone::Bad,
    };
    page.field("Phase", page.toned(phase.as_str(), tone));
    if !status.message.is_empty() {
        page.field("Message", &status.message);
    }
    if let Some(reference) = &spec.template.resource_policy {
        spec::reference(&mut page, "Resource policies", reference);
    }
    spec::uploader(&mut page, &spec.template);
    page.validation_errors(&status.validation_errors);
    page.blank();
    page.field("Paused", spec.paused);
    page.blank();
    page.field("Schedule", &spec.schedule);
    page.blank();
    match schedule.retention() {
        Ok(None) => {}
        Ok(Some(rules)) => page.field("Keeps", retention_text(&rules)),
        Err(why) => page.field("Keeps", page.toned(&format!("all good backups, because of an {why}"), Tone::Bad)),
    }
    if !matches!(schedule.retention(), Ok(None)) {
        page.blank();
    }
    page.line("Backup Template:");
    page.indented(|page| spec::describe(page, &spec.template));
    page.blank();
    page.field("Last Backup", page.time(status.last_backup, "<never>"));
    page.finish()
}
