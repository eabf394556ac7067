//! Which pod this process is, by the token with which it speaks to the API server.
//!
//! A token that a kubelet has put into a pod names that pod. The name of the host does not always: it is that of the node on
//! its network, and it is cut off at 63 characters.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// Tokens have one or two kilobytes.
const LARGEST: usize = 64 << 10;

/// A pod, as its token names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPod {
    /// Its name.
    pub name: String,
    /// Its UID, which no other pod has.
    pub uid: String,
}

impl OwnPod {
    /// The pod that the token in this file was given to; `None` when the token, as those of older clusters, names none, or
    /// cannot be read.
    #[must_use]
    pub fn of_token_file(file: &Path) -> Option<Self> {
        let mut token = Vec::new();
        let limit = u64::try_from(LARGEST + 1).unwrap_or(u64::MAX);
        std::fs::File::open(file).ok()?.take(limit).read_to_end(&mut token).ok()?;
        named_in(&token)
    }
}

/// The pod that a token names. The signature is not looked at: the token says only which pod is us, and gives no right.
fn named_in(token: &[u8]) -> Option<OwnPod> {
    if token.len() > LARGEST {
        return None;
    }
    let token = std::str::from_utf8(token).ok()?.trim();
    let [_, claims, _] = token.split('.').collect::<Vec<_>>()[..] else { return None };
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let pod = &claims["kubernetes.io"]["pod"];
    let text = |field: &str| pod[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    Some(OwnPod { name: text("name")?, uid: text("uid")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn token(claims: &Value) -> String {
        format!("e30.{}.c2lnbmF0dXJl", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn a_token_says_which_pod_it_was_given_to() {
        let pod = |pod: Value| json!({"iss": "x", "kubernetes.io": {"namespace": "velero", "pod": pod, "serviceaccount": {"name": "velero", "uid": "s"}}});
        let good = token(&pod(json!({"name": "velero-1", "uid": "u"})));
        let ours = OwnPod { name: "velero-1".into(), uid: "u".into() };
        let legacy =
            json!({"kubernetes.io/serviceaccount/namespace": "velero", "sub": "system:serviceaccount:velero:velero"});
        for (token, expected) in [
            (good.clone(), Some(&ours)),
            (format!("{good}\n"), Some(&ours)),
            // Without a pod: of a Secret, of `kubectl create token`, or of something else.
            (token(&legacy), None),
            (token(&pod(Value::Null)), None),
            (token(&pod(json!({"name": "velero-1"}))), None),
            (token(&pod(json!({"name": "velero-1", "uid": ""}))), None),
            (token(&pod(json!({"name": 1, "uid": "u"}))), None),
            (token(&json!([])), None),
            // No token of this form.
            (String::new(), None),
            ("testbed-admin".into(), None),
            ("..".into(), None),
            (format!("{good}.more"), None),
            ("e30.*.e30".into(), None),
            (format!("e30.{}.e30", URL_SAFE_NO_PAD.encode([0xff, b'{'])), None),
            (format!("e30.{}.e30", URL_SAFE_NO_PAD.encode("[".repeat(40_000))), None),
            (format!("{good}{}", "x".repeat(LARGEST)), None),
        ] {
            let shown: String = token.chars().take(200).collect();
            assert_eq!(named_in(token.as_bytes()).as_ref(), expected, "{shown}");
        }
        assert_eq!(named_in(&[0xff; 8]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_token_is_too_strange(token: Vec<u8>, claims: String) {
            let _ = named_in(&token);
            let _ = named_in(format!("e30.{}.e30", URL_SAFE_NO_PAD.encode(claims)).as_bytes());
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_names_no_pod() {
        assert_eq!(OwnPod::of_token_file(Path::new("/does/not/exist")), None);
        assert_eq!(OwnPod::of_token_file(Path::new("/")), None);
        assert_eq!(OwnPod::of_token_file(Path::new("/dev/zero")), None);
    }
}
