//! `lifeboat volume explain`: tells whether volumes are protected by a backup, and by which method.

use anyhow::{Result, bail};
use clap::Args;
use lifeboat_action::Actions;
use lifeboat_api::Backup;
use lifeboat_backup::{Env, FileMoverSettings, PreviewedVolume, Request, Settings, VolumeExplanation, explain_volumes};
use lifeboat_operation::Operation;
use lifeboat_standalone::local_operation::document::document;
use lifeboat_store::Store;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::spec::BackupSpecArgs;
use lifeboat_terminal::output::exit_code::PARTIALLY_FAILED;
use lifeboat_terminal::output::progress::watched;
use lifeboat_terminal::output::results::print_results;
use lifeboat_terminal::output::{Output, print_resource};
use lifeboat_terminal::process::clock::clock;
use lifeboat_view::preview::{volume_name, volume_value};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// `lifeboat volume explain [CLAIM] --object-namespace NAMESPACE`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The claim; all volumes in scope when left out
    claim: Option<String>,
    /// The namespace of the claims; all namespaces when left out
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) object_namespace: Option<String>,
    #[command(flatten)]
    spec: BackupSpecArgs,
    /// A file with resource policies, in place of a ConfigMap
    #[arg(long, value_name = "FILE")]
    resource_policies: Option<PathBuf>,
    /// Print json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
}

impl ExplainArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if self.claim.is_some() && self.object_namespace.is_none() {
            bail!("a claim is in a namespace: say which by {}", globals.program.object_namespace_flag());
        }
        let mut backup = Backup::default();
        self.spec.apply(&mut backup);
        backup.metadata.name = "explained".to_owned();
        backup.metadata.namespace.clone_from(&globals.namespace);
        if let Some(namespace) = &self.object_namespace {
            backup.spec.included_namespaces = vec![namespace.clone()];
        }
        let settings = Settings {
            resource_policies: self.resource_policies.as_deref().map(document).transpose()?,
            features: globals.features(),
            movers: FileMoverSettings { may_be_used: true, ..FileMoverSettings::default() },
            ..Settings::default()
        };
        let env = Env {
            cluster: globals.connect().await?,
            // The bucket is asked nothing.
            store: Store::in_memory(),
            actions: Actions::default(),
            operation: Operation::new(clock(), "explain", std::env::temp_dir()),
        };
        let request = Request { backup, settings };
        let operation = explain_volumes(&request, &env);
        let mut explained = watched("explain", &env.operation.progress, &env.operation.cancel, operation).await?;
        if let (Some(claim), Some(namespace)) = (&self.claim, &self.object_namespace) {
            let name = format!("{namespace}/{claim}");
            explained.volumes.retain(|volume| volume.name == name);
            if explained.volumes.is_empty() {
                print_results(&explained.results);
                bail!(
                    "there is no claim {claim} in the namespace {namespace}, or it is not in the scope of these flags"
                );
            }
        }
        self.print(&explained)?;
        let well = explained.results.errors.is_empty();
        Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(PARTIALLY_FAILED) })
    }

    fn print(&self, explained: &VolumeExplanation) -> Result<()> {
        print_results(&explained.results);
        let VolumeExplanation { volumes, refusal, results, .. } = explained;
        if let Some(output) = self.output {
            let volumes: Vec<_> = volumes.iter().map(volume_value).collect();
            return print_resource(&json!({"volumes": volumes, "refusal": refusal, "results": results}), output);
        }
        let mut out = std::io::stdout().lock();
        for volume in volumes {
            let PreviewedVolume { done, reason, advice, .. } = volume;
            writeln!(out, "{}\n  Saved by:  {done}\n  Because:   {reason}", volume_name(volume))?;
            if let Some(advice) = advice {
                writeln!(out, "  To change: {advice}")?;
            }
        }
        if volumes.is_empty() {
            writeln!(out, "No volumes are in the scope of these flags.")?;
        }
        if let Some(refusal) = refusal {
            writeln!(out, "\nThe backup would be refused: {refusal}.")?;
        }
        Ok(())
    }
}
