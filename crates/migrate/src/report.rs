//! The report of a check.

use super::differences::{Difference, differences};
use super::finding::{Finding, SwitchEffect};
use super::installation::VeleroInstallation;
use super::workload::VeleroServer;
use super::{programs, resources};
use anyhow::Result;
use lifeboat_terminal::process::program::VERSION;
use serde::Serialize;
use std::io::Write;

/// The report of a check, as it is printed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    namespace: String,
    /// The gravest first.
    findings: Vec<Finding>,
    /// The commands to switch with, in order, as a shell takes them.
    steps: Vec<String>,
    differences: Vec<Difference>,
}

impl Report {
    /// Makes the report of an installation. Pure. `program` is what the commands begin with.
    pub fn of(found: &VeleroInstallation, program: &str) -> Self {
        let mut findings = [programs::findings(found, program), resources::findings(found, program)].concat();
        findings.sort_by_key(|finding| finding.verdict);
        Self {
            namespace: found.namespace.clone(),
            findings,
            steps: steps(found, program),
            differences: differences(&found.concerns()),
        }
    }

    /// Returns true if nothing is to be mended, and nothing is missing.
    pub fn is_well(&self) -> bool {
        !self.findings.iter().any(|finding| matches!(finding.verdict, SwitchEffect::Mend | SwitchEffect::Missing))
    }

    /// Writes it as text, with the differences on purpose where they are wanted.
    ///
    /// # Errors
    /// When a line cannot be written.
    pub fn write(&self, out: &mut Vec<u8>, with_differences: bool) -> Result<()> {
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

/// Lists the steps to switch; none where there is no Velero. A release of a chart needs the chart's Job for the
/// definitions. Of any other installation the original flags are not known, so that only the image of its Deployment is
/// replaced.
fn steps(found: &VeleroInstallation, program: &str) -> Vec<String> {
    let Some(VeleroServer { workload: server, .. }) = &found.server else { return Vec::new() };
    if server.is_lifeboat() {
        return Vec::new();
    }
    let namespace = &found.namespace;
    let [first, second] = match &server.release {
        Some(release) => [
            format!("helm get values {release} --namespace {namespace} > values.yaml"),
            format!("helm upgrade {release} deploy/helm/lifeboat --namespace {namespace} --values values.yaml"),
        ],
        None => [
            format!("{program} --namespace {namespace} install --crds-only --apply"),
            format!(
                "kubectl --namespace {namespace} set image deployment/{} velero=lifeboat/lifeboat:{VERSION}",
                server.name
            ),
        ],
    };
    vec![first, second, format!("{program} --namespace {namespace} status")]
}

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_steps_are_commands_of_the_way_it_was_installed_by() {
        let server = |labels: serde_json::Value, image: &str| {
            let container = json!({"name": "velero", "image": image, "args": ["server"]});
            let deployment = json!({"metadata": {"name": "saver", "labels": labels},
                "spec": {"template": {"spec": {"containers": [container]}}}});
            VeleroServer { workload: Workload::of(&deployment), ..VeleroServer::default() }
        };
        let chart = json!({"helm.sh/chart": "velero-12.0.0", "app.kubernetes.io/instance": "backup"});
        let image = format!("kubectl --namespace dr set image deployment/saver velero=lifeboat/lifeboat:{VERSION}");
        let (definitions, status) =
            ("lifeboat --namespace dr install --crds-only --apply", "lifeboat --namespace dr status");
        for (server, expected) in [
            (None, vec![]),
            (Some(server(json!({}), "lifeboat/lifeboat:v0.1.0")), vec![]),
            (Some(server(json!({}), "velero/velero:v1.18.2")), vec![definitions, &image, status]),
            (
                Some(server(chart, "velero/velero:v1.18.2")),
                vec![
                    "helm get values backup --namespace dr > values.yaml",
                    "helm upgrade backup deploy/helm/lifeboat --namespace dr --values values.yaml",
                    status,
                ],
            ),
        ] {
            let found = VeleroInstallation { namespace: "dr".to_owned(), server, ..VeleroInstallation::default() };
            assert_eq!(steps(&found, "lifeboat"), expected, "{:?}", found.server);
        }
    }

    #[test]
    fn the_gravest_comes_first_and_without_a_server_there_are_no_steps() {
        let schedule = json!({"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": {"name": "nightly"}, "spec": {"schedule": "0 3 * *", "template": {}}});
        let location = json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": {"name": "default"}, "spec": {"provider": "aws", "objectStorage": {"bucket": "b"},
            "config": {"region": "x"}}, "status": {"phase": "Available"}});
        let found = VeleroInstallation {
            namespace: "velero".to_owned(),
            schedules: vec![serde_json::from_value(schedule).unwrap()],
            locations: vec![serde_json::from_value(location).unwrap()],
            ..VeleroInstallation::default()
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
             server: no Deployment in namespace velero has the label component=velero and a container velero\n    \
             next: look for it with --namespace, or install Lifeboat anew: lifeboat install\n  \
             schedule nightly: Lifeboat refuses it: invalid schedule: expected exactly 5 fields, found 4: [0 3 * *]\n    \
             next: change the schedule as the reason says, or delete it\n\n\
             Works as before:\n  \
             backup storage location default: is built in\n\n\
             In 1 points the two differ on purpose: --differences prints them.\n"
        );
    }
}
