//! `lifeboat migrate check`: what becomes of an installation of Velero when Lifeboat takes its place.

mod differences;
mod found;
mod programs;
mod resources;
mod verdict;
mod workload;

use crate::globals::Globals;
use crate::output::{Output, print_resource};
use crate::program::VERSION;
use crate::resource::client;
use anyhow::Result;
use clap::{Args, Subcommand};
use differences::{Difference, differences};
use found::Found;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use verdict::{Finding, Verdict};

/// Work with an installation of Velero.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Say what works, what differs and what is to be done before Lifeboat takes the place of the Velero of this namespace; reads only
    Check(CheckArgs),
}

/// How the answer is shown.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Print also in which behaviour the two differ, as far as it concerns what was found
    #[arg(long)]
    differences: bool,
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Output>,
}

/// The exit code where something is to be done, or is not there yet.
const ATTENTION: u8 = 2;

impl MigrateCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Check(args) => args.run(globals).await,
        }
    }
}

impl CheckArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = client(globals).await?;
        let report = Report::of(&Found::read(&client).await?, &globals.program.name);
        match self.output {
            Some(output) => print_resource(&report, output)?,
            None => {
                let mut text = Vec::new();
                report.write(&mut text, self.differences)?;
                std::io::stdout().write_all(&text)?;
            }
        }
        Ok(if report.is_well() { ExitCode::SUCCESS } else { ExitCode::from(ATTENTION) })
    }
}

/// What is printed.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Report {
    namespace: String,
    /// The gravest first.
    findings: Vec<Finding>,
    /// What to run, in order.
    steps: Vec<String>,
    differences: Vec<Difference>,
}

impl Report {
    /// Pure. `program` is what the commands begin with.
    fn of(found: &Found, program: &str) -> Self {
        let mut findings = [programs::findings(found, program), resources::findings(found, program)].concat();
        findings.sort_by_key(|finding| finding.verdict);
        Self {
            namespace: found.namespace.clone(),
            findings,
            steps: steps(found, program),
            differences: differences(&found.concerns()),
        }
    }

    fn is_well(&self) -> bool {
        !self.findings.iter().any(|finding| matches!(finding.verdict, Verdict::Mend | Verdict::Missing))
    }

    fn write(&self, out: &mut Vec<u8>, with_differences: bool) -> Result<()> {
        let mut last = None;
        for finding in &self.findings {
            if last != Some(finding.verdict) {
                writeln!(out, "{}{}:", if last.is_some() { "\n" } else { "" }, finding.verdict.heading())?;
                last = Some(finding.verdict);
            }
            writeln!(out, "  {}: {}", finding.subject, finding.what)?;
            if let Some(next) = &finding.next {
                writeln!(out, "    next: {next}")?;
            }
        }
        if !self.steps.is_empty() {
            writeln!(out, "\nTo switch, run:")?;
            for step in &self.steps {
                writeln!(out, "  {step}")?;
            }
        }
        if with_differences {
            writeln!(out, "\nWhere the two differ on purpose:")?;
            for Difference { topic, velero, lifeboat } in &self.differences {
                writeln!(out, "  {topic}\n    Velero: {velero}\n    Lifeboat: {lifeboat}")?;
            }
        } else {
            writeln!(
                out,
                "\nIn {} points the two differ on purpose: --differences prints them.",
                self.differences.len()
            )?;
        }
        Ok(())
    }
}

/// How to switch; nothing where there is no Velero.
fn steps(found: &Found, program: &str) -> Vec<String> {
    let Some(server) = &found.server else { return Vec::new() };
    if server.is_lifeboat() {
        return Vec::new();
    }
    let namespace = &found.namespace;
    let mut steps = vec![format!("{program} --namespace {namespace} install --crds-only --apply")];
    steps.push(if server.is_of_helm() {
        "helm upgrade with the chart of Lifeboat and your values, see its page on installing".to_owned()
    } else {
        format!(
            "kubectl --namespace {namespace} set image deployment/{} velero=lifeboat/lifeboat:{VERSION}",
            server.name
        )
    });
    steps.push(format!("{program} --namespace {namespace} status"));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_gravest_comes_first_and_an_installation_without_a_server_has_no_steps() {
        let schedule = json!({"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": {"name": "nightly"}, "spec": {"schedule": "0 3 * *", "template": {}}});
        let location = json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": {"name": "default"}, "spec": {"provider": "aws", "objectStorage": {"bucket": "b"},
            "config": {"region": "x"}}, "status": {"phase": "Available"}});
        let found = Found {
            namespace: "velero".to_owned(),
            schedules: vec![serde_json::from_value(schedule).unwrap()],
            locations: vec![serde_json::from_value(location).unwrap()],
            ..Found::default()
        };
        let mut report = Report::of(&found, "lifeboat");
        assert!(!report.is_well());
        assert_eq!(report.differences, differences(&found.concerns()));
        report.differences.truncate(1);
        let mut text = Vec::new();
        report.write(&mut text, false).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "To mend before the switch:\n  \
             schedule nightly: Lifeboat refuses it: invalid schedule: expected exactly 5 fields, found 4: [0 3 * *]\n    \
             next: change spec.schedule, or delete it\n\n\
             Works differently:\n  \
             server: there is no Deployment with the label component=velero in the namespace velero\n    \
             next: look for it with --namespace, or install Lifeboat anew: lifeboat install\n\n\
             Works as before:\n  \
             backup storage location default: is built in\n\n\
             In 1 points the two differ on purpose: --differences prints them.\n"
        );
    }
}
