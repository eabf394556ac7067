//! Snapshots of restic, in the form of those of kopia.

use lifeboat_object::printable;
use lifeboat_restic::Snapshot;
use serde_json::{Map, Value, json};

/// A line of the table.
pub(super) fn row(snapshot: &Snapshot) -> String {
    let Ok(document) = &snapshot.document else {
        return format!("{}\t\t\t\t\tunreadable\t", snapshot.id);
    };
    let count = |number: Option<u64>| number.map_or_else(|| "n/a".to_owned(), |number| number.to_string());
    let summary = document.summary.as_ref();
    format!(
        "{}\t{}\t{}@{}:{}\t{}\t{}\tcomplete\t{}",
        snapshot.id,
        document.time,
        printable(&document.username),
        printable(&document.hostname),
        printable(document.paths.join(",")),
        count(summary.map(|summary| summary.total_files_processed)),
        count(summary.map(|summary| summary.total_bytes_processed)),
        printable(document.tags.join(","))
    )
}

/// A snapshot as JSON. Restic publishes none that was not finished; numbers are there since restic 0.17.
pub(super) fn value(snapshot: &Snapshot) -> Value {
    let document = match &snapshot.document {
        Ok(document) => document,
        Err(why) => return json!({"id": snapshot.id.to_string(), "error": why}),
    };
    let split = |tag: &String| match tag.split_once('=') {
        Some((key, value)) => (key.to_owned(), Value::from(value)),
        None => (tag.clone(), Value::from("")),
    };
    let summary = document.summary.as_ref();
    let end = summary.and_then(|summary| summary.backup_end).unwrap_or(document.time);
    json!({
        "id": snapshot.id.to_string(),
        "source": {"user": document.username, "host": document.hostname, "path": document.paths.join(",")},
        "start": document.time.to_string(),
        "end": end.to_string(),
        "root": document.tree.to_string(),
        "tags": document.tags.iter().map(split).collect::<Map<String, Value>>(),
        "stats": summary.map(|summary| json!({
            "totalSize": summary.total_bytes_processed,
            "fileCount": summary.total_files_processed,
        })),
        "incomplete": null,
        "unreadInSnapshot": null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_restic::Id;
    use lifeboat_restic::format::snapshot::SnapshotDocument;

    #[test]
    fn a_snapshot_that_velero_made_with_restic_is_listed_with_its_tags() {
        let tree = "ab".repeat(32);
        let text = format!(
            r#"{{"time":"2022-08-25T19:55:00+02:00","tree":"{tree}","paths":["/host_pods/u/volumes/data"],
                "hostname":"velero","username":"root","tags":["ns=shop","pod=web-0","alone"]}}"#
        );
        let document = SnapshotDocument::parse(text.as_bytes()).map_err(|e| e.to_string());
        let snapshot = Snapshot { id: Id([0xcd; 32]), document };
        let id = "cd".repeat(32);
        assert_eq!(
            row(&snapshot),
            format!(
                "{id}\t2022-08-25T17:55:00Z\troot@velero:/host_pods/u/volumes/data\tn/a\tn/a\tcomplete\tns=shop,pod=web-0,alone"
            )
        );
        let expected = json!({
            "id": id,
            "source": {"user": "root", "host": "velero", "path": "/host_pods/u/volumes/data"},
            "start": "2022-08-25T17:55:00Z",
            "end": "2022-08-25T17:55:00Z",
            "root": tree,
            "tags": {"ns": "shop", "pod": "web-0", "alone": ""},
            "stats": null,
            "incomplete": null,
            "unreadInSnapshot": null,
        });
        assert_eq!(value(&snapshot), expected);
        let unreadable = Snapshot { id: Id([0xcd; 32]), document: Err("no".to_owned()) };
        assert_eq!(value(&unreadable), json!({"id": id, "error": "no"}));
    }
}
