//! Objects that are saved, and that a restore may not be able to bring back because of their size.

use lifeboat_object::{Item, ResultScope, is_built_in};
use lifeboat_operation::Journal;

/// The most bytes of a request that etcd takes, unless it was started with another `--max-request-bytes`. Custom resources are in it as JSON.
const ETCD: usize = 1_572_864;
/// The most bytes of a request that an API server takes. Objects of types of Kubernetes itself are sent as JSON, and are smaller in etcd.
const API_SERVER: usize = 3_145_728;
/// Bytes that an object gains when it is restored: two labels, and the API server's notes about their owner (managed
/// fields).
const LABELS: usize = 400;
/// Bytes of a request to etcd beside the object and its key, which is in it three times.
const REQUEST: usize = 100;

/// Warns of an object that is about as large as a cluster takes.
pub(crate) fn tell_too_large(item: &Item, journal: &Journal) {
    let key = item.key();
    let (body, named) = (item.body.len(), key.to_string().len() + "/registry/".len());
    let (needed, most, of) = match is_built_in(&item.resource.group) {
        true => (body + LABELS, API_SERVER, "an API server takes of one request"),
        false => (body + LABELS + 3 * named + REQUEST, ETCD, "etcd takes of one request unless it is told otherwise"),
    };
    if needed <= most {
        return;
    }
    let text = format!(
        "{key} is saved, but a restore may not be able to bring it back, or only without its two labels: it has {body} bytes, and {most} \
         are the most that {of}"
    );
    journal.warn(&ResultScope::of(item.head.namespace.as_deref()), text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::test_env;
    use lifeboat_object::ApiResource;
    use std::sync::Arc;

    #[tokio::test]
    async fn an_object_that_may_be_too_large_to_come_back_is_told_when_it_is_saved() {
        for (group, bytes, expected) in [
            (
                "example.com",
                1_572_864,
                Some("1572864 are the most that etcd takes of one request unless it is told otherwise"),
            ),
            (
                "example.com",
                1_572_300,
                Some("1572864 are the most that etcd takes of one request unless it is told otherwise"),
            ),
            ("example.com", 1_571_000, None),
            ("", 1_600_000, None),
            ("", 3_145_500, Some("3145728 are the most that an API server takes of one request")),
        ] {
            let resource = Arc::new(ApiResource::new(group, "v1", "things", "Thing"));
            let head = r#"{"metadata":{"name":"t","namespace":"a"},"data":""}"#;
            let body = head.replace(r#""data":"""#, &format!(r#""data":"{}""#, "x".repeat(bytes - head.len())));
            let item = Item::parse(resource, body.into()).unwrap();
            let env = test_env().await;
            tell_too_large(&item, &env.operation.journal);
            let results = env.operation.journal.close().results;
            let told = results.warnings.messages().next();
            assert_eq!(
                told.map(|told| told.ends_with(expected.unwrap_or("nothing"))),
                expected.map(|_| true),
                "{group} {bytes} {told:?}"
            );
        }
    }
}
