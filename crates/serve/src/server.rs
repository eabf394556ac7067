//! `lifeboat server`: runs the controllers of the `velero.io` resources of a namespace.

mod credentials;
mod explain;
mod plugins;
mod providers;
mod run;

use crate::logrus::{LogFormat, LogLevel};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum, value_parser};
use jiff::tz::TimeZone;
use lifeboat_api::Duration;
use lifeboat_api::well_known::VARIABLE_SCRATCH;
use lifeboat_archive::ReadLimits;
use lifeboat_control::{Controller, MaintenanceJobSettings, Options, RepositorySettings};
use lifeboat_plugin::PluginName;
use lifeboat_reconcile::LeaseTimes;
use lifeboat_terminal::flags;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::hooks::HookLimitArgs;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::process::program::VERSION;
use plugins::Search;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Every flag of `velero server` (velero: pkg/cmd/server/config/config.go), and a few of ours.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Print what a server with these flags would do now with the resources of the namespace, and what each other one waits
    /// for; then end. It reads only, and takes no part in the leadership
    #[arg(long)]
    explain: bool,
    /// With --explain: print it as JSON or YAML
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Output>,
    /// The least important log lines to write
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// Form of the log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Where to send traces of operations: a collector of OpenTelemetry that takes OTLP by gRPC. When left out,
    /// $OTEL_EXPORTER_OTLP_ENDPOINT; when that is not set either, no traces are made
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Where the programs of plugins lie
    #[arg(long, value_parser = flags::path, default_value = PLUGIN_DIR, value_name = "DIRECTORY")]
    plugin_dir: PathBuf,
    /// Longest time for one call of a plugin, and longest silence of a stream of it
    #[arg(long, value_parser = flags::duration, default_value = "10m", value_name = "DURATION")]
    plugin_call_timeout: Duration,
    /// Providers of storage for which plugins are used though they are built in, such as velero.io/aws
    #[arg(long, value_parser = flags::strings, value_name = "NAME,…")]
    prefer_plugins: Vec<flags::List>,
    /// Where to serve metrics (/metrics) and health (/healthz, /readyz); empty for nowhere
    #[arg(long, default_value = ":8085", value_name = "ADDRESS")]
    metrics_address: String,
    /// Where to serve files of backups and restores, by signed URLs, for storage that cannot sign; empty for nowhere
    #[arg(long, default_value = "127.0.0.1:8086", value_name = "ADDRESS")]
    download_address: String,
    /// Where to serve profiles (/debug/pprof/profile, for go tool pprof); empty for nowhere
    #[arg(long, default_value = "localhost:6060", value_name = "ADDRESS")]
    profiler_address: String,
    /// Interval at which the Backups of the cluster are brought in line with the bucket, for locations that set none; 0
    /// for each minute
    #[arg(long, value_parser = flags::duration, default_value = "1m", value_name = "DURATION")]
    backup_sync_period: Duration,
    /// Interval at which locations are validated, for locations that set none; 0 for once
    #[arg(long, value_parser = flags::duration, default_value = "1m", value_name = "DURATION")]
    store_validation_frequency: Duration,
    /// Longest time for the files of all volumes of one backup or restore, which go on after it while bytes are moved; the annotation
    /// velero.io/pod-volume-timeout of a restore says otherwise
    #[arg(long, value_parser = flags::duration, default_value = "4h", value_name = "DURATION")]
    fs_backup_timeout: Duration,
    /// Time for which backups are kept that set none
    #[arg(long, value_parser = flags::duration, default_value = "720h", value_name = "DURATION")]
    default_backup_ttl: Duration,
    /// The location of backups that name none, when no location is marked as the default
    #[arg(long, default_value = "default", value_name = "NAME")]
    default_backup_storage_location: String,
    /// Snapshot locations by provider, for backups that name none
    #[arg(long, value_parser = flags::mappings, value_name = "PROVIDER:NAME,…")]
    default_volume_snapshot_locations: Vec<flags::KeyValuePairs>,
    /// Back up volumes by their files when backups do not say; node agents do it
    #[arg(long)]
    default_volumes_to_fs_backup: bool,
    /// Move the data of CSI snapshots into repositories when backups do not say; node agents do it
    #[arg(long)]
    default_snapshot_move_data: bool,
    /// Longest time for asynchronous operations, for backups and restores that set none; DataUploads and DataDownloads go on after it while
    /// bytes are moved
    #[arg(long, value_parser = flags::duration, default_value = "4h", value_name = "DURATION")]
    default_item_operation_timeout: Duration,
    /// Interval at which asynchronous operations are checked; 0 for every ten seconds
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    item_operation_sync_frequency: Duration,
    /// After what time a deletion that has failed is asked for again, of a backup whose time is over; an hour when 0. The first
    /// time that is at once
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    garbage_collection_frequency: Duration,
    /// Interval at which repositories are maintained, for repositories that set none; an hour when 0
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    default_repo_maintain_frequency: Duration,
    /// Longest wait for a single resource
    #[arg(long, value_parser = flags::duration, default_value = "10m", value_name = "DURATION")]
    resource_timeout: Duration,
    /// Longest wait of a restore for objects and namespaces that are being deleted
    #[arg(long, value_parser = flags::duration, default_value = "10m", value_name = "DURATION")]
    terminating_resource_timeout: Duration,
    #[command(flatten)]
    hooks: HookLimitArgs,
    /// Time for which the originals of objects that a restore has recreated or removed stay in the bucket, also when
    /// the restore and its backup are deleted
    #[arg(long, value_parser = flags::duration, default_value = "720h", value_name = "DURATION")]
    keep_replaced: Duration,
    /// Types to restore first and, after a "-", last
    #[arg(long, value_name = "TYPE,…")]
    restore_resource_priorities: Option<String>,
    /// Only restore; deprecated, use read-only locations
    #[arg(long)]
    restore_only: bool,
    /// Parts of the server to leave out
    #[arg(long, value_parser = flags::strings, value_name = "NAME,…")]
    disable_controllers: Vec<flags::List>,
    /// Objects of a page of a list at most, fewer where they are large; 0 for all at once
    #[arg(long, default_value_t = 500, value_name = "N")]
    client_page_size: u32,
    /// The program that moves the files of volumes: kopia is all there is
    #[arg(long, default_value = "kopia", value_name = "NAME")]
    uploader_type: String,
    /// Accepted and without effect, as in Velero
    #[arg(long, default_value_t = 30, value_name = "N")]
    max_concurrent_k8s_connections: u32,
    /// Restores do not list what is there already: they create each object first, and look at it when it is there. That takes less
    /// memory, and more time where much is there
    #[arg(long)]
    disable_informer_cache: bool,
    /// A run that is due when a schedule is seen first is left out, for schedules that do not say
    #[arg(long)]
    schedule_skip_immediately: bool,
    /// The label that joins the claims whose volumes are to be saved together, for backups that name none
    #[arg(long, default_value = lifeboat_api::well_known::LABEL_VOLUME_GROUP, value_name = "LABEL")]
    volume_group_snapshot_label_key: String,
    #[command(flatten)]
    maintenance: MaintenanceJobs,
    /// A ConfigMap with settings of new repositories, in the namespace of the server
    #[arg(long, default_value = "", value_name = "NAME")]
    backup_repository_configmap: String,
    /// A ConfigMap with settings of the Jobs that maintain repositories, in the namespace of the server
    #[arg(long, default_value = "", value_name = "NAME")]
    repo_maintenance_job_configmap: String,
    /// A ConfigMap with policies for the volumes of all backups, in the namespace of the server. They count after those that a
    /// backup names
    #[arg(long, default_value = "", value_name = "NAME")]
    global_backup_volume_policies_configmap: String,
    /// A ConfigMap with resource modifiers for restores that name none, in the namespace of the server
    #[arg(long, default_value = "", value_name = "NAME")]
    default_resource_modifier_configmap: String,
    /// Item blocks of one backup at once: objects that actions look at, with what belongs to them. When left out, one for each
    /// processor, and at least 4
    #[arg(long, value_parser = value_parser!(u32).range(1..=1024), value_name = "N")]
    item_block_worker_count: Option<u32>,
    /// Backups at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrent_backups: usize,
    /// Megabytes that the archive of a backup may have when it is unpacked; 0 for 16384
    #[arg(long, default_value_t = 0, value_name = "MB")]
    max_backup_extraction_size: u64,
    /// Restores at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    concurrent_restores: usize,
    /// Backups and restores that a server left in progress have failed, as in Velero, instead of being taken up again
    #[arg(long)]
    fail_in_progress_on_restart: bool,
    /// Name of this server among those of its namespace; when left out, the name of the pod that its token names, or
    /// the host name
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    identity: Option<String>,
    /// After so long without a sign of life of this server, while it leads, another one of its namespace takes over:
    /// whole seconds, from 3s to 1h. A server that cannot renew for two thirds of it ends; a write under way has the last
    /// third to arrive
    #[arg(long, value_parser = lease_times, default_value = "15s", value_name = "DURATION")]
    lease_duration: LeaseTimes,
    /// Locations of provider lifeboat.io/directory must lie below this directory
    #[arg(long, value_name = "DIRECTORY")]
    directory_root: Option<PathBuf>,
    /// A folder for what memory cannot hold
    #[arg(long, env = VARIABLE_SCRATCH, value_name = "DIRECTORY")]
    scratch: Option<PathBuf>,
}

/// Flags of Velero up to 1.16, which its installer still passes on and its server refuses. They count where the ConfigMap of
/// maintenance Jobs says nothing.
#[derive(Debug, Args)]
struct MaintenanceJobs {
    /// Maintenance Jobs to keep of each repository; 3 when left out
    #[arg(long, hide = true, value_name = "N")]
    keep_latest_maintenance_jobs: Option<u32>,
    /// Processors that maintenance Jobs ask for
    #[arg(long, hide = true, default_value = "", value_name = "QUANTITY")]
    maintenance_job_cpu_request: String,
    /// Memory that maintenance Jobs ask for
    #[arg(long, hide = true, default_value = "", value_name = "QUANTITY")]
    maintenance_job_mem_request: String,
    /// Processors that maintenance Jobs may use
    #[arg(long, hide = true, default_value = "", value_name = "QUANTITY")]
    maintenance_job_cpu_limit: String,
    /// Memory that maintenance Jobs may use
    #[arg(long, hide = true, default_value = "", value_name = "QUANTITY")]
    maintenance_job_mem_limit: String,
}

const PLUGIN_DIR: &str = "/plugins";

/// The Lease holds whole seconds, and the renewals of its leader must fit into them several times.
fn lease_times(text: &str) -> Result<LeaseTimes> {
    let duration = flags::duration(text).map_err(anyhow::Error::msg)?.to_std();
    if duration.subsec_nanos() != 0 || !(3..=3600).contains(&duration.as_secs()) {
        bail!("it must be whole seconds, from 3s to 1h");
    }
    Ok(LeaseTimes::lasting(duration))
}

/// The name in a flag, of which an empty one is none.
fn named(flag: &str) -> Option<&str> {
    (!flag.is_empty()).then_some(flag)
}

/// The ConfigMaps with rules that a server reads, in its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleConfigMaps<'a> {
    /// With the policies for the volumes of all backups.
    pub policies: Option<&'a str>,
    /// With the resource modifiers for restores that name none.
    pub modifiers: Option<&'a str>,
}

impl ServerArgs {
    /// Returns true if it keeps running, and writes the log of a server.
    pub fn serves(&self) -> bool {
        !self.explain
    }

    fn search(&self) -> Result<Search> {
        if self.plugin_call_timeout.is_zero() {
            bail!("--plugin-call-timeout 0s: give the calls of plugins some time, such as 10m");
        }
        let named = flags::joined(&self.prefer_plugins);
        let preferred = named.iter().map(|name| PluginName::of_provider(name)).collect::<Result<_, _>>();
        Ok(Search {
            directory: self.plugin_dir.clone(),
            call_timeout: self.plugin_call_timeout.to_std(),
            preferred: preferred.context("--prefer-plugins")?,
        })
    }

    /// Refuses values that were parsed and that no server can follow.
    ///
    /// # Errors
    /// Names the flag, and says what it takes.
    pub fn check(&self, globals: &Globals) -> Result<()> {
        if !matches!(self.uploader_type.as_str(), "kopia" | "velero-block") {
            bail!("invalid uploader type '{}', valid types: 'kopia', 'velero-block'", self.uploader_type);
        }
        self.search()?;
        self.options(globals, String::new())?;
        Ok(())
    }

    /// The ConfigMaps with rules that the flags name.
    pub fn rule_config_maps(&self) -> RuleConfigMaps<'_> {
        RuleConfigMaps {
            policies: named(&self.global_backup_volume_policies_configmap),
            modifiers: named(&self.default_resource_modifier_configmap),
        }
    }

    /// Flags that were given and that ask for movers of the data of volumes, which a node agent is.
    pub fn for_movers(&self) -> Vec<&'static str> {
        let flags = [("default-snapshot-move-data", self.default_snapshot_move_data)];
        flags.into_iter().filter_map(|(flag, given)| given.then_some(flag)).collect()
    }

    /// Flags that were given and that nothing of this version looks at.
    pub fn without_effect(&self, globals: &Globals) -> Vec<&'static str> {
        [
            ("max-concurrent-k8s-connections", self.max_concurrent_k8s_connections != 30),
            ("features", globals.features.as_deref().is_some_and(lifeboat_api::has_feature_without_effect)),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect()
    }

    fn maintenance_jobs(&self) -> MaintenanceJobSettings {
        let (flags, word) = (&self.maintenance, |value: Option<clap::builder::PossibleValue>| {
            value.map(|value| value.get_name().to_owned()).unwrap_or_default()
        });
        let (level, format) = (word(self.log_level.to_possible_value()), word(self.log_format.to_possible_value()));
        MaintenanceJobSettings {
            config_map: named(&self.repo_maintenance_job_configmap).map(str::to_owned),
            kept: flags.keep_latest_maintenance_jobs,
            cpu_request: flags.maintenance_job_cpu_request.clone(),
            cpu_limit: flags.maintenance_job_cpu_limit.clone(),
            memory_request: flags.maintenance_job_mem_request.clone(),
            memory_limit: flags.maintenance_job_mem_limit.clone(),
            log_arguments: vec![format!("--log-level={level}"), format!("--log-format={format}")],
        }
    }

    fn options(&self, globals: &Globals, identity: String) -> Result<Options> {
        let mut disabled = BTreeSet::new();
        for name in flags::joined(&self.disable_controllers) {
            disabled.insert(name.parse::<Controller>().map_err(anyhow::Error::msg)?);
        }
        if self.restore_only {
            disabled.extend(Controller::OF_BACKUPS);
        }
        let mut restore = lifeboat_restore::Settings {
            terminating_resource_timeout: self.terminating_resource_timeout,
            resource_timeout: self.resource_timeout,
            default_item_operation_timeout: self.default_item_operation_timeout,
            default_resource_modifiers: self.default_resource_modifier_configmap.clone(),
            max_hook_timeout: Some(self.hooks.max_hook_timeout),
            movers: lifeboat_restore::MoverSettings {
                may_be_used: true,
                fs_backup_timeout: self.fs_backup_timeout,
                version: VERSION.to_owned(),
                ..lifeboat_restore::MoverSettings::default()
            },
            features: globals.features(),
            lists_existing: !self.disable_informer_cache,
            served: true,
            keep_replaced: self.keep_replaced,
            ..lifeboat_restore::Settings::default()
        };
        if let Some(priorities) = &self.restore_resource_priorities {
            restore.priorities =
                priorities.parse().map_err(|e| anyhow::anyhow!("--restore-resource-priorities: {e}"))?;
        }
        if self.max_backup_extraction_size > 0 {
            let total = self.max_backup_extraction_size.saturating_mul(1 << 20);
            restore.limits = ReadLimits { total, ..restore.limits };
        }
        let backup = lifeboat_backup::Settings::default();
        let item_block_workers = self.item_block_worker_count.map_or(backup.item_block_workers, |count| count as usize);
        Ok(Options {
            namespace: globals.namespace.clone(),
            identity,
            version: VERSION.to_owned(),
            default_location: named(&self.default_backup_storage_location).map(str::to_owned),
            default_snapshot_locations: flags::merged(&self.default_volume_snapshot_locations),
            validation_frequency: self.store_validation_frequency,
            sync_period: self.backup_sync_period,
            expiry_frequency: self.garbage_collection_frequency,
            schedules_skip: self.schedule_skip_immediately,
            zone: TimeZone::system(),
            operation_frequency: match self.item_operation_sync_frequency {
                unset if unset.nanoseconds() <= 0 => Duration::from_secs(10),
                frequency => frequency,
            },
            concurrent_backups: self.concurrent_backups,
            concurrent_restores: self.concurrent_restores,
            fail_in_progress: self.fail_in_progress_on_restart,
            disabled,
            backup: lifeboat_backup::Settings {
                default_ttl: self.default_backup_ttl,
                default_item_operation_timeout: self.default_item_operation_timeout,
                resource_timeout: self.resource_timeout,
                max_hook_timeout: Some(self.hooks.max_hook_timeout),
                movers: lifeboat_backup::FileMoverSettings {
                    may_be_used: true,
                    fs_backup_timeout: self.fs_backup_timeout,
                    ..lifeboat_backup::FileMoverSettings::default()
                },
                item_block_workers,
                fs_backup_by_default: self.default_volumes_to_fs_backup,
                moves_snapshot_data: self.default_snapshot_move_data,
                volume_group_label: self.volume_group_snapshot_label_key.clone(),
                features: globals.features(),
                global_volume_policies: self.global_backup_volume_policies_configmap.clone(),
                served: true,
                tool: format!("lifeboat {}", env!("CARGO_PKG_VERSION")),
                ..backup
            },
            restore,
            repository: RepositorySettings {
                maintenance_frequency: self.default_repo_maintain_frequency,
                config_map: named(&self.backup_repository_configmap).map(str::to_owned),
                jobs: self.maintenance_jobs(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        globals: Globals,
        #[command(flatten)]
        server: ServerArgs,
    }

    #[test]
    fn as_many_item_blocks_are_worked_on_as_the_flag_says_or_a_few() {
        let workers = |args: &[&str]| {
            let line = Line::try_parse_from(std::iter::once(&"server").chain(args)).ok()?;
            Some(line.server.options(&line.globals, "i".to_owned()).unwrap().backup.item_block_workers)
        };
        let flag = "--item-block-worker-count";
        assert_eq!([&[flag, "1"], &[flag, "7"], &[flag, "0"]].map(|args| workers(args)), [Some(1), Some(7), None]);
        assert_eq!(workers(&[]), Some(lifeboat_backup::Settings::default().item_block_workers));
        assert!(workers(&[]) >= Some(4));
    }

    #[test]
    fn flags_of_maintenance_jobs_reach_the_server() {
        let args = [
            "server",
            "--repo-maintenance-job-configmap=c",
            "--keep-latest-maintenance-jobs=5",
            "--maintenance-job-cpu-request=1",
            "--maintenance-job-cpu-limit=2",
            "--maintenance-job-mem-request=3Mi",
            "--maintenance-job-mem-limit=4Mi",
            "--log-level=debug",
            "--log-format=json",
        ];
        let line = Line::try_parse_from(args).unwrap();
        let jobs = line.server.options(&line.globals, "i".to_owned()).unwrap().repository.jobs;
        let resources = [&jobs.cpu_request, &jobs.cpu_limit, &jobs.memory_request, &jobs.memory_limit];
        assert_eq!(
            (jobs.config_map.as_deref(), jobs.kept, resources.map(String::as_str)),
            (Some("c"), Some(5), ["1", "2", "3Mi", "4Mi"])
        );
        assert_eq!(jobs.log_arguments, ["--log-level=debug", "--log-format=json"]);
        assert_eq!(line.server.without_effect(&line.globals), [""; 0]);
    }

    #[test]
    fn a_lease_lasts_whole_seconds() {
        let taken = ["3s", "15s", "1h", "2s", "3500ms", "61m", "-3s", "soon"].map(|text| lease_times(text).ok());
        let lasting = |seconds| Some(LeaseTimes::lasting(std::time::Duration::from_secs(seconds)));
        assert_eq!(taken, [lasting(3), lasting(15), lasting(3600), None, None, None, None, None]);
    }
}
