//! Documents that we write fit the Go types into which kopia reads them: every key is a field of the type, in its case, and
//! every value one that the field can hold.

use lifeboat_kopia::format::maintenance::{MaintenanceParameters, MaintenanceRun, Schedule};
use lifeboat_kopia::format::policy::Policy;
use lifeboat_kopia::format::time::UnixNanos;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The types of policies (kopia: snapshot/policy). A list stands for a list of its item, `{"*": …}` for a map.
fn policy_type() -> Value {
    let action = json!({"path": "string", "args": ["string"], "script": "string", "timeout": "int", "mode": "string"});
    json!({
        "retention": {
            "keepLatest": "int", "keepHourly": "int", "keepDaily": "int", "keepWeekly": "int", "keepMonthly": "int",
            "keepAnnual": "int", "ignoreIdenticalSnapshots": "bool",
        },
        "files": {
            "ignore": ["string"], "noParentIgnore": "bool", "ignoreDotFiles": ["string"], "noParentDotFiles": "bool",
            "ignoreCacheDirs": "bool", "maxFileSize": "int", "oneFileSystem": "bool",
        },
        "errorHandling": {"ignoreFileErrors": "bool", "ignoreDirectoryErrors": "bool", "ignoreUnknownTypes": "bool"},
        "scheduling": {
            "intervalSeconds": "int", "timeOfDay": [{"hour": "int", "min": "int"}], "noParentTimeOfDay": "bool",
            "manual": "bool", "cron": ["string"], "runMissed": "bool",
        },
        "compression": {
            "compressorName": "string", "onlyCompress": ["string"], "noParentOnlyCompress": "bool",
            "neverCompress": ["string"], "noParentNeverCompress": "bool", "minSize": "int", "maxSize": "int",
        },
        "metadataCompression": {"compressorName": "string"},
        "splitter": {"algorithm": "string"},
        "actions": {
            "beforeFolder": action, "afterFolder": action, "beforeSnapshotRoot": action, "afterSnapshotRoot": action,
        },
        "osSnapshots": {"volumeShadowCopy": {"enable": "int"}},
        "logging": {
            "directories": {"snapshotted": "int", "ignored": "int"},
            "entries": {"snapshotted": "int", "ignored": "int", "cacheHit": "int", "cacheMiss": "int"},
        },
        "upload": {"maxParallelSnapshots": "int", "maxParallelFileReads": "int", "parallelUploadAboveSize": "int"},
        "noParent": "bool",
    })
}

/// The types of the parameters of maintenance (kopia: repo/maintenance/maintenance_params.go).
fn parameters_type() -> Value {
    let cycle = json!({"enabled": "bool", "interval": "int"});
    json!({
        "owner": "string", "quick": cycle, "full": cycle,
        "logRetention": {"maxTotalSize": "int", "maxCount": "int", "maxAge": "int"},
        "extendObjectLocks": "bool", "listParallelism": "int",
    })
}

/// The types of the schedule (kopia: repo/maintenance/maintenance_schedule.go).
fn schedule_type() -> Value {
    let run = json!({
        "start": "time", "end": "time", "success": "bool", "error": "string",
        "extra": [{"kind": "string", "data": "any"}],
    });
    json!({"nextFullMaintenance": "time", "nextQuickMaintenance": "time", "runs": {"*": [run]}})
}

/// Gives the places at which a value does not fit a type.
fn misfits(value: &Value, of: &Value, at: &str) -> Vec<String> {
    let no = || vec![format!("{at}: {value} is no {of}")];
    match (of, value) {
        // The zero value of lists and maps.
        (Value::Array(_) | Value::Object(_), Value::Null) => Vec::new(),
        (Value::Array(item), Value::Array(values)) => {
            values.iter().enumerate().flat_map(|(n, value)| misfits(value, &item[0], &format!("{at}[{n}]"))).collect()
        }
        (Value::Object(fields), Value::Object(values)) => {
            let of_field = |(key, value): (&String, &Value)| {
                let at = format!("{at}.{key}");
                match fields.get(key).or(fields.get("*")) {
                    Some(of) => misfits(value, of, &at),
                    None => vec![format!("{at}: there is no such field")],
                }
            };
            values.iter().flat_map(of_field).collect()
        }
        (Value::String(name), value) => {
            let fits = match name.as_str() {
                "any" => true,
                "bool" => value.is_boolean(),
                "int" => value.is_i64(),
                "string" => value.is_string(),
                "time" => value.as_str().is_some_and(|text| UnixNanos::parse_saturating(text).is_ok()),
                other => panic!("{other} is no type"),
            };
            if fits { Vec::new() } else { no() }
        }
        _ => no(),
    }
}

fn check(written: &[u8], of: &Value) -> Value {
    let value: Value = serde_json::from_slice(written).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(misfits(&value, of, ""), [""; 0], "{value}");
    value
}

#[test]
fn policies_fit_the_types_of_kopia() {
    check(&Policy::default().write(), &policy_type());
    // Every field that we know, with values at the ends of what it can hold.
    let text = r#"{
        "retention":{"keepLatest":2147483647,"keepHourly":48,"keepDaily":7,"keepWeekly":1,"keepMonthly":1,"keepAnnual":1,"ignoreIdenticalSnapshots":false},
        "files":{"ignore":["*.tmp"],"noParentIgnore":true,"ignoreDotFiles":[".kopiaignore"],"noParentDotFiles":true,"ignoreCacheDirs":false,"maxFileSize":9223372036854775807,"oneFileSystem":true},
        "errorHandling":{"ignoreFileErrors":true,"ignoreDirectoryErrors":false,"ignoreUnknownTypes":true},
        "scheduling":{"manual":true,"timeOfDay":[{"hour":1,"min":2}]},
        "compression":{"compressorName":"zstd","onlyCompress":[".txt"],"noParentOnlyCompress":true,"neverCompress":[".gz"],"noParentNeverCompress":true,"minSize":100,"maxSize":200},
        "metadataCompression":{"compressorName":"zstd-fastest"},"splitter":{"algorithm":"FIXED-1M"},
        "actions":{"beforeFolder":{"path":"/bin/true","timeout":5}},"osSnapshots":{"volumeShadowCopy":{"enable":1}},
        "logging":{"directories":{"snapshotted":5},"entries":{"cacheHit":1}},
        "upload":{"maxParallelSnapshots":1,"maxParallelFileReads":4,"parallelUploadAboveSize":9223372036854775807},"noParent":true}"#;
    let policy = Policy::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let written = check(&policy.write(), &policy_type());
    assert_eq!(written, serde_json::from_str::<Value>(text).unwrap_or_default(), "no field is lost");
}

#[test]
fn parameters_and_schedules_of_maintenance_fit_the_types_of_kopia() {
    let owned = MaintenanceParameters { owner: "a@b".to_owned(), extend_object_locks: true, ..Default::default() };
    check(&owned.write(), &parameters_type());
    check(&Schedule::default().write(), &schedule_type());
    let run = MaintenanceRun {
        start: Some(UnixNanos(1_795_000_000_000_000_000)),
        end: None,
        success: false,
        error: "it \"failed\"\n".to_owned(),
        extra: Some(r#"[{"kind":"x","data":{"count":1}}]"#.to_owned()),
    };
    let runs = BTreeMap::from([("snapshot-gc".to_owned(), vec![run, MaintenanceRun::default()])]);
    let schedule = Schedule { next_full: Some(UnixNanos(1)), next_quick: None, runs };
    check(&schedule.write(), &schedule_type());
}

/// The check finds what a reader in Go would refuse or pass over.
#[test]
fn values_that_do_not_fit_are_named() {
    let of = parameters_type();
    for (document, expected) in [
        (json!({"Owner": "a"}), ".Owner: there is no such field"),
        (json!({"owner": 1}), ".owner: 1 is no \"string\""),
        (json!({"quick": {"interval": 1.5}}), ".quick.interval: 1.5 is no \"int\""),
        (json!({"quick": {"interval": u64::MAX}}), ".quick.interval: 18446744073709551615 is no \"int\""),
        (json!({"full": []}), ".full: [] is no {\"enabled\":\"bool\",\"interval\":\"int\"}"),
    ] {
        assert_eq!(misfits(&document, &of, ""), [expected]);
    }
}
