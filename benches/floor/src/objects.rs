//! The objects: the same ones for the same numbers, no two alike, and as compressible as configuration is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use std::fmt::Write;

/// Which objects.
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
}

/// What to send where.
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

impl Shape {
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = Object> {
        (0..self.namespaces).map(|number| Object {
            path: "/api/v1/namespaces".to_owned(),
            body: format!(
                r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{}"}}}}"#,
                self.namespace(number)
            ),
        })
    }

    pub(crate) fn object(&self, index: usize) -> Object {
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
        Shape { namespace: "b".to_owned(), namespaces, size: 1400, only_config_maps }
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
