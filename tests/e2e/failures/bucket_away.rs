//! A restore whose bucket is away for longer than it is waited for breaks off, and goes on from there.

use crate::faults::{Ground, config_maps, in_parallel, namespace};
use crate::ground;
use crate::support::{eventually, gunzip_json};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::{Value, json};

/// A namespace with ten Secrets and three ConfigMaps; it gets one more by itself.
fn objects() -> Vec<Value> {
    let secret = |n| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("secret-{n}"), "namespace": "shop"}});
    let objects = std::iter::once(namespace("shop")).chain((0..10).map(secret));
    objects.chain(config_maps("shop", 3)).collect()
}

/// Makes reads of the archive fail after it was read as a whole, for the namespaces, and for the Secrets. The next
/// reads are those for the ConfigMaps.
fn reads(fault: Fault) -> Rule {
    Rule::new("GET", "*/b.tar.gz?*", Nth::From(4), fault)
}

fn fails() -> Fault {
    Fault::Answer { status: 500, headers: vec![], body: String::new() }
}

#[test]
fn a_restore_whose_bucket_was_away_goes_on_when_the_command_is_run_again() {
    let ground = Ground::start(objects());
    let types = "namespaces,secrets,configmaps";
    let run = ground.case("away").local(&["backup", "b", "--include-namespaces", "shop", "--include-resources", types]);
    assert_eq!(run.code, 0, "{run:?}");

    let cases = [
        ("hangs", vec![reads(Fault::Hang)]),
        ("fails", vec![reads(fails()), Rule::new("PUT", "*/restores/*.gz?*", Nth::Every, fails())]),
    ];
    in_parallel(2, &cases.map(Some), |case| {
        let Some((name, rules)) = case else { return };
        let case = ground.case_in("away", name);
        let mapping = format!("shop:{name}");
        let args = ["restore", name, "--from-backup", "b", "--namespace-mappings", &mapping, "--request-timeout=3s"];
        let listed = || gunzip_json(&case.file(&format!("restores/{name}/restore-{name}-resource-list.json.gz")));
        let secrets: Vec<String> = (0..10).map(|n| format!("{name}/secret-{n}(created)")).collect();
        case.s3.script(rules.clone());
        let run = case.local(&args);
        assert!(case.s3.is_met(), "{run:?}");
        assert_eq!(
            (run.code, run.out.as_str()),
            (1, "Restore broke off. Objects until then: 11 created.\n"),
            "{run:?}"
        );
        for said in [
            "error: the restore broke off, because the archive of backup b could not be read to its end: cannot get ",
            "; 4 objects were not looked at\n",
            "An error occurred: the restore broke off; run the same command again: what is done stays, and it goes on with the rest\n",
        ] {
            assert!(run.err.contains(said), "{run:?}");
        }
        if *name == "fails" {
            let said = "error: error uploading restores/fails/restore-fails-resource-list.json.gz to backup storage: ";
            assert!(run.err.contains(said), "{run:?}");
        } else {
            let expected = json!({"v1/Namespace": [format!("{name}(created)")], "v1/Secret": secrets.clone()});
            assert_eq!(listed(), expected);
        }

        case.s3.script(Vec::new());
        let _ = case.api.take_seen();
        let run = case.local(&args);
        let again = case.api.take_seen().into_iter().filter(|seen| seen.path.contains(&format!("/{name}/secrets")));
        assert_eq!(again.collect::<Vec<_>>(), [], "what is done is passed over");
        let expected = "Restore completed with status: Completed. 15 objects, 0 warnings, 0 errors.\n";
        assert_eq!((run.code, run.out.as_str()), (0, expected), "{run:?}");
        let mut maps = vec![format!("{name}/kube-root-ca.crt(skipped)")];
        maps.extend((0..3).map(|n| format!("{name}/map-{n}(created)")));
        let expected =
            json!({"v1/ConfigMap": maps, "v1/Namespace": [format!("{name}(created)")], "v1/Secret": secrets});
        assert_eq!(listed(), expected);
    });
}

/// A server that waits so long for answers, the proxy before its bucket, and a backup of objects that are lost.
fn lost_after_backup(patience: &str) -> (ground::Ground, Proxy, ground::Server) {
    let ground = ground::Ground::start();
    for object in objects() {
        ground.create(&object);
    }
    let s3 = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    ground.s3_location("main", s3.url());
    let server = ground.server_with("one", &ground.bed.plane.kubeconfig(), &[&format!("--request-timeout={patience}")]);
    ground.until("backupstoragelocation", "main", "Available");
    let types = ["namespaces", "secrets", "configmaps"];
    let spec = json!({"includedNamespaces": ["shop"], "includedResources": types, "storageLocation": "main"});
    ground.velero("Backup", "b", &spec);
    ground.until("backup", "b", "Completed");
    ground.lose("shop");
    (ground, s3, server)
}

#[test]
fn a_restore_of_a_server_whose_bucket_was_away_goes_on_in_later_attempts() {
    // The pause before the third attempt is a third of this: the credentials are back by then also on a busy machine.
    let (ground, s3, _server) = lost_after_backup("60s");

    s3.script(vec![reads(fails())]);
    ground.velero("Restore", "away", &json!({"backupName": "b"}));
    eventually("the bucket is away", || s3.is_met());
    // The second attempt cannot even begin with the bucket.
    ground.bed.kubectl(&["delete", "secret", "cloud", "--namespace=velero"]);
    eventually("the second attempt", || ground.log("one").contains("error getting backup store"));
    s3.script(Vec::new());
    ground.credentials("velero");
    let ended = ground.until("restore", "away", "Completed");
    let status = &ended["status"];
    assert_eq!((&status["attempt"], &status["progress"]["itemsRestored"]), (&json!(3), &json!(15)), "{status}");
    assert_eq!((&status["errors"], &status["warnings"]), (&Value::Null, &Value::Null), "{status}");
    let list = gunzip_json(&ground.s3.file(ground::BUCKET, "main/restores/away/restore-away-resource-list.json.gz"));
    let created = |kind: &str, count| (0..count).map(|n| format!("shop/{kind}-{n}(created)")).collect::<Vec<_>>();
    let maps = [vec!["shop/kube-root-ca.crt(skipped)".to_owned()], created("map", 3)].concat();
    let expected = json!({"v1/ConfigMap": maps, "v1/Namespace": ["shop(created)"], "v1/Secret": created("secret", 10)});
    assert_eq!(list, expected);
}

/// Nobody can run it again: the third attempt is the last one.
#[test]
fn a_restore_that_a_server_gives_up_says_how_to_go_on() {
    let (ground, s3, _server) = lost_after_backup("8s");

    // The first attempt breaks off, and the others cannot begin.
    s3.script(vec![reads(fails())]);
    ground.velero("Restore", "away", &json!({"backupName": "b"}));
    let ended = ground.until("restore", "away", "Failed");
    assert_eq!(ended["status"]["attempt"], 3);
    let why = ended["status"]["failureReason"].as_str().unwrap_or_default();
    assert!(why.starts_with("cannot get "), "{why}");
    assert!(why.ends_with("; make another Restore of this backup: what is there is left alone"), "{why}");
    let file =
        |what: &str| gunzip_json(&ground.s3.file(ground::BUCKET, &format!("main/restores/away/restore-away-{what}")));
    assert_eq!(file("results.gz"), json!({"errors": {"velero": [why]}, "warnings": {}}));
    let secrets: Vec<String> = (0..10).map(|n| format!("shop/secret-{n}(created)")).collect();
    let expected = json!({"v1/Namespace": ["shop(created)"], "v1/Secret": secrets});
    assert_eq!(file("resource-list.json.gz"), expected);

    s3.script(Vec::new());
    ground.velero("Restore", "another", &json!({"backupName": "b"}));
    ground.until("restore", "another", "Completed");
}
