//! Listings: the protocol gives all keys at once, and nothing but keys.

use lifeboat_bucket::{Entry, ListOptions, Listed, Page};

/// Keys that one listing may have.
const MOST: usize = 1_000_000;

/// The entries of a listing of objects, in order.
///
/// # Errors
/// When there are too many.
pub(crate) fn of_keys(mut keys: Vec<String>, options: &ListOptions) -> Result<Vec<Entry>, String> {
    sort(&mut keys, options)?;
    let delimiter = options.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
    let start = options.prefix.len();
    let mut entries: Vec<Entry> = Vec::new();
    for key in keys {
        // All keys that are rolled up into one prefix stand together.
        if let Some(Entry::Prefix(last)) = entries.last()
            && key.starts_with(last.as_str())
        {
            continue;
        }
        let found = delimiter.and_then(|delimiter| Some(start + key[start..].find(delimiter)? + delimiter.len()));
        entries.push(match found {
            Some(end) => Entry::Prefix(key[..end].to_owned()),
            None => Entry::Object(Listed { key, size: None, modified: None }),
        });
    }
    Ok(entries)
}

/// The entries of a listing of prefixes alone, in order.
///
/// # Errors
/// When there are too many.
pub(crate) fn of_prefixes(mut prefixes: Vec<String>, options: &ListOptions) -> Result<Vec<Entry>, String> {
    sort(&mut prefixes, options)?;
    Ok(prefixes.into_iter().map(Entry::Prefix).collect())
}

fn sort(keys: &mut Vec<String>, options: &ListOptions) -> Result<(), String> {
    if keys.len() > MOST {
        return Err(format!(
            "the plugin has listed {} keys, more than the {MOST} that a listing may have: move what does not belong to backups \
             out of the bucket, or use a location that is built in",
            keys.len()
        ));
    }
    keys.retain(|key| key.starts_with(&options.prefix));
    keys.sort_unstable();
    keys.dedup();
    Ok(())
}

/// The page that is asked for.
pub(crate) fn page(entries: Vec<Entry>, options: &ListOptions) -> Page {
    let most = if options.page_size == 0 { usize::MAX } else { options.page_size };
    let from = match &options.continuation {
        Some(last) => entries.partition_point(|entry| name(entry) <= last.as_str()),
        None => 0,
    };
    let is_cut = entries.len() - from > most;
    let entries: Vec<Entry> = entries.into_iter().skip(from).take(most).collect();
    let continuation = entries.last().filter(|_| is_cut).map(|entry| name(entry).to_owned());
    Page { entries, continuation }
}

fn name(entry: &Entry) -> &str {
    match entry {
        Entry::Object(object) => &object.key,
        Entry::Prefix(prefix) => prefix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> Vec<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    fn names(entries: &[Entry]) -> Vec<&str> {
        entries.iter().map(name).collect()
    }

    #[test]
    fn keys_are_rolled_up_and_in_order_however_the_plugin_gives_them() {
        let options = |prefix: &str| ListOptions {
            prefix: prefix.to_owned(),
            delimiter: Some("/".to_owned()),
            ..ListOptions::default()
        };
        let given = ["b/é/2", "b/a", "b/é/1", "c", "b/a", "b/e/f/g", "b/e-", "b/"];
        let entries = of_keys(keys(&given), &options("b/")).unwrap();
        assert_eq!(names(&entries), ["b/", "b/a", "b/e-", "b/e/", "b/é/"]);
        assert_eq!(names(&of_keys(keys(&given), &options("")).unwrap()), ["b/", "c"]);
        let entries = of_keys(keys(&given), &ListOptions::default()).unwrap();
        assert_eq!(names(&entries), ["b/", "b/a", "b/e-", "b/e/f/g", "b/é/1", "b/é/2", "c"]);
        let entries = of_prefixes(keys(&["b/e/", "x/", "b/a/", "b/e/"]), &options("b/")).unwrap();
        assert_eq!(entries, [Entry::Prefix("b/a/".to_owned()), Entry::Prefix("b/e/".to_owned())]);
    }

    #[test]
    fn a_page_goes_on_where_the_one_before_ended() {
        let entries = of_keys(
            keys(&["a", "b/1", "b/2", "c"]),
            &ListOptions { delimiter: Some("/".to_owned()), ..ListOptions::default() },
        )
        .unwrap();
        let page_of = |page_size, continuation: Option<&str>| {
            let continuation = continuation.map(str::to_owned);
            page(entries.clone(), &ListOptions { page_size, continuation, ..ListOptions::default() })
        };
        let expected = |from: usize, to: usize, continuation: Option<&str>| Page {
            entries: entries[from..to].to_vec(),
            continuation: continuation.map(str::to_owned),
        };
        assert_eq!(page_of(0, None), expected(0, 3, None));
        assert_eq!(page_of(2, None), expected(0, 2, Some("b/")));
        assert_eq!(page_of(2, Some("b/")), expected(2, 3, None));
        assert_eq!(page_of(3, None), expected(0, 3, None));
        assert_eq!(page_of(2, Some("c")), expected(3, 3, None));
    }

    #[test]
    fn a_listing_has_its_bound() {
        let most: Vec<String> = (0..=MOST).map(|n| format!("{n:x}")).collect();
        assert!(of_keys(most, &ListOptions::default()).unwrap_err().starts_with("the plugin has listed 1000001 keys"));
    }
}
