//! `lifeboat local backup`.

use clap::Args;
use lifeboat_api::Backup;
use lifeboat_api::well_known::ANNOTATION_RESOURCE_POLICIES;
use lifeboat_backup::Settings;
use lifeboat_standalone::local_backup::LocalBackup;
use lifeboat_standalone::local_operation::document::document;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::hooks::HookLimitArgs;
use lifeboat_terminal::flags::spec::{BackupSpecArgs, file, no_flags};
use lifeboat_terminal::output::Output;
use std::path::PathBuf;
use std::process::ExitCode;

/// `lifeboat local backup NAME --bucket URL`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The name of the backup
    name: String,
    /// Where to put it: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…
    #[arg(long, value_name = "URL")]
    bucket: String,
    #[command(flatten)]
    spec: BackupSpecArgs,
    /// A file (YAML or JSON, - for the standard input) with a Backup or its spec, for what has no flags, such as hooks. A flag
    /// that is given wins over it
    #[arg(long = "spec", value_name = "FILE")]
    spec_file: Option<PathBuf>,
    /// A file with resource policies, in place of a ConfigMap
    #[arg(long, value_name = "FILE")]
    resource_policies: Option<PathBuf>,
    #[command(flatten)]
    hooks: HookLimitArgs,
    /// Accepted for scripts: this command always waits
    #[arg(long, short)]
    wait: bool,
    /// Print the final Backup as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    /// Only say what would be saved, how much, and what not and why; nothing is written
    #[arg(long)]
    dry_run: bool,
    /// Take over the name from another run that you know has died
    #[arg(long)]
    take_over: bool,
    /// Level of compression: 1 is fastest, 9 is smallest
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9), value_name = "LEVEL")]
    compression_level: u32,
    /// A folder for objects that must wait on disk, beyond the memory budget, until they are uploaded
    #[arg(long, value_name = "DIRECTORY")]
    scratch: Option<PathBuf>,
    /// Megabytes of memory for objects that are read and not yet uploaded
    #[arg(long, default_value_t = lifeboat_backup::MEMORY_BUDGET_MIB, value_parser = clap::value_parser!(u32).range(4..=65_536), value_name = "MB")]
    memory_budget: u32,
}

impl BackupArgs {
    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        let mut backup = self.asked()?;
        if !backup.spec.volume_snapshot_locations.is_empty() {
            anyhow::bail!("--volume-snapshot-locations: without a server there are none; leave the flag out");
        }
        backup.metadata.name.clone_from(&self.name);
        backup.metadata.namespace.clone_from(&globals.namespace);
        if self.resource_policies.is_some() {
            let annotation = ANNOTATION_RESOURCE_POLICIES.to_owned();
            backup.metadata.annotations.insert(annotation, "file".to_owned());
        }
        let settings = self.settings(globals)?;
        let scratch = self.scratch.unwrap_or_else(std::env::temp_dir);
        let local = LocalBackup { backup, settings, bucket: self.bucket, scratch, output: self.output };
        match self.dry_run {
            true => Box::pin(local.preview(globals)).await,
            false => Box::pin(local.run(globals)).await,
        }
    }

    /// Returns the backup that the flags and the file of the spec ask for.
    fn asked(&self) -> anyhow::Result<Backup> {
        let mut backup = Backup::default();
        self.spec.apply(&mut backup);
        if let Some(file) = &self.spec_file {
            let mut none = Backup::default();
            no_flags::<BackupSpecArgs>()?.apply(&mut none);
            backup.spec = file::overlaid(&file::read(file, "Backup")?, &backup.spec, &none.spec)?;
        }
        Ok(backup)
    }

    fn settings(&self, globals: &Globals) -> anyhow::Result<Settings> {
        Ok(Settings {
            resource_policies: self.resource_policies.as_deref().map(document).transpose()?,
            features: globals.features(),
            max_hook_timeout: Some(self.hooks.max_hook_timeout),
            compression: self.compression_level,
            memory_budget: (self.memory_budget as usize) << 20,
            take_over: self.take_over,
            tool: format!("lifeboat {}", env!("CARGO_PKG_VERSION")),
            ..Settings::default()
        })
    }
}
