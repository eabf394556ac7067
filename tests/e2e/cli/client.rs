//! The commands on Velero's resources, and a whole life of a backup by commands alone.

use crate::ground::{BUCKET, Ground};
use crate::support::{Client, Sandbox, ended_with_output, eventually, run};
use crate::velero::golden_cli::stock;
use lifeboat_testbed::Kubectl;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Without what the API server makes, and without what a Go client prints of fields that are not set.
fn essence(printed: &str) -> Value {
    let mut object = yaml(printed);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| ["name", "namespace", "labels"].contains(&key.as_str()));
    }
    if object["status"] == json!({}) {
        object.as_object_mut().expect("an object").remove("status");
    }
    object
}

/// A snapshot location is made, listed, changed, and found under each of its names.
///
/// scenario: (snapshot locations)
#[test]
fn snapshot_locations_are_made_listed_and_changed() {
    let sandbox = Sandbox::start(&stock().to_string());
    let client = Client::new(sandbox.kubeconfig());
    let made = client.ok("snapshot-location create ebs --provider aws --config region=r --labels a=b --credential s=k");
    assert_eq!(made, "Snapshot volume location \"ebs\" configured successfully.\n");
    let made = client.ok("create snapshot-location disks --provider example.io/disks");
    assert_eq!(made, "Snapshot volume location \"disks\" configured successfully.\n");
    let table = "NAME    PROVIDER\ndisks   example.io/disks\nebs     aws\n";
    assert_eq!(client.ok("snapshot-location get"), table);
    assert_eq!(client.ok("get snapshot-locations -l a=b"), "NAME   PROVIDER\nebs    aws\n");
    let set = client.ok("snapshot-location set ebs --credential other=key");
    assert_eq!(set, "Volume snapshot location \"ebs\" configured successfully.\n");
    let expected = json!({"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation",
        "metadata": {"name": "ebs", "namespace": "velero", "labels": {"a": "b"}},
        "spec": {"provider": "aws", "config": {"region": "r"}, "credential": {"name": "other", "key": "key"}}});
    assert_eq!(essence(&client.ok("get snapshot-location ebs -o yaml")), expected);
    let missing = client.run("snapshot-location set nope --credential a=b");
    assert_eq!(missing.err, "An error occurred: volumesnapshotlocations.velero.io \"nope\" not found\n");
}

/// Containers of plugins come into the Deployment of the server and go again; without a server they say so.
///
/// scenario: (plugins)
#[test]
fn plugins_are_added_to_the_server_and_removed() {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "velero", "namespace": "velero", "labels": {"component": "velero"}},
        "spec": {"template": {"spec": {"containers": [{"name": "velero", "image": "server"}]}}}});
    let mut stock = stock();
    stock["items"].as_array_mut().expect("a list").push(deployment);
    let sandbox = Sandbox::start(&stock.to_string());
    let client = Client::new(sandbox.kubeconfig());
    let refused = client.run("plugin add example.io/a/plugin:v1 --confirm --namespace default");
    let none = "An error occurred: Velero deployment does not exist in namespace default, run 'install' first\n";
    assert_eq!((refused.code, refused.err.as_str()), (1, none));
    let kubectl = sandbox.kubectl();
    let pod = || {
        let text =
            kubectl.printed(&["get", "deployment", "velero", "--namespace=velero", "-o", "json"]).expect("the server");
        serde_json::from_str::<Value>(&text).expect("JSON")["spec"]["template"]["spec"].clone()
    };
    assert_eq!(client.ok("plugin add example.io/a/plugin:v1 --confirm --image-pull-policy Always"), "");
    let server = json!({"name": "velero", "image": "server",
        "volumeMounts": [{"name": "plugins", "mountPath": "/plugins"}]});
    let plugin = json!({"name": "a-plugin", "image": "example.io/a/plugin:v1", "imagePullPolicy": "Always",
        "volumeMounts": [{"name": "plugins", "mountPath": "/target"}], "resources": {}});
    let volumes = json!([{"name": "plugins", "emptyDir": {}}]);
    let expected = json!({"containers": [server], "initContainers": [plugin], "volumes": volumes});
    assert_eq!(pod(), expected);
    let missing = client.run("plugin remove nope");
    let said = "An error occurred: init container nope not found in Velero server deployment; it has a-plugin (example.io/a/plugin:v1)\n";
    assert_eq!((missing.code, missing.err.as_str()), (1, said));
    assert_eq!(client.ok("plugin remove example.io/a/plugin:v1"), "");
    assert_eq!(pod(), json!({"containers": [server], "volumes": volumes}));
}

#[test]
fn who_deletes_is_told_what_goes_and_of_which_cluster_before() {
    let sandbox = Sandbox::start(&stock().to_string());
    let client = Client::new(sandbox.kubeconfig());
    let all = || {
        ["backups", "restores", "schedules", "backup-locations"].map(|kind| client.ok(&format!("get {kind} -o json")))
    };
    let before = all();
    for (line, flag) in [
        ("backup delete --all", "--all"),
        ("backup delete -l team=a", "--selector"),
        ("delete restores --all", "--all"),
        ("schedule delete --all", "--all"),
        ("backup-location delete --all", "--all"),
    ] {
        let refused = client.run(line);
        assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{line}");
        let (start, end) =
            ("An error occurred: nothing was deleted in namespace velero of cluster http", "; add --confirm\n");
        assert!(
            refused.err.starts_with(start) && refused.err.ends_with(end) && refused.err.contains(flag),
            "{refused:?}"
        );
    }
    let refused = client.run("expiry --release --schedule nightly");
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    let start = "An error occurred: nothing was released in namespace velero of cluster http";
    assert!(refused.err.starts_with(start) && refused.err.contains("--schedule asks before"), "{refused:?}");
    let mut asked = client.command();
    let mut asked = asked
        .args(["backup", "delete", "demo2", "demo1", "nope"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command");
    std::io::Write::write_all(asked.stdin.as_mut().expect("its input"), b"n\n").expect("an answer");
    let told = ended_with_output(asked);
    let out = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(out.starts_with("Delete 2 backups in namespace velero of cluster http"), "{out}");
    assert!(out.ends_with("): demo2, demo1?\nAre you sure you want to continue (Y/N)? "), "{out}");
    assert_eq!(all(), before);
}

/// The config file, the environment and flags, in the order that decides.
#[test]
fn defaults_come_from_the_config_file() {
    let sandbox = Sandbox::start(&stock().to_string());
    let client = Client::new(sandbox.kubeconfig());
    assert_eq!(client.ok("client config get"), "");
    assert_eq!(client.ok("client config set namespace=elsewhere colorized=false x=1"), "");
    assert_eq!(client.ok("client config get"), "colorized: false\nnamespace: elsewhere\nx: 1\n");
    assert_eq!(client.ok("backup get"), "", "another namespace has none");
    assert!(client.ok("backup get -n velero").contains("\ndemo1 "));
    let mut command = client.command();
    let found = run(command.env("VELERO_NAMESPACE", "velero").args(["backup", "get"]));
    assert_eq!((found.code, found.out.as_str()), (0, ""), "the file goes before the environment");
    let warned = client.run("client config set namespace= x");
    assert_eq!((warned.code, warned.err.as_str()), (0, "WARNING: invalid KEY=VALUE: \"x\"\n"));
    assert!(client.ok("get backup").contains("\ndemo1 "));
    let file = client.folder.path().join(".config/velero/config.json");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "{\"colorized\":\"false\",\"x\":\"1\"}\n");
    std::fs::write(&file, "{").expect("write");
    let warned = client.run("backup get");
    assert!(
        warned.err.starts_with("WARNING: Error reading config file: ") && warned.out.contains("demo1"),
        "{warned:?}"
    );
    assert!(client.fails("client config get").contains("An error occurred: "), "it cannot be read");
}

#[test]
fn a_server_that_is_away_is_not_waited_for_long() {
    let sandbox = Sandbox::start(&stock().to_string());
    let client = Client::new(sandbox.kubeconfig());
    let away = client.fails("backup logs demo1 --timeout 300ms");
    assert!(away.contains("timed out waiting for the URL of BackupLog of demo1: look at the server's log"), "{away}");
    let shown = client.ok("version --timeout 2s");
    let end = "\n<error getting server version: timed out waiting for server status request to be processed>\n";
    assert!(shown.ends_with(end), "{shown}");
    let (ours, _) = shown.split_once('<').expect("an error");
    assert_eq!(client.ok("version --client-only"), ours);
    let nowhere = client.folder.path().join("nowhere");
    let config = std::fs::read_to_string(sandbox.kubeconfig()).expect("a kubeconfig");
    let (before, after) = config.split_once("https://127.0.0.1:").expect("an address");
    let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
    std::fs::write(&nowhere, format!("{before}https://127.0.0.1:1{after}")).expect("write");
    let shown = client.ok("version --timeout 300ms --kubeconfig nowhere");
    let (_, why) = shown.split_once("\n<error getting server version: ").expect("an error");
    assert!(why.contains("the server cannot be reached: ") && why.ends_with(" (https://127.0.0.1:1/)>\n"), "{shown}");
    let nowhere = client.fails("backup download demo1 --cacert nowhere.pem");
    assert!(nowhere.contains("read --cacert nowhere.pem: No such file"), "{nowhere}");
}

/// Objects listed beside a backup or restore may be refused, or be of a kind that is not there: the rest is shown.
#[test]
fn a_description_goes_on_without_what_cannot_be_listed() {
    let mut stock = stock();
    let missing = ["podvolumebackups", "podvolumerestores", "deletebackuprequests"];
    let is_there = |item: &Value| !missing.iter().any(|plural| item["spec"]["names"]["plural"] == *plural);
    let items = stock["items"].as_array_mut().expect("items");
    items.retain(is_there);
    for kind in ["Backup", "Restore"] {
        items.push(json!({"apiVersion": "velero.io/v1", "kind": kind, "spec": {},
            "metadata": {"name": "odd", "namespace": "velero"}, "status": {"phase": "FailedValidation"}}));
    }
    let sandbox = Sandbox::start(&stock.to_string());
    let client = Client::new(sandbox.kubeconfig());
    for (line, told) in [
        (
            "backup describe odd",
            &["PodVolumeBackups for backup odd: cannot list ", "DeleteBackupRequests for backup odd: cannot list "][..],
        ),
        ("restore describe odd", &["PodVolumeRestores for restore odd: cannot list "]),
    ] {
        let run = client.run(line);
        assert_eq!(run.code, 0, "{line}: {run:?}");
        assert!(
            run.out.starts_with("Name:         odd\n") && run.out.contains("\nPhase:  FailedValidation\n"),
            "{run:?}"
        );
        let lines: Vec<&str> = run.err.lines().collect();
        assert_eq!(lines.len(), told.len(), "{run:?}");
        for (line, told) in lines.iter().zip(told) {
            assert!(line.starts_with(&format!("error getting {told}")), "{run:?}");
        }
    }
}

/// Scripts write `--flag "$VALUE"` also when there is no such variable.
#[test]
fn empty_values_are_none() {
    let sandbox = Sandbox::start(&stock().to_string());
    let client = Client::new(sandbox.kubeconfig());
    let spec = |line: &str| yaml(&client.ok(&format!("{line} -o yaml")))["spec"].take();
    assert_eq!(
        spec("backup create e --backup-type= --resource-policies-configmap= --include-cluster-resources= -l app=a"),
        spec("backup create e -l app=a")
    );
    assert_eq!(
        spec("restore create e --from-backup demo1 --existing-resource-policy= --status-exclude-resources pods"),
        spec("restore create e --from-backup demo1")
    );
    let empty = |args: &[&str]| run(client.command().args(args));
    let made = empty(&["backup", "create", "e", "-o", "", "--kubeconfig", "", "--kubecontext", "", "--labels", ""]);
    assert!(made.code == 0 && made.out.starts_with("Backup request \"e\" submitted successfully.\n"), "{made:?}");
    let install = ["install", "--dry-run", "--provider", "aws", "--bucket", "b", "--no-secret", "-o", "yaml"];
    let without = empty(&install);
    assert_eq!(without.code, 0, "{without:?}");
    let with = empty(&[&install[..], &["--cacert", "", "--secret-file", "", "--pod-labels", ""]].concat());
    assert_eq!((with.code, with.out), (0, without.out));
}

#[test]
fn help_is_an_answer() {
    let client = Client::new("/nowhere".into());
    let top = client.run("help");
    assert_eq!((top.code, top.err.as_str()), (0, ""));
    assert!(top.out.contains("\nUsage: velero [OPTIONS] [COMMAND]\n"), "{top:?}");
    let alone = run(&mut client.command());
    assert_eq!((alone.code, &alone.out, alone.err.as_str()), (0, &top.out, ""));
    let help = client.ok("help backup");
    assert!(help.contains("\nUsage: velero backup [OPTIONS] [COMMAND]\n"), "{help}");
    for line in ["backup", "backup --namespace x", "backup --help"] {
        assert_eq!(client.ok(line), help, "{line}");
    }
    assert_eq!(client.ok("help backup create"), client.ok("backup create --help"));
    let unknown = "unknown command \"frob\" for \"velero backup\"\n";
    assert_eq!(
        client.fails("backup frob"),
        format!("Error: {unknown}Run 'velero backup --help' for usage.\nAn error occurred: {unknown}")
    );
}

/// Velero would wait for ever.
#[test]
fn who_waits_for_what_is_deleted_is_told() {
    let sandbox = Sandbox::start(&stock().to_string());
    let client = Client::new(sandbox.kubeconfig());
    let mut command = client.command();
    command
        .args(["backup", "create", "w", "--wait"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let waiting = command.spawn().expect("the binary");
    let kubectl = sandbox.kubectl();
    eventually("the backup", || kubectl.try_run(&["get", "backup", "w", "--namespace=velero"]).is_ok());
    kubectl.try_run(&["delete", "backup", "w", "--namespace=velero"]).expect("the deletion");
    let ended = ended_with_output(waiting);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&ended.stderr),
        "An error occurred: backup \"w\" was deleted before it had ended; its last phase was New\n"
    );
}

/// Shells ask for names by an environment variable.
#[test]
fn names_are_completed() {
    let sandbox = Sandbox::start(&stock().to_string());
    let client = Client::new(sandbox.kubeconfig());
    for (shell, text) in [("bash", "complete -o nospace"), ("zsh", "#compdef velero"), ("fish", "complete ")] {
        let script = client.ok(&format!("completion {shell}"));
        assert!(script.contains(text) && script.contains("LIFEBOAT_COMPLETE"), "{script}");
        assert!(script.contains("/velero"), "it calls what it was made by: {script}");
        assert_eq!(script.contains("\n__start_velero() {\n"), shell == "bash", "{script}");
    }
    let asked = |words: &[&str], kubeconfig: &Path| {
        let mut command = client.command();
        command.env("LIFEBOAT_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        command.env("_CLAP_IFS", "\n").env("KUBECONFIG", kubeconfig).arg("--").args(words);
        run(&mut command)
    };
    let here = sandbox.kubeconfig();
    for (words, expected) in [
        (&["velero", "backup", "describe", "de"][..], "demo1\ndemo2"),
        (&["velero", "backup", "delete", "demo1", "de"], "demo2"),
        (&["velero", "restore", "create", "--from-backup", "demo2"], "demo2"),
        (&["velero", "get", "restores", "r"], "res2"),
        (&["velero", "backup", "get", "-n", "elsewhere", "de"], ""),
    ] {
        let found = asked(words, &here);
        assert_eq!((found.code, found.out.as_str(), found.err.as_str()), (0, expected, ""), "{words:?}");
    }
    let away = asked(&["velero", "backup", "describe", "de"], Path::new("/nowhere"));
    assert_eq!((away.code, away.out.as_str(), away.err.as_str()), (0, "", ""));
}

fn change_location(kubectl: &Kubectl, config: &Value) {
    let patch = json!({"spec": {"config": config}}).to_string();
    let args = ["patch", "backupstoragelocation", "main", "--namespace=velero", "--type=merge", "--patch", &patch];
    kubectl.try_run(&args).expect("a patch");
}

/// scenario: (commands)
#[test]
fn a_backup_lives_by_commands_alone() {
    let ground = Ground::start();
    ground.many("shop", 5);
    let before = ground.maps("shop");
    let client = Client::new(ground.bed.plane.kubeconfig());
    let _server = ground.server("one");
    let location = format!(
        "backup-location create main --provider aws --bucket {BUCKET} --prefix main --credential cloud=cloud --default \
         --config region={},s3ForcePathStyle=true,s3Url={}",
        ground.s3.region(),
        ground.s3.endpoint()
    );
    client.ok(&location.split_whitespace().collect::<Vec<_>>().join(" "));
    ground.until("backupstoragelocation", "main", "Available");
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    let shown = client.ok("version --timeout 1m");
    assert!(shown.starts_with(&format!("Client:\n\tVersion: {version}\n\tGit commit: ")), "{shown}");
    assert!(shown.ends_with(&format!("Server:\n\tVersion: {version}\n")), "{shown}");

    // Made, and looked at.
    let made = client.ok("backup create one --include-namespaces shop --wait");
    let hint = "You may check for more information using the commands `velero backup describe one` and `velero backup logs one`.\n";
    assert!(made.ends_with(&format!("\nBackup completed with status: Completed. {hint}")), "{made}");
    assert_eq!(
        client.ok("backup create two --include-namespaces shop"),
        "Backup request \"two\" submitted successfully.\n\
         Run `velero backup describe two` or `velero backup logs two` for more details.\n"
    );
    ground.until("backup", "two", "Completed");
    let stored = |key: &str| std::fs::read(ground.s3.file(BUCKET, &format!("main/{key}"))).expect("the object");
    let unpacked = |key: &str| lifeboat_archive::gzip::unpack(&stored(key), 1 << 20).expect("gzip");
    assert_eq!(client.ok("backup logs one").into_bytes(), unpacked("backups/one/one-logs.gz"));
    let text = client.ok("backup describe one --details");
    assert!(text.starts_with("Name:         one\nNamespace:    velero\n"), "no colours: {text}");
    assert!(text.contains("\nPhase:  Completed\n") && text.contains("\nNamespaces:\n  Included:  shop\n"), "{text}");
    let maps: String = before.keys().map(|name| format!("    - shop/{name}\n")).collect();
    assert!(text.contains(&format!("\n  v1/ConfigMap:\n    - shop/kube-root-ca.crt\n{maps}")), "{text}");
    assert!(text.contains("\n  CSI Snapshots: <none included>\n"), "{text}");
    assert_eq!(client.ok("describe backup one --details=true"), text);
    let coloured = client.ok("backup describe one --colorized");
    assert!(coloured.contains("Phase:  \u{1b}[32mCompleted\u{1b}[0m\n"), "{coloured}");
    let both = client.ok("backup describe");
    assert!(both.contains("\n\n\nName:         two\n"), "{both}");
    let object: Value = serde_json::from_str(&client.ok("backup describe one -o json")).expect("JSON");
    assert_eq!(object["status"]["backupVolumes"]["csiSnapshots"], "<none included>");
    assert!(client.fails("backup describe one -o yaml").contains("invalid output format \"yaml\""));

    // Downloaded.
    let archive = client.folder.path().join("one-data.tar.gz");
    let path = archive.canonicalize().unwrap_or_else(|_| archive.clone());
    let told = client.ok("backup download one");
    assert_eq!(told, format!("Backup one has been successfully downloaded to {}\n", path.display()));
    assert_eq!(std::fs::read(&archive).expect("the archive"), stored("backups/one/one.tar.gz"));
    assert_eq!(std::fs::metadata(&archive).expect("the archive").permissions().mode() & 0o777, 0o600);
    assert!(client.fails("backup download one").contains("one-data.tar.gz exists already; --force overwrites it"));
    client.ok("backup download one --force");
    // Compared with the cluster, and with one another; the server gives the archives.
    for line in ["diff one", "diff one two", "diff one --include-resources configmaps"] {
        let told = client.ok(line);
        assert!(told.starts_with("0 added, 0 removed, 0 changed, "), "{line}: {told}");
    }
    std::fs::remove_file(ground.s3.file(BUCKET, "main/backups/two/two.tar.gz")).expect("the object");
    let gone = client.fails("backup download two -o two.tar.gz");
    assert!(gone.contains("the archive of backup \"two\" is not in its storage location"), "{gone}");
    assert!(!client.folder.path().join("two.tar.gz").exists());

    // What has no files yet.
    ground.velero("Backup", "bad", &json!({"storageLocation": "nowhere"}));
    ground.until("backup", "bad", "FailedValidation");
    let refused = client.fails("backup logs bad");
    assert!(refused.contains("logs for backup \"bad\" are not available until it has been processed"), "{refused}");
    let text = client.ok("backup describe bad");
    assert!(text.contains("\nPhase:  FailedValidation\n\nValidation errors:  "), "{text}");

    ground.velero("Restore", "bad", &json!({"scheduleName": "nowhere"}));
    ground.until("restore", "bad", "FailedValidation");
    let text = client.ok("restore describe bad");
    assert!(text.contains("\nPhase:  FailedValidation\n") && !text.contains("WARNING"), "{text}");

    // Restored.
    ground.lose("shop");
    client.ok("restore create r --from-backup one --wait");
    assert_eq!(ground.maps("shop"), before);
    let text = client.ok("restore describe r --details");
    let restored: String = before.keys().map(|name| format!("    - shop/{name}(created)\n")).collect();
    assert!(text.contains("\nPhase:                       Completed\n"), "{text}");
    assert!(text.contains(&restored) && text.contains("\nCSI Snapshot Restores: <none included>\n"), "{text}");
    assert_eq!(client.ok("describe restores r --details"), text);
    assert_eq!(client.ok("restore logs r").into_bytes(), unpacked("restores/r/restore-r-logs.gz"));

    // By the template of a schedule.
    let schedule = json!({"apiVersion": "velero.io/v1", "kind": "Schedule",
        "metadata": {"name": "daily", "namespace": "velero", "labels": {"team": "a"}},
        "spec": {"schedule": "0 0 1 1 *", "paused": true, "template": {"includedNamespaces": ["shop"]}}});
    ground.kubectl().create(&schedule).expect("a schedule");
    let made = client.ok("backup create --from-schedule daily --include-namespaces x --wait");
    assert!(made.starts_with("Creating backup from schedule, all other filters are ignored.\n"), "{made}");
    let found: Value =
        serde_json::from_str(&client.ok("backup get -l velero.io/schedule-name=daily,team=a -o json")).expect("JSON");
    assert_eq!(found["spec"]["includedNamespaces"], json!(["shop"]));
    let name = found["metadata"]["name"].as_str().unwrap_or_default();
    let stamp = name.strip_prefix("daily-").unwrap_or_default();
    assert!(stamp.len() == 14 && stamp.bytes().all(|b| b.is_ascii_digit()), "{name}");
    assert!(client.fails("backup create --from-schedule=").contains("non-empty value: --from-schedule"));

    // The bucket is out of our reach, though not out of the server's, which reads it for us.
    change_location(&ground.kubectl(), &json!({"publicUrl": "http://127.0.0.1:1"}));
    assert_eq!(client.ok("backup logs one").into_bytes(), unpacked("backups/one/one-logs.gz"));
    let text = client.ok("backup describe one");
    assert!(!text.contains("error getting"), "{text}");
    change_location(&ground.kubectl(), &json!({"publicUrl": null}));

    // Locations.
    let pem = client.folder.path().join("ca.pem");
    std::fs::write(&pem, "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n").expect("write");
    client.ok("backup-location create other --provider aws --bucket nothing");
    assert!(
        client.fails("backup-location set other --default").contains("already a default backup storage location: main")
    );
    let done = |name: &str| format!("Backup storage location \"{name}\" configured successfully.\n");
    assert!(client.ok("get backup-location --default -o yaml").contains("\n  name: main\n"));
    assert_eq!(client.ok("backup-location set main --default=false"), done("main"));
    assert_eq!(client.ok("backup-location get --default"), "");
    assert_eq!(
        client.ok("backup-location set other --default --credential cloud=cloud --cacert ca.pem"),
        done("other")
    );
    assert!(client.ok("backup-location set other --default").contains("is the default already"));
    let other = ground.get("backupstoragelocation", "other");
    assert_eq!(other["spec"]["credential"], json!({"name": "cloud", "key": "cloud"}));
    assert!(other["spec"]["objectStorage"]["caCert"].is_string(), "kept without the flag: {other}");
    client.ok("backup-location set other --cacert=");
    assert!(ground.get("backupstoragelocation", "other")["spec"]["objectStorage"]["caCert"].is_null());
    assert!(client.fails("backup-location set nope").contains("backupstoragelocations.velero.io \"nope\" not found"));

    // And the end.
    client.ok("backup delete one --confirm");
    for (kind, name) in [("backup", "one"), ("restore", "r")] {
        ground.until_gone(kind, name);
    }
    assert!(!ground.s3.file(BUCKET, "main/backups/one/velero-backup.json").exists());
    let deleted = client.ok("delete backup-location main other --confirm");
    assert!(deleted.starts_with("Backup storage location \"main\" deleted successfully.\n"), "{deleted}");
    assert!(deleted.contains("Backup associated with deleted BSL(s) \"two\" deleted successfully.\n"), "{deleted}");
    assert!(deleted.ends_with("Backup storage location \"other\" deleted successfully.\n"), "{deleted}");
    assert!(ground.s3.file(BUCKET, "main/backups/two/velero-backup.json").exists(), "the bucket stays");
    assert!(ground.get("backup", "two").is_null());
    assert_eq!(client.ok("delete backup-location main --confirm"), "No backup-locations found\n");
    assert_eq!(client.ok("backup-location get"), "");
}
