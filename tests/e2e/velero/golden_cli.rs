//! Every command of the golden runs of Velero 1.18.2, on a cluster that holds what it found there: the exit code and
//! each line of the output are Velero's, but for the deviations of a table. One that does not occur any more is an
//! error too.

mod deviations;
mod printed;

use self::deviations::What::{Flag, Once, Text};
use self::deviations::Why::{Because, Page};
use self::deviations::{DEVIATIONS, Deviation};
use self::printed::{of_the_cluster, with_now, without_cluster, without_usage};
use crate::ground::Server;
use crate::support::{Client, Sandbox, program, spawn_logged};
use lifeboat_archive::gzip;
use lifeboat_testbed::Kubectl;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A run of Velero: its command line, its output, and its exit code.
struct Golden {
    line: String,
    output: String,
    code: i32,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero")
}

fn golden(name: &str) -> Golden {
    let file = fixtures().join("cli").join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (line, rest) = text.split_once('\n').expect("a command");
    let (output, code) = rest.rsplit_once("exit: ").expect("an exit code");
    // The files have no quotes around these.
    let mut line = line.replace("-l app in (x,y)", "-l app~in~(x,y)").replace("-l a b", "-l a~b");
    for times in ["0 3 * * *", "61 * * * *", "@every 6h"] {
        line = line.replace(times, &times.replace(' ', "~"));
    }
    let line = line.strip_prefix("$ velero ").expect("a command line").to_owned();
    Golden { line, output: output.to_owned(), code: code.trim().parse().expect("a number") }
}

/// The expected output of Lifeboat: that of Velero, but for the deviations.
fn expected(name: &str) -> Golden {
    let mut golden = golden(name);
    for Deviation { what, why, .. } in DEVIATIONS.iter().filter(|one| one.of.contains(&name)) {
        let reason = match why {
            Page(text) | Because(text) => *text,
        };
        let before = golden.output.clone();
        match what {
            Text(velero, ours) => {
                assert_eq!(before.matches(velero).count(), 1, "{name} ({reason}): how often Velero prints {velero:?}");
                golden.output = before.replace(velero, ours);
            }
            Once => {
                let mut lines: Vec<&str> = before.lines().collect();
                lines.dedup();
                golden.output = lines.iter().map(|line| format!("{line}\n")).collect();
                assert_ne!(golden.output, before, "{name} ({reason})");
            }
            Flag(flag) => golden.line = format!("{} {flag}", golden.line),
        }
    }
    golden
}

const LOCATION_LABEL: &str = "velero.io/storage-location";

/// The objects of the cluster of the golden runs: two backups, a restore, a location. The backups expire at times from
/// now on.
pub(crate) fn stock() -> Value {
    let mut items = lifeboat_api::crds();
    items.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "velero"}}));
    let now = jiff::Timestamp::now();
    let hours = |hours: i64| (now + jiff::SignedDuration::from_mins(hours * 60 + 30)).strftime("%FT%TZ").to_string();
    items.push(backup(
        "demo1",
        json!({"team": "a", LOCATION_LABEL: "default"}),
        json!({"storageLocation": "default"}),
        json!({"phase": "Completed", "startTimestamp": "2026-11-21T08:36:30Z", "expiration": hours(29 * 24)}),
    ));
    // The golden run had the content of this one in it.
    let text =
        std::fs::read_to_string(fixtures().join("backup-runs/policy-volumes/backup-object.json")).expect("a backup");
    let mut demo2: Value = serde_json::from_str(&text).expect("JSON");
    let annotations = demo2["metadata"]["annotations"].take();
    demo2["metadata"] = json!({"name": "demo2", "namespace": "velero", "annotations": annotations,
        "labels": demo2["metadata"]["labels"]});
    demo2["spec"]["ttl"] = json!("24h0m0s");
    demo2["status"]["startTimestamp"] = json!("2026-11-21T08:36:30Z");
    demo2["status"]["completionTimestamp"] = json!("2026-11-21T08:36:31Z");
    demo2["status"]["expiration"] = json!(hours(23));
    items.push(demo2);
    for file in ["bsl-get-yaml", "restore-get-one"] {
        let mut printed: Value = serde_saphyr::from_str(&golden(file).output).expect("YAML");
        let metadata = printed["metadata"].as_object_mut().expect("metadata");
        metadata.retain(|key, _| ["name", "namespace", "annotations", "finalizers"].contains(&key.as_str()));
        items.push(printed);
    }
    json!({"kind": "List", "items": items})
}

fn backup(name: &str, labels: Value, spec: Value, status: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "velero", "labels": labels});
    json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "spec": spec, "status": status})
}

/// The rows of a backup were cut out of the golden tables, whose columns are as wide as its longest cells.
const CUT_OUT: &str = "cut-from-the-table";

fn cut_out() -> Value {
    backup(
        CUT_OUT,
        json!({LOCATION_LABEL: "default"}),
        json!({"storageLocation": "default", "labelSelector": {"matchLabels": {"team": "elsewhere", "tier": "db"}}}),
        json!({"phase": "PartiallyFailed", "startTimestamp": "2026-11-21T08:36:30Z"}),
    )
}

/// The cluster, and the program under Velero's name.
struct Place {
    sandbox: Sandbox,
    client: Client,
    start: jiff::Timestamp,
    /// The commit that the program says it was made from.
    commit: String,
    compared: BTreeSet<String>,
    differences: Vec<String>,
}

impl Place {
    fn start() -> Self {
        let mut stock = stock();
        stock["items"].as_array_mut().expect("a list").push(cut_out());
        let start = jiff::Timestamp::now();
        let sandbox = Sandbox::start(&stock.to_string());
        let client = Client::new(sandbox.kubeconfig());
        let own = client.ok("version --client-only");
        let commit =
            own.lines().find_map(|line| line.trim().strip_prefix("Git commit: ")).expect("a commit").to_owned();
        Self { sandbox, client, start, commit, compared: BTreeSet::new(), differences: Vec::new() }
    }

    fn kubectl(&self) -> Kubectl {
        self.sandbox.kubectl()
    }

    fn patch(&self, kind: &str, name: &str, patch: &Value) {
        let patch = patch.to_string();
        let args = ["patch", kind, name, "--namespace=velero", "--type=merge", "--patch", &patch];
        self.kubectl().try_run(&args).unwrap_or_else(|e| panic!("{kind} {name}: {e:#}"));
    }

    /// Runs the commands of these files, and notes how their output differs from Velero's.
    fn compare(&mut self, names: &[&str]) {
        for name in names {
            self.compared.insert((*name).to_owned());
            let Golden { line, output, code } = expected(name);
            let run = self.client.run(&line);
            let ours = self.comparable(&without_usage(&format!("{}{}", run.out, run.err)));
            let velero = of_the_cluster(&output);
            if (run.code, &ours) != (code, &velero) {
                let marked = |text: &str, mark: char, other: &str| -> String {
                    let is_other = |line: &&str| !other.lines().any(|one| one == *line);
                    text.lines().filter(is_other).map(|line| format!("  {mark} {line:?}\n")).collect()
                };
                let (missing, more) = (marked(&velero, '-', &ours), marked(&ours, '+', &velero));
                self.differences.push(format!("{name}: {line}: exit code {}, of {code}\n{missing}{more}", run.code));
            }
        }
    }

    /// Without the rows that were cut out, and without what is new each time.
    fn comparable(&self, printed: &str) -> String {
        let rows = printed.split_inclusive('\n').filter(|line| !line.starts_with(CUT_OUT));
        let text = rows.collect::<String>().replace(&self.commit, "{commit}");
        let text = text.replace(&format!("v{}", env!("CARGO_PKG_VERSION")), "{version}");
        of_the_cluster(&without_cluster(&with_now(&text, self.start)))
    }

    /// Puts the files of backup and restore into the bucket, and starts a server that hands them out and does nothing
    /// else.
    fn serve(&self) -> Server {
        let folder = self.client.folder.path().join("buckets");
        let bucket = folder.join("main");
        let files = fixtures().join("backup-runs/policy-volumes");
        let write = |name: &str, bytes: &[u8]| {
            let path = bucket.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, bytes).expect("write");
        };
        for file in ["results.gz", "volumeinfo.json.gz"] {
            let bytes = std::fs::read(files.join(format!("policy-volumes-{file}"))).expect("a file");
            write(&format!("backups/demo2/demo2-{file}"), &bytes);
        }
        let shown: Value = serde_json::from_str(&golden("backup-describe-json").output).expect("JSON");
        let list = shown["status"]["resourceList"].to_string();
        write("backups/demo2/demo2-resource-list.json.gz", &gzip::pack(list.as_bytes()));
        let (results, list) = files_of_restore(&golden("restore-describe-details").output);
        write("restores/res2/restore-res2-results.gz", &gzip::pack(results.to_string().as_bytes()));
        write("restores/res2/restore-res2-resource-list.json.gz", &gzip::pack(list.to_string().as_bytes()));
        write("restores/res2/res2-volumeinfo.json.gz", &gzip::pack(b"[]"));

        let config = json!({"root": null, "signedURLBase": null, "path": folder.display().to_string()});
        let spec = json!({"provider": "lifeboat.io/directory", "config": config});
        self.patch("backupstoragelocation", "default", &json!({"spec": spec}));
        self.patch("backup", "demo2", &json!({"status": {"expiration": "2026-11-22T08:36:30Z"}}));
        let others = "backup-queue,backup,backup-operations,backup-deletion,backup-finalizer,backup-sync,gc,backup-repo,restore,\
                      restore-operations,schedule,restore-finalizer";
        let mut command = Command::new(program());
        command
            .args([
                "server",
                "--metrics-address",
                "127.0.0.1:0",
                "--download-address",
                "127.0.0.1:0",
                "--identity",
                "one",
            ])
            .args(["--disable-controllers", others, "--directory-root"])
            .arg(&folder)
            .env("KUBECONFIG", self.sandbox.kubeconfig());
        let server = Server(spawn_logged(&mut command, &self.client.folder.path().join("server.log")));
        self.client.ok("version --timeout 1m");
        server
    }
}

/// Results and resource list of a restore, from its description.
fn files_of_restore(description: &str) -> (Value, Value) {
    let (_, rest) = description.split_once("\nWarnings:\n").expect("warnings");
    let (warnings, rest) = rest.split_once("\n\n").expect("their end");
    let (_, list) = rest.split_once("\nResource List:\n").expect("a list");
    let (cluster, app1) = warnings.split_once("app1:").expect("a namespace");
    let messages = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| Some(line[line.find("could not restore")?..].to_owned())).collect()
    };
    let results =
        json!({"errors": {}, "warnings": {"cluster": messages(cluster), "namespaces": {"app1": messages(app1)}}});
    let (mut types, mut last) = (Map::new(), String::new());
    for line in list.lines() {
        if let Some(item) = line.strip_prefix("    - ") {
            types[&last].as_array_mut().expect("items").push(item.into());
        } else {
            last = line.trim().trim_end_matches(':').to_owned();
            types.insert(last.clone(), json!([]));
        }
    }
    (results, types.into())
}

/// scenario: (commands)
#[test]
fn commands_print_what_velero_prints() {
    let mut place = Place::start();
    place.compare(&[
        "backup-bad-selector",
        "backup-both-selectors",
        "backup-create-dry",
        "backup-create-dry-full",
        "backup-create-exists",
        "backup-create-from-schedule-missing",
        "backup-create-noname",
        "backup-describe-missing",
        "backup-download-missing",
        "backup-get",
        "backup-get-labels",
        "backup-get-missing",
        "backup-get-selector",
        "backup-logs-missing",
        "backup-mixed-filters",
        "bsl-create-bad",
        "bsl-create-dry",
        "bsl-get",
        "bsl-get-yaml",
        "delete-missing",
        "delete-noconfirm-stdin-closed",
        "repo-get",
        "restore-create-dry",
        "restore-create-missing",
        "restore-create-nothing",
        "restore-describe-json",
        "restore-get",
        "restore-get-one",
        "restore-logs-missing",
        "unknown-command",
        "unknown-flag",
        "vsl-create-dry",
        "vsl-get",
        "schedule-create",
        "schedule-create-dry",
        "schedule-get",
        "schedule-describe",
        "schedule-pause-again",
        "schedule-unpause",
        "schedule-pause",
        "schedule-bad",
    ]);
    // As a server refuses it.
    let errors = ["invalid schedule: end of range (61) above maximum (59): 61"];
    place.patch("schedule", "bad", &json!({"status": {"phase": "FailedValidation", "validationErrors": errors}}));
    place.compare(&["schedule-get-bad", "schedule-describe-bad"]);
    let server = place.serve();
    place.compare(&[
        "backup-describe",
        "backup-describe-details",
        "backup-describe-json",
        "plugin-get",
        "restore-describe",
        "restore-describe-details",
        "version",
    ]);
    server.kill();
    place.compare(&["schedule-delete", "backup-delete", "restore-delete"]);
    place.kubectl().try_run(&["delete", "backup", "demo2", "--namespace=velero"]).expect("the deletion");
    place.compare(&["backup-get-after"]);
    assert!(place.differences.is_empty(), "Velero's lines have a -, ours a +:\n{}", place.differences.join("\n"));
    let files = std::fs::read_dir(fixtures().join("cli")).expect("fixtures");
    let stem = |file: std::io::Result<std::fs::DirEntry>| file.ok()?.path().file_stem()?.to_str().map(str::to_owned);
    assert_eq!(place.compared, files.filter_map(stem).collect());
}

#[test]
fn each_deviation_that_a_user_notices_is_on_a_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility");
    let pages = std::fs::read_dir(folder).expect("the folder").map(|page| page.expect("a page").path());
    let page: String = pages.map(|page| std::fs::read_to_string(page).expect("the page")).collect();
    for deviation in DEVIATIONS {
        if let Page(topic) = deviation.why {
            assert!(page.contains(&format!("\n| {topic} | ")), "docs/compatibility/ has no row {topic:?}");
        }
    }
}
