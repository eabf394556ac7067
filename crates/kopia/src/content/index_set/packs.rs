//! The table of packs: names as numbers, in some 35 bytes each. Only grows.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// The bytes in a pack's name that are random, two digits each.
const RANDOM: usize = 16;

/// Names of packs, a number for each.
#[derive(Debug, Default)]
pub(crate) struct PackTable {
    rows: Vec<Row>,
    /// The ends of names: those of one session, or whole names that are of another form.
    ends: Vec<String>,
    end_numbers: HashMap<String, u32>,
    /// Numbers by hash, each at the first free place after its own. A power of two, at most half full.
    places: Vec<u32>,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    name: PackName,
    /// The end of the last content in the pack, as far as entries say.
    known_end: u32,
}

/// A name such as `p<32 digits>-<session>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PackName {
    random: [u8; RANDOM],
    /// The number of the end.
    end: u32,
    /// The first letter; 0 where the whole name is the end.
    letter: u8,
}

/// No number.
const NONE: u32 = u32::MAX;

impl PackTable {
    /// The number of a name, where it has one.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let (letter, random, end) = parts(name);
        let end = *self.end_numbers.get(end)?;
        self.number_of(&PackName { random, end, letter })
    }

    /// Gives the number of a name, a new one where it has none. `None` when there are no numbers any more.
    pub(crate) fn number(&mut self, name: &str) -> Option<u32> {
        let (letter, random, end) = parts(name);
        let end = match self.end_numbers.get(end) {
            Some(known) => *known,
            None => {
                let new = u32::try_from(self.ends.len()).ok().filter(|new| *new != NONE)?;
                self.ends.push(end.to_owned());
                self.end_numbers.insert(end.to_owned(), new);
                new
            }
        };
        let name = PackName { random, end, letter };
        if let Some(known) = self.number_of(&name) {
            return Some(known);
        }
        let new = u32::try_from(self.rows.len()).ok().filter(|new| *new != NONE)?;
        if (self.rows.len() + 1) * 2 > self.places.len() {
            self.grow();
        }
        self.rows.push(Row { name, known_end: 0 });
        self.place(new, &name);
        Some(new)
    }

    fn number_of(&self, name: &PackName) -> Option<u32> {
        let mut place = self.first_place(name)?;
        loop {
            let number = *self.places.get(place)?;
            if self.rows.get(number as usize)?.name == *name {
                return Some(number);
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }

    /// The place of a name; `None` where there are no places yet.
    fn first_place(&self, name: &PackName) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        // The lower bits are as good as the others.
        Some(usize::try_from(self.hasher.hash_one(name) & mask as u64).unwrap_or(0))
    }

    fn place(&mut self, number: u32, name: &PackName) {
        let Some(mut place) = self.first_place(name) else { return };
        while self.places.get(place).is_some_and(|taken| *taken != NONE) {
            place = (place + 1) & (self.places.len() - 1);
        }
        if let Some(free) = self.places.get_mut(place) {
            *free = number;
        }
    }

    fn grow(&mut self) {
        self.places = vec![NONE; (self.places.len() * 2).max(64)];
        for number in 0..self.rows.len() {
            let Some(name) = self.rows.get(number).map(|row| row.name) else { continue };
            self.place(u32::try_from(number).unwrap_or(NONE), &name);
        }
    }

    /// Notes that a content ends there.
    pub(crate) fn reaches(&mut self, number: u32, end: u32) {
        if let Some(row) = self.rows.get_mut(number as usize) {
            row.known_end = end.max(row.known_end);
        }
    }

    /// The end of the last content in a pack, as far as entries say.
    pub(crate) fn known_end(&self, number: u32) -> u64 {
        self.rows.get(number as usize).map_or(0, |row| row.known_end.into())
    }

    /// The name with this number; empty where there is none.
    pub(crate) fn name(&self, number: u32) -> String {
        let Some(Row { name, .. }) = self.rows.get(number as usize) else { return String::new() };
        let end = self.ends.get(name.end as usize).map_or("", String::as_str);
        match name.letter {
            0 => end.to_owned(),
            letter => format!("{}{}{end}", char::from(letter), hex::encode(name.random)),
        }
    }

    /// The number of packs.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The bytes of memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        // Of an end: twice its text, both headers, the number, and its share of free places.
        let ends: usize = self.ends.iter().map(|end| 2 * end.len() + 80).sum();
        self.rows.capacity() * size_of::<Row>() + self.places.capacity() * size_of::<u32>() + ends
    }
}

/// Takes a name apart: letter, random bytes, end.
fn parts(name: &str) -> (u8, [u8; RANDOM], &str) {
    let mut random = [0; RANDOM];
    let usual = name.split_at_checked(1).and_then(|(letter, rest)| {
        let (digits, end) = rest.split_at_checked(2 * RANDOM)?;
        // Other digits would not be given back as they were.
        let is_lower = !digits.bytes().any(|digit| digit.is_ascii_uppercase());
        (is_lower && hex::decode_to_slice(digits, &mut random).is_ok()).then_some((*letter.as_bytes().first()?, end))
    });
    match usual {
        Some((letter, end)) if letter != 0 => (letter, random, end),
        _ => (0, [0; RANDOM], name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_number_of_its_own_and_is_given_back() {
        let mut table = PackTable::default();
        let digits = "0123456789abcdef0123456789abcdef";
        let mut names: Vec<String> = (0..500).map(|n| format!("p{n:032x}-s{:016x}147", n % 7)).collect();
        names.extend([
            String::new(),
            "p".to_owned(),
            format!("p{digits}"),
            format!("q{digits}"),
            format!("q{digits}-s1"),
            format!("p{}-s1", digits.to_uppercase()),
            format!("p{}", &digits[1..]),
            format!("\0{digits}-s1"),
            format!("é{digits}-s1"),
            "---invalid---".to_owned(),
        ]);
        for (number, name) in names.iter().enumerate() {
            assert_eq!(
                (table.find(name), table.number(name)),
                (None, Some(u32::try_from(number).unwrap())),
                "{name:?}"
            );
        }
        for (number, name) in (0..).zip(&names) {
            assert_eq!((table.find(name), table.number(name)), (Some(number), Some(number)));
            assert_eq!(table.name(number), *name);
        }
        assert_eq!((table.len(), table.name(9999)), (names.len(), String::new()));
        table.reaches(3, 100);
        table.reaches(3, 50);
        assert_eq!([3, 4, 9999].map(|number| table.known_end(number)), [100, 0, 0]);
    }

    #[test]
    fn a_hundred_thousand_packs_take_less_than_five_megabytes() {
        let mut table = PackTable::default();
        for n in 0..100_000_u32 {
            table.number(&format!("p{:032x}-s{:016x}147", u128::from(n) << 64, n / 1000));
        }
        assert!(table.memory() < 5_000_000, "{}", table.memory());
    }
}
