//! Discovery that survives broken groups.

use crate::send::parse;
use crate::{Cluster, ClusterError};
use lifeboat_object::{ApiResource, Catalog, DiscoveryFailure};
use serde::Deserialize;
use std::collections::HashSet;
use std::sync::Arc;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

impl Cluster {
    /// Asks the server for all its API resources. That takes two requests to a server that aggregates discovery (since
    /// Kubernetes 1.26), and one request per group-version to any other. Returns what was found; a group that does not answer
    /// is named in [`Catalog::failures`].
    ///
    /// # Errors
    /// [`ClusterError`] when the server does not answer at all.
    pub async fn discover(&self) -> Result<Catalog, ClusterError> {
        let what = "API resources";
        let core = self.read("discover", what, "/api", Some(AGGREGATED)).await?;
        let named = self.read("discover", what, "/apis", Some(AGGREGATED)).await?;
        let core: DiscoveryResponse = parse("discover", what, &core)?;
        let named: DiscoveryResponse = parse("discover", what, &named)?;
        if core.kind == "APIGroupDiscoveryList" && named.kind == "APIGroupDiscoveryList" {
            return Ok(from_aggregated(core.items.into_iter().chain(named.items)));
        }
        self.discover_one_by_one(core, named).await
    }

    async fn discover_one_by_one(
        &self,
        core: DiscoveryResponse,
        named: DiscoveryResponse,
    ) -> Result<Catalog, ClusterError> {
        let mut versions: Vec<(String, String, String)> =
            core.versions.iter().map(|v| (String::new(), v.clone(), format!("/api/{v}"))).collect();
        for group in named.groups {
            let preferred = group.preferred_version.map(|v| v.version).unwrap_or_default();
            let mut of_group: Vec<String> = group.versions.into_iter().map(|v| v.version).collect();
            // Preferred first, the others as listed.
            of_group.sort_by_key(|v| *v != preferred);
            versions.extend(of_group.into_iter().map(|v| {
                let path = format!("/apis/{}/{v}", group.name);
                (group.name.clone(), v, path)
            }));
        }
        let mut found = Vec::new();
        let mut failures = Vec::new();
        for (group, version, path) in versions {
            let group_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
            let answer = match self.read("discover", &group_version, &path, None).await {
                Ok(body) => parse::<ResourceList>("discover", &group_version, &body),
                Err(e) => Err(e),
            };
            match answer {
                Ok(list) => found.extend(list.into_resources(&group, &version)),
                Err(e) => failures.push(DiscoveryFailure { group_version, message: e.failure.to_string() }),
            }
        }
        Ok(catalog(found, failures))
    }
}

/// Either form of the answers of `/api` and `/apis`.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct DiscoveryResponse {
    kind: String,
    items: Vec<AggregatedGroup>,
    versions: Vec<String>,
    groups: Vec<LegacyGroup>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AggregatedGroup {
    metadata: Name,
    versions: Vec<AggregatedVersion>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Name {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AggregatedVersion {
    version: String,
    resources: Vec<AggregatedResource>,
    freshness: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    response_kind: Option<KindOnly>,
    scope: String,
    singular_resource: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
    subresources: Vec<AggregatedSubresource>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct KindOnly {
    kind: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AggregatedSubresource {
    subresource: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LegacyGroup {
    name: String,
    versions: Vec<LegacyVersion>,
    preferred_version: Option<LegacyVersion>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LegacyVersion {
    version: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourceList {
    resources: Vec<LegacyResource>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LegacyResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    kind: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
}

impl ResourceList {
    fn into_resources(self, group: &str, version: &str) -> Vec<ApiResource> {
        let subresources: Vec<String> = self.resources.iter().map(|r| r.name.clone()).collect();
        self.resources
            .into_iter()
            .filter(|r| !r.name.contains('/'))
            .map(|r| {
                let prefix = format!("{}/", r.name);
                ApiResource {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    subresources: subresources
                        .iter()
                        .filter_map(|s| s.strip_prefix(&prefix).map(str::to_owned))
                        .collect(),
                    resource: r.name,
                    kind: r.kind,
                    singular: r.singular_name,
                    short_names: r.short_names,
                    categories: r.categories,
                    namespaced: r.namespaced,
                    verbs: r.verbs,
                    preferred: false,
                }
            })
            .collect()
    }
}

fn from_aggregated(groups: impl Iterator<Item = AggregatedGroup>) -> Catalog {
    let mut found = Vec::new();
    let mut failures = Vec::new();
    for group in groups {
        let name = group.metadata.name;
        for version in group.versions {
            if version.freshness == "Stale" {
                let group_version =
                    if name.is_empty() { version.version.clone() } else { format!("{name}/{}", version.version) };
                let message = "the aggregated API server behind it does not answer".to_owned();
                failures.push(DiscoveryFailure { group_version, message });
                continue;
            }
            for r in version.resources {
                found.push(ApiResource {
                    group: name.clone(),
                    version: version.version.clone(),
                    resource: r.resource,
                    kind: r.response_kind.unwrap_or_default().kind,
                    singular: r.singular_resource,
                    short_names: r.short_names,
                    categories: r.categories,
                    namespaced: r.scope == "Namespaced",
                    verbs: r.verbs,
                    subresources: r.subresources.into_iter().map(|s| s.subresource).collect(),
                    preferred: false,
                });
            }
        }
    }
    catalog(found, failures)
}

/// Marks the preferred version of each resource (the first one found: versions come in order of preference) and
/// moves the group `extensions` to the end.
fn catalog(mut found: Vec<ApiResource>, failures: Vec<DiscoveryFailure>) -> Catalog {
    let mut seen = HashSet::new();
    for resource in &mut found {
        resource.preferred = seen.insert((resource.group.clone(), resource.resource.clone()));
    }
    found.sort_by_key(|r| r.group == "extensions");
    Catalog::new(found.into_iter().map(Arc::new).collect(), failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_groups_are_failures_and_the_first_version_is_preferred() {
        let answer: DiscoveryResponse = serde_json::from_str(
            r#"{"kind":"APIGroupDiscoveryList","items":[
              {"metadata":{"name":"extensions"},"versions":[{"version":"v1beta1","freshness":"Current","resources":[{"resource":"ingresses","scope":"Namespaced","responseKind":{"kind":"Ingress"},"verbs":["list"]}]}]},
              {"metadata":{"name":"example.com"},"versions":[
                {"version":"v1","freshness":"Current","resources":[{"resource":"widgets","scope":"Namespaced","responseKind":{"kind":"Widget"},"verbs":["list"],"shortNames":["wd"],"subresources":[{"subresource":"status"}]}]},
                {"version":"v1beta1","freshness":"Current","resources":[{"resource":"widgets","scope":"Namespaced","responseKind":{"kind":"Widget"},"verbs":["list"]}]}]},
              {"metadata":{"name":"metrics.k8s.io"},"versions":[{"version":"v1beta1","freshness":"Stale"}]}]}"#,
        )
        .unwrap();
        let catalog = from_aggregated(answer.items.into_iter());
        let got: Vec<String> =
            catalog.all().map(|r| format!("{} {} {}", r.api_version(), r.resource, r.preferred)).collect();
        assert_eq!(
            got,
            ["example.com/v1 widgets true", "example.com/v1beta1 widgets false", "extensions/v1beta1 ingresses true"]
        );
        assert!(catalog.all().next().unwrap().has_subresource("status"));
        assert_eq!(
            catalog.failures,
            [DiscoveryFailure {
                group_version: "metrics.k8s.io/v1beta1".into(),
                message: "the aggregated API server behind it does not answer".into()
            }]
        );
    }

    #[tokio::test]
    async fn without_aggregated_discovery_each_group_is_asked_and_silent_ones_named() {
        use crate::ConnectOptions;
        use lifeboat_testbed::scripted_api_server;
        use serde_json::json;
        let version = |version: &str| json!({"groupVersion": version, "version": version.rsplit('/').next().unwrap()});
        let group = |name: &str, preferred: &str, versions: &[&str]| {
            let of = |one: &str| version(&format!("{name}/{one}"));
            let versions: Vec<_> = versions.iter().map(|one| of(one)).collect();
            json!({"name": name, "versions": versions, "preferredVersion": of(preferred)})
        };
        let groups = [
            group("extensions", "v1beta1", &["v1beta1"]),
            group("metrics.k8s.io", "v1", &["v1"]),
            group("example.com", "v1", &["v2alpha1", "v1"]),
        ];
        let resource = |name: &str, kind: &str| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["list"]});
        let resources =
            |all: &[serde_json::Value]| (200, json!({"kind": "APIResourceList", "resources": all}).to_string());
        let away =
            json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "it is away"});
        // In the order in which they are asked for.
        let answers = vec![
            (200, json!({"kind": "APIVersions", "versions": ["v1"]}).to_string()),
            (200, json!({"kind": "APIGroupList", "groups": groups}).to_string()),
            resources(&[resource("pods", "Pod"), resource("pods/log", "Pod"), resource("pods/status", "Pod")]),
            resources(&[resource("ingresses", "Ingress")]),
            (404, away.to_string()),
            resources(&[resource("widgets", "Widget")]),
            resources(&[resource("widgets", "Widget"), resource("gadgets", "Gadget")]),
        ];
        let mut tasks = tokio::task::JoinSet::new();
        let kubeconfig = scripted_api_server(&mut tasks, answers).await.unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig.path().to_owned()), ..ConnectOptions::default() };
        let catalog = Cluster::connect(&options).await.unwrap().discover().await.unwrap();
        let found: Vec<String> = catalog
            .all()
            .map(|r| format!("{} {} {} {}", r.api_version(), r.resource, r.preferred, r.subresources.join(",")))
            .collect();
        assert_eq!(
            found,
            [
                "v1 pods true log,status",
                "example.com/v1 widgets true ",
                "example.com/v2alpha1 widgets false ",
                "example.com/v2alpha1 gadgets true ",
                "extensions/v1beta1 ingresses true ",
            ]
        );
        let failed: Vec<&str> = catalog.failures.iter().map(|failure| failure.group_version.as_str()).collect();
        assert_eq!(failed, ["metrics.k8s.io/v1"]);
        assert!(catalog.failures[0].message.contains("it is away"), "{:?}", catalog.failures);
    }
}
