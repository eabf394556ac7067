//! The programs of an installation, as their Deployments and DaemonSets name them.

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
    pub(super) fn minor(&self) -> Option<u32> {
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
    pub(super) without_effect: Vec<String>,
    /// Flags that ask for movers of the data of volumes.
    pub(super) for_movers: Vec<String>,
    /// Flags that are not known here.
    pub(super) unknown: Vec<String>,
    /// What is wrong with the others.
    pub(super) wrong: Option<String>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn server(image: &str) -> Workload {
        Workload::of(&json!({"spec": {"template": {"spec": {"containers": [{"image": image}]}}}}))
    }

    #[test]
    fn the_release_is_that_of_the_tag() {
        for (image, expected) in [
            ("velero/velero:v1.18.2", Some(18)),
            ("registry.example:5000/velero/velero:v1.15.0-rc.1@sha256:0", Some(15)),
            ("registry.example:5000/velero/velero", None),
            ("velero/velero:main", None),
        ] {
            assert_eq!(server(image).minor(), expected, "{image}");
        }
        for (image, expected) in [("lifeboat/lifeboat:v0.1.0", true), ("lifeboat/velero:v1.18.2", false)] {
            assert_eq!(server(image).is_lifeboat(), expected, "{image}");
        }
    }
}
