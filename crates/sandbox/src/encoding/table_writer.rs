//! Tables as the protocol has them.

use crate::encoding::table::Printer;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// The object, or the part of it, that a row holds beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    /// Nothing.
    None,
    /// The metadata of the object.
    Metadata,
    /// The object.
    Object,
}

impl Include {
    /// The parameter `includeObject`; `None` when it is not known.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// Makes tables for one request.
#[derive(Clone)]
pub(crate) struct TableWriter {
    pub(crate) printer: Printer,
    pub(crate) include: Include,
    /// Tells the time from which ages are counted.
    pub(crate) now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// True while columns are to be declared; of a watch only the first event declares them.
    pub(crate) declares: bool,
}

impl TableWriter {
    /// The columns as a table has them.
    pub(crate) fn columns(&self) -> Value {
        if self.declares { self.printer.columns() } else { Value::Null }
    }

    /// A table of one row.
    pub(crate) fn table(&self, metadata: &Value, row: &Value) -> Value {
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
               "columnDefinitions": self.columns(), "rows": [row]})
    }

    /// The row of an object.
    pub(crate) fn row(&self, object: Value, include: Include) -> Value {
        let mut row = json!({"cells": self.printer.cells(&object, (self.now)())});
        if let Some(conditions) = self.printer.conditions(&object) {
            row["conditions"] = conditions;
        }
        row["object"] = match include {
            Include::None => Value::Null,
            Include::Metadata => partial(object),
            Include::Object => object,
        };
        row
    }
}

/// Only the metadata of an object.
fn partial(mut object: Value) -> Value {
    let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_default();
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
