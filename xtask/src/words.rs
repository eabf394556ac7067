//! The words of the code: first words of doc comments, and type names that say nothing.
//!
//! A doc comment begins with a noun phrase or a verb in the third person. One that begins with "What", "Whether" and their
//! kin is a riddle: it names the thing only after a clause. Heads of files and public items must not; over all doc lines
//! there is a ceiling that only falls.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Lit, Meta, Visibility};

/// Words with which no doc comment of a public item or file begins.
const FIRST_WORDS: [&str; 7] = ["What", "Whether", "Why", "How", "Who", "Those", "One"];

/// The most doc lines that may begin with one of [`FIRST_WORDS`], tests included. Lower it whenever lines go.
const CEILING: usize = 3139;

/// Type names that have no meaning of their own, in any crate.
const TYPE_NAMES: [&str; 25] = [
    "Answer",
    "Aside",
    "Along",
    "Begun",
    "Came",
    "Deed",
    "Deeds",
    "Desk",
    "Fate",
    "Fates",
    "Found",
    "Glance",
    "Going",
    "Hands",
    "Hindrance",
    "Lasting",
    "Left",
    "Line",
    "Lookout",
    "Natives",
    "Place",
    "Thing",
    "Told",
    "Way",
    "Wish",
];

/// The most heads of files and public items among them.
const PUBLIC_CEILING: usize = 975;

/// Types that still have such a name: crate and name. The list only shrinks.
const TYPES_TO_RENAME: [(&str, &str); 51] = [
    ("action", "Answer"),
    ("backup", "Deeds"),
    ("backup", "Desk"),
    ("backup", "Fate"),
    ("backup", "Fates"),
    ("backup", "Going"),
    ("backup", "Hands"),
    ("backup", "Place"),
    ("backup", "Told"),
    ("backup", "Wish"),
    ("browse", "Place"),
    ("bucket", "Fate"),
    ("bucket", "Place"),
    ("cli", "Answer"),
    ("cli", "Found"),
    ("cli", "Place"),
    ("cluster", "Answer"),
    ("cluster", "Found"),
    ("control", "Answer"),
    ("control", "Fate"),
    ("control", "Found"),
    ("control", "Left"),
    ("control", "Place"),
    ("install", "Found"),
    ("install", "Left"),
    ("object", "Found"),
    ("object", "Place"),
    ("plugin", "Answer"),
    ("plugin", "Found"),
    ("plugin", "Line"),
    ("restore", "Along"),
    ("restore", "Answer"),
    ("restore", "Aside"),
    ("restore", "Begun"),
    ("restore", "Came"),
    ("restore", "Found"),
    ("restore", "Glance"),
    ("restore", "Lasting"),
    ("restore", "Lookout"),
    ("restore", "Natives"),
    ("restore", "Place"),
    ("restore", "Told"),
    ("sandbox", "Answer"),
    ("sandbox", "Place"),
    ("volume", "Found"),
    ("volume", "Hindrance"),
    ("volume", "Left"),
    ("volume", "Line"),
    ("volume", "Way"),
    ("xtask", "Found"),
    ("xtask", "Place"),
];

/// The longest name of a test.
const LONGEST_TEST_NAME: usize = 70;

/// The most tests whose name is longer.
const LONG_TEST_NAMES: usize = 269;

/// The most type names that may stand in four or more files.
const MOST_SHARED_NAMES: usize = 51;

/// Checks the words of all crates; with `list`, prints each line that counts against the ceiling below folders that
/// contain it.
pub(crate) fn check(list: Option<&str>) -> Result<()> {
    let mut words = Words::default();
    for path in sources()? {
        let text = std::fs::read_to_string(&path)?;
        words.file(&path, &text).with_context(|| path.display().to_string())?;
    }
    if let Some(part) = list {
        for (place, line) in words.riddles.iter().filter(|(place, _)| place.contains(part)) {
            println!("{place}: {line}");
        }
        for long in words.long_tests.iter().filter(|place| place.contains(part)) {
            println!("{long}");
        }
        return Ok(());
    }
    println!(
        "   {} of {} doc lines begin with one of {}; {} of them are heads or public; {} tests have long names",
        words.riddles.len(),
        words.doc_lines,
        FIRST_WORDS.join(", "),
        words.public.len(),
        words.long_tests.len()
    );
    let wrong = words.wrong();
    if !wrong.is_empty() {
        bail!("words:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// The sources of all crates, tests included, in order.
fn sources() -> Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = ["crates", "benches", "xtask"].map(PathBuf::from).to_vec();
    let mut out = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                out.push(path);
            }
        }
    }
    out.sort();
    Ok(out)
}

/// The findings over all files.
#[derive(Debug, Default)]
struct Words {
    doc_lines: usize,
    /// Place and text of each doc line that begins with a forbidden word.
    riddles: Vec<(String, String)>,
    /// Heads of files and public items among them.
    public: Vec<String>,
    /// Type names with the crates and files that define them, tests aside.
    types: BTreeMap<String, BTreeSet<(String, String)>>,
    long_tests: Vec<String>,
}

impl Words {
    fn file(&mut self, path: &Path, text: &str) -> Result<()> {
        let place = path.display().to_string();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { continue };
            self.doc_lines += 1;
            if begins_wrong(doc) {
                self.riddles.push((format!("{place}:{}", number + 1), doc.trim().to_owned()));
            }
        }
        let file = syn::parse_file(text)?;
        let mut items = Items { place: &place, in_tests: is_test(path), words: self };
        items.public("the file", &file.attrs);
        items.visit_file(&file);
        Ok(())
    }

    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (found, most) in [(&self.public, PUBLIC_CEILING), (&self.long_tests, LONG_TEST_NAMES)] {
            if found.len() > most {
                wrong.extend(found.iter().cloned());
                wrong.push(format!("these are {}, and {most} may be", found.len()));
            }
        }
        if self.riddles.len() > CEILING {
            wrong.push(format!(
                "{} doc lines begin with one of {}, and {CEILING} may: see `cargo xtask check-words FOLDER`",
                self.riddles.len(),
                FIRST_WORDS.join(", ")
            ));
        }
        for name in TYPE_NAMES {
            for (room, place) in self.types.get(name).into_iter().flatten() {
                if !TYPES_TO_RENAME.contains(&(room.as_str(), name)) {
                    wrong.push(format!("{place}: the type name {name} says nothing: take a word of the field"));
                }
            }
        }
        for (room, name) in TYPES_TO_RENAME {
            if !self.types.get(name).is_some_and(|places| places.iter().any(|(other, _)| other == room)) {
                wrong.push(format!("{room} has no type {name} any more: take it off the list in words.rs"));
            }
        }
        let shared: Vec<String> = self
            .types
            .iter()
            .filter(|(_, places)| places.len() >= 4)
            .map(|(name, places)| format!("{name} ({})", places.len()))
            .collect();
        if shared.len() > MOST_SHARED_NAMES {
            wrong.push(format!(
                "{} type names stand in four or more files, and {MOST_SHARED_NAMES} may: {}",
                shared.len(),
                shared.join(", ")
            ));
        }
        wrong
    }
}

/// True where the first word of a doc line is a forbidden one.
fn begins_wrong(doc: &str) -> bool {
    let first: String = doc.trim_start().chars().take_while(|c| c.is_alphabetic()).collect();
    FIRST_WORDS.contains(&first.as_str())
}

/// True for files of tests: below a folder `tests`, or named so.
fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part == "tests" || part == "tests.rs" || part == "testbed")
}

/// A visit of one file's items.
struct Items<'a> {
    place: &'a str,
    in_tests: bool,
    words: &'a mut Words,
}

impl Items<'_> {
    /// Notes a public item, or a file, whose doc begins wrong.
    fn public(&mut self, what: &str, attrs: &[Attribute]) {
        if let Some(first) = first_line(attrs)
            && begins_wrong(&first)
        {
            self.words.public.push(format!("{}: {what}: {:?}", self.place, first.trim()));
        }
    }

    fn item(&mut self, visibility: &Visibility, name: &str, attrs: &[Attribute]) {
        if matches!(visibility, Visibility::Public(_)) {
            self.public(name, attrs);
        }
    }

    fn type_name(&mut self, name: &str) {
        if !self.in_tests {
            let mut parts = self.place.split('/');
            let room = parts.find(|part| *part != "crates" && *part != "benches").unwrap_or_default().to_owned();
            self.words.types.entry(name.to_owned()).or_default().insert((room, self.place.to_owned()));
        }
    }
}

/// The first line of an item's doc comment.
fn first_line(attrs: &[Attribute]) -> Option<String> {
    attrs.iter().find_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(value) => match &value.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

impl<'ast> Visit<'ast> for Items<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let before = self.in_tests;
        let is_tests = |attr: &Attribute| match &attr.meta {
            Meta::List(list) => attr.path().is_ident("cfg") && list.tokens.to_string().contains("test"),
            _ => false,
        };
        self.in_tests |= item.attrs.iter().any(is_tests);
        self.item(&item.vis, &item.ident.to_string(), &item.attrs);
        visit::visit_item_mod(self, item);
        self.in_tests = before;
    }
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let name = item.sig.ident.to_string();
        self.item(&item.vis, &name, &item.attrs);
        let is_test = |attr: &Attribute| attr.path().segments.last().is_some_and(|segment| segment.ident == "test");
        if name.len() > LONGEST_TEST_NAME && item.attrs.iter().any(is_test) {
            self.words.long_tests.push(format!("{}: the name of the test {name} is too long", self.place));
        }
        visit::visit_item_fn(self, item);
    }
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_name(&item.ident.to_string());
        self.item(&item.vis, &item.ident.to_string(), &item.attrs);
        if matches!(item.vis, Visibility::Public(_)) {
            for field in &item.fields {
                let name = field.ident.as_ref().map_or_else(String::new, ToString::to_string);
                self.item(&field.vis, &format!("{}.{name}", item.ident), &field.attrs);
            }
        }
        visit::visit_item_struct(self, item);
    }
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_name(&item.ident.to_string());
        self.item(&item.vis, &item.ident.to_string(), &item.attrs);
        if matches!(item.vis, Visibility::Public(_)) {
            for variant in &item.variants {
                self.public(&format!("{}::{}", item.ident, variant.ident), &variant.attrs);
                for field in &variant.fields {
                    self.public(&format!("a field of {}::{}", item.ident, variant.ident), &field.attrs);
                }
            }
        }
        visit::visit_item_enum(self, item);
    }
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_name(&item.ident.to_string());
        self.item(&item.vis, &item.ident.to_string(), &item.attrs);
        if matches!(item.vis, Visibility::Public(_)) {
            for part in &item.items {
                if let syn::TraitItem::Fn(function) = part {
                    self.public(&format!("{}::{}", item.ident, function.sig.ident), &function.attrs);
                }
            }
        }
        visit::visit_item_trait(self, item);
    }
    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.type_name(&item.ident.to_string());
        self.item(&item.vis, &item.ident.to_string(), &item.attrs);
    }
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.item(&item.vis, &item.ident.to_string(), &item.attrs);
    }
    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.item(&item.vis, &item.ident.to_string(), &item.attrs);
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.item(&item.vis, &item.sig.ident.to_string(), &item.attrs);
        visit::visit_impl_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Words {
        let mut words = Words::default();
        words.file(Path::new("crates/room/src/file.rs"), text).expect("it parses");
        words
    }

    #[test]
    fn a_public_item_does_not_begin_with_a_clause() {
        let words = read(
            "//! What is done.\n/// Whether it is so.\npub fn a() {}\n/// Records it.\npub fn b() {}\n/// How.\nfn c() {}\npub struct S {\n    /// Why\n    pub f: u8,\n}\n",
        );
        assert_eq!((words.doc_lines, words.riddles.len()), (5, 4));
        assert_eq!(
            words.public,
            [
                "crates/room/src/file.rs: the file: \"What is done.\"",
                "crates/room/src/file.rs: a: \"Whether it is so.\"",
                "crates/room/src/file.rs: S.f: \"Why\"",
            ]
        );
    }

    #[test]
    fn words_that_begin_alike_are_no_matter() {
        assert_eq!(
            [" Whatever", " Howl", " Ones", " One of", " Whose"].map(begins_wrong),
            [false, false, false, true, false]
        );
    }

    #[test]
    fn types_of_tests_are_not_counted() {
        let words = read("struct Place;\n#[cfg(test)]\nmod tests { struct Answer; }\n");
        assert_eq!(words.types.keys().collect::<Vec<_>>(), ["Place"]);
    }
}
