use super::super::keep::describe;
use super::super::taken_over::{note_source_cluster, note_taken_over};
use super::*;
use lifeboat_api::{BackupPhase, Time, well_known};

fn at(text: &str) -> Timestamp {
    format!("2026-11-{text}Z").parse().unwrap()
}

/// A backup of this day that is complete.
fn on(day: u32) -> Backup {
    backup(&format!("nightly-202611{day}030000"), BackupPhase::Completed)
}

fn backup(name: &str, phase: BackupPhase) -> Backup {
    let mut backup = Backup::default();
    backup.metadata.name = name.into();
    backup.status.phase = Some(phase);
    backup
}

/// A backup of this day that ended with errors.
fn with_errors(day: u32) -> Backup {
    backup(&format!("nightly-202611{day}030000"), BackupPhase::PartiallyFailed)
}

fn nightly(rules: Option<&str>) -> Schedule {
    let mut schedule = Schedule::default();
    schedule.metadata.name = "nightly".into();
    schedule.spec.schedule = "0 3 * * *".into();
    let annotation = rules.map(|text| (well_known::ANNOTATION_RETENTION.to_owned(), text.to_owned()));
    schedule.metadata.annotations = annotation.into_iter().collect();
    schedule
}

/// As the server notes it when a backup of a schedule with these rules is made.
fn noted(mut backup: Backup, rules: &str) -> Backup {
    let note = rules_of(&nightly(Some(rules)), &TimeZone::UTC).unwrap();
    backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), note.value());
    backup
}

fn released(mut backup: Backup) -> Backup {
    let said = KeptBy::of(&backup.metadata).transpose().unwrap().unwrap_or_default();
    let said = KeptBy { released: Some(Time::new(at("30T00:00:00"))), ..said };
    backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), said.value());
    backup
}

fn of_cluster(uid: Option<&str>, mut backup: Backup) -> Backup {
    note_taken_over(&mut backup.metadata, false);
    note_source_cluster(&mut backup.metadata, uid);
    backup
}

fn members(backups: &[Backup]) -> Vec<ScheduleMember<'_>> {
    let member = |backup| ScheduleMember {
        backup,
        deletion_is_asked: false,
        is_readable: true,
        is_own: !lifeboat_api::is_of_another_cluster(backup, ""),
    };
    backups.iter().map(member).collect()
}

/// The reason that keeps each of these backups, in their order; empty for one that nothing keeps.
fn said(lookup: ScheduleLookup<'_>, backups: &[Backup]) -> Vec<String> {
    let kept = KeptBackups::of(lookup, &TimeZone::UTC, &members(backups));
    backups.iter().map(|backup| kept.keeper(backup).map(|keeper| keeper.to_string()).unwrap_or_default()).collect()
}

/// The days of those that something keeps.
fn days(lookup: ScheduleLookup<'_>, backups: &[Backup]) -> Vec<String> {
    let said = said(lookup, backups);
    let kept = backups.iter().zip(said).filter(|(_, keeper)| !keeper.is_empty());
    kept.map(|(backup, _)| backup.metadata.name["nightly-202611".len()..][..2].to_owned()).collect()
}

const GONE: ScheduleLookup<'static> = ScheduleLookup::Gone { label: "nightly" };

/// By the run that they were made for, in the zone of the schedule: that is the day before in UTC.
#[test]
fn a_schedule_keeps_what_its_rules_say() {
    use BackupPhase as P;
    let mut by_hand = backup("by-hand", P::Completed);
    by_hand.status.start_timestamp = Some(Time::new(at("20T22:59:00")));
    let all = [
        by_hand,
        backup("nightly-20261120233000", P::Completed),
        backup("nightly-20261121233000", P::Completed),
        backup("nightly-20261122233000", P::Completed),
        backup("nightly-20261123233000", P::PartiallyFailed),
    ];
    let found = |rules| {
        let mut schedule = nightly(rules);
        schedule.spec.schedule = "CRON_TZ=Europe/Berlin 30 0 * * *".into();
        let mut members = members(&all);
        members[3].deletion_is_asked = true;
        let kept = KeptBackups::of(ScheduleLookup::Here(&schedule), &TimeZone::UTC, &members);
        let said = |backup| kept.keeper(backup).map(|keeper| keeper.to_string()).unwrap_or_default();
        all.iter().map(said).collect::<Vec<_>>()
    };
    assert_eq!(found(None), [""; 5]);
    let rules = |rules: &str| format!("kept by schedule nightly: {rules}");
    assert_eq!(
        found(Some(r#"{"keepDaily": 3}"#)),
        [rules("daily 3"), rules("daily 2"), rules("last good, daily 1"), String::new(), rules("newest with errors")]
    );
    let why = "kept, because the retention of schedule nightly cannot be followed: invalid annotation \
               lifeboat.io/retention: it is no JSON object";
    assert_eq!(found(Some("7")), [why, why, why, "", ""]);
}

#[test]
fn what_rules_have_kept_stays_when_the_schedule_or_its_rules_are_gone() {
    const RULES: &str = r#"{"keepDaily":2}"#;
    let all = [on(19), on(20), noted(on(21), RULES)];
    let (with, without) = (nightly(Some(RULES)), nightly(None));
    assert_eq!(days(ScheduleLookup::Here(&with), &all), ["20", "21"]);
    let expected = |lookup: &str| {
        let told = |rules: &str| {
            format!("kept by the rules {lookup}: {rules} (`expiry --release --schedule nightly` lets it go)")
        };
        vec![String::new(), told("daily 2"), told("last good, daily 1")]
    };
    assert_eq!(said(GONE, &all), expected("of schedule nightly, which is not here any more"));
    assert_eq!(said(ScheduleLookup::Here(&without), &all), expected("that schedule nightly had"));
}

/// Backups that were made after the rules were removed take no place of those that the rules kept; but the newest good
/// one never goes.
#[test]
fn nothing_new_is_kept_by_rules_that_are_gone_but_the_newest() {
    let without = nightly(None);
    let all = [on(19), noted(on(20), r#"{"keepDaily":2}"#), on(21), on(22)];
    assert_eq!(days(ScheduleLookup::Here(&without), &all), ["19", "20", "22"]);
}

#[test]
fn the_newest_good_record_says_which_rules_hold() {
    // It stays as the newest, and its record says nothing.
    let newest = noted(with_errors(23), r#"{"keepDaily":9}"#);
    let all = [on(19), noted(on(20), r#"{"keepDaily":1}"#), noted(on(21), r#"{"keepDaily":2}"#), newest];
    assert_eq!(days(GONE, &all), ["20", "21", "23"]);
}

#[test]
fn a_backup_that_was_released_is_kept_by_no_rules_and_takes_no_place() {
    const RULES: &str = r#"{"keepDaily":2}"#;
    let with = nightly(Some(RULES));
    let all = [on(19), noted(on(20), RULES), released(noted(on(21), RULES)), released(on(22))];
    assert_eq!(days(GONE, &all), ["19", "20"]);
    assert_eq!(days(ScheduleLookup::Here(&with), &all), ["19", "20"]);
    let all = all.map(released);
    assert_eq!(days(GONE, &all), Vec::<String>::new(), "then time alone decides");
    let wrong = nightly(Some("7"));
    assert_eq!(days(ScheduleLookup::Here(&wrong), &all), Vec::<String>::new());
}

/// Two clusters with a schedule of the same name share a bucket; a third one is not there any more, and was of Velero.
#[test]
fn each_cluster_has_its_own_places_and_its_own_rules() {
    const ONE: &str = r#"{"keepLast":1}"#;
    let mut own = on(20);
    // Found again, as after its server was installed anew.
    note_taken_over(&mut own.metadata, true);
    note_source_cluster(&mut own.metadata, Some("this"));
    let all = [
        on(18),
        own,
        of_cluster(Some("that"), on(21)),
        of_cluster(Some("that"), noted(on(22), r#"{"keepLast":2}"#)),
        of_cluster(None, on(23)),
        of_cluster(None, on(24)),
    ];
    let here = nightly(Some(ONE));
    let by = |rules: &str| format!("kept by schedule nightly: {rules}");
    let by_that = |rules: &str| {
        format!(
            "kept by the rules of schedule nightly of cluster that: {rules} (`expiry --release --schedule nightly --source-cluster \
             that` lets it go)"
        )
    };
    let expected = [
        String::new(),
        by("last good, last 1"),
        by_that("last 2"),
        by_that("last good, last 1"),
        String::new(),
        by("last good, last 1"),
    ];
    assert_eq!(said(ScheduleLookup::Here(&here), &all), expected);
    // The last good one of this cluster stays without rules too.
    assert_eq!(days(GONE, &all), ["20", "21", "22"]);
}

/// As earlier versions left them: a Backup was made here of an object that another cluster had exported.
#[test]
fn rules_that_came_with_an_exported_object_are_said_to_be_of_another() {
    let of = |cluster: &str, day: u32, rules: &str| {
        let mut backup = noted(on(day), rules);
        let said = KeptBy::of(&backup.metadata).unwrap().unwrap();
        let said = KeptBy { cluster: cluster.into(), ..said };
        backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), said.value());
        note_source_cluster(&mut backup.metadata, Some("this"));
        backup
    };
    let imported = "kept by the rules of schedule nightly of cluster that, which came with an exported object: last good, daily 1 \
                    (`expiry --release --schedule nightly` lets it go)";
    assert_eq!(said(GONE, &[of("that", 21, r#"{"keepDaily":1}"#)]), [imported]);
    // The rules of this cluster's own schedule go before.
    let both = [
        of("that", 21, r#"{"keepLast":5}"#),
        of("this", 20, r#"{"keepDaily":1}"#),
        of("this", 19, r#"{"keepDaily":1}"#),
    ];
    assert_eq!(days(GONE, &both), ["21", "20"], "the last good one, and the day before by the own rules");
    // The schedule that stands here writes its own over them, though they are the same.
    let schedule = nightly(Some(r#"{"keepDaily":1}"#));
    let notes = |cluster: &str| {
        let backup = of(cluster, 21, r#"{"keepDaily":1}"#);
        let kept =
            KeptBackups::of(ScheduleLookup::Here(&schedule), &TimeZone::UTC, &members(std::slice::from_ref(&backup)));
        kept.note(&backup).is_some()
    };
    assert_eq!([notes("that"), notes("this"), notes("")], [true, false, false]);
}

#[test]
fn empty_backups_push_out_no_real_one() {
    let with = |items: u32, mut backup: Backup| {
        backup.metadata.annotations.insert(well_known::ANNOTATION_NAMESPACED_ITEMS.into(), items.to_string());
        backup
    };
    let all = [with(100, on(18)), with(60, on(19)), with(0, on(20)), with(29, on(21)), with(0, on(22))];
    let mut schedule = nightly(Some(r#"{"keepLast":2}"#));
    let by = |rules: &str| format!("kept by schedule nightly: {rules}");
    // They are counted by themselves.
    let expected = [by("last 2"), by("last good, last 1"), String::new(), by("last 2"), by("newest, last 1")];
    assert_eq!(said(ScheduleLookup::Here(&schedule), &all), expected);
    schedule.metadata.annotations.insert(well_known::ANNOTATION_SHRINK_THRESHOLD.into(), "0".into());
    assert_eq!(
        days(ScheduleLookup::Here(&schedule), &all),
        ["21", "22"],
        "the user says that they are as they should be"
    );
}

#[test]
fn what_lies_where_nobody_can_read_it_takes_no_place() {
    let schedule = nightly(Some(r#"{"keepLast":2}"#));
    let all = [on(19), on(20), on(21)];
    let mut members = members(&all);
    members[2].is_readable = false;
    let kept = KeptBackups::of(ScheduleLookup::Here(&schedule), &TimeZone::UTC, &members);
    let names: Vec<&str> = kept.keepers.keys().map(String::as_str).collect();
    assert_eq!(names, ["nightly-20261119030000", "nightly-20261120030000"]);
}

#[test]
fn a_record_that_cannot_be_followed_keeps_its_backup() {
    let mut all = [on(19), on(20)];
    all[0].metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.into(), "7".into());
    let why = "kept, because the retention of schedule nightly cannot be followed: invalid annotation lifeboat.io/kept-by: it is no \
               JSON object";
    assert_eq!(said(GONE, &all), [why, ""]);
}

#[test]
fn the_rules_are_written_beside_what_they_keep() {
    const RULES: &str = r#"{"keepDaily":2}"#;
    let schedule = nightly(Some(RULES));
    let all = [on(18), on(19), on(20), of_cluster(Some("that"), on(21))];
    let told = |backups: &[Backup]| {
        let kept = KeptBackups::of(ScheduleLookup::Here(&schedule), &TimeZone::UTC, &members(backups));
        let told = |backup: &Backup| kept.note(backup).map(|note| (note.clone(), kept.is_newest(backup)));
        backups.iter().map(told).collect::<Vec<_>>()
    };
    let note = rules_of(&schedule, &TimeZone::UTC).unwrap();
    assert_eq!(told(&all), [None, Some((note.clone(), false)), Some((note.clone(), true)), None]);
    let [a, b, c, d] = all;
    let other = noted(b, r#"{"keepDaily":3}"#);
    let expected = [None, Some((note, false)), None, None];
    assert_eq!(told(&[a, other, noted(c, RULES), d]), expected);
    let text = rules_text(&schedule, &TimeZone::UTC).unwrap();
    assert!(noted(on(20), RULES).metadata.annotations[well_known::ANNOTATION_KEPT_BY].contains(&text));
    assert_eq!(text, r#""rules":{"keepDaily":2},"zone":"UTC","shrinkThreshold":50"#);
}

#[test]
fn a_hold_keeps_and_then_the_rules_until_the_deletion_has_begun() {
    let now = at("22T00:00:00");
    let mut one = backup("nightly-20261121233000", BackupPhase::Completed);
    let kept = KeptBackups::of(
        ScheduleLookup::Here(&nightly(Some("{}"))),
        &TimeZone::UTC,
        &members(std::slice::from_ref(&one)),
    );
    let rules = "kept by schedule nightly: last good";
    assert_eq!(describe(&keepers(&one, Some(&kept), now)), rules);
    assert_eq!(describe(&keepers(&one, None, now)), "");
    one.metadata.annotations.insert(well_known::ANNOTATION_HOLD.into(), "2026-11-22T00:00:01Z".into());
    let hold = "held until 2026-11-22T00:00:01Z";
    assert_eq!(describe(&keepers(&one, Some(&kept), now)), format!("{hold}; {rules}"));
    assert_eq!(describe(&keepers(&one, Some(&kept), at("22T00:00:01"))), rules);
    one.status.phase = Some(BackupPhase::Deleting);
    assert_eq!(describe(&keepers(&one, Some(&kept), now)), "");
}

#[test]
fn without_rules_the_last_good_backup_that_we_have_made_stays() {
    let own = |mut backup: Backup| {
        note_source_cluster(&mut backup.metadata, Some("here"));
        backup
    };
    let items = |mut backup: Backup, items: &str| {
        backup.metadata.annotations.insert(well_known::ANNOTATION_NAMESPACED_ITEMS.into(), items.into());
        backup
    };
    let schedule = nightly(None);
    for (what, backups, expected) in [
        ("the newest of ours", vec![own(on(20)), own(on(21))], vec!["21"]),
        ("Velero's own go, also beside ours", vec![own(on(20)), on(21)], vec!["20"]),
        ("Velero's own alone", vec![on(20), on(21)], vec![]),
        (
            "one that failed is not good",
            vec![own(on(20)), own(backup("nightly-20261121030000", BackupPhase::Failed))],
            vec!["20"],
        ),
        ("one that was released goes", vec![own(on(20)), own(released(on(21)))], vec!["20"]),
        (
            "one that lost its objects stays beside the last good one, as the newest",
            vec![own(items(on(19), "9")), own(items(on(20), "0")), own(items(on(21), "0"))],
            vec!["19", "21"],
        ),
        (
            "until a good one is newer",
            vec![own(items(on(19), "9")), own(items(on(20), "0")), own(items(on(21), "9"))],
            vec!["21"],
        ),
        (
            "the newest that ended with errors stays beside the last good one",
            vec![own(on(18)), own(with_errors(19)), own(with_errors(20))],
            vec!["18", "20"],
        ),
        ("until a good one is newer", vec![own(with_errors(19)), own(on(20))], vec!["20"]),
        ("a schedule that never ends well keeps one", vec![own(with_errors(19)), own(with_errors(20))], vec!["20"]),
        (
            "and of those that lost their objects the last before it",
            vec![
                own(items(on(17), "9")),
                own(items(with_errors(18), "9")),
                own(items(with_errors(19), "9")),
                own(items(with_errors(20), "0")),
            ],
            vec!["17", "19", "20"],
        ),
        ("Velero's own with errors go", vec![with_errors(19)], vec![]),
        (
            "one with errors is no measure in the place of a good one",
            vec![own(items(on(18), "1000")), own(items(with_errors(19), "700")), own(items(on(20), "400"))],
            vec!["18", "19", "20"],
        ),
        (
            "a good one of nothing is not better than one with errors",
            vec![own(items(with_errors(19), "9")), own(items(on(20), "0"))],
            vec!["19", "20"],
        ),
        (
            "each cluster has its own",
            vec![
                own(on(20)),
                of_cluster(Some("u"), on(21)),
                of_cluster(Some("u"), on(22)),
                of_cluster(Some("v"), on(19)),
            ],
            vec!["20", "22", "19"],
        ),
        ("that of a cluster which nothing names goes", vec![of_cluster(None, on(21))], vec![]),
    ] {
        for lookup in [GONE, ScheduleLookup::Here(&schedule)] {
            assert_eq!(days(lookup, &backups), expected, "{what}: {lookup:?}");
        }
    }
    let why = "kept, because it is the last good backup of schedule nightly (`expiry --release nightly-20261121030000` lets it go)";
    assert_eq!(said(GONE, &[own(on(20)), own(on(21))]), ["", why]);
    let last_good = why.replace("1121", "1120");
    let newest = "kept, because it is the newest backup of schedule nightly, though it has lost objects (`expiry --release \
                  nightly-20261121030000` lets it go)";
    let shrunken = [own(items(on(20), "9")), own(items(on(21), "0"))];
    assert_eq!(said(GONE, &shrunken), [last_good.as_str(), newest]);
    let with_errors = newest.replace("has lost objects", "ended with errors");
    assert_eq!(said(GONE, &[own(on(20)), own(self::with_errors(21))]), [last_good, with_errors]);
}
