//! Traces of operations, for a collector of OpenTelemetry where the environment or a flag names one.

#[cfg(feature = "otlp")]
mod sending;
mod variables;

use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;
use variables::SpanCollector;
pub use variables::Variables;

/// Exporter of spans, if there is one.
pub struct Traces {
    #[cfg(feature = "otlp")]
    sending: Option<sending::CollectorExporter>,
}

impl Traces {
    /// Prepares to send spans where the variables or the flag ask for it. The second value is the reason why that
    /// cannot be done: no command fails for that. It must be called within the runtime. A program that keeps running
    /// (`is_server`) reports at once that its collector cannot be reached, others do so at the end.
    pub fn prepare(variables: &Variables, flag: Option<&str>, is_server: bool) -> (Self, Option<String>) {
        let warned = |why: String| format!("WARNING: no traces are sent: {why}");
        match variables.target(flag).and_then(|target| Self::to(target, is_server)) {
            Ok(traces) => (traces, None),
            Err(why) => (Self::none(), Some(warned(why))),
        }
    }
}

#[cfg(feature = "otlp")]
impl Traces {
    fn none() -> Self {
        Self { sending: None }
    }

    fn to(target: Option<SpanCollector>, is_server: bool) -> Result<Self, String> {
        let sending = target.map(|target| sending::CollectorExporter::to(target, is_server)).transpose()?;
        Ok(Self { sending })
    }

    /// Returns the layer of the subscriber that collects the spans.
    pub fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        self.sending.as_ref().map(sending::CollectorExporter::layer)
    }

    /// Sends the remaining spans, for a moment at the most, and reports the number of lost ones. It may block the
    /// thread so long.
    pub fn end(self) {
        if let Some(sending) = self.sending {
            sending.end();
        }
    }
}

#[cfg(not(feature = "otlp"))]
impl Traces {
    fn none() -> Self {
        Self {}
    }

    fn to(target: Option<SpanCollector>, _: bool) -> Result<Self, String> {
        match target {
            None => Ok(Self::none()),
            Some(SpanCollector { endpoint, .. }) => {
                Err(format!("this program was built without the feature otlp, which could send them to {endpoint}"))
            }
        }
    }

    /// There is nothing that takes in spans.
    pub fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        None::<tracing_subscriber::layer::Identity>
    }

    /// Nothing is left.
    pub fn end(self) {}
}
