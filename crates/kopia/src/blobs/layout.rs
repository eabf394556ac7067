//! Keys of blobs in the two layouts. Pure.

use crate::KopiaError;

/// The file that describes the sharded layout.
pub(super) const SHARDS: &str = ".shards";
/// The format blob in the sharded layout.
pub(super) const FORMAT_FILE: &str = "kopia.repository.f";
/// The end of every file.
const SUFFIX: &str = ".f";
/// The most levels of folders that are accepted; kopia has at most two.
const MAX_SHARDS: usize = 16;

/// The layout of a repository in its bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// The key is the name.
    Flat,
    /// Files with a suffix, the long names of which are cut into folders.
    Sharded(Shards),
}

/// The content of `.shards`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shards {
    /// The lengths of the folders' names.
    #[serde(default, deserialize_with = "null_is_empty")]
    default: Vec<usize>,
    /// Names up to this length lie in the root.
    #[serde(default)]
    max_non_sharded_length: usize,
    /// Other lengths for some names; the first that fits counts.
    #[serde(default, deserialize_with = "null_is_empty")]
    overrides: Vec<Override>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
struct Override {
    #[serde(default)]
    prefix: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    shards: Vec<usize>,
}

fn null_is_empty<'de, T: serde::Deserialize<'de>, D: serde::Deserializer<'de>>(source: D) -> Result<Vec<T>, D::Error> {
    Ok(<Option<Vec<T>> as serde::Deserialize>::deserialize(source)?.unwrap_or_default())
}

/// A listing that finds blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    /// The beginning of the keys.
    pub(super) prefix: String,
    /// True where keys in folders below are of no interest.
    pub(super) is_one_folder: bool,
}

impl Layout {
    /// The layout of a folder that kopia made before it wrote `.shards`.
    pub(super) fn old_default() -> Self {
        Self::Sharded(Shards { default: vec![3, 3], max_non_sharded_length: 20, overrides: Vec::new() })
    }

    /// The layout of a new repository in a folder.
    pub fn sharded() -> Self {
        Self::Sharded(Shards { default: vec![1, 3], max_non_sharded_length: 20, overrides: Vec::new() })
    }

    /// The bytes of `.shards`; `None` where there is none.
    pub(super) fn description(&self) -> Option<Vec<u8>> {
        let Self::Sharded(shards) = self else { return None };
        let overrides = (!shards.overrides.is_empty()).then_some(&shards.overrides);
        let mut document = serde_json::json!({
            "default": shards.default,
            "maxNonShardedLength": shards.max_non_sharded_length,
        });
        if let (Some(document), Some(overrides)) = (document.as_object_mut(), overrides) {
            let list =
                overrides.iter().map(|other| serde_json::json!({"prefix": other.prefix, "shards": other.shards}));
            document.insert("overrides".to_owned(), list.collect());
        }
        Some(format!("{document}\n").into_bytes())
    }

    /// Reads `.shards`.
    ///
    /// # Errors
    /// Other bytes than the description of a layout.
    pub fn parse(bytes: &[u8]) -> Result<Self, KopiaError> {
        let damaged = |why: String| KopiaError::Damaged { what: format!("the file {SHARDS}"), why };
        // A list would be taken for the fields in their order.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(damaged("it is no document".to_owned()));
        }
        let shards: Shards = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
        let is_impossible = |lengths: &Vec<usize>| lengths.len() > MAX_SHARDS || lengths.contains(&0);
        if is_impossible(&shards.default) || shards.overrides.iter().any(|other| is_impossible(&other.shards)) {
            return Err(damaged("its folders have lengths that are not possible".to_owned()));
        }
        Ok(Self::Sharded(shards))
    }

    /// The key of a blob.
    pub fn key(&self, name: &str) -> String {
        match self {
            Self::Flat => name.to_owned(),
            Self::Sharded(shards) => {
                let lengths = if name.len() <= shards.max_non_sharded_length { &[] } else { shards.of(name) };
                cut(name, lengths) + SUFFIX
            }
        }
    }

    /// The name of the blob under a key; `None` where that is no blob.
    pub fn name(&self, key: &str) -> Option<String> {
        let name = match self {
            // Settings of the store, which kopia does not list.
            Self::Flat => key.to_owned(),
            Self::Sharded(_) => key.strip_suffix(SUFFIX)?.replace('/', ""),
        };
        (!name.is_empty() && !name.starts_with('.')).then_some(name)
    }

    /// Listings that together find all blobs whose name begins with `prefix`, each once.
    pub(super) fn listings(&self, prefix: &str) -> Vec<Listing> {
        let Self::Sharded(shards) = self else {
            return vec![Listing { prefix: prefix.to_owned(), is_one_folder: false }];
        };
        // Long names with this prefix lie where the first lengths cut them that fit all of them; until then, some of them do.
        let mut beginnings = Vec::new();
        let mut is_settled = false;
        for other in &shards.overrides {
            if prefix.starts_with(&other.prefix) {
                beginnings.push(cut(prefix, &other.shards));
                is_settled = true;
                break;
            }
            if other.prefix.starts_with(prefix) {
                beginnings.push(cut(prefix, &other.shards));
            }
        }
        if !is_settled {
            beginnings.push(cut(prefix, &shards.default));
        }
        beginnings.sort();
        beginnings.dedup();
        // One that begins with another is found by that.
        let all = beginnings.clone();
        beginnings.retain(|one| !all.iter().any(|other| other != one && one.starts_with(other.as_str())));
        let in_root = !beginnings.iter().any(|one| prefix.starts_with(one.as_str()));
        let mut listings: Vec<_> =
            beginnings.into_iter().map(|prefix| Listing { prefix, is_one_folder: false }).collect();
        if in_root {
            listings.push(Listing { prefix: prefix.to_owned(), is_one_folder: true });
        }
        listings
    }
}

impl Shards {
    fn of(&self, name: &str) -> &[usize] {
        let other = self.overrides.iter().find(|other| name.starts_with(&other.prefix));
        other.map_or(&self.default, |other| &other.shards)
    }
}

/// Cuts a name into folders. It stops where the rest is not longer than the next length.
fn cut(name: &str, lengths: &[usize]) -> String {
    let mut out = String::with_capacity(name.len() + lengths.len() + SUFFIX.len());
    let mut rest = name;
    for &length in lengths {
        // Names are ASCII; one that is not stays whole from here.
        if rest.len() <= length || !rest.is_char_boundary(length) {
            break;
        }
        let (folder, beyond) = rest.split_at(length);
        out.push_str(folder);
        out.push('/');
        rest = beyond;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharded(text: &str) -> Layout {
        Layout::parse(text.as_bytes()).unwrap()
    }

    const PACK: &str = "q38dfd4aabbccddeeff00112233445566-s4f09cb623e47d272147";
    const INDEX: &str = "xn0_22519d1b87cd129b935bdbdec9a6efc64-sad259c5986598d15147-c1";

    #[test]
    fn long_names_are_cut_into_folders_as_kopia_cuts_them() {
        let new = sharded("{\"default\":[1,3],\"maxNonShardedLength\":20}\n");
        let old = Layout::old_default();
        let flat = sharded(r#"{"default":[],"maxNonShardedLength":20}"#);
        let none = sharded(r#"{"default":null,"maxNonShardedLength":0,"overrides":null}"#);
        for (layout, name, key) in [
            (&new, PACK, "q/38d/fd4aabbccddeeff00112233445566-s4f09cb623e47d272147.f"),
            (&new, INDEX, "x/n0_/22519d1b87cd129b935bdbdec9a6efc64-sad259c5986598d15147-c1.f"),
            (&new, "_log_20261127132813_835b_1", "_/log/_20261127132813_835b_1.f"),
            (&new, "kopia.repository", "kopia.repository.f"),
            (&new, "xe5", "xe5.f"),
            (&old, PACK, "q38/dfd/4aabbccddeeff00112233445566-s4f09cb623e47d272147.f"),
            (&flat, PACK, "q38dfd4aabbccddeeff00112233445566-s4f09cb623e47d272147.f"),
            (&none, "xe5", "xe5.f"),
            (&Layout::Flat, PACK, PACK),
        ] {
            assert_eq!((layout.key(name).as_str(), layout.name(key).as_deref()), (key, Some(name)));
        }
    }

    #[test]
    fn the_first_override_that_fits_counts_and_a_name_is_never_cut_to_nothing() {
        let layout = sharded(
            r#"{"default":[1,3],"maxNonShardedLength":2,"overrides":[{"prefix":"pa","shards":[2]},{"prefix":"p","shards":[]},{"prefix":"pab","shards":[1]}]}"#,
        );
        for (name, key) in [
            ("pabc", "pa/bc.f"),
            ("pbcd", "pbcd.f"),
            ("q123", "q/123.f"),
            ("q1234", "q/123/4.f"),
            ("q12", "q/12.f"),
            ("q1", "q1.f"),
        ] {
            assert_eq!(layout.key(name), key);
        }
    }

    #[test]
    fn what_is_no_blob_has_no_name() {
        let layout = Layout::old_default();
        for key in [".shards", "xe5.f.tmp.0123456789abcdef", "a/b/c", ".f", ".storageconfig.f"] {
            assert_eq!(layout.name(key), None, "{key}");
        }
        assert_eq!(Layout::Flat.name(".storageconfig"), None);
    }

    /// Every blob of every prefix is found by exactly one listing.
    #[test]
    fn each_blob_with_a_prefix_is_in_one_listing() {
        let layouts = [
            Layout::Flat,
            Layout::old_default(),
            sharded(r#"{"default":[1,3],"maxNonShardedLength":4}"#),
            sharded(r#"{"default":[],"maxNonShardedLength":20}"#),
            sharded(
                r#"{"default":[1,3],"maxNonShardedLength":2,"overrides":[{"prefix":"xn","shards":[2,1]},{"prefix":"q","shards":[]},{"prefix":"x","shards":[1]}]}"#,
            ),
        ];
        let names =
            ["x", "xe5", "xe12345678901234567890", "xw1795786587", "xn0_", PACK, INDEX, "xs0_1234-s1-c1", "pq", "q"];
        for layout in &layouts {
            for prefix in ["", "x", "xe", "xn", "xn0", "xn0_", "xn0_2", "xn0_22", "q", "q3", "q38d", "q38df", "p", "z"]
            {
                for name in names {
                    let key = layout.key(name);
                    let finds = |listing: &&Listing| {
                        key.strip_prefix(&listing.prefix)
                            .is_some_and(|rest| !listing.is_one_folder || !rest.contains('/'))
                    };
                    let listings = layout.listings(prefix);
                    let count = listings.iter().filter(finds).count();
                    // A blob without the prefix may be listed; its name is looked at.
                    if name.starts_with(prefix) {
                        assert_eq!(count, 1, "{layout:?} {prefix:?} {name}: {listings:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn shards_that_are_none_are_an_error() {
        for text in ["", "[]", r#"{"default":[0],"maxNonShardedLength":20}"#, r#"{"default":[-1]}"#] {
            assert!(Layout::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
