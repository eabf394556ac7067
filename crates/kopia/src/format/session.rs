//! Markers of sessions, which keep packs from maintenance until an index tells of them (kopia: repo/content/sessions.go).

use super::FormatError;
use super::json::{ObjectWriter, Reader};
use super::time::UnixNanos;

const STRUCTURE: &str = "session marker";
/// 2000-01-01T00:00:00Z in Unix seconds.
const FIRST_DAY: i64 = 946_684_800;
const MONTH: i64 = 30 * 24 * 3600;

/// The plain document of a blob `s…`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionMarker {
    /// The ID, which stands in the names of packs and indexes, too.
    pub id: String,
    /// The beginning.
    pub start: UnixNanos,
    /// The time from which its age is counted.
    pub checkpoint: UnixNanos,
    /// The user.
    pub user: String,
    /// The host.
    pub host: String,
}

/// The ID of a new session: random, with the number of the month since 2000.
pub fn session_id(random: [u8; 8], now: UnixNanos) -> String {
    let month = (now.seconds() - FIRST_DAY).div_euclid(MONTH).max(0);
    format!("s{}{month:x}", hex::encode(random))
}

impl SessionMarker {
    /// Reads the plain document.
    ///
    /// # Errors
    /// Other bytes.
    pub fn parse(plain: &[u8]) -> Result<Self, FormatError> {
        let mut marker = Self::default();
        let mut reader = Reader::new(STRUCTURE, plain);
        reader.object::<FormatError>(|reader, key| {
            match key {
                "id" => marker.id = reader.string()?,
                "starttime" => marker.start = UnixNanos::parse_saturating(&reader.string()?)?,
                "checkpointtime" => marker.checkpoint = UnixNanos::parse_saturating(&reader.string()?)?,
                "username" => marker.user = reader.string()?,
                "hostname" => marker.host = reader.string()?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        reader.end()?;
        Ok(marker)
    }
    /// Writes the plain document.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = ObjectWriter::begin(&mut out);
        object.string("id", &self.id);
        object.quoted("startTime", self.start);
        object.quoted("checkpointTime", self.checkpoint);
        object.string("username", &self.user);
        object.string("hostname", &self.host);
        object.end();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{SessionMarker, session_id};
    use crate::format::time::UnixNanos;

    #[test]
    fn an_id_ends_with_the_month_since_2000() {
        let random = [0x4f, 0x09, 0xcb, 0x62, 0x3e, 0x47, 0xd2, 0x72];
        assert_eq!(session_id(random, UnixNanos(1_795_219_484_000_000_000)), "s4f09cb623e47d272147");
        assert_eq!(session_id(random, UnixNanos(0)), "s4f09cb623e47d2720");
    }

    #[test]
    fn a_marker_is_read_with_any_offset_and_written_in_utc() {
        let text = r#"{"id":"s1","startTime":"2024-01-02T05:04:05+02:00","checkpointTime":"2024-01-02T03:04:05Z","username":"u","hostname":"h"}"#;
        let marker = SessionMarker::parse(text.as_bytes()).expect("a marker");
        assert_eq!(marker.start, marker.checkpoint);
        let written = String::from_utf8(marker.write());
        assert_eq!(written, Ok(text.replace("2024-01-02T05:04:05+02:00", "2024-01-02T03:04:05Z")));
        assert!(SessionMarker::parse(b"").is_err() && SessionMarker::parse(b"{\"id\":1}").is_err());
    }
}
