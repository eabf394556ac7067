//! Tables as kubectl prints them, and the cells that all kinds share.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{LabelSelector, Time};
use std::collections::BTreeMap;
use std::io::Write;
use tabwriter::TabWriter;

/// Which labels are shown.
pub struct Labels<'a> {
    /// Labels that are columns of their own.
    pub columns: &'a [String],
    /// Set when all labels stand in the last column.
    pub all: bool,
}

/// Prints rows beneath their headings; nothing at all when there are no rows.
pub fn print<'a>(
    out: &mut impl Write,
    columns: &[&str],
    rows: impl Iterator<Item = (Vec<String>, &'a BTreeMap<String, String>)>,
    labels: &Labels<'_>,
) -> std::io::Result<()> {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    // kubectl's least width of 6 holds the padding, this library's does not.
    let mut table = TabWriter::new(Vec::new()).minwidth(3).padding(3);
    let mut header: Vec<String> = columns.iter().map(|c| (*c).to_owned()).collect();
    header.extend(labels.columns.iter().map(|l| l.rsplit('/').next().unwrap_or_default().to_uppercase()));
    header.extend(labels.all.then(|| "LABELS".to_owned()));
    writeln!(table, "{}", header.join("\t"))?;
    for (mut cells, own) in rows {
        cells.extend(labels.columns.iter().map(|l| own.get(l).cloned().unwrap_or_default()));
        if labels.all {
            let pairs: Vec<String> = own.iter().map(|(k, v)| format!("{k}={v}")).collect();
            cells.push(if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") });
        }
        let cells: Vec<String> = cells.iter().map(|cell| cut(cell)).collect();
        writeln!(table, "{}", cells.join("\t"))?;
    }
    // In one piece: standard output would be written line by line.
    let text = table.into_inner().map_err(|e| std::io::Error::other(e.to_string()))?;
    out.write_all(&text)
}

fn cut(cell: &str) -> String {
    match cell.split_once('\n') {
        Some((first, _)) => format!("{first}..."),
        None => cell.to_owned(),
    }
}

/// A time as Go prints it, in the local time zone; `n/a` when there is none.
pub fn time(time: Option<Time>) -> String {
    time.map_or_else(|| "n/a".to_owned(), |time| in_zone(time.timestamp(), TimeZone::system()))
}

/// A time as Go prints it, in this time zone.
pub fn in_zone(time: Timestamp, zone: TimeZone) -> String {
    time.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %z %Z").to_string()
}

/// Returns the time until then, or since then, in its largest unit; `n/a` when it is not known.
pub fn until(end: Option<Timestamp>, now: Timestamp) -> String {
    match end {
        None => "n/a".to_owned(),
        Some(end) if end >= now => short(end.duration_since(now).as_secs()),
        Some(end) => format!("{} ago", short(now.duration_since(end).as_secs())),
    }
}

fn short(seconds: i64) -> String {
    match seconds {
        s if s < 60 => format!("{s}s"),
        s if s < 3600 => format!("{}m", s / 60),
        s if s < 24 * 3600 => format!("{}h", s / 3600),
        s if s < 365 * 24 * 3600 => format!("{}d", s / (24 * 3600)),
        s => format!("{}y", s / (365 * 24 * 3600)),
    }
}

/// A label selector in one line; `<none>` when there is none.
pub fn selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "<none>".to_owned() };
    let mut parts: Vec<String> = selector.match_labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    parts.extend(selector.match_expressions.iter().map(|e| match e.operator.as_str() {
        "In" => format!("{} in ({})", e.key, e.values.join(",")),
        "NotIn" => format!("{} notin ({})", e.key, e.values.join(",")),
        "Exists" => e.key.clone(),
        _ => format!("!{}", e.key),
    }));
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_those_of_kubectl() {
        let labels = BTreeMap::from([("example.com/team".to_owned(), "a".to_owned())]);
        let none = BTreeMap::new();
        let rows = || {
            [
                (vec!["one".to_owned(), "first\nsecond".to_owned()], &labels),
                (vec!["another".to_owned(), String::new()], &none),
            ]
            .into_iter()
        };
        let text = |columns: &[String], all| {
            let mut out = Vec::new();
            print(&mut out, &["NAME", "WHAT"], rows(), &Labels { columns, all }).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&[], false), "NAME      WHAT\none       first...\nanother   \n");
        assert_eq!(
            text(&["example.com/team".to_owned()], true),
            [
                "NAME      WHAT       TEAM   LABELS",
                "one       first...   a      example.com/team=a",
                "another                     <none>",
                "",
            ]
            .join("\n")
        );
        let mut out = Vec::new();
        print(&mut out, &["NAME"], std::iter::empty(), &Labels { columns: &[], all: true }).unwrap();
        assert!(out.is_empty());
    }

    #[test]
    fn times_are_those_of_go() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(in_zone(at("2026-11-21T08:36:30Z"), TimeZone::UTC), "2026-11-21 08:36:30 +0000 UTC");
        let now = at("2026-11-21T00:00:00Z");
        for (end, expected) in [
            ("2026-11-21T00:00:59Z", "59s"),
            ("2026-11-21T00:59:59Z", "59m"),
            ("2026-11-21T23:59:00Z", "23h"),
            ("2026-12-20T23:59:00Z", "29d"),
            ("2028-11-21T00:00:00Z", "2y"),
            ("2026-11-20T22:00:00Z", "2h ago"),
        ] {
            assert_eq!(until(Some(at(end)), now), expected, "{end}");
        }
        assert_eq!((until(None, now), time(None)), ("n/a".to_owned(), "n/a".to_owned()));
    }
}
