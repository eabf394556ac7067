//! Settings for traces from the environment, and their effect.

use http::Uri;
use std::path::PathBuf;

/// Settings for traces, from OpenTelemetry's variables. Its library reads the others: headers, timeouts, the queue,
/// sampling, and the name of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    is_disabled: bool,
    exporter: Option<String>,
    protocol: Option<String>,
    endpoint: Option<String>,
    certificate: Option<PathBuf>,
}

/// Where spans are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpanCollector {
    pub(super) endpoint: Uri,
    /// The certificate authorities (PEM) of the collector, in place of those of the system.
    pub(super) certificate: Option<PathBuf>,
}

impl Variables {
    /// Takes what is about traces; a variable that is set for them alone goes before the one for all signals.
    pub fn read(text: impl Fn(&str) -> Option<String>) -> Self {
        let either = |name: &str| {
            text(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}")).or_else(|| text(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        Self {
            is_disabled: text("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")),
            exporter: text("OTEL_TRACES_EXPORTER"),
            protocol: either("PROTOCOL"),
            endpoint: either("ENDPOINT"),
            certificate: either("CERTIFICATE").map(PathBuf::from),
        }
    }

    /// Where spans go: to the endpoint of the flag, or else to that of the environment; `None` for nowhere.
    ///
    /// # Errors
    /// Returns the reason why they cannot be sent in the way that is asked for.
    pub(super) fn target(&self, flag: Option<&str>) -> Result<Option<SpanCollector>, String> {
        let named = flag.filter(|flag| !flag.is_empty()).or(self.endpoint.as_deref());
        let Some(named) = named.filter(|_| !self.is_disabled) else { return Ok(None) };
        match self.exporter.as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => return Err(format!("OTEL_TRACES_EXPORTER is {other:?}: otlp is the one exporter")),
        }
        if let Some(protocol) = self.protocol.as_deref().filter(|protocol| *protocol != "grpc") {
            return Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is {protocol:?}: grpc is the one protocol; name the port of the collector for it, \
                 which is 4317 mostly"
            ));
        }
        let endpoint: Uri = named.parse().map_err(|e| format!("the endpoint {named:?} is no URL: {e}"))?;
        if !matches!(endpoint.scheme_str(), Some("http" | "https")) || endpoint.host().is_none() {
            return Err(format!("the endpoint {named:?} is no URL like http://collector:4317"));
        }
        Ok(Some(SpanCollector { endpoint, certificate: self.certificate.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(set: &[(&str, &str)]) -> Variables {
        Variables::read(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    fn to(endpoint: &str, certificate: Option<&str>) -> Result<Option<SpanCollector>, String> {
        let endpoint = endpoint.parse().unwrap();
        Ok(Some(SpanCollector { endpoint, certificate: certificate.map(PathBuf::from) }))
    }

    #[test]
    fn nothing_is_sent_unless_an_endpoint_is_named() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4317");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://own:4317");
        let file = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem");
        for (set, flag, expected) in [
            (&[][..], None, Ok(None)),
            (&[file], Some(""), Ok(None)),
            (&[all], None, to("http://all:4317", None)),
            (&[all, own, file], None, to("https://own:4317", Some("/ca.pem"))),
            (&[all, own], Some("http://flag:1"), to("http://flag:1", None)),
            (&[], Some("http://flag:1"), to("http://flag:1", None)),
            (&[all, ("OTEL_SDK_DISABLED", "true")], Some("http://flag:1"), Ok(None)),
            (&[all, ("OTEL_TRACES_EXPORTER", "none")], None, Ok(None)),
            (&[all, ("OTEL_TRACES_EXPORTER", "otlp")], None, to("http://all:4317", None)),
            (&[all, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], None, to("http://all:4317", None)),
        ] {
            assert_eq!(variables(set).target(flag), expected, "{set:?} {flag:?}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_reason() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4317");
        for (set, flag, expected) in [
            (&[all, ("OTEL_TRACES_EXPORTER", "zipkin")][..], None, "OTEL_TRACES_EXPORTER is \"zipkin\""),
            (&[all, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")], None, "is \"http/protobuf\": grpc is"),
            (&[], Some("collector:4317"), "is no URL like http://collector:4317"),
            (&[], Some("http://a b"), "the endpoint \"http://a b\" is no URL: "),
        ] {
            let why = variables(set).target(flag).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
