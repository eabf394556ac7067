//! `lifeboat repo describe`: a page that Velero does not have.

use super::page::{Page, Style, Tone};
use jiff::Timestamp;
use lifeboat_api::well_known::ANNOTATION_LAST_MAINTENANCE;
use lifeboat_api::{
    BackupRepository, BackupRepositoryMaintenanceResult as Outcome, BackupRepositoryMaintenanceStatus,
    BackupRepositoryPhase, BackupStorageLocation, ObjectMeta, Time,
};
use lifeboat_lifecycle::phase::Decision;
use lifeboat_lifecycle::phase::maintenance::{next, obstacle};
use lifeboat_object::printable;
use lifeboat_terminal::output::size_text;
use serde_json::Value;
use std::collections::HashSet;

/// The runs that the page has, the newest first.
const RUNS: usize = 5;

/// The whole text, with the storage location of the repository where that is there.
#[must_use]
pub fn describe(
    repository: &BackupRepository,
    location: Option<&BackupStorageLocation>,
    now: Timestamp,
    style: &Style,
) -> String {
    let mut page = Page::new(style);
    let (spec, status) = (&repository.spec, &repository.status);
    // The reports have a paragraph of their own.
    let mut meta: ObjectMeta = repository.metadata.clone();
    let reports = meta.annotations.remove(ANNOTATION_LAST_MAINTENANCE);
    page.metadata(&meta);
    page.blank();
    let phase = status.phase.unwrap_or(BackupRepositoryPhase::New);
    let tone = match phase {
        BackupRepositoryPhase::New => Tone::Plain,
        BackupRepositoryPhase::Ready => Tone::Good,
        BackupRepositoryPhase::NotReady => Tone::Bad,
    };
    page.field("Phase", page.toned(phase.as_str(), tone));
    if !status.message.is_empty() {
        page.field("Message", printable(&status.message));
    }
    page.blank();
    page.field("Volume Namespace", &spec.volume_namespace);
    page.field("Storage Location", &spec.backup_storage_location);
    page.field("Repository Type", spec.repository_type.as_str());
    page.blank();
    page.field("Maintenance Frequency", spec.maintenance_frequency);
    page.field("Last Maintenance", page.time(status.last_maintenance_time, "<never>"));
    page.field("Next Maintenance", next_maintenance(&page, repository, location, now));
    let (recent, earlier) = shown_runs(&status.recent_maintenance);
    for (title, runs) in [("Recent Maintenance", recent), ("Earlier Failures", earlier)] {
        if !runs.is_empty() {
            page.blank();
            page.line(format!("{title}:"));
            page.indented(|page| runs.into_iter().for_each(|run| write_run(page, run)));
        }
    }
    if let Some(Value::Object(reports)) = reports.and_then(|text| serde_json::from_str(&text).ok()) {
        for (name, report) in &reports {
            page.blank();
            page.line(format!("Last {} Maintenance:", if name == "full" { "Full" } else { "Quick" }));
            page.indented(|page| write_report(page, report));
        }
    }
    page.finish()
}

/// The time of the next maintenance, or the reason why there is none.
fn next_maintenance(
    page: &Page<'_>,
    repository: &BackupRepository,
    location: Option<&BackupStorageLocation>,
    now: Timestamp,
) -> String {
    let Some(location) = location else { return "never: there is no such storage location".to_owned() };
    match next(repository, location, now) {
        Decision::Wait(due) => page.time(Some(Time::new(due)), "<unknown>"),
        Decision::Do(()) => "due now".to_owned(),
        Decision::Rest => format!("never: {}", obstacle(repository, location).unwrap_or("it is left alone")),
    }
}

/// The runs that the page has: the newest, and of those before them the last failure of each reason, so that a repository
/// whose runs are refused because of the first of them still shows why that one failed.
fn shown_runs(
    all: &[BackupRepositoryMaintenanceStatus],
) -> (Vec<&BackupRepositoryMaintenanceStatus>, Vec<&BackupRepositoryMaintenanceStatus>) {
    let (earlier, recent) = all.split_at(all.len().saturating_sub(RUNS));
    let mut known: HashSet<&str> = recent.iter().map(|run| run.message.as_str()).collect();
    let failed = earlier.iter().rev().filter(|run| run.result == Some(Outcome::Failed));
    (recent.iter().rev().collect(), failed.filter(|run| known.insert(&run.message)).collect())
}

fn write_run(page: &mut Page<'_>, run: &BackupRepositoryMaintenanceStatus) {
    let tone = if run.result == Some(Outcome::Failed) { Tone::Bad } else { Tone::Good };
    let result = page.toned(run.result.map_or("Unknown", Outcome::as_str), tone);
    let message = if run.message.is_empty() { String::new() } else { format!(": {}", printable(&run.message)) };
    let started = page.time(run.start_timestamp, "<unknown>");
    page.field(&started, format!("{result}{message}"));
}

fn write_report(page: &mut Page<'_>, report: &Value) {
    let text = |value: &Value| printable(value.as_str().unwrap_or_default());
    let count = |field: &str| report[field].as_u64().unwrap_or_default();
    let completed = report["completed"].as_str().and_then(|text| text.parse::<Timestamp>().ok()).map(Time::new);
    page.field("Completed", page.time(completed, "<unknown>"));
    page.field("Deleted", format!("{} blobs, {}", count("deletedBlobs"), size_text(count("deletedBytes"))));
    for (name, field) in [("Done", "done"), ("Stays For Now", "waiting"), ("Blocked", "blocked"), ("Failed", "failed")]
    {
        for entry in report[field].as_array().into_iter().flatten() {
            page.field(name, text(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use serde_json::json;

    fn failed(minute: i64, message: &str) -> BackupRepositoryMaintenanceStatus {
        BackupRepositoryMaintenanceStatus {
            result: Some(Outcome::Failed),
            message: message.to_owned(),
            start_timestamp: Timestamp::from_second(minute * 60).ok().map(Time::new),
            ..Default::default()
        }
    }

    #[test]
    fn the_first_reason_is_still_shown_when_later_runs_have_another() {
        let mut runs = vec![failed(0, "out of memory"), failed(1, "out of memory"), failed(2, "refused")];
        runs.extend((3..8).map(|minute| failed(minute, "refused")));
        let (recent, earlier) = shown_runs(&runs);
        assert_eq!(recent, runs[3..].iter().rev().collect::<Vec<_>>());
        assert_eq!(earlier, [&runs[1]]);
        assert_eq!(shown_runs(&runs[..2]).1, Vec::<&BackupRepositoryMaintenanceStatus>::new());
    }

    #[test]
    fn bytes_have_the_unit_that_suits_them() {
        let all = [0, 1023, 1024, 1536, 3 << 20, (5 << 30) + (1 << 29), u64::MAX].map(size_text);
        assert_eq!(all, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "3.0 MiB", "5.5 GiB", "17179869183.9 GiB"]);
    }

    #[test]
    fn the_page_of_a_repository_says_when_it_is_maintained_next_or_why_not() {
        let style = Style { colours: false, zone: TimeZone::UTC, program: "lifeboat".into(), details: false };
        let mut repository = BackupRepository::default();
        repository.spec.repository_type = lifeboat_api::UploaderType::Kopia;
        repository.status.phase = Some(BackupRepositoryPhase::Ready);
        repository.status.last_maintenance_time = Some(Time::new(Timestamp::UNIX_EPOCH));
        let location = BackupStorageLocation::default();
        let next_of = |repository: &BackupRepository, location: Option<&BackupStorageLocation>, second: i64| {
            let text = describe(repository, location, Timestamp::from_second(second).unwrap(), &style);
            let line = text.lines().find_map(|line| line.strip_prefix("Next Maintenance:")).unwrap_or_default();
            line.trim().to_owned()
        };
        assert_eq!(next_of(&repository, Some(&location), 60), "1970-01-01 01:00:00 +0000 UTC");
        assert_eq!(next_of(&repository, Some(&location), 3600), "due now");
        assert_eq!(next_of(&repository, None, 60), "never: there is no such storage location");
        repository.status.phase = Some(BackupRepositoryPhase::NotReady);
        assert_eq!(next_of(&repository, Some(&location), 60), "never: the repository is not Ready");
    }

    #[test]
    fn the_page_of_a_repository_says_how_its_maintenance_went() {
        let report = json!({"full": {"completed": "2026-11-28T10:00:30Z", "mode": "full", "deletedBlobs": 3, "deletedBytes": 70,
            "blocked": ["snapshot k1: damaged"]}});
        let run = |minute: u32, result: &str, message: &str| {
            json!({"result": result, "message": message, "startTimestamp": format!("2026-11-28T10:{minute:02}:00Z"),
                "completeTimestamp": format!("2026-11-28T10:{minute:02}:30Z")})
        };
        let repository: BackupRepository = serde_json::from_value(json!({
            "apiVersion": "velero.io/v1", "kind": "BackupRepository",
            "metadata": {"name": "shop-default-kopia", "namespace": "velero",
                "annotations": {"lifeboat.io/last-maintenance": report.to_string()}},
            "spec": {"volumeNamespace": "shop", "backupStorageLocation": "default", "repositoryType": "kopia",
                "maintenanceFrequency": "1h0m0s"},
            "status": {"phase": "Ready", "lastMaintenanceTime": "2026-11-28T10:00:30Z",
                "recentMaintenance": [run(0, "Succeeded", ""), run(5, "Failed", "the bucket is gone")]},
        }))
        .unwrap();
        let style = Style { colours: false, zone: TimeZone::UTC, program: "lifeboat".into(), details: false };
        let now = "2026-11-28T10:30:00Z".parse().unwrap();
        let text = describe(&repository, Some(&BackupStorageLocation::default()), now, &style);
        let squeezed: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let expected = [
            "Name: shop-default-kopia",
            "Namespace: velero",
            "Labels: <none>",
            "Annotations: <none>",
            "",
            "Phase: Ready",
            "",
            "Volume Namespace: shop",
            "Storage Location: default",
            "Repository Type: kopia",
            "",
            "Maintenance Frequency: 1h0m0s",
            "Last Maintenance: 2026-11-28 10:00:30 +0000 UTC",
            "Next Maintenance: 2026-11-28 11:00:30 +0000 UTC",
            "",
            "Recent Maintenance:",
            "2026-11-28 10:05:00 +0000 UTC: Failed: the bucket is gone",
            "2026-11-28 10:00:00 +0000 UTC: Succeeded",
            "",
            "Last Full Maintenance:",
            "Completed: 2026-11-28 10:00:30 +0000 UTC",
            "Deleted: 3 blobs, 70 bytes",
            "Blocked: snapshot k1: damaged",
        ];
        assert_eq!(squeezed, expected);
    }
}
