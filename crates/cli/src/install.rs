//! `lifeboat install`: brings the server into a cluster (cli-and-install.md 3).
//!
//! The flags are made into a value ([`wanted`]), and this one into objects, which are sent. What the parts say is printed
//! here.

mod apply;
mod binding;
mod check;
mod clear;
mod clock;
mod config_maps;
mod differ;
mod elsewhere;
pub(crate) mod error;
mod flags;
mod gone;
mod installation;
mod kinds;
mod look;
mod names;
mod objects;
mod quantity;
mod read;
mod release;
pub(crate) mod removal;
mod rights;
mod single;
mod state;
mod step;
mod wait;
mod wanted;
mod workload;

use crate::command::Globals;
use crate::local::journal::print_resource;
use anyhow::{Context, Result, bail};
pub(crate) use flags::InstallArgs;
use flags::Printed;
use jiff::Timestamp;
use lifeboat_cluster::Cluster;
use names::DEPLOYMENT;
use std::io::Write;
use std::process::ExitCode;
use step::Step;

impl InstallArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if *self.output == Some(Printed::Table) {
            bail!("--output table is not supported with this command: json or yaml");
        }
        let installation = self.wanted(&globals.namespace)?;
        let namespace = installation.namespace.as_str();
        // What is only printed needs no cluster, unless the flags speak of something in it.
        let asks = !self.crds_only && config_maps::names_config_maps(&installation);
        let cluster = if asks || !self.dry_run { Some(globals.connect().await?) } else { None };
        if let Some(cluster) = cluster.as_ref().filter(|_| asks) {
            config_maps::check_config_maps(cluster, &installation).await?;
        }
        let definitions = objects::definitions();
        let rest = if self.crds_only { Vec::new() } else { objects::objects(&installation) };
        if let Some(output) = self.output.and_then(Printed::machine) {
            print_resource(&objects::list([definitions.clone(), rest.clone()].concat()), output)?;
        }
        if !self.crds_only {
            warn(check::not_there_yet(&installation))?;
        }
        let Some(cluster) = cluster.filter(|_| !self.dry_run) else { return Ok(ExitCode::SUCCESS) };
        let replaced = look::look(&cluster, &installation, &rest, self.apply).await?;
        let done = async {
            let program = &globals.program.name;
            warn(differ::told(program, &apply::send(&cluster, &definitions, self.apply, &mut say).await?))?;
            writeln!(std::io::stdout(), "Waiting for resources to be ready in cluster...")?;
            wait::established(&cluster, &definitions).await?;
            binding::replace(&cluster, &replaced, &rest, &mut say).await?;
            warn(differ::told(program, &apply::send(&cluster, &rest, self.apply, &mut say).await?))?;
            self.wait_for_pods(&cluster, namespace).await
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

    async fn wait_for_pods(&self, cluster: &Cluster, namespace: &str) -> Result<()> {
        if !self.wait || self.crds_only {
            return Ok(());
        }
        writeln!(std::io::stdout(), "Waiting for {DEPLOYMENT} to be ready.")?;
        Ok(wait::ready(cluster, namespace, &Timestamp::now).await?)
    }

    /// What the user may have forgotten, and what comes next.
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
pub(crate) fn say(step: Step<'_>) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    match step {
        Step::Held => write!(out, "{step}").and_then(|()| out.flush()),
        _ => writeln!(out, "{step}"),
    }
}

fn warn(all: Vec<String>) -> Result<()> {
    let mut err = std::io::stderr();
    all.iter().try_for_each(|what| writeln!(err, "warning: {what}"))?;
    Ok(())
}
