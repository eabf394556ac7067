//! `lifeboat install`: brings the server into a cluster (velero: pkg/cmd/cli/install).
//!
//! The flags are converted into the input of the crate `install` ([`wanted`]). Its results are printed here.

mod flags;
mod wanted;

use anyhow::{Context, Result, bail};
use flags::PrintFormat;
pub(crate) use flags::{InstallArgs, default_image};
use jiff::Timestamp;
use lifeboat_cluster::Cluster;
use lifeboat_install::{self as install, DEPLOYMENT, InstallStep, Installation};
use lifeboat_serve::node_agent::read_config;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::print_resource;
use std::io::Write;
use std::process::ExitCode;

impl InstallArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if *self.output == Some(PrintFormat::Table) {
            bail!("--output table is not supported with this command: json or yaml");
        }
        let installation = self.wanted(&globals.namespace)?;
        let namespace = installation.namespace.as_str();
        // What is only printed needs no cluster, unless the flags speak of something in it.
        let asks = !self.crds_only && install::names_config_maps(&installation);
        let cluster = if asks || !self.dry_run { Some(globals.connect().await?) } else { None };
        if let Some(cluster) = cluster.as_ref().filter(|_| asks) {
            warn(install::check_config_maps(cluster, &installation, read_config).await?)?;
        }
        let definitions = install::definitions();
        let rest = if self.crds_only { Vec::new() } else { install::objects(&installation) };
        if let Some(output) = self.output.and_then(PrintFormat::machine) {
            print_resource(&install::list([definitions.clone(), rest.clone()].concat()), output)?;
        }
        if !self.crds_only {
            warn(install::not_there_yet(&installation))?;
            if let Some(cluster) = &cluster {
                warn(install::unused_snapshot_classes(cluster, &installation).await.into_iter().collect())?;
            }
        }
        let Some(cluster) = cluster.filter(|_| !self.dry_run) else { return Ok(ExitCode::SUCCESS) };
        if !self.crds_only {
            install::check_references(&cluster, &installation).await?;
        }
        let replaced = install::bindings_to_replace(&cluster, &installation, &rest, self.apply).await?;
        let done = async {
            let program = &globals.program.name;
            warn(install::describe_left(program, &install::send(&cluster, &definitions, self.apply, &mut say).await?))?;
            writeln!(std::io::stdout(), "Waiting for resources to be ready in cluster...")?;
            install::wait_until_established(&cluster, &definitions).await?;
            install::replace_bindings(&cluster, &replaced, &rest, &mut say).await?;
            warn(install::describe_left(program, &install::send(&cluster, &rest, self.apply, &mut say).await?))?;
            self.wait_for_pods(&cluster, &installation).await
        };
        done.await.with_context(|| {
            format!(
                "the installation is not complete; `kubectl logs deployment/{DEPLOYMENT} -n {namespace}` may tell more, \
                 and the same command goes on where this one has stopped"
            )
        })?;
        self.conclude(namespace)?;
        Ok(ExitCode::SUCCESS)
    }

    async fn wait_for_pods(&self, cluster: &Cluster, installation: &Installation) -> Result<()> {
        if !self.wait || self.crds_only {
            return Ok(());
        }
        for workload in install::workloads(installation) {
            writeln!(std::io::stdout(), "Waiting for {} to be ready.", workload.name())?;
            install::wait_until_ready(cluster, &installation.namespace, workload, &Timestamp::now).await?;
        }
        Ok(())
    }

    /// Prints reminders of settings that the user may have forgotten, and the next step.
    fn conclude(&self, namespace: &str) -> Result<()> {
        let mut out = std::io::stdout();
        if !self.crds_only && self.secret_file.is_none() {
            writeln!(out, "\nNo secret file was specified, no Secret created.\n")?;
        }
        if !self.crds_only && self.no_default_backup_location {
            writeln!(out, "\nNo bucket and provider were specified, no default backup storage location created.\n")?;
        }
        writeln!(
            out,
            "Velero is installed! ⛵ Use 'kubectl logs deployment/{DEPLOYMENT} -n {namespace}' to view the status."
        )?;
        Ok(())
    }
}

/// Prints a step. A dot ends no line, so it is written out at once.
pub(crate) fn say(step: InstallStep<'_>) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    match step {
        InstallStep::Held => write!(out, "{step}").and_then(|()| out.flush()),
        _ => writeln!(out, "{step}"),
    }
}

fn warn(all: Vec<String>) -> Result<()> {
    let mut err = std::io::stderr();
    all.iter().try_for_each(|what| writeln!(err, "warning: {what}"))?;
    Ok(())
}
