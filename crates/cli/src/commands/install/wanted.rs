//! Installation that the flags of `lifeboat install` ask for, with the contents of their files.

use super::flags::InstallArgs;
use anyhow::{Context, Result, bail};
use lifeboat_api::well_known::PROVIDER_DIRECTORY;
use lifeboat_install::{
    Credentials, DirectoryVolume, Installation, MaintenanceJobs, PodResources, ServerSettings, check,
};
use lifeboat_terminal::flags;
use std::path::Path;

impl InstallArgs {
    /// Returns the installation that the flags ask for, and reads their files. Errors in the flags are reported before
    /// errors in the files, so credentials are first only checked for presence.
    pub(super) fn wanted(&self, namespace: &str) -> Result<Installation> {
        if !self.directory_claim.is_empty() && self.nfs.is_some() {
            bail!("Cannot use both --directory-claim and --nfs: backups lie in one of them");
        }
        let secret = self.secret_file.as_ref().map(|_| Credentials(Vec::new()));
        let asked = self.installation(namespace, secret, None);
        if !self.crds_only {
            check(&asked, &lifeboat_provider::names())?;
        }
        let secret = read("--secret-file", self.secret_file.as_deref())?.map(Credentials);
        let authority = read("--cacert", self.cacert.as_deref())?;
        Ok(Installation { secret, authority, ..asked })
    }

    /// The installation that the flags ask for, with what their files hold.
    fn installation(&self, namespace: &str, secret: Option<Credentials>, authority: Option<Vec<u8>>) -> Installation {
        let agent = &self.node_agent_resources;
        let server = &self.server_resources;
        let directory = self.directory();
        // A volume says which provider reads it, has no credentials and takes no snapshots.
        let given_or = |given: &str, otherwise: &str| {
            if directory.is_some() && given.is_empty() { otherwise.to_owned() } else { given.to_owned() }
        };
        Installation {
            namespace: namespace.to_owned(),
            image: self.image.clone(),
            secret,
            no_secret: self.no_secret || directory.is_some() && self.secret_file.is_none(),
            provider: given_or(&self.provider, PROVIDER_DIRECTORY),
            storage_location: !self.no_default_backup_location,
            bucket: given_or(&self.bucket, "velero"),
            prefix: given(&self.prefix),
            authority,
            storage_config: flags::merged(&self.backup_location_config),
            snapshot_location: self.use_volume_snapshots && directory.is_none(),
            directory,
            snapshot_config: flags::merged(&self.snapshot_location_config),
            plugins: self.plugins.0.clone(),
            pod_annotations: flags::merged(&self.pod_annotations),
            pod_labels: flags::merged(&self.pod_labels),
            service_account_annotations: flags::merged(&self.sa_annotations),
            service_account: given(&self.service_account_name),
            least_privilege: self.least_privilege,
            replicas: self.replicas,
            server_resources: PodResources {
                cpu_request: server.velero_pod_cpu_request.clone(),
                memory_request: server.velero_pod_mem_request.clone(),
                cpu_limit: server.velero_pod_cpu_limit.clone(),
                memory_limit: server.velero_pod_mem_limit.clone(),
            },
            server_priority_class: given(&self.server_priority_class_name),
            server: self.settings(),
            node_agent: self.use_node_agent,
            node_agent_windows: self.use_node_agent_windows,
            node_agent_resources: PodResources {
                cpu_request: agent.node_agent_pod_cpu_request.clone(),
                memory_request: agent.node_agent_pod_mem_request.clone(),
                cpu_limit: agent.node_agent_pod_cpu_limit.clone(),
                memory_limit: agent.node_agent_pod_mem_limit.clone(),
            },
            node_agent_config_map: given(&self.node_agent_configmap),
            privileged_node_agent: self.privileged_node_agent,
            node_agent_host_paths: !self.node_agent_disable_host_path,
            kubelet_root: self.kubelet_root_dir.clone(),
            node_agent_priority_class: given(&self.node_agent_priority_class_name),
            frequent_snapshot_polling: self.csi_snapshot_early_frequent_polling,
        }
    }

    fn directory(&self) -> Option<DirectoryVolume> {
        given(&self.directory_claim).map(DirectoryVolume::Claim).or_else(|| self.nfs.0.clone())
    }

    fn settings(&self) -> ServerSettings {
        ServerSettings {
            features: self.features.clone(),
            restore_only: self.restore_only,
            volumes_by_files: self.default_volumes_to_fs_backup,
            move_snapshot_data: self.default_snapshot_move_data,
            no_informer_cache: self.disable_informer_cache,
            schedules_wait: self.schedule_skip_immediately,
            uploader: self.uploader_type.clone(),
            maintenance_frequency: self.default_repo_maintain_frequency,
            garbage_collection_frequency: self.garbage_collection_frequency,
            pod_volume_timeout: self.pod_volume_operation_timeout,
            maintenance_jobs: MaintenanceJobs {
                keep_latest: self.maintenance.keep_latest_maintenance_jobs,
                cpu_request: given(&self.maintenance.maintenance_job_cpu_request),
                memory_request: given(&self.maintenance.maintenance_job_mem_request),
                cpu_limit: given(&self.maintenance.maintenance_job_cpu_limit),
                memory_limit: given(&self.maintenance.maintenance_job_mem_limit),
            },
            repository_config_map: given(&self.backup_repository_configmap),
            maintenance_config_map: given(&self.repo_maintenance_job_configmap),
            modifier_config_map: given(&self.default_resource_modifier_configmap),
            item_block_workers: self.item_block_worker_count,
            concurrent_backups: self.concurrent_backups,
        }
    }
}

/// A text, or nothing when it is empty.
fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn read(flag: &str, file: Option<&Path>) -> Result<Option<Vec<u8>>> {
    let read = |file: &Path| std::fs::read(file).with_context(|| format!("read {flag} {}", file.display()));
    file.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Lifeboat;
    use clap::Parser;
    use lifeboat_api::Duration;
    use std::collections::BTreeMap;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: InstallArgs,
    }

    /// Returns the installation for these flags, in the namespace `velero`.
    fn installation(flags: &str) -> Installation {
        let words = std::iter::once("install").chain(flags.split_whitespace());
        Alone::try_parse_from(words).unwrap().args.installation("velero", None, None)
    }

    #[test]
    fn no_flag_asks_for_what_is_the_default() {
        assert_eq!(installation(""), Installation::default());
        // Scripts write it for none.
        let empty = "--prefix= --service-account-name= --server-priority-class-name= --node-agent-configmap= \
            --backup-repository-configmap= --maintenance-job-cpu-limit= --plugins=";
        assert_eq!(installation(empty), Installation::default());
    }

    #[test]
    fn every_flag_reaches_its_value() {
        let flags = "--provider p --bucket b --prefix x --no-secret --no-default-backup-location \
            --use-volume-snapshots=false --backup-location-config a=1,b=2 --backup-location-config b=3 \
            --snapshot-location-config c=4 --image i --plugins j,k --pod-annotations d=5 --pod-labels e=6 \
            --sa-annotations f=7 --service-account-name sa --velero-pod-cpu-request 1 --velero-pod-mem-request 2 \
            --velero-pod-cpu-limit 3 --velero-pod-mem-limit 4 --node-agent-pod-cpu-request 5 \
            --node-agent-pod-mem-request 6 --node-agent-pod-cpu-limit 7 --node-agent-pod-mem-limit 8 --restore-only \
            --use-node-agent --use-node-agent-windows --default-repo-maintain-frequency 1s \
            --garbage-collection-frequency 2s --pod-volume-operation-timeout 3s --features F \
            --default-volumes-to-fs-backup --default-snapshot-move-data --disable-informer-cache \
            --schedule-skip-immediately --csi-snapshot-early-frequent-polling --uploader-type u \
            --keep-latest-maintenance-jobs 9 --maintenance-job-cpu-request 10 --maintenance-job-mem-request 11 \
            --maintenance-job-cpu-limit 12 --maintenance-job-mem-limit 13 --backup-repository-configmap m \
            --repo-maintenance-job-configmap n --default-resource-modifier-configmap o --node-agent-configmap q \
            --item-block-worker-count 14 --concurrent-backups 15 --server-priority-class-name r --replicas 16 \
            --least-privilege --privileged-node-agent --node-agent-disable-host-path --kubelet-root-dir /s \
            --node-agent-priority-class-name t";
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let resources = |values: [&str; 4]| {
            let [cpu_request, memory_request, cpu_limit, memory_limit] = values.map(str::to_owned);
            PodResources { cpu_request, memory_request, cpu_limit, memory_limit }
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            installation(flags),
            Installation {
                namespace: "velero".into(),
                image: "i".into(),
                secret: None,
                no_secret: true,
                provider: "p".into(),
                storage_location: false,
                bucket: "b".into(),
                prefix: text("x"),
                authority: None,
                storage_config: map(&[("a", "1"), ("b", "3")]),
                directory: None,
                snapshot_location: false,
                snapshot_config: map(&[("c", "4")]),
                plugins: vec!["j".into(), "k".into()],
                pod_annotations: map(&[("d", "5")]),
                pod_labels: map(&[("e", "6")]),
                service_account_annotations: map(&[("f", "7")]),
                service_account: text("sa"),
                least_privilege: true,
                replicas: 16,
                server_resources: resources(["1", "2", "3", "4"]),
                server_priority_class: text("r"),
                server: ServerSettings {
                    features: "F".into(),
                    restore_only: true,
                    volumes_by_files: true,
                    move_snapshot_data: true,
                    no_informer_cache: true,
                    schedules_wait: true,
                    uploader: "u".into(),
                    maintenance_frequency: Duration::from_secs(1),
                    garbage_collection_frequency: Duration::from_secs(2),
                    pod_volume_timeout: Duration::from_secs(3),
                    maintenance_jobs: MaintenanceJobs {
                        keep_latest: 9,
                        cpu_request: text("10"),
                        memory_request: text("11"),
                        cpu_limit: text("12"),
                        memory_limit: text("13"),
                    },
                    repository_config_map: text("m"),
                    maintenance_config_map: text("n"),
                    modifier_config_map: text("o"),
                    item_block_workers: 14,
                    concurrent_backups: 15,
                },
                node_agent: true,
                node_agent_windows: true,
                node_agent_resources: resources(["5", "6", "7", "8"]),
                node_agent_config_map: text("q"),
                privileged_node_agent: true,
                node_agent_host_paths: false,
                kubelet_root: "/s".into(),
                node_agent_priority_class: text("t"),
                frequent_snapshot_polling: true,
            }
        );
    }

    #[test]
    fn a_volume_in_place_of_object_storage_needs_no_other_flag() {
        let claim = Installation {
            no_secret: true,
            provider: "lifeboat.io/directory".into(),
            bucket: "velero".into(),
            snapshot_location: false,
            directory: Some(DirectoryVolume::Claim("c".into())),
            ..Installation::default()
        };
        assert_eq!(installation("--directory-claim c"), claim);
        let server = |server: &str| Some(DirectoryVolume::Nfs { server: server.into(), path: "/a:/b".into() });
        let nfs = Installation { directory: server("nas"), bucket: "b".into(), ..claim.clone() };
        assert_eq!(installation("--nfs nas:/a:/b --bucket b"), nfs);
        let nfs = Installation { directory: server("[fd00::1]"), ..claim };
        assert_eq!(installation("--nfs [fd00::1]:/a:/b"), nfs);
        for wrong in ["--nfs nas", "--nfs :/a"] {
            let words = std::iter::once("install").chain(wrong.split_whitespace());
            assert!(Alone::try_parse_from(words).is_err(), "{wrong}");
        }
        let args = Alone::try_parse_from(["install", "--nfs=nas:/a", "--directory-claim=c"]).unwrap().args;
        let why = args.wanted("velero").unwrap_err().to_string();
        assert_eq!(why, "Cannot use both --directory-claim and --nfs: backups lie in one of them");
    }

    /// The Deployment starts a command line that our server understands.
    #[test]
    fn the_server_understands_its_command_line() {
        let flags = "--features EnableCSI,B --default-volumes-to-fs-backup --default-snapshot-move-data \
            --disable-informer-cache --schedule-skip-immediately --uploader-type velero-block --restore-only \
            --default-repo-maintain-frequency 2h --garbage-collection-frequency 30m \
            --pod-volume-operation-timeout 90s --keep-latest-maintenance-jobs 3 --maintenance-job-cpu-limit 1 \
            --maintenance-job-cpu-request 2 --maintenance-job-mem-limit 3Mi --maintenance-job-mem-request 4Mi \
            --backup-repository-configmap a --repo-maintenance-job-configmap b \
            --default-resource-modifier-configmap c --item-block-worker-count 4 --concurrent-backups 5";
        for (flags, count) in [(flags, 21), ("", 3), ("--directory-claim c", 4)] {
            let objects = lifeboat_install::objects(&installation(flags));
            let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
            let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
            let args: Vec<String> = serde_json::from_value(args.clone()).unwrap();
            assert_eq!(args.len(), count, "{args:?}");
            Lifeboat::parsed(&args.join(" "));
        }
    }

    #[test]
    fn flags_are_refused_before_files_are_read() {
        let args = |flags: &str| Alone::try_parse_from(flags.split_whitespace()).unwrap().args;
        let told = |flags: &str| format!("{:#}", args(flags).wanted("velero").unwrap_err());
        let flags = "install --provider aws --secret-file /none/such";
        assert_eq!(told(flags), "--bucket is required");
        let missing = told(&format!("{flags} --bucket b"));
        assert!(missing.starts_with("read --secret-file /none/such: No such file"), "{missing}");
    }
}
