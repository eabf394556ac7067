//! The programs of an installation, as their Deployments and DaemonSets name them.

use lifeboat_api::Features;
use lifeboat_install::PLUGINS_TARGET;
use serde_json::Value;

/// The Deployment of a server, and what its arguments come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VeleroServer {
    pub(crate) workload: Workload,
    pub(crate) flags: Flags,
}

impl VeleroServer {
    /// Reads one. `read_flags` says what the arguments come to.
    pub(crate) fn of(deployment: &Value, read_flags: FlagReader) -> Self {
        let workload = Workload::of(deployment);
        Self { flags: read_flags(&workload.args), workload }
    }
}

/// A Deployment or DaemonSet of Velero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) name: String,
    /// The release of a Helm chart that it belongs to, where it does.
    pub(crate) release: Option<String>,
    /// The image of its program.
    pub(crate) image: String,
    /// The arguments of its program.
    pub(crate) args: Vec<String>,
    /// The images of the init containers that bring plugins.
    pub(super) plugin_images: Vec<String>,
}

impl Workload {
    /// Reads one. The program of a server is in the container `velero`, that of a node agent in the first one.
    pub(crate) fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let pod = &object["spec"]["template"]["spec"];
        let containers = all(&pod["containers"]);
        let container = containers.iter().find(|one| one["name"] == "velero").or(containers.first());
        let container = container.unwrap_or(&Value::Null);
        let brings_plugins =
            |one: &&Value| all(&one["volumeMounts"]).iter().any(|at| at["mountPath"] == PLUGINS_TARGET);
        let plugins = all(&pod["initContainers"]);
        Self {
            name: text(&object["metadata"]["name"]),
            release: release(&object["metadata"]).map(str::to_owned),
            image: text(&container["image"]),
            args: all(&container["args"]).iter().map(text).collect(),
            plugin_images: plugins.iter().filter(brings_plugins).map(|one| text(&one["image"])).collect(),
        }
    }

    pub(super) fn is_lifeboat(&self) -> bool {
        let (name, _) = name_and_tag(&self.image);
        name.rsplit('/').next() == Some("lifeboat")
    }

    /// The minor number of its release, if the tag of its image has it.
    pub(super) fn minor(&self) -> Option<u32> {
        let (_, tag) = name_and_tag(&self.image);
        tag?.strip_prefix("v1.")?.split(['.', '-']).next()?.parse().ok()
    }
}

/// The release of a chart that an object belongs to: as Helm notes it, or as charts label what other tools make of them.
fn release(metadata: &Value) -> Option<&str> {
    let labels = &metadata["labels"];
    let labelled = labels["app.kubernetes.io/instance"].as_str().filter(|_| labels["helm.sh/chart"].is_string());
    metadata["annotations"]["meta.helm.sh/release-name"].as_str().or(labelled)
}

/// Returns true if an image of a plugin is named after a provider: if the words of the provider's name, without its
/// domain, stand in the name of the image, such as `microsoft-azure` in
/// `velero/velero-plugin-for-microsoft-azure:v1.14`. Words that images of all plugins have are ignored.
pub(super) fn is_called(image: &str, provider: &str) -> bool {
    let words = |name| -> Vec<&str> {
        let last = str::rsplit(name, '/').next().unwrap_or(name);
        last.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect()
    };
    let (image, provider) = (words(name_and_tag(image).0), words(provider));
    let says_something = |word: &&str| !["velero", "plugin", "plugins", "for"].contains(word);
    provider.iter().any(says_something) && image.windows(provider.len()).any(|part| part == provider)
}

/// The parts of `registry:5000/velero/velero:v1.18.2@sha256:…`.
fn name_and_tag(image: &str) -> (&str, Option<&str>) {
    let image = image.split_once('@').map_or(image, |(image, _)| image);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (image, None),
    }
}

/// Reads the arguments of a server, with the word `server` first, as the server of this version does.
pub(super) type FlagReader = fn(&[String]) -> Flags;

/// The meaning of a server's arguments for this version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The features that are switched on.
    pub features: Features,
    /// The ConfigMap with the policies for the volumes of all backups.
    pub policies: Option<String>,
    /// The ConfigMap with the resource modifiers for restores that name none.
    pub modifiers: Option<String>,
    /// Flags that this version takes and does not look at.
    pub without_effect: Vec<String>,
    /// Flags that ask for movers of the data of volumes.
    pub for_movers: Vec<String>,
    /// Flags that are not known here.
    pub unknown: Vec<String>,
    /// The reason why the server would not start with the others.
    pub wrong: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn server(image: &str) -> Workload {
        Workload::of(&json!({"spec": {"template": {"spec": {"containers": [{"image": image}]}}}}))
    }

    #[test]
    fn a_deployment_is_read_with_sidecars_and_other_init_containers() {
        let plugin = json!({"image": "velero/velero-plugin-for-aws:v1", "volumeMounts": [{"name": "plugins", "mountPath": "/target"}]});
        let deployment = json!({"metadata": {"name": "backup-velero", "annotations": {"meta.helm.sh/release-name": "backup"}},
            "spec": {"template": {"spec": {
                "initContainers": [{"image": "istio/init"}, plugin],
                "containers": [{"name": "proxy", "image": "istio/proxy"},
                    {"name": "velero", "image": "velero/velero:v1.18.2", "args": ["server", "--features=EnableCSI"]}]}}}});
        let expected = Workload {
            name: "backup-velero".to_owned(),
            release: Some("backup".to_owned()),
            image: "velero/velero:v1.18.2".to_owned(),
            args: vec!["server".to_owned(), "--features=EnableCSI".to_owned()],
            plugin_images: vec!["velero/velero-plugin-for-aws:v1".to_owned()],
        };
        assert_eq!(Workload::of(&deployment), expected);
    }

    #[test]
    fn the_release_of_a_chart_is_noted_by_helm_or_labelled() {
        let labels = |chart: Option<&str>| json!({"helm.sh/chart": chart, "app.kubernetes.io/instance": "a"});
        for (metadata, expected) in [
            (json!({}), None),
            (json!({"labels": labels(None)}), None),
            (json!({"labels": labels(Some("velero-12.0.0"))}), Some("a")),
            (json!({"labels": labels(None), "annotations": {"meta.helm.sh/release-name": "b"}}), Some("b")),
        ] {
            assert_eq!(release(&metadata), expected, "{metadata}");
        }
    }

    #[test]
    fn a_plugin_is_known_by_the_words_of_its_images_name() {
        for (image, provider, expected) in [
            ("velero/velero-plugin-for-gcp:v1.14.2", "velero.io/gcp", true),
            ("velero/velero-plugin-for-gcp:v1.14.2", "gcp", true),
            ("registry.example:5000/aws/velero-plugin-for-gcp", "aws", false),
            ("velero/velero-plugin-for-microsoft-azure:v1.14.2", "velero.io/azure", true),
            ("velero/velero-plugin-for-microsoft-azure:v1.14.2", "example.io/microsoft-azure", true),
            ("velero/velero-plugin-for-microsoft-azure:v1.14.2", "example.io/azure-microsoft", false),
            ("velero/velero-plugin-for-gcp:v1.14.2", "example.io/s", false),
            ("velero/velero-plugin-for-gcp:v1.14.2", "digitalocean.com/velero", false),
            ("velero/velero-plugin-for-gcp:v1.14.2", "", false),
        ] {
            assert_eq!(is_called(image, provider), expected, "{image} {provider}");
        }
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
