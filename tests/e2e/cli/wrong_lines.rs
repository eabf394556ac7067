//! Wrong command lines, and lines that name what is not there: each is refused with what is wrong with it, and nothing
//! changes.

use crate::support::{Client, Run, Sandbox, ok};
use crate::velero::golden_cli::stock;
use serde_json::{Value, json};

/// Command lines, `~` for a blank within a word, and what is said of each. `…` stands for what the machine or a library
/// says.
const WRONG: &[(&str, &str)] = &[
    ("backup get --kubeconfig /nowhere/config", "cannot use the kubeconfig /nowhere/config: there is no such file"),
    ("backup get --kubeconfig=/dev/null", "cannot use the kubeconfig /dev/null: failed to determine current context"),
    ("backup get --kubecontext nope", "cannot use the kubeconfig …: failed to load current context: nope"),
    ("backup get --namespace=", "a value is required for '--namespace <NAMESPACE>' but none was supplied"),
    ("backup get --namespace nowhere demo1", "backups.velero.io \"demo1\" not found"),
    ("backup get --features", "a value is required for '--features <NAMES>' but none was supplied"),
    ("backup get -v x", "invalid value 'x' for '--v <LEVEL>': invalid digit found in string"),
    ("client config set", "the following required arguments were not provided:\n  <KEY=VALUE>..."),
    (
        "backup create x --labels a",
        "invalid value 'a' for '--labels <KEY=VALUE,…>': \"a\" is not of the form key=value",
    ),
    (
        "backup create x --annotations a",
        "invalid value 'a' for '--annotations <KEY=VALUE,…>': \"a\" is not of the form key=value",
    ),
    (
        "backup create x --ordered-resources pods",
        "invalid value 'pods' for '--ordered-resources <ORDER>': \"pods\" is not of the form kind=namespace/name,…",
    ),
    (
        "backup create x --ordered-resources pods=",
        "invalid value 'pods=' for '--ordered-resources <ORDER>': \"pods=\" names no kind or no objects",
    ),
    (
        "backup create x --ordered-resources =a/b",
        "invalid value '=a/b' for '--ordered-resources <ORDER>': \"=a/b\" names no kind or no objects",
    ),
    ("backup create x --include-cluster-resources perhaps", "unexpected argument 'perhaps' found"),
    ("backup create x --snapshot-volumes perhaps", "unexpected argument 'perhaps' found"),
    (
        "backup create x --ttl tomorrow",
        "invalid value 'tomorrow' for '--ttl <DURATION>': time: invalid duration \"tomorrow\"",
    ),
    (
        "backup create x --csi-snapshot-timeout 5",
        "invalid value '5' for '--csi-snapshot-timeout <DURATION>': time: missing unit in duration \"5\"",
    ),
    (
        "backup create x --backup-type half",
        "invalid value 'half' for '--backup-type <Full|Incremental>': \"half\" is neither Full nor Incremental",
    ),
    (
        "backup create x --parallel-files-upload many",
        "invalid value 'many' for '--parallel-files-upload <N>': invalid digit found in string",
    ),
    (
        "backup create x -l a=b~c",
        "invalid value 'a=b c' for '--selector <SELECTOR>': unable to parse requirement: found 'c', expected: ',' or end of string",
    ),
    (
        "backup create x --or-selector ,",
        "invalid value ',' for '--or-selector <SELECTORS>': unable to parse requirement: found ',', expected: identifier",
    ),
    ("backup create x --volume-snapshot-locations nope", "volumesnapshotlocations.velero.io \"nope\" not found"),
    ("backup create x --storage-location nope", "backupstoragelocations.velero.io \"nope\" not found"),
    ("backup create x y", "unexpected argument 'y' found"),
    (
        "backup create x --include-namespaces *,a",
        "Invalid included/excluded namespace lists: includes list must either contain '*' only, or a non-empty list of items",
    ),
    (
        "backup create x --include-namespaces a[",
        "Invalid included/excluded namespace lists: wildcard pattern contains unclosed bracket '['",
    ),
    (
        "backup create x --exclude-namespaces *",
        "Invalid included/excluded namespace lists: excludes list cannot contain '*'; Invalid included/excluded namespace lists: excludes list cannot contain an item in the includes list: *",
    ),
    (
        "backup create x --include-namespaces a --exclude-namespaces a",
        "Invalid included/excluded namespace lists: excludes list cannot contain an item in the includes list: a",
    ),
    (
        "backup create x --include-resources pods --exclude-resources pods",
        "Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: pods",
    ),
    (
        "backup create x --include-cluster-scoped-resources pv --exclude-cluster-scoped-resources *",
        "Invalid cluster-scoped included/excluded resource lists: when exclude is '*', include cannot have value",
    ),
    ("backup create x --from-schedule=", "flag must have a non-empty value: --from-schedule"),
    ("backup create x --from-schedule nope", "schedules.velero.io \"nope\" not found"),
    ("backup create x -o wide", "invalid value 'wide' for '--output <FORM>'\n  [possible values: table, json, yaml]"),
    ("backup get -o wide", "invalid value 'wide' for '--output <FORM>'\n  [possible values: table, json, yaml]"),
    (
        "backup get -l a=b~c",
        "cannot list backups.velero.io in namespace velero: unable to parse requirement: found 'c', expected: ',' or end of string",
    ),
    ("backup get nope", "backups.velero.io \"nope\" not found"),
    ("backup describe nope", "backups.velero.io \"nope\" not found"),
    ("backup describe -o yaml", "invalid output format \"yaml\": it is plaintext or json"),
    ("backup describe demo1 --cacert /nowhere/ca", "read --cacert /nowhere/ca: No such file or directory (os error 2)"),
    ("backup logs", "the following required arguments were not provided:\n  <NAME>"),
    ("backup logs demo1 demo2", "unexpected argument 'demo2' found"),
    ("backup logs nope", "backup \"nope\" does not exist"),
    (
        "backup logs waiting",
        "logs for backup \"waiting\" are not available until it has been processed; its phase is New",
    ),
    (
        "backup logs demo1 --timeout soon",
        "invalid value 'soon' for '--timeout <DURATION>': time: invalid duration \"soon\"",
    ),
    (
        "backup logs demo1 --timeout 1s",
        "timed out waiting for the URL of BackupLog of demo1: look at the server's log, and whether the storage location is available",
    ),
    (
        "backup logs demo1 --timeout 1s --cacert /nowhere/ca",
        "read --cacert /nowhere/ca: No such file or directory (os error 2)",
    ),
    ("backup download", "the following required arguments were not provided:\n  <NAME>"),
    ("backup download nope", "backups.velero.io \"nope\" not found"),
    (
        "backup download demo1 -o /nowhere/there --timeout 1s",
        "create /nowhere/there: No such file or directory (os error 2)",
    ),
    ("backup delete", "you must specify exactly one of: specific names, the --all flag, or the --selector flag"),
    (
        "backup delete demo1 --all",
        "you must specify exactly one of: specific names, the --all flag, or the --selector flag",
    ),
    (
        "backup delete --all -l a=b",
        "you must specify exactly one of: specific names, the --all flag, or the --selector flag",
    ),
    (
        "backup delete -l a=b~c --confirm",
        "cannot list backups.velero.io in namespace velero: unable to parse requirement: found 'c', expected: ',' or end of string",
    ),
    ("restore create", "either a backup or schedule must be specified, but not both"),
    (
        "restore create r --from-backup demo1 --from-schedule nope",
        "either a backup or schedule must be specified, but not both",
    ),
    ("restore create r --from-backup nope", "backups.velero.io \"nope\" not found"),
    ("restore create r --from-schedule nope", "No backups found for the schedule nope"),
    ("restore create r --from-backup=", "either a backup or schedule must be specified, but not both"),
    ("restore create r s --from-backup demo1", "unexpected argument 's' found"),
    (
        "restore create r --from-backup demo1 --namespace-mappings a",
        "invalid value 'a' for '--namespace-mappings <SOURCE:TARGET,…>': \"a\" is not of the form key:value",
    ),
    (
        "restore create r --from-backup demo1 --existing-resource-policy replace",
        "invalid value 'replace' for '--existing-resource-policy <POLICY>'\n  [possible values: none, update, recreate, exact]",
    ),
    (
        "restore create r --from-backup demo1 -l a=b --or-selector c=d",
        "either a 'selector' or an 'or-selector' can be specified, but not both",
    ),
    (
        "restore create r --from-backup demo1 --parallel-files-download -1",
        "invalid value '-1' for '--parallel-files-download <N>': -1 is not in 0..9223372036854775807",
    ),
    (
        "restore create r --from-backup demo1 --include-namespaces *,a",
        "Invalid included/excluded namespace lists: includes list must either contain '*' only, or a non-empty list of items",
    ),
    (
        "restore create r --from-backup demo1 --item-operation-timeout x",
        "invalid value 'x' for '--item-operation-timeout <DURATION>': time: invalid duration \"x\"",
    ),
    ("restore create res2 --from-backup demo1", "restores.velero.io \"res2\" already exists"),
    ("restore get nope", "restores.velero.io \"nope\" not found"),
    ("restore describe nope", "restores.velero.io \"nope\" not found"),
    ("restore logs nope", "restore \"nope\" does not exist"),
    ("restore logs", "the following required arguments were not provided:\n  <NAME>"),
    ("restore delete", "you must specify exactly one of: specific names, the --all flag, or the --selector flag"),
    ("schedule create", "the following required arguments were not provided:\n  <NAME>"),
    ("schedule create s", "--schedule is required"),
    ("schedule create s --schedule=", "--schedule is required"),
    (
        "schedule create s --schedule @every~6h --skip-immediately perhaps",
        "invalid value 'perhaps' for '--skip-immediately <BOOL>': it is neither true nor false",
    ),
    (
        "schedule create s --schedule @every~6h --include-namespaces *,a",
        "Invalid included/excluded namespace lists: includes list must either contain '*' only, or a non-empty list of items",
    ),
    (
        "schedule create s --schedule @every~6h -l a=b --or-selector c=d",
        "either a 'selector' or an 'or-selector' can be specified, but not both",
    ),
    (
        "schedule create s --schedule @every~6h --storage-location nope",
        "backupstoragelocations.velero.io \"nope\" not found",
    ),
    ("schedule create nightly --schedule @every~6h", "schedules.velero.io \"nightly\" already exists"),
    ("schedule get nope", "schedules.velero.io \"nope\" not found"),
    ("schedule describe nope", "schedules.velero.io \"nope\" not found"),
    ("schedule delete", "you must specify exactly one of: specific names, the --all flag, or the --selector flag"),
    ("schedule pause", "you must specify exactly one of: specific names, the --all flag, or the --selector flag"),
    (
        "backup-location create",
        "the following required arguments were not provided:\n  --provider <NAME>\n  --bucket <NAME>\n  <NAME>",
    ),
    (
        "backup-location create x --provider aws",
        "the following required arguments were not provided:\n  --bucket <NAME>",
    ),
    ("backup-location create x --bucket b", "the following required arguments were not provided:\n  --provider <NAME>"),
    (
        "backup-location create x --provider aws --bucket b --credential a",
        "invalid value 'a' for '--credential <SECRET=KEY>': \"a\" is not of the form key=value",
    ),
    (
        "backup-location create x --provider aws --bucket b --credential a=b,c=d",
        "--credential can only contain 1 key/value pair",
    ),
    (
        "backup-location create x --provider aws --bucket b --backup-sync-period -1s",
        "--backup-sync-period must be non-negative",
    ),
    (
        "backup-location create x --provider aws --bucket b --access-mode WriteOnly",
        "invalid value 'WriteOnly' for '--access-mode <ACCESS_MODE>'\n  [possible values: ReadWrite, ReadOnly]",
    ),
    (
        "backup-location create x --provider aws --bucket b --cacert /nowhere/ca",
        "read --cacert /nowhere/ca: No such file or directory (os error 2)",
    ),
    (
        "backup-location create x --provider aws --bucket b --config a",
        "invalid value 'a' for '--config <KEY=VALUE,…>': \"a\" is not of the form key=value",
    ),
    (
        "backup-location create x --provider aws --bucket b --default",
        "there is already a default backup storage location: default",
    ),
    (
        "backup-location create default --provider aws --bucket b",
        "backupstoragelocations.velero.io \"default\" already exists",
    ),
    ("backup-location get nope", "backupstoragelocations.velero.io \"nope\" not found"),
    ("backup-location set", "the following required arguments were not provided:\n  <NAME>"),
    ("backup-location set nope", "backupstoragelocations.velero.io \"nope\" not found"),
    (
        "backup-location set default --cacert /nowhere/ca",
        "read --cacert /nowhere/ca: No such file or directory (os error 2)",
    ),
    ("backup-location set default --credential a=b,c=d", "--credential can only contain 1 key/value pair"),
    (
        "backup-location delete",
        "you must specify exactly one of: specific names, the --all flag, or the --selector flag",
    ),
    ("snapshot-location create", "the following required arguments were not provided:\n  --provider <NAME>\n  <NAME>"),
    ("snapshot-location create x", "the following required arguments were not provided:\n  --provider <NAME>"),
    (
        "snapshot-location create x --provider aws --credential a",
        "invalid value 'a' for '--credential <SECRET=KEY>': \"a\" is not of the form key=value",
    ),
    ("snapshot-location get nope", "volumesnapshotlocations.velero.io \"nope\" not found"),
    ("snapshot-location set nope --credential a=b", "volumesnapshotlocations.velero.io \"nope\" not found"),
    ("snapshot-location set", "the following required arguments were not provided:\n  <NAME>"),
    ("repo get nope", "backuprepositories.velero.io \"nope\" not found"),
    ("plugin get --timeout soon", "invalid value 'soon' for '--timeout <DURATION>': time: invalid duration \"soon\""),
    ("plugin get -o wide", "invalid value 'wide' for '--output <FORM>'\n  [possible values: table, json, yaml]"),
    ("plugin add", "the following required arguments were not provided:\n  <IMAGE>"),
    (
        "plugin add example.io/a:1 --confirm",
        "Velero deployment does not exist in namespace velero, run 'install' first",
    ),
    (
        "plugin add example.io/a:1 --image-pull-policy Sometimes",
        "invalid value 'Sometimes' for '--image-pull-policy <IMAGE_PULL_POLICY>'\n  [possible values: Always, IfNotPresent, Never]",
    ),
    ("plugin remove", "the following required arguments were not provided:\n  <WHICH>"),
    ("plugin remove nope", "Velero deployment does not exist in namespace velero, run 'install' first"),
    ("completion", "the following required arguments were not provided:\n  <SHELL>"),
    ("completion tcsh", "invalid value 'tcsh' for '<SHELL>'\n  [possible values: bash, zsh, fish]"),
    ("version --timeout soon", "invalid value 'soon' for '--timeout <DURATION>': time: invalid duration \"soon\""),
    ("version --what", "unknown flag: --what"),
    (
        "debug --output /nowhere/there.tar.gz",
        "no server is installed in namespace velero: there is no Deployment with the label component=velero. If it is in another namespace, name that with --namespace",
    ),
    (
        "debug --backup nope",
        "no server is installed in namespace velero: there is no Deployment with the label component=velero. If it is in another namespace, name that with --namespace",
    ),
    (
        "debug --restore nope",
        "no server is installed in namespace velero: there is no Deployment with the label component=velero. If it is in another namespace, name that with --namespace",
    ),
    ("install", "--provider is required"),
    ("install --provider aws", "--bucket is required"),
    ("install --provider aws --bucket b", "One of --secret-file or --no-secret is required"),
    (
        "install --provider aws --bucket b --no-secret --secret-file /nowhere/s",
        "Cannot use both --secret-file and --no-secret",
    ),
    (
        "install --provider aws --bucket b --secret-file /nowhere/s",
        "read --secret-file /nowhere/s: No such file or directory (os error 2)",
    ),
    (
        "install --provider aws --bucket -b --no-secret",
        "--bucket -b: names of buckets do not begin with a dash; is a variable empty?",
    ),
    (
        "install --provider aws --bucket b --no-secret -o table",
        "--output table is not supported with this command: json or yaml",
    ),
    (
        "install --provider aws --bucket b --no-secret -o wide",
        "invalid value 'wide' for '--output <OUTPUT>'\n  [possible values: table, json, yaml]",
    ),
    (
        "install --no-default-backup-location --bucket b",
        "Cannot use both --bucket and --no-default-backup-location at the same time",
    ),
    (
        "install --provider aws --bucket b --no-secret --uploader-type restic",
        "invalid uploader type 'restic', valid types: 'kopia', 'velero-block'",
    ),
    (
        "install --provider aws --bucket b --no-secret --use-volume-snapshots=false --snapshot-location-config a=b",
        "--snapshot-location-config must be empty when --use-volume-snapshots=false",
    ),
    (
        "install --provider aws --bucket b --no-secret --default-volumes-to-fs-backup",
        "--use-node-agent is required when using --default-volumes-to-fs-backup",
    ),
    (
        "install --provider aws --bucket b --no-secret --garbage-collection-frequency -1h",
        "--garbage-collection-frequency must be non-negative",
    ),
    (
        "install --provider aws --bucket b --no-secret --velero-pod-cpu-request 2 --velero-pod-cpu-limit 1",
        "--velero-pod-cpu-request 2 is more than --velero-pod-cpu-limit 1",
    ),
    (
        "install --provider aws --bucket b --no-secret --velero-pod-mem-request much",
        "--velero-pod-mem-request much: this is no quantity",
    ),
    (
        "install --provider aws --bucket b --no-secret --node-agent-configmap nope --dry-run -o yaml",
        "--node-agent-configmap nope: there is no such ConfigMap in the namespace velero; make it first",
    ),
    (
        "install --provider aws --bucket b --no-secret --backup-location-config a",
        "invalid value 'a' for '--backup-location-config <KEY=VALUE,…>': \"a\" is not of the form key=value",
    ),
    (
        "install --provider example.io/x --bucket b --no-secret",
        "--plugins flag is required: the provider \"example.io/x\" is not built in",
    ),
    (
        "install --provider aws --bucket b --no-secret --cacert /nowhere/ca",
        "read --cacert /nowhere/ca: No such file or directory (os error 2)",
    ),
    (
        "server --disable-controllers nope",
        "Invalid value for --disable-controllers flag provided: nope. Valid values are: backup-queue,backup,backup-operations,backup-deletion,backup-finalizer,backup-sync,download-request,gc,backup-repo,restore,restore-operations,schedule,server-status-request,restore-finalizer",
    ),
    (
        "server --log-level loud",
        "invalid value 'loud' for '--log-level <LOG_LEVEL>'\n  [possible values: trace, debug, info, warning, error, fatal, panic]",
    ),
    ("server --log-format xml", "invalid value 'xml' for '--log-format <LOG_FORMAT>'\n  [possible values: text, json]"),
    ("server --uploader-type restic", "invalid uploader type 'restic', valid types: 'kopia', 'velero-block'"),
    ("server --client-page-size -1", "invalid value '-1' for '--client-page-size <N>': -1 is not in 0..=4294967295"),
    (
        "server --restore-resource-priorities a,-,b,-,c",
        "--restore-resource-priorities: multiple priority separator \"-\" found",
    ),
    (
        "server --item-block-worker-count 0",
        "invalid value '0' for '--item-block-worker-count <N>': 0 is not in 1..=1024",
    ),
    (
        "server --concurrent-backups -1",
        "invalid value '-1' for '--concurrent-backups <N>': invalid digit found in string",
    ),
    (
        "server --default-volume-snapshot-locations x",
        "invalid value 'x' for '--default-volume-snapshot-locations <PROVIDER:NAME,…>': \"x\" is not of the form key:value",
    ),
    (
        "server --default-backup-ttl soon",
        "invalid value 'soon' for '--default-backup-ttl <DURATION>': time: invalid duration \"soon\"",
    ),
    ("backup frobnicate", "unknown command \"frobnicate\" for \"velero backup\""),
    ("backups", "unknown command \"backups\" for \"velero\""),
    ("get frobs", "unknown command \"frobs\" for \"velero get\""),
    ("delete backup", "you must specify exactly one of: specific names, the --all flag, or the --selector flag"),
    ("create backup", "a backup name is required, unless you are creating based on a schedule"),
    ("help frobnicate", "unknown command \"frobnicate\" for \"velero\""),
    ("server --client-qps -1", "invalid value '-1' for '--client-qps <N>': it must not be negative"),
    ("server --client-qps nan", "invalid value 'nan' for '--client-qps <N>': it must not be negative"),
    ("server --client-burst 0", "invalid value '0' for '--client-burst <N>': 0 is not in 1..…"),
];

/// The error message of a command: all after the words `An error occurred: `.
fn message(run: &Run) -> &str {
    let (_, message) = run.err.rsplit_once("An error occurred: ").unwrap_or(("", &run.err));
    message.trim_end()
}

/// Returns true if a text is the expected one. Each … leaves some of it open.
fn is_as_expected(text: &str, expected: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|begin| text.strip_prefix(begin)) else { return false };
    for part in parts {
        let Some((_, after)) = (if part.is_empty() { Some(("", "")) } else { rest.split_once(part) }) else {
            return false;
        };
        rest = after;
    }
    rest.is_empty()
}

/// All that commands could change, with the versions.
fn state(sandbox: &Sandbox) -> String {
    let kinds =
        "backups,restores,schedules,backupstoragelocations,volumesnapshotlocations,deletebackuprequests,deployments";
    let template = "{range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
    ok(&sandbox.kubectl(), &["get", kinds, "--all-namespaces", &format!("--output=jsonpath={template}")])
}

#[test]
fn what_is_wrong_is_said_and_nothing_changes() {
    let mut stock = stock();
    let items = stock["items"].as_array_mut().expect("a list");
    items.push(
        json!({"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": {"name": "nightly", "namespace": "velero"},
        "spec": {"schedule": "0 3 * * *", "template": {}}}),
    );
    items.push(
        json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "waiting", "namespace": "velero"},
        "spec": {"storageLocation": "default"}, "status": {"phase": "New"}}),
    );
    let sandbox = Sandbox::start(&stock.to_string());
    let client = Client::new(sandbox.kubeconfig());
    let before = state(&sandbox);
    let mut differences = Vec::new();
    for (line, expected) in WRONG {
        let run = client.run(line);
        let is_said_by_us = run.err.starts_with("Error: ") || run.err.starts_with("An error occurred: ");
        if (run.code, run.out.as_str(), is_said_by_us) != (1, "", true) || !is_as_expected(message(&run), expected) {
            differences.push(format!("{line}\n  {}\n  {run:?}", Value::from(message(&run))));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(state(&sandbox), before);
}
