//! Cuts listings into pages.

use crate::{Entry, ListOptions, Listed, Page};

/// The progress of a listing: the name of its last entry.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    name: String,
    /// True when the name stands for all keys that begin with it.
    is_prefix: bool,
}

impl Mark {
    /// Returns true if the listing is past this key.
    pub(crate) fn is_past(&self, key: &str) -> bool {
        key <= self.name.as_str() || self.is_prefix && key.starts_with(&self.name)
    }

    /// Returns true if the listing is past all keys that begin with this text.
    pub(crate) fn is_past_all(&self, start: &str) -> bool {
        let sorts_before = start < self.name.as_str() && !self.name.starts_with(start);
        sorts_before || self.is_prefix && start.starts_with(&self.name)
    }

    /// The first text that a key beyond can be.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Makes a page of the objects that `next` finds: each time the first object, in key order, that has the prefix and
/// that the listing is not past.
pub(crate) fn page_of<E>(
    options: &ListOptions,
    mut next: impl FnMut(&Mark) -> Result<Option<Listed>, E>,
) -> Result<Page, E> {
    let most = if options.page_size == 0 { 1000 } else { options.page_size };
    let delimiter = options.delimiter.as_deref().filter(|d| !d.is_empty());
    let rolled = |key: &str| {
        let (start, delimiter) = (options.prefix.len(), delimiter?);
        let at = key.get(start..)?.find(delimiter)?;
        Some(key[..start + at + delimiter.len()].to_owned())
    };
    let mut page = Page::default();
    let mut mark = match &options.continuation {
        Some(name) => Mark { name: name.clone(), is_prefix: rolled(name).is_some() },
        None => Mark::default(),
    };
    while let Some(listed) = next(&mark)? {
        if page.entries.len() == most {
            page.continuation = Some(mark.name);
            break;
        }
        let prefix = rolled(&listed.key);
        mark = Mark { name: prefix.as_ref().unwrap_or(&listed.key).clone(), is_prefix: prefix.is_some() };
        match prefix {
            Some(prefix) => page.entries.push(Entry::Prefix(prefix)),
            None if options.prefixes_only => {}
            None => page.entries.push(Entry::Object(listed)),
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_knows_what_is_past() {
        let key = Mark { name: "a/b".to_owned(), is_prefix: false };
        let prefix = Mark { name: "a/".to_owned(), is_prefix: true };
        let table = [
            // What, whether a key of this name is past the one and the other, whether all that begin with it are.
            ("a-/", [true, true], [true, true]),
            ("a.x", [true, true], [true, true]),
            ("a/", [true, true], [false, true]),
            ("a/b", [true, true], [false, true]),
            ("a/b-", [false, true], [false, true]),
            ("a/b/", [false, true], [false, true]),
            ("a0", [false, false], [false, false]),
            ("", [true, true], [false, false]),
        ];
        for (text, past, past_all) in table {
            assert_eq!([&key, &prefix].map(|mark| mark.is_past(text)), past, "{text}");
            assert_eq!([&key, &prefix].map(|mark| mark.is_past_all(text)), past_all, "{text}");
        }
        assert!(!Mark::default().is_past("a") && !Mark::default().is_past_all(""));
    }
}
