//! What becomes of the programs of an installation: server, node agents, plugins.

use super::found::Found;
use super::verdict::{Finding, Verdict};
use crate::globals::Globals;
use crate::pflag;
use crate::server::ServerArgs;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser};
use lifeboat_api::Features;
use serde_json::Value;

/// A Deployment or DaemonSet of Velero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) name: String,
    /// The chart that it was made from, where it was.
    pub(super) chart: Option<String>,
    /// The image of its program.
    pub(super) image: String,
    /// The arguments of its program.
    pub(super) args: Vec<String>,
    /// The images of its init containers, each of which brings plugins.
    pub(super) init_images: Vec<String>,
}

/// The newest release of Velero whose behaviour was looked at, and the oldest whose installations and buckets were.
const RELEASES: std::ops::RangeInclusive<u32> = 15..=18;

impl Workload {
    /// Reads one. The program of Velero is in the first container.
    pub(super) fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pod = &object["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let labels = &object["metadata"]["labels"];
        Self {
            name: text(&object["metadata"]["name"]),
            chart: labels["helm.sh/chart"].as_str().map(str::to_owned),
            image: text(&container["image"]),
            args: all(&container["args"]).iter().map(text).collect(),
            init_images: all(&pod["initContainers"]).iter().map(|one| text(&one["image"])).collect(),
        }
    }

    pub(super) fn is_of_helm(&self) -> bool {
        self.chart.is_some()
    }

    pub(super) fn is_lifeboat(&self) -> bool {
        let (name, _) = name_and_tag(&self.image);
        name.rsplit('/').next() == Some("lifeboat")
    }

    /// The minor number of its release, if the tag of its image says it.
    fn minor(&self) -> Option<u32> {
        let (_, tag) = name_and_tag(&self.image);
        tag?.strip_prefix("v1.")?.split(['.', '-']).next()?.parse().ok()
    }

    /// What its arguments come to.
    pub(super) fn flags(&self) -> Flags {
        Flags::of(&self.args)
    }
}

/// The parts of `registry:5000/velero/velero:v1.18.2@sha256:…`.
fn name_and_tag(image: &str) -> (&str, Option<&str>) {
    let image = image.split_once('@').map_or(image, |(image, _)| image);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (image, None),
    }
}

/// What the arguments of a server come to here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) features: Features,
    /// The ConfigMap with the policies for the volumes of all backups.
    pub(super) policies: Option<String>,
    /// The ConfigMap with the resource modifiers of restores that name none.
    pub(super) modifiers: Option<String>,
    /// Flags that this version takes and does not look at.
    without_effect: Vec<String>,
    /// Flags that ask for movers of the data of volumes.
    for_movers: Vec<String>,
    /// Flags that are not known here.
    unknown: Vec<String>,
    /// What is wrong with the others.
    wrong: Option<String>,
}

/// The arguments of a server, after the word `server`.
#[derive(Debug, Parser)]
#[command(name = "server", no_binary_name = true)]
struct Arguments {
    #[command(flatten)]
    globals: Globals,
    #[command(flatten)]
    server: ServerArgs,
}

impl Arguments {
    fn of(args: &[String]) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&pflag::with_rules(Self::command()).try_get_matches_from(args)?)
    }
}

impl Flags {
    fn of(args: &[String]) -> Self {
        let mut flags = Self::default();
        let Some((_, args)) = args.split_first().filter(|(word, _)| *word == "server") else {
            flags.wrong = Some("its first argument is not `server`".to_owned());
            return flags;
        };
        let mut args: Vec<String> = args.to_vec();
        loop {
            match Arguments::of(&args) {
                Ok(Arguments { globals, server }) => {
                    let (policies, modifiers) = server.config_maps();
                    return Self {
                        features: globals.features(),
                        policies: Some(policies.to_owned()),
                        modifiers: Some(modifiers.to_owned()),
                        without_effect: server.without_effect(&globals).into_iter().map(str::to_owned).collect(),
                        for_movers: server.for_movers().into_iter().map(str::to_owned).collect(),
                        ..flags
                    };
                }
                Err(e) => match unknown(&e).and_then(|name| Some((position(&args, &name)?, name))) {
                    // The others are looked at without it.
                    Some((at, name)) => {
                        args.remove(at);
                        flags.unknown.push(name.trim_start_matches('-').to_owned());
                    }
                    None => {
                        let text = e.to_string();
                        let line = text.lines().find(|line| !line.is_empty()).unwrap_or_default();
                        flags.wrong = Some(line.trim_start_matches("error: ").to_owned());
                        return flags;
                    }
                },
            }
        }
    }
}

/// The flag that the command line does not have.
fn unknown(error: &clap::Error) -> Option<String> {
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) if is_unknown => Some(name.clone()),
        _ => None,
    }
}

fn position(args: &[String], name: &str) -> Option<usize> {
    args.iter().position(|arg| arg.split('=').next() == Some(name.split('=').next().unwrap_or(name)))
}

/// What becomes of the programs.
pub(super) fn findings(found: &Found, program: &str) -> Vec<Finding> {
    let mut out = Vec::new();
    let Some(server) = &found.server else {
        let what =
            format!("there is no Deployment with the label component=velero in the namespace {}", found.namespace);
        let next = format!("look for it with --namespace, or install Lifeboat anew: {program} install");
        return vec![Finding::new(Verdict::Differs, "server", what).next(next)];
    };
    let subject = format!("deployment {}", server.name);
    out.push(if server.is_lifeboat() {
        Finding::new(Verdict::Works, &subject, format!("is Lifeboat's already, of the image {}", server.image))
    } else {
        release(server, &subject)
    });
    flags(&server.flags(), &mut out);
    for image in &server.init_images {
        out.push(Finding::new(Verdict::Works, format!("plugins of {image}"), "run as they are"));
    }
    for agent in &found.node_agents {
        let what = "this version has no node agent: it stays, and nothing asks it to move data";
        out.push(Finding::new(Verdict::Missing, format!("daemonset {}", agent.name), what));
    }
    out
}

fn release(server: &Workload, subject: &str) -> Finding {
    let image = &server.image;
    match server.minor() {
        Some(minor) if minor == *RELEASES.end() => {
            Finding::new(Verdict::Works, subject, format!("is of {image}, whose behaviour Lifeboat follows"))
        }
        Some(minor) if RELEASES.contains(&minor) => Finding::new(
            Verdict::Differs,
            subject,
            format!(
                "is of {image}: Lifeboat behaves as release 1.{}, and its definitions have to be brought up to date",
                RELEASES.end()
            ),
        ),
        Some(_) => Finding::new(
            Verdict::Differs,
            subject,
            format!(
                "is of {image}: a change from releases before 1.{} or after 1.{} was not tried",
                RELEASES.start(),
                RELEASES.end()
            ),
        )
        .next("try it with a copy of the cluster, or bring Velero to a release between them first"),
        None => {
            Finding::new(Verdict::Differs, subject, format!("is of {image}, which does not say of which release it is"))
        }
    }
}

fn flags(flags: &Flags, out: &mut Vec<Finding>) {
    for flag in &flags.unknown {
        let what = "the server of Lifeboat does not know it, and would not start";
        let next = "take it out of the arguments of the Deployment; Velero's servers of later releases may have it, this version does not";
        out.push(Finding::new(Verdict::Mend, format!("flag --{flag}"), what).next(next));
    }
    if let Some(wrong) = &flags.wrong {
        let next = "change the arguments of the Deployment";
        out.push(
            Finding::new(Verdict::Mend, "flags of the server", format!("the server would not start: {wrong}"))
                .next(next),
        );
    }
    for flag in &flags.for_movers {
        let what = "this version has no mover: backups with volumes that need one are refused";
        let next = "save these volumes by snapshots, or set spec.allowUnprotected of backups and schedules that may go on without them";
        out.push(Finding::new(Verdict::Missing, format!("flag --{flag}"), what).next(next));
    }
    for flag in &flags.without_effect {
        let what = "is taken, with a warning in the log, and has no effect in this version";
        out.push(Finding::new(Verdict::Differs, format!("flag --{flag}"), what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn server(image: &str, args: &[&str]) -> Workload {
        Workload::of(&json!({"metadata": {"name": "velero", "labels": {"component": "velero"}},
            "spec": {"template": {"spec": {
                "initContainers": [{"image": "velero/velero-plugin-for-gcp:v1.14.2"}],
                "containers": [{"image": image, "args": args}]}}}}))
    }

    fn told(server: Workload) -> Vec<(Verdict, String)> {
        let found = Found { namespace: "velero".to_owned(), server: Some(server), ..Found::default() };
        findings(&found, "lifeboat")
            .into_iter()
            .map(|one| (one.verdict, format!("{}: {}", one.subject, one.what)))
            .collect()
    }

    #[test]
    fn the_release_is_that_of_the_tag() {
        for (image, expected) in [
            ("velero/velero:v1.18.2", Some(18)),
            ("registry.example:5000/velero/velero:v1.15.0-rc.1@sha256:0", Some(15)),
            ("registry.example:5000/velero/velero", None),
            ("velero/velero:main", None),
        ] {
            assert_eq!(server(image, &[]).minor(), expected, "{image}");
        }
        for (image, expected) in [("lifeboat/lifeboat:v0.1.0", true), ("lifeboat/velero:v1.18.2", false)] {
            assert_eq!(server(image, &[]).is_lifeboat(), expected, "{image}");
        }
    }

    #[test]
    fn each_argument_of_the_server_is_looked_at() {
        let args = [
            "server",
            "--features=EnableCSI",
            "--uploader-type=kopia",
            "--not-there=1",
            "--fs-backup-timeout=1h",
            "--nor-this",
            "--default-volumes-to-fs-backup",
            "--global-backup-volume-policies-configmap=all",
        ];
        let server = server("velero/velero:v1.18.2", &args);
        let flags = server.flags();
        assert_eq!((flags.features.csi, flags.policies.as_deref()), (true, Some("all")));
        assert_eq!(
            told(server),
            [
                (Verdict::Works, "deployment velero: is of velero/velero:v1.18.2, whose behaviour Lifeboat follows"),
                (Verdict::Mend, "flag --not-there: the server of Lifeboat does not know it, and would not start"),
                (Verdict::Mend, "flag --nor-this: the server of Lifeboat does not know it, and would not start"),
                (
                    Verdict::Missing,
                    "flag --default-volumes-to-fs-backup: this version has no mover: backups with volumes that need one are refused"
                ),
                (
                    Verdict::Differs,
                    "flag --fs-backup-timeout: is taken, with a warning in the log, and has no effect in this version"
                ),
                (Verdict::Works, "plugins of velero/velero-plugin-for-gcp:v1.14.2: run as they are"),
            ]
            .map(|(verdict, text)| (verdict, text.to_owned()))
        );
    }

    #[test]
    fn a_wrong_value_of_an_argument_is_told() {
        let all = told(server("velero/velero:v1.18.2", &["server", "--default-backup-ttl=soon"]));
        let (verdict, text) = &all[1];
        assert_eq!(*verdict, Verdict::Mend);
        assert!(
            text.starts_with("flags of the server: the server would not start: ") && text.contains("soon"),
            "{text}"
        );
    }
}
