//! Durations as people read them, such as `3h10m`.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The time that a field holds; `None` when it holds none, or the zero time of Go.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    let time: Timestamp = value.as_str()?.parse().ok()?;
    (time.to_string() != "0001-01-01T00:00:00Z").then_some(time)
}

/// The time since the timestamp in a field.
pub(super) fn since(value: &Value, now: Timestamp) -> String {
    time(value).map_or_else(|| "<unknown>".to_owned(), |time| human(now.duration_since(time)))
}

/// The cell with the age of an object.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now).into()
}

/// A duration with two or three digits that count, in the words of kubectl.
pub(super) fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    // Clocks differ a little: what lies less than two seconds ahead is now.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |large: i64, unit: &str, small: i64, below: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{below}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_have_the_digits_that_count() {
        for (milliseconds, text) in [
            (-2_000, "<invalid>"),
            (-1_999, "0s"),
            (119_999, "119s"),
            (120_000, "2m"),
            (150_000, "2m30s"),
            (660_000, "11m"),
            (10_800_000, "3h"),
            (11_400_000, "3h10m"),
            (90_000_000, "25h"),
            (172_800_000, "2d"),
            (176_400_000, "2d1h"),
            (864_000_000, "10d"),
            (63_072_000_000, "2y"),
            (70_000_000_000, "2y80d"),
            (400_000_000_000, "12y"),
        ] {
            assert_eq!(human(SignedDuration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn what_is_no_time_is_unknown() {
        let now = Timestamp::UNIX_EPOCH;
        for value in [json!(null), json!(3), json!(""), json!("yesterday"), json!("0001-01-01T00:00:00Z")] {
            assert_eq!(since(&value, now), "<unknown>", "{value}");
        }
        assert_eq!(since(&json!("1969-12-31T23:59:50.5Z"), now), "9s");
    }
}
