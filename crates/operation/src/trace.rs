//! Spans of `tracing` for an operation: one for the operation, and below it one for each of its stages.
//!
//! They are for users who follow operations by traces. They cost nothing when no subscriber wants them.

use lifeboat_object::chain;
use std::error::Error;
use std::sync::{Arc, OnceLock};
use tracing::{Id, Instrument, Span, field, info_span};

/// The target of these spans, by which a subscriber can tell them from others. Filters compare beginnings: no module is called so.
pub const TRACE_TARGET: &str = "lifeboat::span";

/// Identity of an operation, as the fields of its span.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Kind of operation, such as `backup`: the name of the span.
    pub kind: &'static str,
    /// The namespace of the resource that asks for it.
    pub namespace: &'a str,
    /// The name of that resource.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

/// The span of an operation, once that has begun; without it there are none of stages either. Clones are of the same
/// operation, and the span ends with the last of them.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<OnceLock<Span>>);

impl Trace {
    /// Begins the span, unless that was done before.
    pub fn begin(&self, subject: Subject<'_>) {
        let Subject { kind, namespace, name, uid } = subject;
        // Fields with the prefix `otel.` are meant for OpenTelemetry: the name of the span, and how it ended.
        let span = || {
            info_span!(
                target: TRACE_TARGET,
                parent: None,
                "operation",
                otel.name = kind,
                otel.status_code = field::Empty,
                otel.status_description = field::Empty,
                k8s.namespace.name = namespace,
                velero.name = name,
                velero.uid = uid,
                lifeboat.attempt = field::Empty,
            )
        };
        self.0.get_or_init(span);
    }

    /// Makes what is done from now on a part of another trace, unless it has begun its own.
    pub fn join(&self, other: &Self) {
        if let Some(span) = other.0.get() {
            self.0.get_or_init(|| span.clone());
        }
    }

    /// Says which attempt it is.
    pub fn attempt(&self, number: u32) {
        if let Some(span) = self.0.get() {
            span.record("lifeboat.attempt", number);
        }
    }

    /// Says that the operation has failed, and why.
    pub fn failed(&self, why: &str) {
        if let Some(span) = self.0.get() {
            fail(span, why);
        }
    }

    /// Runs a stage of the operation in a span. Its error is noted in the span too.
    ///
    /// # Errors
    /// The error of the stage.
    pub async fn stage<T, E: Error + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let span = self.span(name);
        let done = work.instrument(span.clone()).await;
        if let Err(e) = &done {
            fail(&span, &chain(e));
        }
        done
    }

    /// Runs a stage of the operation in a span, when its errors are noted elsewhere.
    pub async fn within<T>(&self, name: &'static str, work: impl Future<Output = T>) -> T {
        work.instrument(self.span(name)).await
    }

    /// The span of a stage.
    fn span(&self, name: &'static str) -> Span {
        let Some(id) = self.id() else { return Span::none() };
        info_span!(
            target: TRACE_TARGET,
            parent: id,
            "stage",
            otel.name = name,
            otel.status_code = field::Empty,
            otel.status_description = field::Empty,
        )
    }

    /// The span that events of the operation belong to.
    pub(crate) fn id(&self) -> Option<Id> {
        self.0.get().and_then(Span::id)
    }
}

fn fail(span: &Span, why: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", why);
}
