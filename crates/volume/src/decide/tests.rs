use super::*;
use crate::verdict::{BackupMovers, MissingMover};
use NoPod::{NoneRuns, NotMounted};
use lifeboat_api::NamespacedName;
use lifeboat_object::Quantity;
use lifeboat_select::PolicyUse;
use std::collections::BTreeMap;

fn policies(rules: &str) -> ResourcePolicies {
    let text = format!("version: v1\nvolumePolicies:\n{rules}");
    ResourcePolicies::parse(&text, PolicyUse::Backup).unwrap().from_source("ConfigMap v/p")
}

fn claim(volume: Option<&str>, phase: &str) -> Claim {
    Claim {
        key: NamespacedName { namespace: "n".into(), name: "c".into() },
        volume: volume.map(str::to_owned),
        phase: phase.into(),
        volume_mode: "Filesystem".into(),
        access_modes: vec!["ReadWriteOnce".into()],
        labels: BTreeMap::from([("tier".into(), "gold".into())]),
        ..Claim::default()
    }
}

fn csi() -> PersistentVolume {
    let facts = VolumeFacts {
        volume_type: "csi",
        csi: Some(("d".into(), BTreeMap::new())),
        storage_class: "fast".into(),
        capacity: Quantity::parse("8Mi"),
        ..VolumeFacts::default()
    };
    PersistentVolume { name: "pv".into(), facts, ..PersistentVolume::default() }
}

fn of_type(volume_type: &'static str) -> PersistentVolume {
    let facts = VolumeFacts { volume_type, ..VolumeFacts::default() };
    PersistentVolume { name: "pv".into(), facts, ..PersistentVolume::default() }
}

/// The pod `p`, which mounts the claim as `v`.
fn pod(change: impl Fn(&mut Pod, &mut PodVolume)) -> (Pod, PodVolume) {
    let mut pod = Pod { namespace: "n".into(), name: "p".into(), is_running: true, volumes: Vec::new() };
    let mut volume = PodVolume { name: "v".into(), is_mounted: true, ..PodVolume::default() };
    change(&mut pod, &mut volume);
    (pod, volume)
}

fn flags() -> Flags {
    Flags { snapshots: true, csi: true, serves_snapshots: true, saves_claims: true, ..Flags::default() }
}

fn from(pod: &str, volume: &str) -> Method {
    Method::FsBackup { through: FilePod::Mounting { pod: pod.into(), volume: volume.into() } }
}

fn by_reader(no_pod: NoPod) -> Method {
    Method::FsBackup { through: FilePod::Reader(no_pod) }
}

fn from_p() -> Method {
    from("p", "v")
}

fn snapshot() -> Method {
    Method::CsiSnapshot { class: String::new(), group: None }
}

fn rule(number: usize, action: &'static str, blocker: Option<Blocker>) -> MethodReason {
    MethodReason::Policy { number, source: "ConfigMap v/p".into(), action, blocker }
}

fn skip(why: MethodReason) -> Verdict {
    Verdict { method: Method::Skip, why }
}

/// The verdict on the claim `c`, which the pods mount.
fn of_claim(volume: &PersistentVolume, pods: &[(Pod, PodVolume)], rules: &str, flags: &Flags) -> Verdict {
    let (policies, claim) = ((!rules.is_empty()).then(|| policies(rules)), claim(Some("pv"), "Bound"));
    let mounts: Vec<_> = pods.iter().map(|(pod, volume)| (pod, volume)).collect();
    let subject = Volume::Claimed { claim: &claim, volume: Some(volume), mounts: &mounts };
    decide(subject, Rules { policies: policies.as_ref(), flags })
}

/// Combined outcomes of policies, annotations and settings, each with the data of snapshots moved and not.
#[test]
fn a_csi_claim_of_a_running_pod_has_the_outcome_of_veleros_table() {
    let annotation = || MethodReason::Annotation { pod: "p".into(), blocker: None };
    let by_default = || MethodReason::FsBackupByDefault { pod: "p".into(), blocker: None };
    for (opted_in, fs_default) in [(false, false), (true, false), (false, true), (true, true)] {
        for (snapshots, moves) in [(true, false), (true, true), (false, false), (false, true)] {
            let flags = Flags { fs_backup_by_default: fs_default, snapshots, moves_data: moves, ..flags() };
            let taken = match moves {
                true => Method::MovedCsiSnapshot { class: String::new(), data_mover: String::new(), group: None },
                false => snapshot(),
            };
            for (action, expected) in [
                ("skip", skip(rule(1, "skip", None))),
                ("fs-backup", Verdict { method: from_p(), why: rule(1, "fs-backup", None) }),
                ("snapshot", Verdict { method: taken.clone(), why: rule(1, "snapshot", None) }),
                ("custom", skip(rule(1, "custom", Some(Blocker::Custom)))),
                (
                    "",
                    match (opted_in, fs_default, snapshots) {
                        (_, true, _) => Verdict { method: from_p(), why: by_default() },
                        (true, false, _) => Verdict { method: from_p(), why: annotation() },
                        (false, false, true) => {
                            Verdict { method: taken, why: MethodReason::SnapshotByDefault { blocker: None } }
                        }
                        (false, false, false) => skip(MethodReason::NoSnapshots),
                    },
                ),
            ] {
                let rules = if action.is_empty() { String::new() } else { format!("- action: {{type: {action}}}") };
                let pods = [pod(|_, volume| volume.is_opted_in = opted_in)];
                let verdict = of_claim(&csi(), &pods, &rules, &flags);
                assert_eq!(verdict, expected, "{action:?} {opted_in} {flags:?}");
            }
        }
    }
}

#[test]
fn the_first_rule_that_matches_decides_and_is_named() {
    let rules = "- {conditions: {pvcLabels: {tier: junk}}, action: {type: skip}}
- {conditions: {capacity: '0,100Gi', storageClass: [fast], csi: {driver: d}}, action: {type: snapshot, parameters: {snapshotClass: s}}}
- {action: {type: skip}}";
    let verdict = of_claim(&csi(), &[], rules, &flags());
    assert_eq!(
        verdict,
        Verdict { method: Method::CsiSnapshot { class: "s".into(), group: None }, why: rule(2, "snapshot", None) }
    );
    assert_eq!(of_claim(&of_type("nfs"), &[], rules, &flags()), skip(rule(3, "skip", None)));
}

#[test]
fn the_finer_snapshots_are_taken_in_their_way_or_not_at_all() {
    let moved = |mover: &str| Method::MovedCsiSnapshot { class: String::new(), data_mover: mover.into(), group: None };
    let moving = Flags { moves_data: true, data_mover: "other".into(), ..flags() };
    let native = Flags { native: true, ..flags() };
    let off = Flags { csi: false, ..flags() };
    let nfs = of_type("nfs");
    let hindered = |action, blocker| skip(rule(1, action, Some(blocker)));
    let done = |method, action| Verdict { method, why: rule(1, action, None) };
    for (volume, action, flags, expected) in [
        (csi(), "snapshot-csi", flags(), done(snapshot(), "snapshot-csi")),
        (csi(), "snapshot-csi", moving.clone(), done(snapshot(), "snapshot-csi")),
        (csi(), "snapshot-csi", Flags { snapshots: false, ..flags() }, done(snapshot(), "snapshot-csi")),
        (
            csi(),
            "snapshot-csi",
            Flags { csi: false, native: true, ..flags() },
            hindered("snapshot-csi", Blocker::CsiIsOff),
        ),
        (
            csi(),
            "snapshot-csi",
            Flags { serves_snapshots: false, ..flags() },
            hindered("snapshot-csi", Blocker::NoSnapshotApi),
        ),
        (nfs.clone(), "snapshot-csi", native.clone(), hindered("snapshot-csi", Blocker::NotCsi)),
        (csi(), "snapshot-datamover", flags(), done(moved(""), "snapshot-datamover")),
        (csi(), "snapshot-datamover", moving.clone(), done(moved("other"), "snapshot-datamover")),
        (nfs.clone(), "snapshot-datamover", native.clone(), hindered("snapshot-datamover", Blocker::NotCsi)),
        (csi(), "snapshot-native", native.clone(), done(Method::NativeSnapshot, "snapshot-native")),
        (csi(), "snapshot-native", flags(), hindered("snapshot-native", Blocker::NoSnapshotter)),
        (nfs.clone(), "snapshot", native.clone(), done(Method::NativeSnapshot, "snapshot")),
        (nfs, "snapshot", flags(), hindered("snapshot", Blocker::NoSnapshotter)),
        (csi(), "snapshot", Flags { native: true, ..off.clone() }, done(Method::NativeSnapshot, "snapshot")),
        (csi(), "snapshot", off, hindered("snapshot", Blocker::NeitherCsiNorSnapshotter)),
        (csi(), "snapshot", moving, done(moved("other"), "snapshot")),
    ] {
        let verdict = of_claim(&volume, &[], &format!("- action: {{type: {action}}}"), &flags);
        assert_eq!(verdict, expected, "{action} {volume:?} {flags:?}");
    }
    let rules = "- action: {type: snapshot, parameters: {dataMover: velero-block}}";
    let verdict = of_claim(&csi(), &[], rules, &Flags { moves_data: true, data_mover: "other".into(), ..flags() });
    assert_eq!(verdict.method, moved("velero-block"), "the mover of a rule comes before that of the backup");
}

#[test]
fn files_are_saved_from_a_running_pod_that_mounts_them_or_by_a_reader_pod() {
    let rules = "- action: {type: fs-backup}";
    let runs = || pod(|_, _| ());
    let other = || pod(|pod, volume| (pod.name, volume.name) = ("q".into(), "w".into()));
    let done = Verdict { method: from_p(), why: rule(1, "fs-backup", None) };
    let hindered = |blocker| skip(rule(1, "fs-backup", Some(blocker)));
    let read = |no_pod| Verdict { method: by_reader(no_pod), ..done.clone() };
    let from_q = Verdict { method: from("q", "w"), ..done.clone() };
    let stopped = || pod(|pod, _| pod.is_running = false);
    let device = || pod(|_, volume| (volume.is_mounted, volume.is_device) = (false, true));
    let unused = || pod(|_, volume| volume.is_mounted = false);
    for (pods, expected) in [
        (vec![runs(), other()], done.clone()),
        (vec![stopped(), other()], from_q.clone()),
        (vec![device(), other()], from_q),
        (vec![], read(NotMounted)),
        (vec![unused()], read(NotMounted)),
        (vec![stopped()], read(NoneRuns)),
        (vec![stopped(), unused()], read(NotMounted)),
        (vec![device()], hindered(Blocker::Device)),
    ] {
        assert_eq!(of_claim(&csi(), &pods, rules, &flags()), expected, "{pods:?}");
    }
    for pods in [vec![runs()], vec![]] {
        assert_eq!(of_claim(&of_type("hostPath"), &pods, rules, &flags()), hindered(Blocker::HostPath));
    }
    // A device that no pod uses, and a volume whose claim is not known.
    let (policies, mut block, volume) = (policies(rules), claim(Some("pv"), "Bound"), csi());
    block.volume_mode = "Block".into();
    let flags = flags();
    let rules = Rules { policies: Some(&policies), flags: &flags };
    let device = decide(Volume::Claimed { claim: &block, volume: Some(&volume), mounts: &[] }, rules);
    assert_eq!(device, hindered(Blocker::Device));
    let unclaimed = decide(Volume::Unclaimed { volume: &volume, mounts: &[] }, rules);
    assert_eq!(unclaimed, hindered(Blocker::NotMounted));
}

#[test]
fn pods_ask_for_files_by_annotation_or_by_default() {
    let listed = || pod(|_, volume| volume.is_opted_in = true);
    let excluded = || pod(|_, volume| volume.is_opted_out = true);
    let stopped = || pod(|pod, volume| (pod.is_running, volume.is_opted_in) = (false, true));
    let taken = Verdict { method: snapshot(), why: MethodReason::SnapshotByDefault { blocker: None } };
    let asked = |method| Verdict { method, why: MethodReason::Annotation { pod: "p".into(), blocker: None } };
    let by_default =
        |method| Verdict { method, why: MethodReason::FsBackupByDefault { pod: "p".into(), blocker: None } };
    let running_q = || pod(|pod, volume| (pod.name, volume.is_opted_out) = ("q".into(), true));
    let all = Flags { fs_backup_by_default: true, ..flags() };
    for (pods, flags, expected) in [
        (vec![listed()], flags(), asked(from_p())),
        (vec![listed()], Flags { saves_claims: false, ..flags() }, taken.clone()),
        // Velero saves nothing of it.
        (vec![stopped()], flags(), asked(by_reader(NoneRuns))),
        // The files are the same from within another pod.
        (vec![stopped(), running_q()], flags(), asked(from("q", "v"))),
        (vec![excluded()], flags(), taken.clone()),
        (vec![excluded()], all.clone(), taken.clone()),
        (
            vec![excluded(), pod(|pod, _| pod.name = "q".into())],
            all.clone(),
            Verdict { method: from("q", "v"), why: MethodReason::FsBackupByDefault { pod: "q".into(), blocker: None } },
        ),
        (vec![pod(|_, _| ())], all.clone(), by_default(from_p())),
        (vec![stopped()], all.clone(), by_default(by_reader(NoneRuns))),
        (vec![], all, taken),
    ] {
        assert_eq!(of_claim(&csi(), &pods, "", &flags), expected, "{pods:?} {flags:?}");
    }
}

#[test]
fn an_ephemeral_volume_is_one_with_its_claim() {
    let ephemeral = |is_opted_in: bool, is_opted_out: bool| {
        let mark = |_: &mut Pod, volume: &mut PodVolume| {
            volume.is_ephemeral = true;
            (volume.is_opted_in, volume.is_opted_out) = (is_opted_in, is_opted_out);
        };
        [pod(mark)]
    };
    let taken = Verdict { method: snapshot(), why: MethodReason::SnapshotByDefault { blocker: None } };
    let annotated = MethodReason::Annotation { pod: "p".into(), blocker: None };
    let by_default = MethodReason::FsBackupByDefault { pod: "p".into(), blocker: None };
    let all = Flags { fs_backup_by_default: true, ..flags() };
    let rule_of =
        |of: &str, action: &str| format!("- {{conditions: {{volumeTypes: [{of}]}}, action: {{type: {action}}}}}");
    let (skips, saves, skips_csi) =
        (rule_of("ephemeral", "skip"), rule_of("ephemeral", "fs-backup"), rule_of("csi", "skip"));
    for (pods, rules, flags, expected) in [
        (ephemeral(true, false), "", flags(), Verdict { method: from_p(), why: annotated }),
        (ephemeral(false, false), "", flags(), taken.clone()),
        (ephemeral(false, false), "", all.clone(), Verdict { method: from_p(), why: by_default }),
        (ephemeral(false, true), "", all.clone(), taken),
        (ephemeral(false, true), "", Flags { snapshots: false, ..all.clone() }, skip(MethodReason::NoSnapshots)),
        (ephemeral(false, false), &*skips, all.clone(), skip(rule(1, "skip", None))),
        (ephemeral(false, false), &*saves, flags(), Verdict { method: from_p(), why: rule(1, "fs-backup", None) }),
        (ephemeral(false, false), &*skips_csi, all, skip(rule(1, "skip", None))),
    ] {
        assert_eq!(of_claim(&csi(), &pods, rules, &flags), expected, "{pods:?} {rules} {flags:?}");
    }
}

#[test]
fn a_claim_that_no_pod_mounts_has_a_snapshot_or_its_files_are_saved() {
    let all = Flags { fs_backup_by_default: true, ..flags() };
    let read =
        |no_snapshot| Verdict { method: by_reader(NotMounted), why: MethodReason::FsBackupOfUnmounted { no_snapshot } };
    let blocked = |blocker| read(NoSnapshot::Blocked(blocker));
    let by_default = |blocker| skip(MethodReason::SnapshotByDefault { blocker: Some(blocker) });
    for (volume, flags, expected) in [
        (csi(), all.clone(), Verdict { method: snapshot(), why: MethodReason::SnapshotByDefault { blocker: None } }),
        (csi(), Flags { snapshots: false, ..all.clone() }, read(NoSnapshot::NotWanted)),
        (csi(), Flags { serves_snapshots: false, ..all.clone() }, blocked(Blocker::NoSnapshotApi)),
        (of_type("nfs"), all.clone(), blocked(Blocker::NoSnapshotter)),
        (of_type("hostPath"), all.clone(), by_default(Blocker::NoSnapshotter)),
        (of_type("nfs"), Flags { saves_claims: false, ..all }, by_default(Blocker::NoSnapshotter)),
        (of_type("nfs"), flags(), by_default(Blocker::NoSnapshotter)),
    ] {
        assert_eq!(of_claim(&volume, &[], "", &flags), expected, "{volume:?} {flags:?}");
    }
    // A pod that opts out has said so.
    let excluded = [pod(|_, volume| volume.is_opted_out = true)];
    let all = Flags { fs_backup_by_default: true, ..flags() };
    assert_eq!(of_claim(&of_type("nfs"), &excluded, "", &all), by_default(Blocker::NoSnapshotter));
    let told = |verdict: Verdict| (verdict.method.describe(), verdict.reason(), verdict.advice());
    let reader = "file system backup by a reader pod".to_owned();
    let why = "files are saved by default (defaultVolumesToFsBackup), and no snapshot of it is taken: no applicable volumesnapshotter \
               found: there is no volume snapshot location; by a reader pod, because no pod mounts it";
    assert_eq!(told(of_claim(&of_type("nfs"), &[], "", &all)), (reader.clone(), why.to_owned(), None));
    let stopped = [pod(|pod, _| pod.is_running = false)];
    let why = "the rule 1 of ConfigMap v/p says fs-backup; by a reader pod, because no pod that mounts it runs";
    let verdict = of_claim(&csi(), &stopped, "- action: {type: fs-backup}", &flags());
    assert_eq!(verdict.rule(), "the rule 1 of ConfigMap v/p says fs-backup");
    assert_eq!(told(verdict), (reader, why.to_owned(), None));
}

#[test]
fn a_claim_without_a_volume_has_no_data_whatever_is_said_of_it() {
    let fs = "- action: {type: fs-backup}";
    let not_bound = |phase: &str| skip(MethodReason::NotBound { phase: phase.into() });
    for (volume, phase, rules, expected) in [
        (None, "", "", not_bound("Pending")),
        (None, "Lost", fs, not_bound("Lost")),
        (None, "Pending", "- {conditions: {pvcPhase: [Pending]}, action: {type: skip}}", skip(rule(1, "skip", None))),
        (Some("gone"), "Bound", fs, skip(MethodReason::VolumeUnread { volume: "gone".into() })),
    ] {
        let (policies, claim) = ((!rules.is_empty()).then(|| policies(rules)), claim(volume, phase));
        let subject = Volume::Claimed { claim: &claim, volume: None, mounts: &[] };
        let flags = flags();
        assert_eq!(decide(subject, Rules { policies: policies.as_ref(), flags: &flags }), expected, "{claim:?}");
    }
}

#[test]
fn a_volume_without_its_claim_has_native_snapshots_only() {
    let native = Flags { native: true, ..flags() };
    let by_default = |blocker| skip(MethodReason::SnapshotByDefault { blocker: Some(blocker) });
    let taken = Verdict { method: Method::NativeSnapshot, why: MethodReason::SnapshotByDefault { blocker: None } };
    for (volume, flags, expected) in [
        (csi(), flags(), by_default(Blocker::NoClaim)),
        (csi(), native.clone(), by_default(Blocker::NoClaim)),
        (csi(), Flags { csi: false, ..native.clone() }, taken.clone()),
        (of_type("nfs"), native, taken),
        (of_type("nfs"), flags(), by_default(Blocker::NoSnapshotter)),
        (of_type("nfs"), Flags { snapshots: false, ..flags() }, skip(MethodReason::NoSnapshots)),
    ] {
        let subject = Volume::Unclaimed { volume: &volume, mounts: &[] };
        assert_eq!(decide(subject, Rules { policies: None, flags: &flags }), expected, "{volume:?} {flags:?}");
    }
}

#[test]
fn a_volume_of_a_pod_is_saved_when_somebody_asks_for_it() {
    let empty = |volume: &mut PodVolume| {
        volume.facts = Some(Box::new(VolumeFacts { volume_type: "emptyDir", ..VolumeFacts::default() }));
    };
    let policy = "- {conditions: {volumeTypes: [emptyDir]}, action: {type: fs-backup}}";
    let snapshots = "- {action: {type: snapshot}}";
    let default = Flags { fs_backup_by_default: true, ..flags() };
    let by_default =
        Verdict { method: from_p(), why: MethodReason::FsBackupByDefault { pod: "p".into(), blocker: None } };
    for (opted_in, rules, flags, expected) in [
        (false, "", flags(), skip(MethodReason::NotAskedFor)),
        (
            true,
            "",
            flags(),
            Verdict { method: from_p(), why: MethodReason::Annotation { pod: "p".into(), blocker: None } },
        ),
        (false, "", default, by_default),
        (false, policy, flags(), Verdict { method: from_p(), why: rule(1, "fs-backup", None) }),
        (false, snapshots, flags(), skip(MethodReason::NotAskedFor)),
        (
            false,
            "- {conditions: {capacity: '0,10Gi'}, action: {type: snapshot}}",
            flags(),
            skip(MethodReason::NotAskedFor),
        ),
    ] {
        let (pod, volume) = pod(|_, volume| {
            empty(volume);
            volume.is_opted_in = opted_in;
        });
        let policies = (!rules.is_empty()).then(|| policies(rules));
        let verdict = decide(Volume::OfPod(&pod, &volume), Rules { policies: policies.as_ref(), flags: &flags });
        assert_eq!(verdict, expected, "{opted_in} {rules}");
    }
}

#[test]
fn files_that_a_rule_asks_for_are_not_saved_where_claims_are_left_out() {
    let flags = Flags { saves_claims: false, ..flags() };
    let verdict = of_claim(&csi(), &[pod(|_, _| ())], "- {action: {type: fs-backup}}", &flags);
    assert_eq!(verdict, skip(rule(1, "fs-backup", Some(Blocker::ClaimsLeftOut))));
}

#[test]
fn data_that_is_moved_needs_a_node_agent_or_the_mover_that_is_named() {
    let moved = |mover: &str| Method::MovedCsiSnapshot { class: "c".into(), data_mover: mover.into(), group: None };
    let files = from_p();
    let movers = |are_asked, has_node_agent| BackupMovers { are_asked, has_node_agent, is_unready: false };
    let all = [movers(false, false), movers(true, false), movers(true, true)];
    let (agent, server) = (Some(MissingMover::NodeAgent), Some(MissingMover::Server));
    for (method, expected) in [
        (moved(""), [agent, agent, None]),
        (moved("velero-fs"), [agent, agent, None]),
        (moved("kubevirt"), [server, None, None]),
        (files, [agent, agent, None]),
        (by_reader(NotMounted), [agent, agent, None]),
        (Method::CsiSnapshot { class: String::new(), group: None }, [None; 3]),
        (Method::Skip, [None; 3]),
    ] {
        assert_eq!(all.map(|movers| movers.lack_of(&method)), expected, "{method:?}");
    }
    // An agent that is ready nowhere.
    let methods = [moved(""), moved("kubevirt"), from_p(), Method::Skip];
    let waiting = |movers: BackupMovers| movers.waiting(methods.iter());
    assert_eq!(all.map(waiting), [0; 3]);
    assert_eq!(all.map(|movers| waiting(BackupMovers { is_unready: true, ..movers })), [0, 0, 2]);
    assert_eq!(moved("").describe(), "CSI snapshot of the class c whose data is moved");
    assert_eq!(moved("kubevirt").describe(), "CSI snapshot of the class c whose data kubevirt moves");
}

#[test]
fn a_claim_of_a_group_keeps_it_also_where_its_data_is_moved() {
    let group = || Some(Group { value: "gold".into(), class: String::new() });
    for (moves_data, method) in [
        (false, Method::CsiSnapshot { class: String::new(), group: group() }),
        (true, Method::MovedCsiSnapshot { class: String::new(), data_mover: String::new(), group: group() }),
    ] {
        let flags = Flags { group_label: "tier".into(), moves_data, ..flags() };
        let why = MethodReason::SnapshotByDefault { blocker: None };
        assert_eq!(of_claim(&csi(), &[], "", &flags), Verdict { method, why });
    }
}
