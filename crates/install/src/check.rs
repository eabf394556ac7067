//! Finds the mistakes of an installation, and the options that this version ignores (velero: pkg/cmd/cli/install).
//! Pure.

use crate::installation::{DirectoryVolume, Installation};
use lifeboat_api::well_known::PROVIDER_DIRECTORY;
use lifeboat_api::{UnsupportedPart, has_feature_without_effect};
use lifeboat_object::Quantity;

/// The reason for which an installation is refused, in words that name the flags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// No uploader has this name.
    #[error("invalid uploader type '{0}', valid types: 'kopia', 'velero-block'")]
    Uploader(String),
    /// This is no name of a bucket.
    #[error("--bucket {0}: names of buckets do not begin with a dash; is a variable empty?")]
    Bucket(String),
    /// A value is missing that every installation needs.
    #[error("{0} is required")]
    Missing(&'static str),
    /// A setting of the storage location is given, and no storage location is made.
    #[error("Cannot use both {0} and --no-default-backup-location at the same time")]
    WithoutStorageLocation(&'static str),
    /// A snapshot location needs a provider, and none is given.
    #[error("--provider is required when --use-volume-snapshots is set to true")]
    SnapshotsWithoutProvider,
    /// Settings of the snapshot location are given, and no snapshot location is made.
    #[error("--snapshot-location-config must be empty when --use-volume-snapshots=false")]
    WithoutSnapshotLocation,
    /// A provider is given, and no location is made for it.
    #[error("--provider must be empty when using --no-default-backup-location and --use-volume-snapshots=false")]
    ProviderWithoutLocation,
    /// This provider needs a plugin, and none is given.
    #[error("--plugins flag is required: the provider \"{0}\" is not built in")]
    NoPlugin(String),
    /// Volumes are to be backed up by their files, and no node agent is asked for that would read them.
    #[error("--use-node-agent is required when using --default-volumes-to-fs-backup")]
    FilesWithoutNodeAgent,
    /// Neither credentials are given, nor that there are none on purpose.
    #[error("One of --secret-file or --no-secret is required")]
    NoSecret,
    /// Credentials are given, and also that there are none.
    #[error("Cannot use both --secret-file and --no-secret")]
    BothSecrets,
    /// A duration is negative.
    #[error("{0} must be non-negative")]
    Negative(&'static str),
    /// A volume is given for the buckets, and another provider of the storage.
    #[error("{0} is for --provider lifeboat.io/directory, not for {1}")]
    DirectoryOfAnother(&'static str, String),
    /// The restricted profile of pods, which the smaller rights come with, allows no volumes by NFS.
    #[error(
        "Cannot use both --nfs and --least-privilege: the restricted profile of pods allows no such volume. Make a \
         PersistentVolume of it, and a claim for --directory-claim"
    )]
    RestrictedNfs,
    /// The rights of a service account that this installation does not make are not its own to limit.
    #[error("Cannot use both --least-privilege and --service-account-name: its rights are not ours to give")]
    RightsOfAnother,
    /// Kubernetes does not take this text for an amount.
    #[error("--{what}-{bound} {text}: this is no quantity")]
    Quantity {
        /// The pod and the resource, such as `velero-pod-cpu`.
        what: &'static str,
        /// `request` or `limit`.
        bound: &'static str,
        /// The text that was given.
        text: String,
    },
    /// A pod asks for more than it may use.
    #[error("--{what}-request {request} is more than --{what}-limit {limit}")]
    MoreThanLimit {
        /// The pod and the resource, such as `velero-pod-cpu`.
        what: &'static str,
        /// The amount that it asks for.
        request: String,
        /// The amount that it may use.
        limit: String,
    },
}

/// Refuses an installation that cannot work. It checks in Velero's order, so that the same mistake has the same first
/// message. Providers of these names are built in: they need no plugin.
///
/// # Errors
/// [`CheckError`]: the first mistake.
pub fn check(installation: &Installation, built_in: &[&str]) -> Result<(), CheckError> {
    let settings = &installation.server;
    if !matches!(settings.uploader.as_str(), "kopia" | "velero-block") {
        return Err(CheckError::Uploader(settings.uploader.clone()));
    }
    if installation.bucket.starts_with('-') {
        return Err(CheckError::Bucket(installation.bucket.clone()));
    }
    check_directory(installation)?;
    check_locations(installation, built_in)?;
    if settings.volumes_by_files && !installation.node_agent {
        return Err(CheckError::FilesWithoutNodeAgent);
    }
    match (&installation.secret, installation.no_secret) {
        (None, false) => return Err(CheckError::NoSecret),
        (Some(_), true) => return Err(CheckError::BothSecrets),
        _ => {}
    }
    for (flag, duration) in [
        ("--default-repo-maintain-frequency", settings.maintenance_frequency),
        ("--garbage-collection-frequency", settings.garbage_collection_frequency),
        ("--pod-volume-operation-timeout", settings.pod_volume_timeout),
    ] {
        if duration.nanoseconds() < 0 {
            return Err(CheckError::Negative(flag));
        }
    }
    if installation.least_privilege && installation.service_account.is_some() {
        return Err(CheckError::RightsOfAnother);
    }
    check_resources(installation)
}

fn check_directory(installation: &Installation) -> Result<(), CheckError> {
    let Some(volume) = &installation.directory else { return Ok(()) };
    let flag = match volume {
        DirectoryVolume::Claim(_) => "--directory-claim",
        DirectoryVolume::Nfs { .. } => "--nfs",
    };
    if !installation.storage_location {
        return Err(CheckError::WithoutStorageLocation(flag));
    }
    if installation.provider != PROVIDER_DIRECTORY {
        return Err(CheckError::DirectoryOfAnother(flag, installation.provider.clone()));
    }
    match volume {
        DirectoryVolume::Nfs { .. } if installation.is_restricted() => Err(CheckError::RestrictedNfs),
        _ => Ok(()),
    }
}

fn check_locations(installation: &Installation, built_in: &[&str]) -> Result<(), CheckError> {
    if installation.storage_location {
        for (flag, value) in [("--provider", &installation.provider), ("--bucket", &installation.bucket)] {
            if value.is_empty() {
                return Err(CheckError::Missing(flag));
            }
        }
    } else {
        for (flag, given) in [
            ("--bucket", !installation.bucket.is_empty()),
            ("--prefix", installation.prefix.is_some()),
            ("--backup-location-config", !installation.storage_config.is_empty()),
        ] {
            if given {
                return Err(CheckError::WithoutStorageLocation(flag));
            }
        }
    }
    if installation.snapshot_location && installation.provider.is_empty() {
        return Err(CheckError::SnapshotsWithoutProvider);
    }
    if !installation.snapshot_location && !installation.snapshot_config.is_empty() {
        return Err(CheckError::WithoutSnapshotLocation);
    }
    if !installation.storage_location && !installation.snapshot_location {
        if !installation.provider.is_empty() {
            return Err(CheckError::ProviderWithoutLocation);
        }
    } else if installation.plugins.is_empty() && !built_in.contains(&installation.provider.as_str()) {
        return Err(CheckError::NoPlugin(installation.provider.clone()));
    }
    Ok(())
}

fn check_resources(installation: &Installation) -> Result<(), CheckError> {
    let (server, agent) = (&installation.server_resources, &installation.node_agent_resources);
    for (what, request, limit) in [
        ("velero-pod-cpu", &server.cpu_request, &server.cpu_limit),
        ("velero-pod-mem", &server.memory_request, &server.memory_limit),
        ("node-agent-pod-cpu", &agent.cpu_request, &agent.cpu_limit),
        ("node-agent-pod-mem", &agent.memory_request, &agent.memory_limit),
    ] {
        let parse = |bound, text: &String| {
            Quantity::parse(text).ok_or_else(|| CheckError::Quantity { what, bound, text: text.clone() })
        };
        let (parsed_request, parsed_limit) = (parse("request", request)?, parse("limit", limit)?);
        if !parsed_limit.is_zero() && parsed_request.exceeds(parsed_limit) {
            return Err(CheckError::MoreThanLimit { what, request: request.clone(), limit: limit.clone() });
        }
    }
    Ok(())
}

/// The options of an installation that this version ignores, one line each.
#[must_use]
pub fn not_there_yet(installation: &Installation) -> Vec<String> {
    let mut out = Vec::new();
    let mut say = |given: bool, what: &str| {
        if given {
            out.push(what.to_owned());
        }
    };
    say(
        installation.storage_location
            && installation.provider == PROVIDER_DIRECTORY
            && installation.directory.is_none(),
        "--provider lifeboat.io/directory: name its volume by --directory-claim or --nfs, or mount one and give the server --directory-root \
         before it is Available",
    );
    say(
        installation.snapshot_location && installation.plugins.is_empty(),
        "a snapshot location is made, but no plugin (--plugins) that takes its snapshots: those of CSI drivers need none (--use-volume-snapshots=false for no location)",
    );
    let windows = UnsupportedPart::WindowsMovers.why();
    say(
        installation.node_agent_windows,
        &format!("--use-node-agent-windows: {windows}: the pods start where --image names one for Windows too"),
    );
    for (flag, given) in [
        ("--privileged-node-agent", installation.privileged_node_agent),
        ("--node-agent-disable-host-path", !installation.node_agent_host_paths),
        ("--node-agent-configmap", installation.node_agent_config_map.is_some()),
        ("--node-agent-priority-class-name", installation.node_agent_priority_class.is_some()),
    ] {
        say(
            given && !installation.has_node_agent(),
            &format!("{flag}: without --use-node-agent there is no node agent"),
        );
    }
    let settings = &installation.server;
    for (flag, given) in [
        ("--csi-snapshot-early-frequent-polling", installation.frequent_snapshot_polling),
        ("--features", has_feature_without_effect(&settings.features)),
    ] {
        say(given, &format!("{flag}: passed on, but the server does nothing with it yet"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: [&str; 3] = ["aws", "velero.io/aws", PROVIDER_DIRECTORY];

    use crate::installation::{Credentials, MaintenanceJobs, PodResources, ServerSettings};
    use lifeboat_api::Duration;
    use std::collections::BTreeMap;

    /// An installation of which nothing is wrong.
    fn good() -> Installation {
        Installation { provider: "aws".into(), bucket: "b".into(), no_secret: true, ..Installation::default() }
    }

    /// An installation that makes no location.
    fn bare() -> Installation {
        Installation { storage_location: false, snapshot_location: false, no_secret: true, ..Installation::default() }
    }

    fn with(settings: ServerSettings) -> Installation {
        Installation { server: settings, ..good() }
    }

    fn asking(change: impl FnOnce(&mut PodResources)) -> Installation {
        let mut installation = good();
        change(&mut installation.server_resources);
        installation
    }

    fn claim() -> Option<DirectoryVolume> {
        Some(DirectoryVolume::Claim("c".to_owned()))
    }

    fn config() -> BTreeMap<String, String> {
        BTreeMap::from([("a".to_owned(), "b".to_owned())])
    }

    #[test]
    fn what_is_refused() {
        let past = Duration::from_secs(-1);
        for (installation, why) in [
            (
                with(ServerSettings { uploader: "restic".into(), ..ServerSettings::default() }),
                "invalid uploader type 'restic', valid types: 'kopia', 'velero-block'",
            ),
            (
                Installation { bucket: "-b".into(), ..good() },
                "--bucket -b: names of buckets do not begin with a dash; is a variable empty?",
            ),
            (
                Installation { bucket: "b".into(), ..bare() },
                "Cannot use both --bucket and --no-default-backup-location at the same time",
            ),
            (
                Installation { prefix: Some("b".into()), ..bare() },
                "Cannot use both --prefix and --no-default-backup-location at the same time",
            ),
            (
                Installation { storage_config: config(), ..bare() },
                "Cannot use both --backup-location-config and --no-default-backup-location at the same time",
            ),
            (Installation { provider: String::new(), ..good() }, "--provider is required"),
            (Installation { bucket: String::new(), ..good() }, "--bucket is required"),
            (
                Installation { snapshot_location: true, ..bare() },
                "--provider is required when --use-volume-snapshots is set to true",
            ),
            (
                Installation { snapshot_location: false, snapshot_config: config(), ..good() },
                "--snapshot-location-config must be empty when --use-volume-snapshots=false",
            ),
            (
                Installation { provider: "aws".into(), ..bare() },
                "--provider must be empty when using --no-default-backup-location and --use-volume-snapshots=false",
            ),
            (
                Installation { provider: "gcp".into(), ..good() },
                "--plugins flag is required: the provider \"gcp\" is not built in",
            ),
            (
                with(ServerSettings { volumes_by_files: true, ..ServerSettings::default() }),
                "--use-node-agent is required when using --default-volumes-to-fs-backup",
            ),
            (Installation { no_secret: false, ..good() }, "One of --secret-file or --no-secret is required"),
            (
                Installation { secret: Some(Credentials(Vec::new())), ..good() },
                "Cannot use both --secret-file and --no-secret",
            ),
            (
                with(ServerSettings { garbage_collection_frequency: past, ..ServerSettings::default() }),
                "--garbage-collection-frequency must be non-negative",
            ),
            (
                with(ServerSettings { maintenance_frequency: past, ..ServerSettings::default() }),
                "--default-repo-maintain-frequency must be non-negative",
            ),
            (
                with(ServerSettings { pod_volume_timeout: past, ..ServerSettings::default() }),
                "--pod-volume-operation-timeout must be non-negative",
            ),
            (
                asking(|resources| resources.memory_request = "1Gi".into()),
                "--velero-pod-mem-request 1Gi is more than --velero-pod-mem-limit 512Mi",
            ),
            (
                Installation {
                    node_agent_resources: PodResources { cpu_limit: "1x".into(), ..good().node_agent_resources },
                    ..good()
                },
                "--node-agent-pod-cpu-limit 1x: this is no quantity",
            ),
            (
                Installation { directory: claim(), ..good() },
                "--directory-claim is for --provider lifeboat.io/directory, not for aws",
            ),
            (
                Installation { directory: claim(), ..bare() },
                "Cannot use both --directory-claim and --no-default-backup-location at the same time",
            ),
            (
                Installation {
                    directory: Some(DirectoryVolume::Nfs { server: "s".into(), path: "/p".into() }),
                    provider: PROVIDER_DIRECTORY.into(),
                    least_privilege: true,
                    ..good()
                },
                "Cannot use both --nfs and --least-privilege: the restricted profile of pods allows no such volume. Make a \
                 PersistentVolume of it, and a claim for --directory-claim",
            ),
            (
                Installation { least_privilege: true, service_account: Some("mine".into()), ..good() },
                "Cannot use both --least-privilege and --service-account-name: its rights are not ours to give",
            ),
        ] {
            assert_eq!(check(&installation, &BUILT_IN).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn what_is_fine() {
        for installation in [
            good(),
            Installation {
                provider: "velero.io/aws".into(),
                secret: Some(Credentials(b"x".to_vec())),
                no_secret: false,
                ..good()
            },
            Installation { provider: "gcp".into(), plugins: vec!["x".into()], ..good() },
            Installation { provider: PROVIDER_DIRECTORY.into(), directory: claim(), least_privilege: true, ..good() },
            bare(),
            Installation { snapshot_location: true, provider: "aws".into(), ..bare() },
            asking(|resources| {
                resources.memory_request = "1Gi".into();
                resources.memory_limit = "0".into();
            }),
            Installation { least_privilege: true, replicas: 3, ..good() },
        ] {
            check(&installation, &BUILT_IN).unwrap_or_else(|e| panic!("{installation:?}: {e}"));
        }
    }

    #[test]
    fn what_is_not_done_is_said() {
        assert_eq!(not_there_yet(&bare()), [""; 0]);
        let several = ServerSettings {
            concurrent_backups: 3,
            maintenance_config_map: Some("m".into()),
            maintenance_jobs: MaintenanceJobs {
                cpu_limit: Some("1".into()),
                keep_latest: 2,
                ..MaintenanceJobs::default()
            },
            ..ServerSettings::default()
        };
        let done = Installation { snapshot_location: false, replicas: 2, ..with(several) };
        assert_eq!(not_there_yet(&done), [""; 0]);
        let settings = ServerSettings {
            volumes_by_files: true,
            features: "Unknown".into(),
            item_block_workers: 4,
            pod_volume_timeout: Duration::from_secs(1),
            ..ServerSettings::default()
        };
        let with_plugin = Installation { plugins: vec!["x".into()], ..good() };
        assert_eq!(not_there_yet(&with_plugin), [""; 0]);
        let all = not_there_yet(&Installation { node_agent: true, node_agent_windows: true, ..with(settings) });
        let flags: Vec<&str> = all.iter().map(|text| text.split([':', ',']).next().unwrap_or_default()).collect();
        assert_eq!(flags, ["a snapshot location is made", "--use-node-agent-windows", "--features"]);
    }
}
