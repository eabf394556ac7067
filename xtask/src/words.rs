//! The words of the code: first words of doc comments, names of tests, type names that say nothing, and sources that a
//! reader cannot open.
//!
//! A doc comment begins with a noun phrase or a verb in the third person. One that begins with "What", "Whether" and
//! their kin is a riddle: it names the thing only after a clause. No doc line does, so that the rule needs no
//! exceptions.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::Attribute;
use syn::visit::{self, Visit};

/// Words with which no doc line begins.
const FIRST_WORDS: [&str; 7] = ["What", "Whether", "Why", "How", "Who", "Those", "One"];

/// The longest name of a test.
const LONGEST_TEST_NAME: usize = 70;

/// Type names that have no meaning of their own, in any crate.
const TYPE_NAMES: [&str; 30] = [
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
    "Look",
    "Lookout",
    "Made",
    "Maker",
    "Natives",
    "Place",
    "Shelf",
    "Thing",
    "Told",
    "Way",
    "Who",
    "Wish",
];

/// The most type names that may stand in four or more files. Lower it whenever one goes.
const MOST_SHARED_NAMES: usize = 5;

/// Checks the words of all crates.
pub(crate) fn check() -> Result<()> {
    let mut words = Words::default();
    for path in sources()? {
        let text = std::fs::read_to_string(&path)?;
        words.read(&path, &text).with_context(|| path.display().to_string())?;
    }
    let wrong = words.wrong();
    if !wrong.is_empty() {
        bail!("words:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// The sources of all crates, tests included, in order.
fn sources() -> Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = ["crates", "benches", "tests", "xtask"].map(PathBuf::from).to_vec();
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
    wrong: Vec<String>,
    /// Type names with the crates and files that define them, tests aside.
    types: BTreeMap<String, BTreeSet<(String, String)>>,
}

impl Words {
    fn read(&mut self, path: &Path, text: &str) -> Result<()> {
        let place = path.display().to_string();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if let Some(citation) = comment(line).and_then(foreign_citation) {
                self.wrong.push(format!(
                    "{place}:{}: the comment cites {citation}, which is not in this repository: name the file of Velero's \
                     or kopia's tree, or a page of docs",
                    number + 1
                ));
            }
            let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { continue };
            if begins_wrong(doc) {
                let words = FIRST_WORDS.join(", ");
                self.wrong.push(format!("{place}:{}: a doc line begins with one of {words}", number + 1));
            }
        }
        let file = syn::parse_file(text)?;
        Items { place: &place, in_tests: is_test(path), words: self }.visit_file(&file);
        Ok(())
    }

    fn wrong(mut self) -> Vec<String> {
        for name in TYPE_NAMES {
            for (_, place) in self.types.get(name).into_iter().flatten() {
                self.wrong.push(format!("{place}: the type name {name} says nothing: take a word of the field"));
            }
        }
        let shared: Vec<String> = self
            .types
            .iter()
            .filter(|(_, places)| places.len() >= 4)
            .map(|(name, places)| format!("{name} ({})", places.len()))
            .collect();
        if shared.len() > MOST_SHARED_NAMES {
            self.wrong.push(format!(
                "{} type names stand in four or more files, and {MOST_SHARED_NAMES} may: {}",
                shared.len(),
                shared.join(", ")
            ));
        }
        self.wrong
    }
}

/// Returns true if the first word of a doc line is a forbidden one.
fn begins_wrong(doc: &str) -> bool {
    let first: String = doc.trim_start().chars().take_while(|c| c.is_alphabetic()).collect();
    FIRST_WORDS.contains(&first.as_str())
}

/// The comment on a line, if it has one. An address such as `https://…` begins none.
fn comment(line: &str) -> Option<&str> {
    if line.starts_with("//") { Some(line) } else { line.find(" // ").map(|at| &line[at..]) }
}

/// The first citation of a numbered section: a page's name with a number behind it, or a lettered number alone. Pages
/// of docs have anchors, so that a number after a page's name always means a text that a reader cannot open.
fn foreign_citation(comment: &str) -> Option<&str> {
    let of_page = comment.match_indices(".md ").find_map(|(at, end)| {
        let section = section(&comment[at + end.len()..])?;
        let start = comment[..at].rfind([' ', '(', '`']).map_or(0, |space| space + 1);
        Some(&comment[start..at + end.len() + section.len()])
    });
    of_page.or_else(|| {
        let mut letters = comment.match_indices(|c: char| c.is_ascii_uppercase());
        letters.find_map(|(at, _)| {
            let is_word = comment[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.' || c == '_');
            section(&comment[at..]).filter(|section| !is_word && section.matches('.').count() > 1)
        })
    })
}

/// The number of a section at the start of a text: digits and dots, perhaps after a letter and a dot.
fn section(text: &str) -> Option<&str> {
    let digits =
        text.strip_prefix(|c: char| c.is_ascii_uppercase()).map_or(Some(text), |rest| rest.strip_prefix('.'))?;
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let from = text.len() - digits.len();
    let length = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    Some(text[..from + length].trim_end_matches('.'))
}

/// Returns true for files of tests: below a folder `tests`, or named so.
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
    fn type_name(&mut self, name: &syn::Ident) {
        if !self.in_tests {
            let mut parts = self.place.split('/');
            let room = parts.find(|part| *part != "crates" && *part != "benches").unwrap_or_default().to_owned();
            self.words.types.entry(name.to_string()).or_default().insert((room, self.place.to_owned()));
        }
    }
}

impl<'ast> Visit<'ast> for Items<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let before = self.in_tests;
        let is_tests = |attr: &Attribute| match &attr.meta {
            syn::Meta::List(list) => attr.path().is_ident("cfg") && list.tokens.to_string().contains("test"),
            _ => false,
        };
        self.in_tests |= item.attrs.iter().any(is_tests);
        visit::visit_item_mod(self, item);
        self.in_tests = before;
    }
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let name = item.sig.ident.to_string();
        let is_test = |attr: &Attribute| attr.path().segments.last().is_some_and(|segment| segment.ident == "test");
        if name.len() > LONGEST_TEST_NAME && item.attrs.iter().any(is_test) {
            let place = self.place;
            self.words.wrong.push(format!("{place}: the name of the test {name} has over {LONGEST_TEST_NAME} letters"));
        }
        visit::visit_item_fn(self, item);
    }
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_name(&item.ident);
        visit::visit_item_struct(self, item);
    }
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_name(&item.ident);
        visit::visit_item_enum(self, item);
    }
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_name(&item.ident);
        visit::visit_item_trait(self, item);
    }
    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.type_name(&item.ident);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Words {
        let mut words = Words::default();
        words.read(Path::new("crates/room/src/file.rs"), text).expect("it parses");
        words
    }

    #[test]
    fn a_doc_line_does_not_begin_with_a_clause() {
        let words =
            read("//! What is done.\n/// Records it.\npub fn b() {}\n// How.\nfn c() {}\n    /// Why\nfn d() {}\n");
        let places: Vec<&str> = words.wrong.iter().filter_map(|wrong| wrong.split(": ").next()).collect();
        assert_eq!(places, ["crates/room/src/file.rs:1", "crates/room/src/file.rs:6"]);
    }

    #[test]
    fn words_that_begin_alike_are_no_matter() {
        let words = [" Whatever", " Howl", " Ones", " One of", " Whose"];
        assert_eq!(words.map(begins_wrong), [false, false, false, true, false]);
    }

    #[test]
    fn a_comment_that_cites_a_text_outside_of_the_repository_is_refused() {
        let refused = [
            ("//! A backup (backup.md 1.2).", "backup.md 1.2"),
            ("// Row 15 of backup.md 1.2 does it.", "backup.md 1.2"),
            ("/// The tables of `api-and-controllers.md 3`.", "api-and-controllers.md 3"),
            ("/// Writes it (B.2.5).", "B.2.5"),
        ];
        for (line, citation) in refused {
            assert_eq!(comment(line).and_then(foreign_citation), Some(citation), "{line}");
        }
        let behind_code = format!("let x = 1; {} plugin-protocol.md B.8.6", "//");
        assert_eq!(comment(&behind_code).and_then(foreign_citation), Some("plugin-protocol.md B.8.6"));
        assert_eq!(read("// See backup.md 1.2.\nfn a() {}\n").wrong.len(), 1);
        let taken = [
            "/// Described in docs/formats/kopia.md, and in ARCHITECTURE.md.",
            "//! The maintenance (velero: pkg/repository/maintenance).",
            "// Since Velero 1.18.2 and Kubernetes 1.31.",
            "/// RFC 3339, TLS 1.2 and SHA-256; host A.example.",
            "let page = \"backup.md 1.2\";",
        ];
        assert_eq!(taken.map(|line| comment(line).and_then(foreign_citation)), [None; 5]);
    }

    #[test]
    fn the_name_of_a_test_has_an_end() {
        let long = "a".repeat(LONGEST_TEST_NAME + 1);
        assert_eq!(read(&format!("#[test]\nfn {long}() {{}}\nfn {long}b() {{}}\n")).wrong.len(), 1);
    }

    #[test]
    fn a_type_name_that_says_nothing_is_refused() {
        assert_eq!(
            read("pub struct Answer;\nstruct Answers;\n").wrong(),
            ["crates/room/src/file.rs: the type name Answer says nothing: take a word of the field"]
        );
    }

    #[test]
    fn types_of_tests_are_not_counted() {
        let words = read("struct Place;\n#[cfg(test)]\nmod tests { struct Answer; }\n");
        assert_eq!(words.types.keys().collect::<Vec<_>>(), ["Place"]);
    }
}
