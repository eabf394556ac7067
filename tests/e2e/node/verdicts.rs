//! Tests for every condition and action of policies that the plan of a backup names the treatment of each volume, and
//! that the backup does just that.

use super::place::Place;
use crate::ground::BUCKET;
use crate::support::{eventually, gunzip_json, program, run};
use lifeboat_testbed::DRIVER;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The effect of a policy, or a flag, on the volumes that it concerns, by their names in the namespace. `by 1` is the
/// rule that decides. All others are as without it.
struct Case {
    rules: &'static str,
    flags: &'static [&'static str],
    expected: &'static [(&'static str, &'static str)],
}

const fn case(rules: &'static str, expected: &'static [(&'static str, &'static str)]) -> Case {
    Case { rules, flags: &["--features=EnableCSI"], expected }
}

/// Without policies and flags. A volume of a pod is not spoken of when nobody asks for it.
const PLAIN: [(&str, &str); 7] = [
    ("block", SNAPSHOT),
    ("data", SNAPSHOT),
    // Its driver has no class.
    ("foreign", "nothing"),
    ("host", "nothing"),
    ("nfs", "nothing"),
    ("spare", SNAPSHOT),
    ("wait", "nothing"),
];

const NO: &str = "nothing by 1";
const SNAPSHOT: &str = "CSI snapshot of the class csi";
const CSI: &str = "CSI snapshot of the class csi by 1";
const READER: &str = "file system backup by a reader pod by 1";
const MOVED: &str = "CSI snapshot whose data is moved";

const CASES: [Case; 46] = [
    case("", &[]),
    case(
        "- {conditions: {}, action: {type: skip}}",
        &[
            ("block", NO),
            ("data", NO),
            ("foreign", NO),
            ("host", NO),
            ("main:cache", NO),
            ("nfs", NO),
            ("spare", NO),
            ("wait", NO),
        ],
    ),
    case("- {conditions: {pvcLabels: {tier: junk}}, action: {type: skip}}", &[("spare", NO)]),
    case("- {conditions: {pvcLabels: {tier: gold, team: a}}, action: {type: skip}}", &[("data", NO)]),
    case("- {conditions: {pvcLabels: {tier: gold, team: b}}, action: {type: skip}}", &[]),
    case("- {conditions: {storageClass: [csi]}, action: {type: skip}}", &[("block", NO), ("data", NO), ("spare", NO)]),
    case(
        "- {conditions: {storageClass: [other, csi]}, action: {type: skip}}",
        &[("block", NO), ("data", NO), ("spare", NO)],
    ),
    case("- {conditions: {storageClass: [other]}, action: {type: skip}}", &[]),
    case("- {conditions: {capacity: \"17Mi,40Mi\"}, action: {type: skip}}", &[("block", NO)]),
    // What has no size is of size 0.
    case("- {conditions: {capacity: \"0,10Mi\"}, action: {type: skip}}", &[("main:cache", NO), ("wait", NO)]),
    case("- {conditions: {capacity: \"16Mi,16Mi\"}, action: {type: skip}}", &[("data", NO), ("spare", NO)]),
    case(
        "- {conditions: {capacity: \"10Mi,\"}, action: {type: skip}}",
        &[("block", NO), ("data", NO), ("foreign", NO), ("host", NO), ("nfs", NO), ("spare", NO)],
    ),
    case("- {conditions: {nfs: {}}, action: {type: skip}}", &[("nfs", NO)]),
    case("- {conditions: {nfs: {server: nfs.example.com}}, action: {type: fs-backup}}", &[("nfs", READER)]),
    case("- {conditions: {nfs: {server: other.example.com}}, action: {type: skip}}", &[]),
    case("- {conditions: {nfs: {path: /srv/verdicts}}, action: {type: skip}}", &[("nfs", NO)]),
    case("- {conditions: {nfs: {server: nfs.example.com, path: /srv/other}}, action: {type: skip}}", &[]),
    case(
        "- {conditions: {csi: {}}, action: {type: skip}}",
        &[("block", NO), ("data", NO), ("foreign", NO), ("spare", NO)],
    ),
    case(
        "- {conditions: {csi: {driver: csi.testbed.local}}, action: {type: skip}}",
        &[("block", NO), ("data", NO), ("spare", NO)],
    ),
    case(
        "- {conditions: {csi: {driver: cannot.example.com, volumeAttributes: {tier: gold}}}, action: {type: skip}}",
        &[("foreign", NO)],
    ),
    case(
        "- {conditions: {csi: {driver: cannot.example.com, volumeAttributes: {tier: silver}}}, action: {type: skip}}",
        &[],
    ),
    case("- {conditions: {volumeTypes: [hostPath]}, action: {type: skip}}", &[("host", NO)]),
    case(
        "- {conditions: {volumeTypes: [csi, nfs]}, action: {type: skip}}",
        &[("block", NO), ("data", NO), ("foreign", NO), ("nfs", NO), ("spare", NO)],
    ),
    case(
        "- {conditions: {volumeTypes: [emptyDir]}, action: {type: fs-backup}}",
        &[("main:cache", "file system backup from the pod main (volume cache) by 1")],
    ),
    // No rule takes snapshots of what lives with its pod.
    case("- {conditions: {volumeTypes: [emptyDir]}, action: {type: snapshot}}", &[]),
    case("- {conditions: {pvcPhase: [Pending]}, action: {type: skip}}", &[("wait", NO)]),
    case(
        "- {conditions: {pvcPhase: [Bound]}, action: {type: skip}}",
        &[("block", NO), ("data", NO), ("foreign", NO), ("host", NO), ("nfs", NO), ("spare", NO)],
    ),
    case("- {conditions: {pvcPhase: [Lost]}, action: {type: skip}}", &[]),
    case("- {conditions: {pvcVolumeMode: Block}, action: {type: skip}}", &[("block", NO)]),
    case(
        "- {conditions: {pvcAccessModes: [ReadWriteMany]}, action: {type: skip}}",
        &[("foreign", NO), ("host", NO), ("nfs", NO)],
    ),
    case("- {conditions: {pvcAccessModes: [ReadWriteOnce, ReadWriteMany]}, action: {type: skip}}", &[]),
    case(
        "- {conditions: {pvcLabels: {tier: gold}}, action: {type: fs-backup}}",
        &[("data", "file system backup from the pod main (volume data) by 1")],
    ),
    case("- {conditions: {pvcLabels: {tier: junk}}, action: {type: fs-backup}}", &[("spare", READER)]),
    case("- {conditions: {pvcVolumeMode: Block}, action: {type: fs-backup}}", &[("block", NO)]),
    case("- {conditions: {volumeTypes: [hostPath]}, action: {type: fs-backup}}", &[("host", NO)]),
    case(
        "- {conditions: {storageClass: [csi]}, action: {type: snapshot-csi}}",
        &[("block", CSI), ("data", CSI), ("spare", CSI)],
    ),
    case("- {conditions: {nfs: {}}, action: {type: snapshot-csi}}", &[("nfs", NO)]),
    case("- {conditions: {pvcLabels: {tier: gold}}, action: {type: snapshot-native}}", &[("data", NO)]),
    case(
        "- {conditions: {pvcLabels: {tier: gold}}, action: {type: snapshot-datamover}}",
        &[("data", "CSI snapshot whose data is moved by 1")],
    ),
    // A name that is not that of a class of the driver does not count.
    case(
        "- {conditions: {pvcLabels: {tier: gold}}, action: {type: snapshot, parameters: {snapshotClass: late}}}",
        &[("data", CSI)],
    ),
    case(
        "- {conditions: {pvcLabels: {tier: gold}}, action: {type: custom, parameters: {tool: dump}}}",
        &[("data", NO)],
    ),
    case(
        "- {conditions: {pvcLabels: {tier: junk}}, action: {type: skip}}\n- {conditions: {storageClass: [csi]}, action: {type: snapshot}}",
        &[
            ("block", "CSI snapshot of the class csi by 2"),
            ("data", "CSI snapshot of the class csi by 2"),
            ("spare", NO),
        ],
    ),
    Case {
        rules: "- {conditions: {pvcLabels: {tier: gold}}, action: {type: snapshot}}",
        flags: &["--features=EnableCSI", "--snapshot-volumes=false"],
        expected: &[("block", "nothing"), ("data", CSI), ("foreign", "nothing"), ("spare", "nothing")],
    },
    Case {
        rules: "",
        flags: &["--features=EnableCSI", "--default-volumes-to-fs-backup"],
        expected: &[
            ("block", "nothing"),
            ("data", "file system backup from the pod main (volume data)"),
            // No pod mounts them, and no snapshot of them can be taken.
            ("foreign", "file system backup by a reader pod"),
            ("main:cache", "file system backup from the pod main (volume cache)"),
            ("nfs", "file system backup by a reader pod"),
        ],
    },
    Case {
        rules: "",
        flags: &["--features=EnableCSI", "--snapshot-move-data"],
        expected: &[("block", MOVED), ("data", MOVED), ("foreign", MOVED), ("spare", MOVED)],
    },
    Case {
        rules: "",
        flags: &[],
        expected: &[("block", "nothing"), ("data", "nothing"), ("foreign", "nothing"), ("spare", "nothing")],
    },
];

/// A claim of this class and size; the rest of its spec, and its labels.
fn claim(place: &Place, name: &str, labels: &Value, spec: &Value) {
    place.ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": place.shop, "labels": labels}, "spec": spec}));
}

/// Claims of volumes of all kinds, and a pod that mounts some of them.
fn volumes(place: &Place) {
    let of_csi = |size: &str, mode: &str| json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "volumeMode": mode, "resources": {"requests": {"storage": size}}});
    claim(place, "data", &json!({"tier": "gold", "team": "a"}), &of_csi("16Mi", "Filesystem"));
    claim(place, "spare", &json!({"tier": "junk"}), &of_csi("16Mi", "Filesystem"));
    claim(place, "block", &json!({}), &of_csi("32Mi", "Block"));
    claim(
        place,
        "wait",
        &json!({}),
        &json!({"accessModes": ["ReadOnlyMany"], "storageClassName": "csi-wait", "resources": {"requests": {"storage": "16Mi"}}}),
    );
    for (name, source) in [
        ("nfs", json!({"nfs": {"server": "nfs.example.com", "path": "/srv/verdicts"}})),
        ("host", json!({"hostPath": {"path": "/srv/verdicts"}})),
        (
            "foreign",
            json!({"csi": {"driver": "cannot.example.com", "volumeHandle": "1", "volumeAttributes": {"tier": "gold"}}}),
        ),
    ] {
        let volume = format!("verdicts-{name}");
        let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": place.shop, "name": name}});
        spec.as_object_mut().expect("a map").extend(source.as_object().cloned().unwrap_or_default());
        place.ground.create(
            &json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec}),
        );
        let spec = json!({"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}}});
        claim(place, name, &json!({}), &spec);
    }
    place.ground.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "main", "namespace": place.shop},
        "spec": {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
            "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "sleep 3600"],
                "volumeDevices": [{"name": "block", "devicePath": "/dev/block"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "cache", "mountPath": "/cache"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "block", "persistentVolumeClaim": {"claimName": "block"}}, {"name": "cache", "emptyDir": {}}]}}));
    place.until_ready(&place.shop, "main");
    for name in ["data", "spare", "block", "nfs", "host", "foreign"] {
        eventually(&format!("the bound claim {name}"), || {
            place.ground.get_in(&place.shop, "persistentvolumeclaim", name)["status"]["phase"] == "Bound"
        });
    }
}

/// Runs the program and gives what it says of each volume: what is done, and which rule says so.
fn said(place: &Place, arguments: &[&str]) -> BTreeMap<String, String> {
    let mut command = Command::new(program());
    command.args(arguments).args(["-o", "json", "--namespace", &place.own]);
    let run = run(command.env("KUBECONFIG", place.ground.bed.plane.kubeconfig()));
    let said: Value = serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {run:?}"));
    let text = |volume: &Value, key: &str| volume[key].as_str().unwrap_or_default().to_owned();
    let prefix = format!("{}/", place.shop);
    let of = |volume: &Value| {
        let (name, done, reason) = (text(volume, "name"), text(volume, "done"), text(volume, "reason"));
        let rule = reason.strip_prefix("the rule ").and_then(|rest| rest.split(' ').next());
        let by = rule.map(|number| format!(" by {number}")).unwrap_or_default();
        (name.trim_start_matches(&prefix).to_owned(), done + &by)
    };
    said["volumes"].as_array().unwrap_or_else(|| panic!("{run:?}")).iter().map(of).collect()
}

fn explained(place: &Place, policies: &Path, flags: &[&str]) -> BTreeMap<String, String> {
    let policies = policies.display().to_string();
    let explain = ["volume", "explain", "--object-namespace", &place.shop, "--resource-policies", &policies];
    said(place, &[&explain, flags].concat())
}

fn written(place: &Place, rules: &str) -> PathBuf {
    let path = place.ground.directories.path().join("policies.yaml");
    let list = if rules.is_empty() { " []".to_owned() } else { format!("\n{rules}") };
    std::fs::write(&path, format!("version: v1\nvolumePolicies:{list}\n")).expect("write");
    path
}

fn expected(case: &Case) -> BTreeMap<String, String> {
    PLAIN.iter().chain(case.expected).map(|(name, done)| ((*name).to_owned(), (*done).to_owned())).collect()
}

/// The treatment of each claim, from the volume information of a backup.
fn done(place: &Place, backup: &str) -> BTreeMap<String, &'static str> {
    let location = place.own.trim_start_matches("velero-");
    let file = format!("{location}/backups/{backup}/{backup}-volumeinfo.json.gz");
    let all = gunzip_json(&place.ground.s3.file(BUCKET, &file));
    let of = |info: &Value| {
        let name = info["pvcName"].as_str().unwrap_or_default().to_owned();
        let done = match (info["skipped"] == true, info["result"].as_str()) {
            (true, _) => "nothing",
            (false, Some("succeeded")) if info["backupMethod"] == "CSISnapshot" => "CSI snapshot",
            _ => panic!("{info}"),
        };
        (name, done)
    };
    all.as_array().into_iter().flatten().map(of).collect()
}

/// scenario: BackupVolumeInfo, SkippedVolume
/// scenario: ResourceFiltering, ResourcePolicies, Snapshot
#[test]
#[ignore = "needs a node: make test-node"]
fn each_policy_says_of_each_volume_what_is_done_and_the_backup_does_it() {
    let place = Place::start("verdicts");
    volumes(&place);
    for case in &CASES {
        let policies = written(&place, case.rules);
        assert_eq!(explained(&place, &policies, case.flags), expected(case), "{:?} {}", case.flags, case.rules);
    }
    let _server = place.server();
    // Its driver has no snapshot class.
    let foreign = "- {conditions: {csi: {driver: cannot.example.com}}, action: {type: skip}}";
    for (number, rules) in [
        "",
        "- {conditions: {pvcLabels: {tier: junk}}, action: {type: skip}}\n",
        "- {conditions: {pvcVolumeMode: Block}, action: {type: snapshot-csi}}\n- {conditions: {storageClass: [csi]}, action: {type: skip}}\n",
        "- {conditions: {capacity: \"20Mi,\"}, action: {type: skip}}\n",
        "- {conditions: {volumeTypes: [csi]}, action: {type: snapshot, parameters: {snapshotClass: csi}}}\n",
    ]
    .into_iter()
    .enumerate()
    {
        let (name, rules) = (format!("b{number}"), format!("{foreign}\n{rules}"));
        let policies = written(&place, rules.trim_end());
        let text = std::fs::read_to_string(&policies).expect("policies");
        let literal = format!("--from-literal=rules={text}");
        place.ground.bed.kubectl(&["create", "configmap", &name, "-n", &place.own, &literal]);
        let flags = ["--include-namespaces", &place.shop, "--resource-policies-configmap", &name];
        let create = ["backup", "create", &name, "--dry-run", "--features=EnableCSI", "--storage-location=verdicts"];
        let before = said(&place, &[&create[..], &flags].concat());
        assert_eq!(before, explained(&place, &policies, &["--features=EnableCSI"]), "{rules}");
        place.backup(&name, &json!({"resourcePolicy": {"kind": "configmap", "name": name}}));
        place.ground.until_in(&place.own, "backup", &name, "Completed");
        let word = |text: &str| if text.starts_with("CSI snapshot") { "CSI snapshot" } else { "nothing" };
        let before: BTreeMap<String, &str> = before.iter().map(|(name, text)| (name.clone(), word(text))).collect();
        assert_eq!(done(&place, &name), before, "{rules}");
    }
    for name in ["nfs", "host", "foreign"] {
        place.ground.bed.kubectl(&["delete", "pv", &format!("verdicts-{name}"), "--wait=false"]);
    }
    place.end();
}

/// The volumes of a record of Velero, in our words.
fn of_velero(infos: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |info: &Value| {
        let (pod, volume) = (text(&info["pvbInfo"]["podName"]), text(&info["pvbInfo"]["volumeName"]));
        let name = match text(&info["pvcName"]) {
            claim if claim.is_empty() => format!("{pod}:{volume}"),
            claim => claim,
        };
        let done = match info["backupMethod"].as_str() {
            None => "nothing".to_owned(),
            Some("CSISnapshot") => SNAPSHOT.to_owned(),
            Some("PodVolumeBackup") => format!("file system backup from the pod {pod} (volume {volume})"),
            Some(other) => panic!("{other}"),
        };
        (name, done)
    };
    infos.as_array().into_iter().flatten().map(of).collect()
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_policy_means_for_each_volume_what_it_means_for_velero() {
    let place = Place::start("verdicts-golden");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/volumes");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a fixture");
    // Its driver and its class have other names there.
    let here = |text: String| {
        text.replace("csi-testcsi", "csi")
            .replace("test.csi.local", DRIVER)
            .replace("namespace: vol", &format!("namespace: {}", place.shop))
    };
    let own = place.ground.directories.path();
    for (name, text) in [("application.yaml", "application.yaml"), ("claims.yaml", "policy/claims.yaml")] {
        // The namespace is there already.
        let text = here(read(text)).replace("metadata: {name: vol}", &format!("metadata: {{name: {}}}", place.shop));
        std::fs::write(own.join(name), text).expect("write");
        place.ground.kubectl().apply(&own.join(name)).unwrap_or_else(|e| panic!("{e:#}"));
    }
    for pod in ["web-0", "blkpod", "multi"] {
        eventually(pod, || !place.ground.get_in(&place.shop, "pod", pod).is_null());
        place.until_ready(&place.shop, pod);
    }
    eventually("the bound claim that nothing mounts", || {
        place.ground.get_in(&place.shop, "persistentvolumeclaim", "p-unmounted")["status"]["phase"] == "Bound"
    });
    let policies = own.join("policies.yaml");
    std::fs::write(&policies, here(read("policy/policies.yaml"))).expect("write");
    let infos = gunzip_json(&folder.join("backups/pol1/pol1-volumeinfo.json.gz"));
    let said = explained(&place, &policies, &["--features=EnableCSI"]);
    let said: BTreeMap<String, String> = said
        .iter()
        .map(|(name, text)| (name.clone(), text.rsplit_once(" by ").map_or(text.as_str(), |(done, _)| done).to_owned()))
        .collect();
    let mut expected = of_velero(&infos);
    // Velero skips the files of a claim that no pod mounts.
    assert_eq!(
        expected.insert("p-unmounted".to_owned(), "file system backup by a reader pod".to_owned()),
        Some("nothing".to_owned())
    );
    assert_eq!(said, expected);
    place.end();
}
