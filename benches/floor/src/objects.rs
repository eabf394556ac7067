//! The objects: the same ones for the same numbers, no two alike, and as compressible as configuration is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use std::fmt::Write;

/// The choice of objects.
#[derive(Debug, Args)]
pub(crate) struct Shape {
    /// Namespaces are named after this, with a number
    #[arg(long)]
    namespace: String,
    /// Namespaces over which the objects are spread
    #[arg(long, default_value_t = 1)]
    namespaces: usize,
    /// Bytes of an object as the API server lists it, about
    #[arg(long, default_value_t = 1400)]
    size: usize,
    /// ConfigMaps only, instead of every other one a Secret
    #[arg(long)]
    only_config_maps: bool,
    /// Objects of another kind
    #[arg(long)]
    kind: Option<ObjectKind>,
    /// The UID of the namespace kube-system, which owns pods and custom resources
    #[arg(long, default_value = "")]
    owner: String,
    /// Pods with a claim, or definitions over which custom resources are spread
    #[arg(long, default_value_t = 0)]
    of: usize,
    /// Service accounts of all namespaces together, which pods use
    #[arg(long, default_value_t = 1)]
    accounts: usize,
}

/// The kinds of a mixed cluster, in the order in which they have to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ObjectKind {
    /// Service accounts: the first, with their namespaces
    Accounts,
    /// Volumes, each for the claim of its number
    Volumes,
    /// Claims of those volumes
    Claims,
    /// Claims of the class csi, for which a driver makes volumes
    Disks,
    /// Pods: the first ones mount the claims
    Pods,
    /// Definitions
    Definitions,
    /// Custom resources of those definitions
    Custom,
}

/// An object, and the path that it is sent to.
pub(crate) struct Object {
    pub(crate) path: String,
    pub(crate) body: String,
}

/// Bytes of a listed object beside its texts: type, name, labels, and what the server adds.
const REST: usize = 580;
/// Characters of a random value. In a large object nothing but the text is there to be packed, so it gets less that
/// cannot be.
const TOKEN: usize = 24;
const TOKEN_OF_LARGE: usize = 2;

/// The name of a claim for which a driver makes a volume.
pub(crate) fn disk(index: usize) -> String {
    format!("disk-{index:05}")
}

impl Shape {
    /// The namespaces to make first; later kinds find them there.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = Object> {
        let new = if matches!(self.kind, None | Some(ObjectKind::Accounts | ObjectKind::Disks)) {
            self.namespaces
        } else {
            0
        };
        (0..new).map(|number| Object {
            path: "/api/v1/namespaces".to_owned(),
            body: format!(
                r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{}"}}}}"#,
                self.namespace(number)
            ),
        })
    }

    pub(crate) fn object(&self, index: usize) -> Object {
        match self.kind {
            None => self.setting(index),
            Some(kind) => self.part(kind, index),
        }
    }

    /// An object of a mixed cluster.
    fn part(&self, kind: ObjectKind, index: usize) -> Object {
        let namespaces = self.namespaces.max(1);
        let (namespace, number) = (self.namespace(index % namespaces), index / namespaces);
        let core = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
        let owned = format!(
            r#""ownerReferences":[{{"apiVersion":"v1","kind":"Namespace","name":"kube-system","uid":"{}"}}]"#,
            self.owner
        );
        let mut random = Random(index as u64);
        let (path, body) = match kind {
            ObjectKind::Accounts => (
                core("serviceaccounts"),
                format!(r#"{{"apiVersion":"v1","kind":"ServiceAccount","metadata":{{"name":"account-{number:04}"}}}}"#),
            ),
            ObjectKind::Volumes => (
                "/api/v1/persistentvolumes".to_owned(),
                format!(
                    r#"{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"volume-{index:06}"}},"spec":{{"accessModes":["ReadWriteOnce"],"capacity":{{"storage":"1Gi"}},"claimRef":{{"namespace":"{namespace}","name":"claim-{number:05}"}},"hostPath":{{"path":"/data/{index}"}},"persistentVolumeReclaimPolicy":"Retain","storageClassName":"manual"}}}}"#
                ),
            ),
            ObjectKind::Claims => (
                core("persistentvolumeclaims"),
                format!(
                    r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"claim-{number:05}"}},"spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}},"storageClassName":"manual","volumeName":"volume-{index:06}"}}}}"#
                ),
            ),
            ObjectKind::Disks => (
                core("persistentvolumeclaims"),
                format!(
                    r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"{}"}},"spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"16Mi"}}}},"storageClassName":"csi"}}}}"#,
                    disk(index)
                ),
            ),
            ObjectKind::Pods => (core("pods"), self.pod(index, number, &owned, &mut random)),
            ObjectKind::Definitions => (
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
                format!(
                    r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"things{index:03}.bench.example.com"}},"spec":{{"group":"bench.example.com","scope":"Namespaced","names":{{"plural":"things{index:03}","singular":"thing{index:03}","kind":"Thing{index:03}","listKind":"Thing{index:03}List"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object","properties":{{"spec":{{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}}}}}]}}}}"#
                ),
            ),
            ObjectKind::Custom => {
                let definition = index % self.of.max(1);
                let namespace = self.namespace(index / self.of.max(1) % namespaces);
                (
                    format!("/apis/bench.example.com/v1/namespaces/{namespace}/things{definition:03}"),
                    format!(
                        r#"{{"apiVersion":"bench.example.com/v1","kind":"Thing{definition:03}","metadata":{{"name":"item-{index:06}",{owned}}},"spec":{{"replicas":3,"ratio":0.{index},"text":"{}"}}}}"#,
                        random.text(self.size.saturating_sub(REST).max(60), TOKEN)
                    ),
                )
            }
        };
        Object { path, body }
    }

    /// A pod of two containers, as a deployment of a web server writes them.
    fn pod(&self, index: usize, number: usize, owned: &str, random: &mut Random) -> String {
        let mut volumes = r#"{"name":"cache","emptyDir":{}}"#.to_owned();
        if index < self.of {
            let _ =
                write!(volumes, r#",{{"name":"data","persistentVolumeClaim":{{"claimName":"claim-{number:05}"}}}}"#);
        }
        let account = number % (self.accounts / self.namespaces.max(1)).max(1);
        let mut variables = String::new();
        for variable in 0..8 {
            let comma = if variable == 0 { "" } else { "," };
            let _ = write!(variables, r#"{comma}{{"name":"SETTING_{variable}","value":"{}"}}"#, random.text(40, TOKEN));
        }
        let container = |name: &str| {
            format!(
                r#"{{"name":"{name}","image":"example.com/{name}:1.2.3","args":["--listen=:8080","--level=info"],"env":[{variables}],"ports":[{{"containerPort":8080,"name":"{name}"}}],"readinessProbe":{{"httpGet":{{"path":"/ready","port":8080}},"periodSeconds":5}},"livenessProbe":{{"httpGet":{{"path":"/live","port":8080}}}},"resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}},"limits":{{"memory":"128Mi"}}}},"volumeMounts":[{{"name":"cache","mountPath":"/cache"}}]}}"#
            )
        };
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web-{index:06}","labels":{{"app.kubernetes.io/name":"web","pod-template-hash":"{}"}},"annotations":{{"checksum/config":"{}"}},{owned}}},"spec":{{"serviceAccountName":"account-{account:04}","containers":[{},{}],"volumes":[{volumes}]}}}}"#,
            number % 10,
            random.token(64),
            container("web"),
            container("sidecar")
        )
    }

    /// A ConfigMap or a Secret.
    fn setting(&self, index: usize) -> Object {
        let namespace = self.namespace(index / 2 % self.namespaces.max(1));
        let mut random = Random(index as u64);
        let team = WORDS[random.below(WORDS.len())];
        let secret = !self.only_config_maps && index % 2 == 1;
        let token = if self.size < 10 * REST { TOKEN } else { TOKEN_OF_LARGE };
        let room = self.size.saturating_sub(REST).max(60);
        let (plural, kind, data) = if secret {
            // Base64 makes four characters of three bytes.
            let encode = |text: &str| STANDARD.encode(text);
            let (settings, password) = (random.text(room * 3 / 4 - 40, token), random.token(30));
            let data = format!(
                r#""type":"Opaque","data":{{"password":"{}","settings":"{}"}}"#,
                encode(&password),
                encode(&settings)
            );
            ("secrets", "Secret", data)
        } else {
            let (settings, notes) = (random.text(room - 50, token), random.text(50, token));
            let data = format!(r#""data":{{"notes":"{notes}","settings":"{settings}"}}"#);
            ("configmaps", "ConfigMap", data)
        };
        Object {
            path: format!("/api/v1/namespaces/{namespace}/{plural}"),
            body: format!(
                r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"item-{index:06}","labels":{{"app.kubernetes.io/name":"item-{index:06}","app.kubernetes.io/part-of":"{team}"}}}},{data}}}"#
            ),
        }
    }

    fn namespace(&self, number: usize) -> String {
        format!("{}-{number:03}", self.namespace)
    }
}

const WORDS: [&str; 64] = [
    "address", "archive", "backend", "balance", "buffer", "bucket", "cache", "channel", "client", "cluster", "column",
    "command", "config", "counter", "cursor", "database", "deadline", "default", "device", "domain", "endpoint",
    "engine", "expire", "factor", "feature", "filter", "gateway", "group", "handler", "header", "index", "interval",
    "journal", "label", "layout", "limit", "listen", "logger", "memory", "metric", "mirror", "module", "network",
    "object", "origin", "packet", "parser", "policy", "prefix", "primary", "queue", "region", "replica", "request",
    "retry", "router", "sample", "schema", "server", "session", "socket", "stream", "timeout", "worker",
];

const ALPHANUMERIC: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        // The remainder is below `end`.
        (self.next() % end.max(1) as u64) as usize
    }

    /// Settings: words that come again, values that do not; gzip makes a third of an object. Nothing in it needs
    /// escaping in JSON.
    fn text(&mut self, length: usize, token: usize) -> String {
        let mut out = String::with_capacity(length + 48);
        while out.len() < length {
            let (first, second) = (WORDS[self.below(WORDS.len())], WORDS[self.below(WORDS.len())]);
            let value = self.next();
            let _ = match value % 4 {
                0 => write!(out, "{first}.{second}={:08x}; ", value >> 32),
                1 => write!(out, "{first}.{second}={}-{}; ", WORDS[self.below(WORDS.len())], value / 4 % 100),
                _ => write!(out, "{first}.{second}={}; ", self.token(token)),
            };
        }
        out.truncate(length);
        out
    }

    fn token(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(ALPHANUMERIC[self.below(ALPHANUMERIC.len())])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(namespaces: usize, only_config_maps: bool) -> Shape {
        let (namespace, owner) = ("b".to_owned(), "u".to_owned());
        Shape { namespace, namespaces, size: 1400, only_config_maps, kind: None, owner, of: 2, accounts: 4 }
    }

    #[test]
    fn what_a_cluster_is_made_of_fits_together() {
        let part = |kind, index| {
            let Object { path, body } = Shape { kind: Some(kind), ..shape(2, false) }.object(index);
            (path, serde_json::from_str::<serde_json::Value>(&body).unwrap())
        };
        let (path, pod) = part(ObjectKind::Pods, 1);
        assert_eq!(path, "/api/v1/namespaces/b-001/pods");
        let claim = &pod["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"];
        let (claims, claimed) = part(ObjectKind::Claims, 1);
        assert_eq!(
            (claims.as_str(), claim),
            ("/api/v1/namespaces/b-001/persistentvolumeclaims", &claimed["metadata"]["name"])
        );
        let (_, volume) = part(ObjectKind::Volumes, 1);
        assert_eq!(volume["spec"]["claimRef"], serde_json::json!({"namespace": "b-001", "name": claim}));
        assert_eq!(claimed["spec"]["volumeName"], volume["metadata"]["name"]);
        let (_, later) = part(ObjectKind::Pods, 2);
        assert_eq!(later["spec"]["volumes"].as_array().unwrap().len(), 1, "only the first ones have a claim");
        let accounts: Vec<_> =
            (0..4).map(|index| part(ObjectKind::Accounts, index).1["metadata"]["name"].clone()).collect();
        assert!((0..20).all(|index| accounts.contains(&part(ObjectKind::Pods, index).1["spec"]["serviceAccountName"])));
        let (path, custom) = part(ObjectKind::Custom, 3);
        assert_eq!(path, "/apis/bench.example.com/v1/namespaces/b-001/things001");
        assert_eq!(part(ObjectKind::Definitions, 1).1["spec"]["names"]["kind"], custom["kind"]);
    }

    #[test]
    fn a_number_names_one_object_of_half_config_maps_half_secrets() {
        let shape = shape(2, false);
        let paths: Vec<String> = (0..6).map(|index| shape.object(index).path).collect();
        assert_eq!(
            paths,
            [
                "/api/v1/namespaces/b-000/configmaps",
                "/api/v1/namespaces/b-000/secrets",
                "/api/v1/namespaces/b-001/configmaps",
                "/api/v1/namespaces/b-001/secrets",
                "/api/v1/namespaces/b-000/configmaps",
                "/api/v1/namespaces/b-000/secrets",
            ]
        );
        assert_eq!(shape.object(7).body, shape.object(7).body);
        assert_ne!(shape.object(8).body, shape.object(10).body);
        for index in 0..100 {
            let body: serde_json::Value = serde_json::from_str(&shape.object(index).body).unwrap();
            assert_eq!(body["metadata"]["name"], format!("item-{index:06}"));
            assert_eq!(body["kind"], if index % 2 == 0 { "ConfigMap" } else { "Secret" });
        }
    }

    #[test]
    fn both_kinds_are_of_the_same_size_and_large_ones_as_large_as_asked() {
        let sizes: Vec<usize> = (0..100).map(|index| shape(1, false).object(index).body.len()).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(most - least < 40, "{least} to {most}");
        let large = Shape { size: 900_000, ..shape(1, true) }.object(1).body;
        assert!((899_000..=900_000).contains(&large.len()), "{}", large.len());
    }
}
