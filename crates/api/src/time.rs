//! Times of resources: RFC 3339, UTC, whole seconds.

use jiff::{Timestamp, Unit};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A point in time as Kubernetes' `metav1.Time` stores it: whole seconds, written `2026-11-21T07:33:54Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(Timestamp);

impl Time {
    /// The time, its fraction of a second cut off.
    #[must_use]
    pub fn new(time: Timestamp) -> Self {
        Self(Timestamp::from_second(time.as_second()).unwrap_or_else(|_| time.round(Unit::Second).unwrap_or(time)))
    }

    /// The time as a timestamp.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        self.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self::new).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_whole_seconds() {
        let time: Time = serde_json::from_str("\"2026-11-21T08:33:54.987+01:00\"").unwrap();
        assert_eq!(serde_json::to_string(&time).unwrap(), "\"2026-11-21T07:33:54Z\"");
        assert!(serde_json::from_str::<Time>("\"yesterday\"").is_err());
    }
}
