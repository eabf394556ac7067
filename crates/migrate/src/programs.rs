//! Findings about the programs of an installation: server, node agents, plugins.

use super::finding::{Finding, SwitchEffect};
use super::installation::VeleroInstallation;
use super::workload::{Flags, VeleroServer, Workload};

/// The minor numbers of the releases 1.x of Velero whose installations and buckets were tried; the behaviour is that of the last.
const RELEASES: std::ops::RangeInclusive<u32> = 15..=18;

/// Returns the findings about the programs.
pub(super) fn findings(found: &VeleroInstallation, program: &str) -> Vec<Finding> {
    let mut out = Vec::new();
    let Some(VeleroServer { workload: server, flags: given }) = &found.server else {
        let what = format!(
            "no Deployment in namespace {} has the label component=velero and a container velero",
            found.namespace
        );
        let next = format!("look for it with --namespace, or install Lifeboat anew: {program} install");
        return vec![Finding::new(SwitchEffect::Mend, "server", what).next(next)];
    };
    let subject = format!("deployment {}", server.name);
    out.push(if server.is_lifeboat() {
        Finding::new(SwitchEffect::Works, &subject, format!("is Lifeboat's already, of the image {}", server.image))
    } else {
        release(server, &subject)
    });
    flags(given, !found.node_agents.is_empty(), &mut out);
    for image in &server.plugin_images {
        out.push(Finding::new(SwitchEffect::Works, format!("plugins of {image}"), "run as they are"));
    }
    for agent in &found.node_agents {
        let what =
            "saves and restores files of volumes for Lifeboat too; it is Velero's until `install --use-node-agent`";
        out.push(Finding::new(SwitchEffect::Works, format!("daemonset {}", agent.name), what));
    }
    out
}

fn release(server: &Workload, subject: &str) -> Finding {
    let image = &server.image;
    match server.minor() {
        Some(minor) if minor == *RELEASES.end() => {
            Finding::new(SwitchEffect::Works, subject, format!("is of {image}, whose behaviour Lifeboat follows"))
        }
        Some(minor) if RELEASES.contains(&minor) => Finding::new(
            SwitchEffect::Differs,
            subject,
            format!(
                "is of {image}: Lifeboat behaves as release 1.{}, and its definitions have to be brought up to date",
                RELEASES.end()
            ),
        ),
        Some(_) => Finding::new(
            SwitchEffect::Differs,
            subject,
            format!(
                "is of {image}: a change from releases before 1.{} or after 1.{} was not tried",
                RELEASES.start(),
                RELEASES.end()
            ),
        )
        .next("try it with a copy of the cluster, or bring Velero to a release between them first"),
        None => Finding::new(
            SwitchEffect::Differs,
            subject,
            format!("is of {image}, which does not say of which release it is"),
        ),
    }
}

fn flags(flags: &Flags, has_node_agent: bool, out: &mut Vec<Finding>) {
    for flag in &flags.unknown {
        let what = "the server of Lifeboat does not know it, and would not start";
        let next = "take it out of the arguments of the Deployment; Velero's servers of later releases may have it, this version does not";
        out.push(Finding::new(SwitchEffect::Mend, format!("flag --{flag}"), what).next(next));
    }
    if let Some(wrong) = &flags.wrong {
        let next = "change the arguments of the Deployment";
        out.push(
            Finding::new(SwitchEffect::Mend, "flags of the server", format!("the server would not start: {wrong}"))
                .next(next),
        );
    }
    for flag in flags.for_movers.iter().filter(|_| !has_node_agent) {
        let what = "no node agent is there that moves the data of snapshots: backups with such volumes are refused";
        let next = "bring in a node agent (`install --use-node-agent`), or set spec.allowUnprotected of backups and schedules that may go on without them";
        out.push(Finding::new(SwitchEffect::Missing, format!("flag --{flag}"), what).next(next));
    }
    for flag in &flags.without_effect {
        let what = "is taken, with a warning in the log, and has no effect in this version";
        out.push(Finding::new(SwitchEffect::Differs, format!("flag --{flag}"), what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn server(image: &str, flags: Flags) -> VeleroServer {
        let mount = json!({"name": "plugins", "mountPath": "/target"});
        let deployment = json!({"metadata": {"name": "velero", "labels": {"component": "velero"}},
            "spec": {"template": {"spec": {
                "initContainers": [{"image": "velero/velero-plugin-for-gcp:v1.14.2", "volumeMounts": [mount]}],
                "containers": [{"name": "velero", "image": image, "args": ["server"]}]}}}});
        VeleroServer { workload: Workload::of(&deployment), flags }
    }

    fn told(server: VeleroServer) -> Vec<(SwitchEffect, String)> {
        let found = VeleroInstallation {
            namespace: "velero".to_owned(),
            server: Some(server),
            ..VeleroInstallation::default()
        };
        findings(&found, "lifeboat")
            .into_iter()
            .map(|one| (one.verdict, format!("{}: {}", one.subject, one.what)))
            .collect()
    }

    #[test]
    fn each_flag_of_the_server_that_matters_is_told() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let flags = Flags {
            without_effect: names(&["max-concurrent-k8s-connections"]),
            for_movers: names(&["default-snapshot-move-data"]),
            unknown: names(&["not-there", "nor-this"]),
            ..Flags::default()
        };
        let server = server("velero/velero:v1.18.2", flags);
        assert_eq!(
            told(server),
            [
                (SwitchEffect::Works, "deployment velero: is of velero/velero:v1.18.2, whose behaviour Lifeboat follows"),
                (SwitchEffect::Mend, "flag --not-there: the server of Lifeboat does not know it, and would not start"),
                (SwitchEffect::Mend, "flag --nor-this: the server of Lifeboat does not know it, and would not start"),
                (
                    SwitchEffect::Missing,
                    "flag --default-snapshot-move-data: no node agent is there that moves the data of snapshots: backups with such volumes are \
                     refused"
                ),
                (
                    SwitchEffect::Differs,
                    "flag --max-concurrent-k8s-connections: is taken, with a warning in the log, and has no effect in this version"
                ),
                (SwitchEffect::Works, "plugins of velero/velero-plugin-for-gcp:v1.14.2: run as they are"),
            ]
            .map(|(verdict, text)| (verdict, text.to_owned()))
        );
    }

    #[test]
    fn flags_with_which_the_server_would_not_start_are_told() {
        let flags = Flags { wrong: Some("--features: there is no such feature".to_owned()), ..Flags::default() };
        let expected = "flags of the server: the server would not start: --features: there is no such feature";
        assert_eq!(told(server("velero/velero:v1.18.2", flags))[1], (SwitchEffect::Mend, expected.to_owned()));
    }

    #[test]
    fn a_release_is_followed_behind_untried_or_not_to_be_told() {
        for (tag, verdict, what) in [
            ("v1.18.2", SwitchEffect::Works, ", whose behaviour Lifeboat follows"),
            ("v1.17.0", SwitchEffect::Differs, BEHIND),
            ("v1.15.0-rc.1", SwitchEffect::Differs, BEHIND),
            ("v1.14.1", SwitchEffect::Differs, UNTRIED),
            ("v1.19.0", SwitchEffect::Differs, UNTRIED),
            ("main", SwitchEffect::Differs, ", which does not say of which release it is"),
        ] {
            let image = format!("velero/velero:{tag}");
            let told = told(server(&image, Flags::default()));
            assert_eq!(told[0], (verdict, format!("deployment velero: is of {image}{what}")));
        }
    }

    const BEHIND: &str = ": Lifeboat behaves as release 1.18, and its definitions have to be brought up to date";
    const UNTRIED: &str = ": a change from releases before 1.15 or after 1.18 was not tried";
}
