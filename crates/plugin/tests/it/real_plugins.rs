//! The host with plugins that people use, as they are released. They are listed in Velero's order, get their configuration, and are
//! called for what they can do without their clouds.
//!
//! Their programs take some minutes to build, so these tests belong to `make test-long`.

use crate::bed::{Bed, journal};
use crate::object::{backup, restore};
use bytes::Bytes;
use lifeboat_action::{ActionError, Actions, BackupItemInput, RestoreItemInput, VolumeFacts, VolumeRequest};
use lifeboat_api::Backup;
use lifeboat_bucket::conformance::{self, IfAbsent};
use lifeboat_bucket::{PutOptions, collect};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_plugin::PluginName;
use lifeboat_testbed::{Ec2Server, S3Server, real_plugin};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An address at which nobody listens.
const NOBODY: &str = "http://127.0.0.1:9";

/// A folder with one of these plugins.
fn with(name: &str) -> Bed {
    let bed = Bed::new();
    let program = format!("velero-plugin-for-{name}");
    std::os::unix::fs::symlink(real_plugin(name).unwrap(), bed.program(&program)).unwrap();
    bed
}

async fn listed(bed: &Bed) -> Vec<String> {
    let host = bed.discover().await.unwrap();
    host.plugins().iter().map(|plugin| format!("{} {}", plugin.kind, plugin.name)).collect()
}

fn config(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn provider(name: &str) -> PluginName {
    PluginName::of_provider(name).unwrap()
}

/// A file in the bed.
fn file(bed: &Bed, name: &str, content: &str) -> String {
    std::fs::write(bed.path(name), content).unwrap();
    bed.path(name).display().to_string()
}

fn volume(source: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": source})
}

/// The response to a plain HTTP request.
fn http(server: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(server.trim_start_matches("http://")).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn aws_credentials(bed: &Bed, key: &str, secret: &str) -> String {
    let text = format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n");
    file(bed, "aws-credentials", &text)
}

#[tokio::test]
#[ignore = "it builds plugins: make test-long"]
async fn long_the_object_store_for_aws_conforms_but_for_conditional_puts() {
    let bed = with("aws");
    assert_eq!(listed(&bed).await, ["VolumeSnapshotter velero.io/aws", "ObjectStore velero.io/aws"]);
    let server = S3Server::start().unwrap();
    for bucket in ["conforms", "objects"] {
        server.make_bucket(bucket).unwrap();
    }
    let credentials = aws_credentials(&bed, server.access_key(), server.secret_key());
    let with = |bucket: &str, credentials: &str| {
        config(&[
            ("bucket", bucket),
            ("prefix", ""),
            ("region", server.region()),
            ("s3Url", server.endpoint()),
            ("s3ForcePathStyle", "true"),
            ("credentialsFile", credentials),
        ])
    };
    let host = bed.discover().await.unwrap();
    let store = host.object_store(&provider("aws"), with("conforms", &credentials)).await.unwrap();
    conformance::run_where(store, IfAbsent::LooksFirst).await;

    let store = host.object_store(&provider("aws"), with("objects", &credentials)).await.unwrap();
    let body: Bytes = (0..20u32 << 20).map(|n| (n % 251) as u8).collect::<Vec<u8>>().into();
    store.put("p/large", body.clone().into(), PutOptions::default()).await.unwrap();
    assert!(collect(store.get("p/large", None).await.unwrap(), 100 << 20).await.unwrap() == body);
    assert!(std::fs::read(server.file("objects", "p/large")).unwrap() == body, "what is in the bucket");
    store.put("p/small", Bytes::from_static(b"hello").into(), PutOptions::default()).await.unwrap();
    let url = store.presign("p/small", Duration::from_secs(600)).await.unwrap().unwrap();
    let path = url.strip_prefix(server.endpoint()).unwrap();
    let answer = http(server.endpoint(), &format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", &server.endpoint()[7..]));
    assert!(answer.contains(" 200 ") && answer.ends_with("hello"), "{answer}");

    let mut wrong = with("objects", &credentials);
    wrong.insert("wrong".to_owned(), "x".to_owned());
    let error = host.object_store(&provider("aws"), wrong).await.unwrap_err().to_string();
    let start = "the ObjectStore velero.io/aws does not take its configuration: rpc error: code = Unknown desc = config has invalid keys \
                 [wrong]; valid keys are [";
    assert!(error.starts_with(start), "{error}");
    let denied = aws_credentials(&bed, server.access_key(), "another secret");
    let store = host.object_store(&provider("aws"), with("objects", &denied)).await.unwrap();
    let error = store.put("p/x", Bytes::from_static(b"x").into(), PutOptions::default()).await.unwrap_err();
    assert!(error.message.contains("SignatureDoesNotMatch"), "{error}");
    host.shut_down().await;
}

/// A call of the API of EC2. Nobody checks its signature.
fn ec2(server: &str, call: &str) -> String {
    let body = format!("{call}&Version=2016-11-15");
    let scope = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=x";
    let request = format!(
        "POST / HTTP/1.0\r\nHost: ec2.us-east-1.amazonaws.com\r\nAuthorization: {scope}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = http(server, &request);
    assert!(answer.contains(" 200 "), "{answer}");
    answer
}

/// The text between these marks.
fn between(text: &str, tag: &str) -> String {
    let rest = text.split_once(&format!("<{tag}>")).unwrap_or_else(|| panic!("no {tag} in {text}")).1;
    rest.split_once('<').unwrap().0.to_owned()
}

#[tokio::test]
#[ignore = "it builds plugins: make test-long"]
async fn long_the_snapshotter_for_aws_makes_snapshots_and_volumes() {
    let cloud = Ec2Server::start().unwrap();
    let mut bed = with("aws");
    bed.options.environment.push(("AWS_ENDPOINT_URL_EC2".into(), cloud.endpoint().into()));
    let credentials = aws_credentials(&bed, "x", "y");
    let made = ec2(cloud.endpoint(), "Action=CreateVolume&AvailabilityZone=us-east-1a&Size=1&VolumeType=io1&Iops=100");
    let disk = between(&made, "volumeId");
    let host = bed.discover().await.unwrap();
    let config = config(&[("region", "us-east-1"), ("credentialsFile", &credentials)]);
    let snapshotter = host.volume_snapshotter(&provider("aws"), config, &journal("b")).await.unwrap();
    let csi = |handle: &str| volume(&json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": handle}}));
    assert_eq!(snapshotter.volume_id(&csi(&disk)).await.unwrap().as_ref(), Some(&disk));
    assert_eq!(snapshotter.volume_id(&volume(&json!({"nfs": {"server": "s", "path": "/"}}))).await.unwrap(), None);
    let facts = snapshotter.volume_facts(&disk, "us-east-1a").await.unwrap();
    assert_eq!(facts, VolumeFacts { volume_type: "io1".to_owned(), iops: Some(100) });
    let tags = BTreeMap::from([("velero.io/backup".to_owned(), "nightly".to_owned())]);
    let snapshot = snapshotter.create_snapshot(&disk, "us-east-1a", &tags).await.unwrap();
    let ours = || {
        ec2(cloud.endpoint(), "Action=DescribeSnapshots&Filter.1.Name=tag:velero.io/backup&Filter.1.Value.1=nightly")
    };
    assert_eq!(between(&ours(), "snapshotId"), snapshot);
    let request = VolumeRequest { snapshot_id: snapshot.clone(), facts, zone: "us-east-1b".to_owned() };
    let copy = snapshotter.create_volume(&request).await.unwrap();
    let described = ec2(cloud.endpoint(), &format!("Action=DescribeVolumes&VolumeId.1={copy}"));
    assert_eq!(
        (between(&described, "snapshotId"), between(&described, "availabilityZone")),
        (snapshot.clone(), "us-east-1b".to_owned())
    );
    let set = snapshotter.set_volume_id(csi(&disk), &copy).await.unwrap();
    assert_eq!(set["spec"]["csi"]["volumeHandle"], *copy);
    // Once more is no error: it may be that nobody heard that it is done.
    for _ in 0..2 {
        snapshotter.delete_snapshot(&snapshot).await.unwrap();
    }
    assert!(!ours().contains(&snapshot));
    let gone = snapshotter.create_snapshot("vol-00000000000000000", "us-east-1a", &tags).await.unwrap_err();
    assert!(gone.message.contains("InvalidVolume.NotFound"), "{gone}");
    host.shut_down().await;
}

#[tokio::test]
#[ignore = "it builds plugins: make test-long"]
async fn long_the_snapshotter_for_aws_tells_that_its_cloud_cannot_be_reached() {
    let mut bed = with("aws");
    bed.options.environment.push(("AWS_ENDPOINT_URL_EC2".into(), NOBODY.into()));
    let credentials = aws_credentials(&bed, "x", "y");
    let host = bed.discover().await.unwrap();
    let journal = journal("b");
    let without = config(&[("credentialsFile", &credentials)]);
    let error = host.volume_snapshotter(&provider("aws"), without, &journal).await.err().unwrap().to_string();
    assert!(error.ends_with("desc = missing region in aws configuration"), "{error}");
    let config = config(&[("region", "us-east-1"), ("credentialsFile", &credentials)]);
    let snapshotter = host.volume_snapshotter(&provider("aws"), config, &journal).await.unwrap();
    let error = snapshotter.volume_facts("vol-1", "us-east-1a").await.unwrap_err();
    assert!(error.message.contains("EC2: DescribeVolumes") && error.message.contains("connection refused"), "{error}");
}

#[tokio::test]
#[ignore = "it builds plugins: make test-long"]
async fn long_the_plugin_for_gcp_takes_its_configuration_and_names_errors() {
    let bed = with("gcp");
    assert_eq!(listed(&bed).await, ["VolumeSnapshotter velero.io/gcp", "ObjectStore velero.io/gcp"]);
    let host = bed.discover().await.unwrap();
    let none = bed.path("none").display().to_string();
    let missing = config(&[("bucket", "b"), ("prefix", ""), ("credentialsFile", &none)]);
    let error = host.object_store(&provider("gcp"), missing).await.unwrap_err().to_string();
    assert!(error.contains("error reading provided credentials file") && error.contains("no such file"), "{error}");

    let account = json!({"type": "service_account", "project_id": "p", "private_key_id": "k", "private_key": "none",
        "client_email": "velero@p.example", "client_id": "1", "token_uri": format!("{NOBODY}/token")});
    let account = file(&bed, "account.json", &account.to_string());
    let with = config(&[("bucket", "b"), ("prefix", ""), ("credentialsFile", &account), ("storeEndpoint", NOBODY)]);
    let store = host.object_store(&provider("gcp"), with).await.unwrap();
    let error = store.exists("a").await.unwrap_err();
    assert!(error.message.contains("private key should be a PEM"), "{error}");
    // With such a key it can sign nothing: it says so, and the server serves the files.
    assert_eq!(store.presign("a", Duration::from_secs(600)).await.unwrap(), None);

    let with = config(&[("credentialsFile", &account), ("snapshotLocation", "us")]);
    let snapshotter = host.volume_snapshotter(&provider("gcp"), with, &journal("b")).await.unwrap();
    let csi = |handle: &str| volume(&json!({"csi": {"driver": "pd.csi.storage.gke.io", "volumeHandle": handle}}));
    let disk = snapshotter.volume_id(&csi("projects/p/zones/z/disks/d")).await.unwrap();
    assert_eq!(disk.as_deref(), Some("d"));
    let set = snapshotter.set_volume_id(csi("projects/p/zones/z/disks/d"), "e").await.unwrap();
    assert_eq!(set["spec"]["csi"]["volumeHandle"], "projects/p/zones/z/disks/e");
    let error = snapshotter.volume_id(&csi("d")).await.unwrap_err();
    assert!(error.message.contains("invalid volumeHandle for CSI driver"), "{error}");
    let error = snapshotter.create_snapshot("d", "z", &BTreeMap::new()).await.unwrap_err();
    assert!(error.message.contains("private key should be a PEM"), "{error}");
    host.shut_down().await;
}

/// A cluster that does not answer.
fn kubeconfig(bed: &Bed) -> String {
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [],
        "clusters": [{"name": "c", "cluster": {"server": NOBODY}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}]});
    file(bed, "kubeconfig", &config.to_string())
}

async fn kubevirt(bed: &mut Bed) -> Actions {
    let path = kubeconfig(bed);
    bed.options.environment.push(("KUBECONFIG".into(), path.into()));
    bed.discover().await.unwrap().actions(&journal("b")).await.unwrap()
}

fn machine(status: &Value) -> Value {
    json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "vm", "namespace": "shop"},
        "spec": {"runStrategy": "Always",
            "instancetype": {"kind": "VirtualMachineClusterInstancetype", "name": "small"},
            "dataVolumeTemplates": [{"metadata": {"name": "disk"}, "spec": {}}],
            "template": {"spec": {"domain": {"devices": {}}, "volumes": [{"name": "d", "dataVolume": {"name": "disk"}}]}}},
        "status": status})
}

#[tokio::test]
#[ignore = "it builds plugins: make test-long"]
async fn long_the_plugin_for_kubevirt_backs_machines_up() {
    let mut bed = with("kubevirt");
    let named = |kind: &str, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("{kind} kubevirt-velero-plugin/{name}-action")).collect()
    };
    let backups =
        named("BackupItemAction", &["backup-datavolume", "backup-virtualmachine", "backup-virtualmachineinstance"]);
    let restores = named("RestoreItemAction", &["restore-pod", "restore-pvc", "restore-vm", "restore-vmi"]);
    assert_eq!(listed(&bed).await, [backups, restores].concat());
    // It does not begin without a cluster.
    let error = bed.discover().await.unwrap().actions(&journal("b")).await.unwrap_err().to_string();
    let start = "the BackupItemAction kubevirt-velero-plugin/backup-virtualmachineinstance-action does not say what it applies to: ";
    assert!(error.starts_with(start) && error.contains("no configuration has been provided"), "{error}");

    let actions = kubevirt(&mut bed).await;
    let names: Vec<&str> = actions.backup_item.iter().map(|action| action.name()).collect();
    let expected = ["datavolume", "virtualmachine", "virtualmachineinstance"];
    assert_eq!(names, expected.map(|name| format!("kubevirt-velero-plugin/backup-{name}-action")));
    let [volumes, machines, _] = &actions.backup_item[..] else { panic!("{names:?}") };
    assert_eq!(machines.applies_to().included_resources, ["VirtualMachine"]);
    let execute = async |item: Value, backup: &Backup| machines.execute(BackupItemInput { item, backup }).await;
    let revision = json!({"controllerRevisionRef": {"name": "small-v1"}});
    let stopped = machine(&json!({"printableStatus": "Stopped", "instancetypeRef": revision}));
    let saved = execute(stopped, &backup()).await.unwrap();
    assert_eq!(saved.item["spec"]["instancetype"]["revisionName"], "small-v1");
    let disk = |group: &str, resource: &str| ObjectKey::new(GroupResource::new(group, resource), Some("shop"), "disk");
    for key in [disk("cdi.kubevirt.io", "datavolumes"), disk("", "persistentvolumeclaims")] {
        assert!(saved.additional_items.contains(&key), "{key} is not in {:?}", saved.additional_items);
    }
    // What runs is not saved without the instance that runs.
    let mut alone = backup();
    alone.spec.included_resources = vec!["virtualmachines".to_owned()];
    let refused = execute(machine(&json!({"printableStatus": "Running"})), &alone).await;
    assert_eq!(refused, Err(ActionError::item("rpc error: code = Unknown desc = VM cannot be safely backed up")));
    let owners = json!([{"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "disk", "uid": "u", "controller": true}]);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk", "namespace": "shop", "ownerReferences": owners}, "spec": {}});
    let away = volumes.execute(BackupItemInput { item: claim, backup: &backup() }).await.unwrap_err();
    assert!(away.message.contains("connection refused"), "{away}");
}

#[tokio::test]
#[ignore = "it builds plugins: make test-long"]
async fn long_the_plugin_for_kubevirt_restores_machines() {
    let mut bed = with("kubevirt");
    let actions = kubevirt(&mut bed).await;
    let [pods, claims, machines, instances] = &actions.restore_item[..] else { panic!("{actions:?}") };
    let mut again = restore();
    again.metadata.labels.insert("velero.kubevirt.io/restore-run-strategy".to_owned(), "Halted".to_owned());
    let input = |item: &Value| (item.clone(), item.clone());
    let execute = async |action: &dyn lifeboat_action::RestoreItemAction, item: Value| {
        let (item, item_from_backup) = input(&item);
        action.execute(RestoreItemInput { item, item_from_backup: &item_from_backup, restore: &again }).await.unwrap()
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "virt-launcher-vm", "namespace": "shop"}, "spec": {}});
    assert!(execute(&**pods, pod).await.skip);
    assert_eq!(pods.applies_to().label_selector, "kubevirt.io in (virt-launcher, hotplug-disk)");
    for (annotations, is_skipped) in [(json!({}), false), (json!({"kvp.kubevirt.io/storage.inprogress": "disk"}), true)]
    {
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "disk", "namespace": "shop", "annotations": annotations}, "spec": {}});
        assert_eq!(execute(&**claims, claim).await.skip, is_skipped, "{annotations}");
    }
    let made = execute(&**machines, machine(&json!({}))).await;
    assert_eq!((made.skip, &made.item["spec"]["runStrategy"]), (false, &json!("Halted")));
    let instance = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "shop", "annotations": {"cdi.kubevirt.io/velero.isOwned": "true"}},
        "spec": {"domain": {"devices": {}}}});
    assert!(execute(&**instances, instance).await.skip);
}
