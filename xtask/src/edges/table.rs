//! The table of rooms in ARCHITECTURE.md: the one place that says which room may use which.

use anyhow::{Result, bail};
use std::collections::{BTreeMap, BTreeSet};

/// The heading of the table of rooms.
const ROOMS: &str = "| crate | purpose | may use |";
/// The heading of the table of what tests may use beside that.
const TESTS: &str = "| crate | its tests also |";

/// Rooms by the name of their folder, each with the rooms that it may use.
pub(super) type Edges = BTreeMap<String, BTreeSet<String>>;

/// Both tables of the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RoomTable {
    /// The rooms that a room may use.
    pub(super) rooms: Edges,
    /// The rooms that its tests may use beside these.
    pub(super) tests: Edges,
}

impl RoomTable {
    /// Reads the tables out of the page.
    ///
    /// # Errors
    /// When a table is missing, or a row of it is not what it should be.
    pub(super) fn parse(page: &str) -> Result<Self> {
        let table = Self { rooms: edges(page, ROOMS)?, tests: edges(page, TESTS)? };
        let all = table.rooms.iter().chain(&table.tests);
        for (room, other) in all.flat_map(|(room, others)| others.iter().map(move |other| (room, other))) {
            if !table.rooms.contains_key(other) {
                bail!("ARCHITECTURE.md: {room} may use {other}, which is no room of the table");
            }
        }
        Ok(table)
    }
}

/// The rows below a heading: the room in the first column, those that it may use in the last one.
fn edges(page: &str, heading: &str) -> Result<Edges> {
    let Some((_, below)) = page.split_once(heading) else { bail!("ARCHITECTURE.md has no table {heading}") };
    let mut edges = Edges::new();
    for row in below.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let columns: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(room), Some(used)) = (columns.first(), columns.last()) else { continue };
        let [room] = &names(room)?[..] else { bail!("ARCHITECTURE.md: {room} is not the name of one room") };
        let used = if *used == "-" { BTreeSet::new() } else { names(used)?.into_iter().collect() };
        if edges.insert(room.clone(), used).is_some() {
            bail!("ARCHITECTURE.md: {room} has two rows in the table {heading}");
        }
    }
    Ok(edges)
}

/// The names of a column, such as `` `api`, `object` ``.
fn names(column: &str) -> Result<Vec<String>> {
    let name = |part: &str| part.strip_prefix('`')?.strip_suffix('`').map(str::to_owned);
    let names: Option<Vec<String>> = column.split(", ").map(name).collect();
    match names {
        Some(names) => Ok(names),
        None => bail!("ARCHITECTURE.md: {column:?} is no list of rooms, such as `api`, `object`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n| crate | purpose | may use |\n|---|---|---|\n| `api` | types | - |\n| `view` | text | `api` |\n\n\
                        | crate | its tests also |\n|---|---|\n| `view` | `view` |\n\nMore.\n";

    #[test]
    fn the_page_says_which_room_may_use_which() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let expected = RoomTable {
            rooms: [("api".to_owned(), set(&[])), ("view".to_owned(), set(&["api"]))].into(),
            tests: [("view".to_owned(), set(&["view"]))].into(),
        };
        assert_eq!(RoomTable::parse(PAGE).unwrap(), expected);
    }

    #[test]
    fn a_row_that_is_no_list_of_rooms_is_refused() {
        for (from, to, why) in [
            ("| `api` |\n\n", "| the same |\n\n", "is no list of rooms"),
            ("| `api` |\n\n", "| `nothing` |\n\n", "view may use nothing, which is no room"),
            ("| `view` | text", "| `api` | text", "api has two rows"),
            ("its tests also", "tests", "has no table"),
        ] {
            let refused = RoomTable::parse(&PAGE.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
