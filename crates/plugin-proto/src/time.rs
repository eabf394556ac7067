//! Times of the protocol (velero: pkg/plugin/proto).

/// The seconds of the beginning of Go's time, which stands for a time that is not known: without one a server would take 1970.
pub const NO_TIME_SECONDS: i64 = -62_135_596_800;
