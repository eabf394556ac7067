//! Sends spans by OTLP over gRPC. A thread of the library does so, from a bounded queue: operations never wait for it.

use super::variables::SpanCollector;
use lifeboat_operation::TRACE_TARGET;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, Key, KeyValue};
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfig, BatchSpanProcessor, SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::registry::LookupSpan;

/// Longest time that a command that has ended waits for its last spans to be sent.
const FLUSH: Duration = Duration::from_secs(2);

/// The exporter of spans to a collector.
pub(crate) struct CollectorExporter {
    provider: SdkTracerProvider,
    tally: Arc<Tally>,
}

/// Counts of spans that have ended and that were sent to a collector.
#[derive(Debug)]
struct Tally {
    /// The host of the collector, with its port.
    collector: String,
    /// True when it is reported at once that the collector cannot be reached.
    is_server: bool,
    ended: AtomicU64,
    sent: AtomicU64,
    is_away: AtomicBool,
    why: Mutex<Option<String>>,
}

impl CollectorExporter {
    /// Prepares to send; the connection is made with the first spans.
    pub(super) fn to(target: SpanCollector, is_server: bool) -> Result<Self, String> {
        let SpanCollector { endpoint, certificate } = target;
        let host = endpoint.host().unwrap_or_default();
        let collector = endpoint.port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint.to_string());
        if endpoint.scheme_str() == Some("https") {
            let trusted = ClientTlsConfig::new();
            let trusted = match certificate {
                None => trusted.with_native_roots(),
                Some(file) => {
                    let pem = std::fs::read(&file).map_err(|e| format!("read {}: {e}", file.display()))?;
                    trusted.ca_certificate(Certificate::from_pem(pem))
                }
            };
            exporter = exporter.with_tls_config(trusted);
        }
        let exporter = exporter.build().map_err(|e| e.to_string())?;
        let tally = Arc::new(Tally {
            collector,
            is_server,
            ended: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            is_away: AtomicBool::new(false),
            why: Mutex::default(),
        });
        let exporter = Counting { exporter, tally: Arc::clone(&tally) };
        let queue = BatchSpanProcessor::new(exporter, BatchConfig::default());
        let queue = CountingQueue { queue, tally: Arc::clone(&tally) };
        let provider = SdkTracerProvider::builder().with_span_processor(queue).with_resource(resource()).build();
        Ok(Self { provider, tally })
    }

    /// Takes in the spans of operations, and what goes wrong in them.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("lifeboat"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false)
            .with_context_activation(false)
            .with_filter(FilterFn::new(is_told).with_max_level_hint(LevelFilter::INFO))
    }

    pub(super) fn end(self) {
        // That it was not done in time is seen in the numbers.
        let _ = self.provider.shutdown_with_timeout(FLUSH);
        let lost = self.tally.lost();
        if lost > 0 {
            let why = lock(&self.tally.why).clone();
            let why = why.unwrap_or_else(|| format!("no answer within {} s", FLUSH.as_secs()));
            tracing::warn!(spans = lost, collector = self.tally.collector, why, "spans of traces could not be sent");
        }
    }
}

/// Spans of operations and stages, and warnings and errors of ours.
fn is_told(metadata: &Metadata<'_>) -> bool {
    match metadata.is_span() {
        true => metadata.target() == TRACE_TARGET,
        false => *metadata.level() <= Level::WARN && metadata.target().starts_with("lifeboat"),
    }
}

/// Returns the resource of this process, from the environment or else with our name.
fn resource() -> Resource {
    let found = Resource::builder().build();
    let name = Key::from_static_str("service.name");
    let is_named = found.get(&name).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let own = (!is_named).then(|| KeyValue::new(name, "lifeboat"));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    Resource::builder().with_attributes(own.into_iter().chain([version])).build()
}

impl Tally {
    fn lost(&self) -> u64 {
        self.ended.load(Ordering::Relaxed).saturating_sub(self.sent.load(Ordering::Relaxed))
    }

    fn note(&self, spans: usize, result: &OTelSdkResult) {
        match result {
            Ok(()) => {
                self.sent.fetch_add(spans as u64, Ordering::Relaxed);
                if self.is_away.swap(false, Ordering::Relaxed) && self.is_server {
                    tracing::info!(collector = self.collector, "traces are sent again");
                }
            }
            Err(e) => {
                let why = e.to_string();
                if !self.is_away.swap(true, Ordering::Relaxed) && self.is_server {
                    tracing::warn!(
                        spans,
                        collector = self.collector,
                        why,
                        "spans of traces could not be sent; those that follow are lost too until it is told that they are sent again"
                    );
                }
                *lock(&self.why) = Some(why);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes what was sent.
#[derive(Debug)]
struct Counting {
    exporter: opentelemetry_otlp::SpanExporter,
    tally: Arc<Tally>,
}

impl SpanExporter for Counting {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.exporter.export(batch).await;
        self.tally.note(spans, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Notes what is to be sent, also what finds the queue full.
#[derive(Debug)]
struct CountingQueue {
    queue: BatchSpanProcessor,
    tally: Arc<Tally>,
}

impl SpanProcessor for CountingQueue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.queue.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.tally.ended.fetch_add(1, Ordering::Relaxed);
        }
        self.queue.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.queue.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.queue.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.queue.set_resource(resource);
    }
}
