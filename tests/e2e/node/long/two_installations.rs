//! Two installations that write one repository at the same time, as two clusters with one bucket do.

use crate::node::movers::install;
use crate::node::place::{Place, PodVolume, REPOSITORY_SECRET};
use crate::node::transfer_kills::{last_words, left, verify};
use crate::support::{comes_to_be, ended};
use serde_json::json;
use std::process::{Child, Command, Stdio};

/// Backups that each makes, one after the other.
const ROUNDS: usize = 3;

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process")
}

/// The object of an installation is complete.
fn is_complete(place: &Place, own: &str, kind: &str, name: &str) {
    let facts = place.ground.get_in(own, kind, name);
    assert_eq!(facts["status"]["phase"], "Completed", "{own} {kind} {name}: {facts} {}", last_words(place));
}

#[test]
#[ignore = "needs a node: make test-long"]
fn two_installations_write_one_repository_at_once() {
    let mut place = Place::start("first");
    install(&place, &["--use-node-agent"]);
    let metadata = json!({"annotations": {"backup.velero.io/backup-volumes": "data"}});
    place.sleeper("web", &[PodVolume::EmptyDir("data")], &metadata);
    let fill = "for d in a b c d; do mkdir -p /data/$d && head -c 5000000 /dev/urandom > /data/$d/big; done; chown -R 1000:2000 /data/a; sync";
    place.ask(&place.shop, "web", fill);
    let namespaces = format!("--include-namespaces={}", place.shop);
    // It makes the repository and its password.
    let made = place.lifeboat(&["backup", "create", "before", &namespaces, "--wait"]);
    assert_eq!(made.code, 0, "{made:?} {}", last_words(&place));
    let password = place.ground.get_in(&place.own, "secret", REPOSITORY_SECRET)["data"].clone();
    let first = std::mem::replace(&mut place.own, "velero-first-two".to_owned());
    let second = place.own.clone();
    place.ground.bed.kubectl(&["create", "namespace", &second]);
    place.ground.create(&json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": REPOSITORY_SECRET, "namespace": second}, "data": password}));
    install(&place, &["--use-node-agent"]);

    for round in 0..ROUNDS {
        place.ask(&place.shop, "web", fill);
        let before = place.look(&place.shop, "web", &["data"]);
        let names = [&first, &second].map(|own| format!("of-{own}-{round}"));
        let mut running = Vec::new();
        for (own, name) in [&first, &second].into_iter().zip(&names) {
            place.own.clone_from(own);
            running.push(spawn(place.command(&["backup", "create", name, &namespaces, "--wait"])));
        }
        for backup in &mut running {
            ended(backup);
        }
        for (own, name) in [&first, &second].into_iter().zip(&names) {
            is_complete(&place, own, "backup", name);
            place.own.clone_from(own);
            let copy = format!("{}-{name}", place.shop);
            let mapping = format!("--namespace-mappings={}:{copy}", place.shop);
            let from = format!("--from-backup={name}");
            let back = place.lifeboat(&["restore", "create", name, &from, &mapping, "--wait"]);
            assert_eq!(back.code, 0, "{back:?} {}", last_words(&place));
            is_complete(&place, own, "restore", name);
            place.until_ready(&copy, "web");
            assert_eq!(place.look(&copy, "web", &["data"]), before, "{name}");
            assert!(comes_to_be(|| left(&place).is_empty()), "{:?}", left(&place));
            place.ground.bed.kubectl(&["delete", "namespace", &copy, "--wait=false"]);
        }
    }
    let verified = verify(&place);
    assert_eq!(verified.code, 0, "{verified:?}");
    place.ground.bed.kubectl(&["delete", "namespace", &first, "--wait=false"]);
    place.end();
}
