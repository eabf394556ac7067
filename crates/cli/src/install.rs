//! `lifeboat install`: brings the server into a cluster (cli-and-install.md 3).
//!
//! Flags are checked ([`check`]), made into a list of objects ([`objects`]), and these are printed, sent ([`apply`])
//! and waited for ([`wait`]). What is there already is looked at before ([`way`]), and what was left as it is is told
//! ([`differ`]). The objects are Velero's, so that either can follow the other in a namespace; docs/compatibility.md names
//! the differences.

mod apply;
mod check;
mod config_maps;
mod differ;
mod flags;
mod objects;
mod quantity;
mod rights;
mod wait;
mod way;
mod workload;

use crate::globals::Globals;
use crate::output::print_resource;
use anyhow::{Context, Result, bail};
pub(crate) use flags::InstallArgs;
use flags::Printed;
use lifeboat_cluster::Cluster;
use objects::Plan;
pub(crate) use objects::{DEPLOYMENT, cluster_name};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

impl InstallArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if *self.output == Some(Printed::Table) {
            bail!("--output table is not supported with this command: json or yaml");
        }
        if !self.crds_only {
            check::check(&self)?;
        }
        let plan = Plan {
            args: &self,
            namespace: &globals.namespace,
            secret: read("--secret-file", self.secret_file.as_deref())?,
            authority: read("--cacert", self.cacert.as_deref())?,
        };
        // What is only printed needs no cluster, unless the flags speak of something in it.
        let asks = !self.crds_only && config_maps::any(&self);
        let cluster = if asks || !self.dry_run { Some(globals.connect().await?) } else { None };
        if let Some(cluster) = cluster.as_ref().filter(|_| asks) {
            config_maps::check(cluster, plan.namespace, &self).await?;
        }
        let definitions = objects::definitions();
        let rest = if self.crds_only { Vec::new() } else { objects::objects(&plan) };
        if let Some(output) = self.output.and_then(Printed::machine) {
            print_resource(&objects::list([definitions.clone(), rest.clone()].concat()), output)?;
        }
        if !self.crds_only {
            warn(check::not_there_yet(&self))?;
        }
        let Some(cluster) = cluster.filter(|_| !self.dry_run) else { return Ok(ExitCode::SUCCESS) };
        let namespace = plan.namespace;
        let replaced = way::look(&cluster, &rest, &self).await?;
        let done = async {
            let program = &globals.program.name;
            warn(differ::told(program, &apply::send(&cluster, &definitions, self.apply).await?))?;
            apply::established(&cluster, &definitions).await?;
            way::replace(&cluster, &replaced, &rest).await?;
            warn(differ::told(program, &apply::send(&cluster, &rest, self.apply).await?))?;
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
        wait::wait(cluster, namespace).await
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

fn warn(all: Vec<String>) -> Result<()> {
    let mut err = std::io::stderr();
    all.iter().try_for_each(|what| writeln!(err, "warning: {what}"))?;
    Ok(())
}

fn read(flag: &str, file: Option<&Path>) -> Result<Option<Vec<u8>>> {
    let read = |file: &Path| std::fs::read(file).with_context(|| format!("read {flag} {}", file.display()));
    file.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: InstallArgs,
    }

    /// The flags of an installation.
    pub(super) fn parse(flags: &str) -> InstallArgs {
        Alone::try_parse_from(std::iter::once("install").chain(flags.split_whitespace())).unwrap().args
    }
}
