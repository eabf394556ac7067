//! Writes a line of the log.

use super::fields::LogFields;
use serde_json::{Map, Value};
use tracing::Level;

/// The number of bytes that a server reads at once, with the end of the line: it would not understand a longer line.
const LONGEST: usize = 64 << 10;
/// Names that mean something to the server, and those that it takes away. A field that has one of them is written as `fields.<name>`.
const RESERVED: [&str; 8] =
    ["@message", "@level", "@timestamp", "@logSourceSetBy", "level", "logSource", "time", "timestamp"];
/// Mark at the end of a text that was cut.
const CUT: &str = "… (cut)";
/// Texts are not cut below this.
const SHORTEST: usize = 64;

/// The line, with its end. One that would be too long has its longest texts cut.
pub(super) fn line(level: Level, place: Option<(&str, u32)>, fields: LogFields) -> String {
    let (level, spelling) = match level {
        Level::ERROR => ("error", "error"),
        Level::WARN => ("warn", "warning"),
        Level::INFO => ("info", "info"),
        Level::DEBUG => ("debug", "debug"),
        Level::TRACE => ("trace", "trace"),
    };
    let (message, fields) = fields.into_parts();
    let mut line: Map<String, Value> = fields.into_iter().map(|(name, value)| (unreserved(name), value)).collect();
    line.insert("@message".to_owned(), message.into());
    cut(&mut line);
    line.insert("@level".to_owned(), level.into());
    line.insert("level".to_owned(), spelling.into());
    if let Some((file, number)) = place {
        line.insert("logSource".to_owned(), format!("{}:{number}", in_package(file)).into());
        line.insert("@logSourceSetBy".to_owned(), "plugin".into());
    }
    let mut text = Value::Object(line).to_string();
    text.push('\n');
    text
}

fn unreserved(name: String) -> String {
    if RESERVED.contains(&name.as_str()) { format!("fields.{name}") } else { name }
}

/// The path of a file below the folder of all packages, where it lies in one of other people.
fn in_package(file: &str) -> &str {
    let below = |(_, behind): (&'_ str, &str)| behind.split_once('/').map(|(_registry, path)| path.len());
    let length = file.split_once("/registry/src/").and_then(below);
    length.map_or(file, |length| &file[file.len() - length..])
}

/// Cuts the longest texts until all is short enough.
fn cut(line: &mut Map<String, Value>) {
    // The rest is for the level, the place and the end.
    const ROOM: usize = LONGEST - (4 << 10);
    let length = |line: &Map<String, Value>| line.iter().map(|(n, v)| written(n) + value_written(v) + 2).sum::<usize>();
    while length(line) > ROOM {
        let longest = line.values_mut().max_by_key(|value| value_written(value));
        match longest {
            Some(Value::String(text)) if text.len() > SHORTEST => {
                text.truncate(text.floor_char_boundary(text.len() / 2));
                text.push_str(CUT);
            }
            // So many fields that not even their names have room.
            _ => return line.retain(|name, _| name == "@message"),
        }
    }
}

/// The bytes that a text takes as JSON.
fn written(text: &str) -> usize {
    let of = |b| match b {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(of).sum::<usize>() + 2
}

fn value_written(value: &Value) -> usize {
    match value {
        Value::String(text) => written(text),
        other => other.to_string().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_the_package() {
        for (file, expected) in [
            ("src/main.rs", "src/main.rs"),
            (
                "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/tonic-0.14.9/src/lib.rs",
                "tonic-0.14.9/src/lib.rs",
            ),
            ("/registry/src/odd", "/registry/src/odd"),
        ] {
            assert_eq!(in_package(file), expected);
        }
    }

    #[test]
    fn what_has_no_room_is_cut_at_its_longest_text() {
        let text = |n: usize, c: &str| Value::from(c.repeat(n));
        let mut line = Map::new();
        line.insert("@message".to_owned(), "short".into());
        line.insert("item".to_owned(), text(30_000, "ä"));
        line.insert("escaped".to_owned(), text(20_000, "\u{1}"));
        cut(&mut line);
        let item = line["item"].as_str().unwrap();
        let escaped = line["escaped"].as_str().unwrap();
        assert!(Value::Object(line.clone()).to_string().len() <= LONGEST);
        assert_eq!((line["@message"].as_str(), item.ends_with("ä… (cut)")), (Some("short"), true));
        assert!(escaped.ends_with(CUT) && escaped.len() < 10_000, "{}", escaped.len());
    }

    #[test]
    fn a_message_alone_has_room_always() {
        let mut line: Map<String, Value> =
            (0..5000).map(|n| (format!("a long name of a field {n}"), n.into())).collect();
        line.insert("@message".to_owned(), "short".into());
        cut(&mut line);
        assert_eq!(line.keys().collect::<Vec<_>>(), ["@message"]);
    }

    #[test]
    fn names_that_mean_something_to_the_server_are_not_given_away() {
        let names = ["@level", "level", "time", "error", "x"].map(|name| unreserved(name.to_owned()));
        assert_eq!(names, ["fields.@level", "fields.level", "fields.time", "error", "x"]);
    }
}
