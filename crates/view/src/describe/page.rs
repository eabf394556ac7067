//! Page of text whose columns are separated by tabs and aligned at the end.

use jiff::tz::TimeZone;
use lifeboat_api::{LabelSelector, ObjectMeta, Time};
use std::collections::BTreeMap;
use std::fmt::Display;

/// The style of a description.
#[derive(Clone, Debug)]
pub struct Style {
    /// True when some words have colours.
    pub colours: bool,
    /// The time zone of times.
    pub zone: TimeZone,
    /// The name of this program in hints.
    pub program: String,
    /// True when all details are shown.
    pub details: bool,
}

/// The meaning of a word for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Neither good nor bad.
    Plain,
    /// As it should be.
    Good,
    /// The user should look into it.
    Bad,
}

/// Placeholder for an empty value.
pub(crate) const NONE: &str = "<none>";
/// Between two columns.
const PADDING: usize = 2;

/// A page that is being written. A line is cells separated by tabs; a leading tab is an indent.
pub struct Page<'a> {
    /// The form of the page.
    pub style: &'a Style,
    text: String,
}

impl<'a> Page<'a> {
    pub(crate) fn new(style: &'a Style) -> Self {
        Self { style, text: String::new() }
    }

    /// A line of cells.
    pub(crate) fn line(&mut self, cells: impl AsRef<str>) {
        self.text.push_str(cells.as_ref());
        self.text.push('\n');
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// `name:` and its value in the next column.
    pub(crate) fn field(&mut self, name: &str, value: impl Display) {
        self.line(format!("{name}:\t{value}"));
    }

    /// `name:` and names in one line.
    pub(crate) fn names(&mut self, name: &str, names: &[String], when_empty: &str) {
        if names.is_empty() { self.field(name, when_empty) } else { self.field(name, names.join(", ")) }
    }

    /// `name:` and pairs, a line each.
    pub(crate) fn pairs(&mut self, name: &str, pairs: &BTreeMap<String, String>) {
        let lines: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
        self.field(name, if lines.is_empty() { NONE.to_owned() } else { lines.join("\n\t") });
    }

    /// Name, namespace, labels and annotations.
    pub(crate) fn metadata(&mut self, meta: &ObjectMeta) {
        self.field("Name", self.bold(&meta.name));
        self.field("Namespace", &meta.namespace);
        self.pairs("Labels", &meta.labels);
        self.pairs("Annotations", &meta.annotations);
    }

    /// Writes the number of attempts at the work, when a server was cut off.
    pub(crate) fn attempt(&mut self, attempt: i64) {
        if attempt > 1 {
            self.field("Attempt", format_args!("{attempt} (a server was cut off in the one before)"));
        }
    }

    /// Writes the reasons of a refusal, a line each.
    pub(crate) fn validation_errors(&mut self, errors: &[String]) {
        if errors.is_empty() {
            return;
        }
        self.blank();
        let errors: Vec<String> = errors.iter().map(|e| self.toned(e, Tone::Bad)).collect();
        self.field("Validation errors", errors.join("\n\t"));
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        if self.style.colours { format!("\u{1b}[1m{text}\u{1b}[22m") } else { text.to_owned() }
    }

    pub(crate) fn toned(&self, text: &str, tone: Tone) -> String {
        match tone {
            Tone::Good if self.style.colours => format!("\u{1b}[32m{text}\u{1b}[0m"),
            Tone::Bad if self.style.colours => format!("\u{1b}[31m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }

    /// A time, or the word for none.
    pub(crate) fn time(&self, time: Option<Time>, none: &str) -> String {
        time.map_or_else(|| none.to_owned(), |time| self.style.time(time))
    }

    /// Writes the contents one level deeper.
    pub(crate) fn indented(&mut self, write: impl FnOnce(&mut Self)) {
        let mut inner = Page::new(self.style);
        write(&mut inner);
        inner.text.lines().for_each(|line| self.line(format!("\t{line}")));
    }

    /// The text, its columns aligned.
    pub(crate) fn finish(self) -> String {
        aligned(&self.text)
    }
}

impl Style {
    /// A time as Go prints it.
    pub fn time(&self, time: Time) -> String {
        lifeboat_terminal::output::table::in_zone(time.timestamp(), self.zone.clone())
    }
}

/// A selector of labels in one line.
pub fn selector(selector: Option<&LabelSelector>) -> String {
    lifeboat_terminal::output::table::selector(selector)
}

/// `yes`, `no` or `unset`, for an optional truth value.
pub(crate) fn three(value: Option<bool>, yes: &'static str, no: &'static str, unset: &'static str) -> &'static str {
    match value {
        Some(true) => yes,
        Some(false) => no,
        None => unset,
    }
}

/// Pads cells so that those of consecutive lines are aligned. A cell ends with a tab; the text after the last tab of a
/// line is no cell. A column lasts as long as each line has a cell there.
fn aligned(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text.split('\n').map(|line| line.split('\t').collect()).collect();
    let mut out = String::with_capacity(text.len() * 2);
    // The width of each column and the line at which it ends.
    let mut columns: Vec<(usize, usize)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        let (last, cells) = match line.split_last() {
            Some((last, cells)) => (*last, cells),
            None => continue,
        };
        columns.truncate(cells.len());
        for (column, cell) in cells.iter().enumerate() {
            if columns.get(column).is_none_or(|(_, end)| *end <= at) {
                let block = lines[at..].iter().take_while(|line| line.len() > column + 1);
                let (count, width) = block.fold((0, 0), |(n, w), line| (n + 1, w.max(line[column].chars().count())));
                columns.truncate(column);
                columns.push((width + PADDING, at + count));
            }
            let width = columns[column].0;
            out.push_str(cell);
            out.extend(std::iter::repeat_n(' ', width - cell.chars().count()));
        }
        out.push_str(last);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_last_as_long_as_each_line_has_them() {
        for (text, expected) in [
            ("a:\tb\nlonger:\tc\n", "a:       b\nlonger:  c\n"),
            ("a:\tb\n\nlonger:\tc\n", "a:  b\n\nlonger:  c\n"),
            ("head:\n\tx:\t1\n\tyy:\t2\n", "head:\n  x:   1\n  yy:  2\n"),
            ("\ta:\t\tb\n\tcc:\td\n\tee: f\n\tgggg:\th\n", "  a:     b\n  cc:  d\n  ee: f\n  gggg:  h\n"),
            ("ä:\tb\nab:\tc", "ä:   b\nab:  c"),
            ("", ""),
        ] {
            assert_eq!(aligned(text), expected, "{text:?}");
        }
    }
}
