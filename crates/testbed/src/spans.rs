//! The spans that are made while a test runs.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// Notes the spans of one target that are made on the thread of a test, as long as it is held.
#[derive(Debug)]
pub struct Spans {
    noted: Arc<Mutex<Noted>>,
    _guard: DefaultGuard,
}

/// The spans that were noted.
#[derive(Debug, Default)]
struct Noted {
    /// The names by the IDs, which are given again when a span has ended.
    names: HashMap<u64, String>,
    /// Each span as `parent/name`.
    made: Vec<String>,
}

/// As long as a process has only one dispatcher, the thread that comes to a kind of span first is asked whether anybody wants such, for all
/// threads and for ever; and that may be the thread of a test that notes nothing. With a second one all dispatchers are asked.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

impl Spans {
    /// Notes spans from now on. Those of other threads are not seen: a runtime of one thread has none.
    #[must_use]
    pub fn note(target: &'static str) -> Self {
        LazyLock::force(&SECOND);
        let noted = Arc::<Mutex<Noted>>::default();
        let noting = Noting { target, noted: Arc::clone(&noted) };
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(noting));
        Self { noted, _guard: guard }
    }

    /// The spans that were made since the last call, each as `parent/name` with what `otel.name` says; sorted.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        let mut made = std::mem::take(&mut self.noted.lock().unwrap_or_else(PoisonError::into_inner).made);
        made.sort();
        made
    }
}

struct Noting {
    target: &'static str,
    noted: Arc<Mutex<Noted>>,
}

impl<S: Subscriber> Layer<S> for Noting {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.is_span() && metadata.target() == self.target
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut name = SpanName::default();
        attributes.record(&mut name);
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = attributes.parent().and_then(|parent| noted.names.get(&parent.into_u64()));
        let path = parent.map_or_else(|| name.0.clone(), |parent| format!("{parent}/{}", name.0));
        noted.made.push(path);
        noted.names.insert(id.into_u64(), name.0);
    }
}

/// The value of the field `otel.name`.
#[derive(Default)]
struct SpanName(String);

impl Visit for SpanName {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "otel.name" {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}
