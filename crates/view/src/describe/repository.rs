//! `lifeboat repo describe`: a page that Velero does not have.

use super::page::{Page, Style, Tone};
use lifeboat_api::well_known::ANNOTATION_LAST_MAINTENANCE;
use lifeboat_api::{
    BackupRepository, BackupRepositoryMaintenanceResult as Outcome, BackupRepositoryMaintenanceStatus,
    BackupRepositoryPhase, ObjectMeta,
};
use lifeboat_object::printable;
use serde_json::Value;

/// The runs that the page has, the newest first.
const RUNS: usize = 5;

/// The whole text.
#[must_use]
pub fn describe(repository: &BackupRepository, style: &Style) -> String {
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
    if !status.recent_maintenance.is_empty() {
        page.blank();
        page.line("Recent Maintenance:");
        let runs = status.recent_maintenance.iter().rev().take(RUNS);
        page.indented(|page| runs.for_each(|run| write_run(page, run)));
    }
    if let Some(Value::Object(reports)) = reports.and_then(|text| serde_json::from_str(&text).ok()) {
        for (name, report) in &reports {
            page.blank();
            page.line(format!("Last {name} Maintenance:"));
            page.indented(|page| write_report(page, report));
        }
    }
    page.finish()
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
    page.field("Completed", text(&report["completed"]));
    page.field("Deleted", format!("{} blobs, {} bytes", count("deletedBlobs"), count("deletedBytes")));
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
        let text = describe(&repository, &style);
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
            "",
            "Recent Maintenance:",
            "2026-11-28 10:05:00 +0000 UTC: Failed: the bucket is gone",
            "2026-11-28 10:00:00 +0000 UTC: Succeeded",
            "",
            "Last full Maintenance:",
            "Completed: 2026-11-28T10:00:30Z",
            "Deleted: 3 blobs, 70 bytes",
            "Blocked: snapshot k1: damaged",
        ];
        assert_eq!(squeezed, expected);
    }
}
