//! What is wrong with the flags, and what the server would not do with them (cli-and-install.md 3.2). Pure.

use super::flags::InstallArgs;
use super::quantity::Quantity;
use crate::flags;
use anyhow::{Result, bail};

/// Providers that need no plugin.
const BUILT_IN: [&str; 3] = ["aws", "velero.io/aws", DIRECTORY];
const DIRECTORY: &str = "lifeboat.io/directory";

/// Refuses what cannot be installed. Velero's order, so that the same mistake has the same first message.
pub(super) fn check(args: &InstallArgs) -> Result<()> {
    if !matches!(args.uploader_type.as_str(), "kopia" | "velero-block") {
        bail!("invalid uploader type '{}', valid types: 'kopia', 'velero-block'", args.uploader_type);
    }
    if args.bucket.starts_with('-') {
        bail!("--bucket {}: names of buckets do not begin with a dash; is a variable empty?", args.bucket);
    }
    check_locations(args)?;
    if args.default_volumes_to_fs_backup && !args.use_node_agent {
        bail!("--use-node-agent is required when using --default-volumes-to-fs-backup");
    }
    match (&*args.secret_file, args.no_secret) {
        (None, false) => bail!("One of --secret-file or --no-secret is required"),
        (Some(_), true) => bail!("Cannot use both --secret-file and --no-secret"),
        _ => {}
    }
    for (flag, duration) in [
        ("--default-repo-maintain-frequency", args.default_repo_maintain_frequency),
        ("--garbage-collection-frequency", args.garbage_collection_frequency),
        ("--pod-volume-operation-timeout", args.pod_volume_operation_timeout),
    ] {
        if duration.nanoseconds() < 0 {
            bail!("{flag} must be non-negative");
        }
    }
    if args.least_privilege && !args.service_account_name.is_empty() {
        bail!("Cannot use both --least-privilege and --service-account-name: its rights are not ours to give");
    }
    check_resources(args)
}

fn check_locations(args: &InstallArgs) -> Result<()> {
    if args.no_default_backup_location {
        for (flag, given) in [
            ("--bucket", !args.bucket.is_empty()),
            ("--prefix", !args.prefix.is_empty()),
            ("--backup-location-config", !flags::merged(&args.backup_location_config).is_empty()),
        ] {
            if given {
                bail!("Cannot use both {flag} and --no-default-backup-location at the same time");
            }
        }
    } else {
        for (flag, value) in [("--provider", &args.provider), ("--bucket", &args.bucket)] {
            if value.is_empty() {
                bail!("{flag} is required");
            }
        }
    }
    if args.use_volume_snapshots && args.provider.is_empty() {
        bail!("--provider is required when --use-volume-snapshots is set to true");
    }
    if !args.use_volume_snapshots && !flags::merged(&args.snapshot_location_config).is_empty() {
        bail!("--snapshot-location-config must be empty when --use-volume-snapshots=false");
    }
    if args.no_default_backup_location && !args.use_volume_snapshots {
        if !args.provider.is_empty() {
            bail!("--provider must be empty when using --no-default-backup-location and --use-volume-snapshots=false");
        }
    } else if args.plugins.0.is_empty() && !BUILT_IN.contains(&args.provider.as_str()) {
        bail!("--plugins flag is required: the provider \"{}\" is not built in", args.provider);
    }
    Ok(())
}

fn check_resources(args: &InstallArgs) -> Result<()> {
    let (server, agent) = (&args.server_resources, &args.node_agent_resources);
    for (what, request, limit) in [
        ("velero-pod-cpu", &server.velero_pod_cpu_request, &server.velero_pod_cpu_limit),
        ("velero-pod-mem", &server.velero_pod_mem_request, &server.velero_pod_mem_limit),
        ("node-agent-pod-cpu", &agent.node_agent_pod_cpu_request, &agent.node_agent_pod_cpu_limit),
        ("node-agent-pod-mem", &agent.node_agent_pod_mem_request, &agent.node_agent_pod_mem_limit),
    ] {
        let parse = |flag: &str, text: &str| {
            Quantity::parse(text).ok_or_else(|| anyhow::anyhow!("--{what}-{flag} {text}: this is no quantity"))
        };
        let (parsed_request, parsed_limit) = (parse("request", request)?, parse("limit", limit)?);
        if !parsed_limit.is_zero() && parsed_request.exceeds(parsed_limit) {
            bail!("--{what}-request {request} is more than --{what}-limit {limit}");
        }
    }
    Ok(())
}

/// What will be installed and that this version does nothing with.
pub(super) fn not_there_yet(args: &InstallArgs) -> Vec<String> {
    let mut out = Vec::new();
    let mut say = |given: bool, what: &str| {
        if given {
            out.push(what.to_owned());
        }
    };
    say(!args.plugins.0.is_empty(), "--plugins: they are installed, but the server does not run plugins yet");
    if !args.no_default_backup_location && !BUILT_IN.contains(&args.provider.as_str()) {
        say(true, &format!("--provider {}: not built in, the storage location will be Unavailable", args.provider));
    }
    say(
        !args.no_default_backup_location && args.provider == DIRECTORY,
        "--provider lifeboat.io/directory: mount a volume and give the server --directory-root before it is Available",
    );
    say(
        args.use_volume_snapshots,
        "a snapshot location is made, but the server takes no snapshots of volumes yet (--use-volume-snapshots=false for none)",
    );
    for (flag, given) in
        [("--use-node-agent", args.use_node_agent), ("--use-node-agent-windows", args.use_node_agent_windows)]
    {
        say(
            given,
            &format!(
                "{flag}: no DaemonSet is made, because this version has no node agent yet, and its pods could not start; \
                 one that is there stays as it is"
            ),
        );
    }
    for (flag, given) in [
        ("--default-volumes-to-fs-backup", args.default_volumes_to_fs_backup),
        ("--default-snapshot-move-data", args.default_snapshot_move_data),
        ("--schedule-skip-immediately", args.schedule_skip_immediately),
        ("--csi-snapshot-early-frequent-polling", args.csi_snapshot_early_frequent_polling),
        ("--features", !args.features.is_empty()),
        ("--default-repo-maintain-frequency", !args.default_repo_maintain_frequency.is_zero()),
        ("--garbage-collection-frequency", !args.garbage_collection_frequency.is_zero()),
        ("--pod-volume-operation-timeout", !args.pod_volume_operation_timeout.is_zero()),
        ("--backup-repository-configmap", !args.backup_repository_configmap.is_empty()),
        ("--repo-maintenance-job-configmap", !args.repo_maintenance_job_configmap.is_empty()),
        ("--default-resource-modifier-configmap", !args.default_resource_modifier_configmap.is_empty()),
        ("--item-block-worker-count", args.item_block_worker_count > 1),
        ("--keep-latest-maintenance-jobs", args.maintenance.keep_latest_maintenance_jobs > 0),
        ("--maintenance-job-cpu-request", !args.maintenance.maintenance_job_cpu_request.is_empty()),
        ("--maintenance-job-mem-request", !args.maintenance.maintenance_job_mem_request.is_empty()),
        ("--maintenance-job-cpu-limit", !args.maintenance.maintenance_job_cpu_limit.is_empty()),
        ("--maintenance-job-mem-limit", !args.maintenance.maintenance_job_mem_limit.is_empty()),
    ] {
        say(given, &format!("{flag}: passed on, but the server does nothing with it yet"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::tests::parse;

    const GOOD: &str = "--provider aws --bucket b --no-secret";

    #[test]
    fn what_is_refused() {
        for (flags, why) in [
            ("--uploader-type restic", "invalid uploader type 'restic', valid types: 'kopia', 'velero-block'"),
            (
                "--provider aws --bucket -b",
                "--bucket -b: names of buckets do not begin with a dash; is a variable empty?",
            ),
            (
                "--no-default-backup-location --bucket b",
                "Cannot use both --bucket and --no-default-backup-location at the same time",
            ),
            (
                "--no-default-backup-location --prefix b",
                "Cannot use both --prefix and --no-default-backup-location at the same time",
            ),
            (
                "--no-default-backup-location --backup-location-config a=b",
                "Cannot use both --backup-location-config and --no-default-backup-location at the same time",
            ),
            ("--bucket b", "--provider is required"),
            ("--provider aws", "--bucket is required"),
            ("--no-default-backup-location", "--provider is required when --use-volume-snapshots is set to true"),
            (
                "--provider aws --bucket b --use-volume-snapshots=false --snapshot-location-config a=b",
                "--snapshot-location-config must be empty when --use-volume-snapshots=false",
            ),
            (
                "--no-default-backup-location --use-volume-snapshots=false --provider aws",
                "--provider must be empty when using --no-default-backup-location and --use-volume-snapshots=false",
            ),
            (
                "--provider gcp --bucket b --no-secret",
                "--plugins flag is required: the provider \"gcp\" is not built in",
            ),
            (
                "--provider aws --bucket b --default-volumes-to-fs-backup",
                "--use-node-agent is required when using --default-volumes-to-fs-backup",
            ),
            ("--provider aws --bucket b", "One of --secret-file or --no-secret is required"),
            ("--provider aws --bucket b --no-secret --secret-file x", "Cannot use both --secret-file and --no-secret"),
            (
                &format!("{GOOD} --garbage-collection-frequency -1s"),
                "--garbage-collection-frequency must be non-negative",
            ),
            (
                &format!("{GOOD} --default-repo-maintain-frequency -1s"),
                "--default-repo-maintain-frequency must be non-negative",
            ),
            (
                &format!("{GOOD} --pod-volume-operation-timeout -1s"),
                "--pod-volume-operation-timeout must be non-negative",
            ),
            (
                &format!("{GOOD} --velero-pod-mem-request 1Gi"),
                "--velero-pod-mem-request 1Gi is more than --velero-pod-mem-limit 512Mi",
            ),
            (&format!("{GOOD} --node-agent-pod-cpu-limit 1x"), "--node-agent-pod-cpu-limit 1x: this is no quantity"),
            (
                &format!("{GOOD} --least-privilege --service-account-name mine"),
                "Cannot use both --least-privilege and --service-account-name: its rights are not ours to give",
            ),
        ] {
            assert_eq!(check(&parse(flags)).unwrap_err().to_string(), why, "{flags}");
        }
    }

    #[test]
    fn what_is_fine() {
        for flags in [
            GOOD,
            "--provider velero.io/aws --bucket b --secret-file x",
            "--provider gcp --plugins x --bucket b --no-secret",
            "--no-default-backup-location --use-volume-snapshots=false --no-secret",
            "--no-default-backup-location --provider aws --no-secret",
            "--provider aws --bucket b --no-secret --velero-pod-mem-request 1Gi --velero-pod-mem-limit 0",
            "--provider aws --bucket b --no-secret --least-privilege --replicas 3",
        ] {
            check(&parse(flags)).unwrap_or_else(|e| panic!("{flags}: {e}"));
        }
    }

    #[test]
    fn what_is_not_done_is_said() {
        let said = |flags: &str| not_there_yet(&parse(flags));
        assert_eq!(said("--no-default-backup-location --use-volume-snapshots=false --no-secret"), [""; 0]);
        assert_eq!(said(&format!("{GOOD} --use-volume-snapshots=false --concurrent-backups 3 --replicas 2")), [""; 0]);
        let all = said(
            "--provider gcp --bucket b --no-secret --plugins x --use-node-agent --use-node-agent-windows \
             --default-volumes-to-fs-backup --features EnableCSI --item-block-worker-count 4 --maintenance-job-cpu-limit 1",
        );
        let flags: Vec<&str> = all.iter().map(|text| text.split([':', ',']).next().unwrap_or_default()).collect();
        assert_eq!(
            flags,
            [
                "--plugins",
                "--provider gcp",
                "a snapshot location is made",
                "--use-node-agent",
                "--use-node-agent-windows",
                "--default-volumes-to-fs-backup",
                "--features",
                "--item-block-worker-count",
                "--maintenance-job-cpu-limit",
            ]
        );
    }
}
