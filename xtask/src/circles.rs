//! Files of a crate use each other in one direction: no circles.
//!
//! A file uses another when it names something of that one's module: in a `use`, or in a path that begins with `crate`,
//! `self` or `super`, tests aside. That a module declares the modules below it is no use of them; what it re-exports of
//! them is. What comes through the root's re-exports is of the file that holds it.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemUse, UseTree};

/// The path of a module in its crate, outermost first.
type Module = Vec<String>;

pub(crate) fn check() -> Result<()> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir("crates")?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    folders.push("xtask".into());
    folders.sort();
    let mut wrong = Vec::new();
    for folder in folders {
        let uses = uses(&files_of(&folder.join("src"))?);
        let circles = circles_in(&uses);
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        wrong.extend(circles.iter().map(|circle| format!("{name}:{}", edges(circle, &uses))));
    }
    if !wrong.is_empty() {
        bail!("files that use each other in a circle:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// The uses among the files of a circle, a line each.
fn edges(circle: &BTreeSet<Module>, uses: &BTreeMap<Module, BTreeSet<Module>>) -> String {
    let of = |module: &Module| {
        let used = uses.get(module).into_iter().flatten().filter(|used| circle.contains(*used));
        used.map(|used| format!("\n    {} uses {}", module.join("::"), used.join("::"))).collect::<String>()
    };
    circle.iter().map(of).collect()
}

/// All files below a folder of sources, parsed, by module; the root is the empty path.
fn files_of(src: &Path) -> Result<BTreeMap<Module, File>> {
    let mut out = BTreeMap::new();
    let mut folders = vec![(src.to_owned(), Module::new())];
    while let Some((folder, module)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let below = || module.iter().cloned().chain([name.clone()]).collect::<Module>();
            if path.is_dir() {
                folders.push((path, below()));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let is_root = module.is_empty() && (name == "lib" || name == "main");
                let text = std::fs::read_to_string(&path)?;
                let file = syn::parse_file(&text).with_context(|| path.display().to_string())?;
                out.insert(if is_root { Module::new() } else { below() }, file);
            }
        }
    }
    Ok(out)
}

/// The modules that each module uses.
fn uses(files: &BTreeMap<Module, File>) -> BTreeMap<Module, BTreeSet<Module>> {
    let exports = exports(files);
    let tests: BTreeSet<Module> = files.iter().flat_map(|(module, file)| test_modules(module, file)).collect();
    let is_test = |module: &Module| tests.iter().any(|test| module.starts_with(test));
    let mut out = BTreeMap::new();
    for (module, file) in files.iter().filter(|(module, _)| !is_test(module)) {
        let mut paths = Paths { module: module.clone(), found: Vec::new() };
        paths.visit_file(file);
        let used = paths.found.iter().filter_map(|path| owner(path, files, &exports));
        out.insert(module.clone(), used.filter(|used| used != module && !used.is_empty()).collect());
    }
    // The root only re-exports; what it uses is used by nobody through it.
    out.remove(&Module::new());
    out
}

/// The file that holds what a path names: the deepest module of it, or where the root's re-export leads.
fn owner(path: &[String], files: &BTreeMap<Module, File>, exports: &BTreeMap<String, Module>) -> Option<Module> {
    let depth = (0..=path.len()).rev().find(|depth| files.contains_key(&path[..*depth]))?;
    if depth > 0 {
        return Some(path[..depth].to_vec());
    }
    exports.get(path.first()?).cloned()
}

/// The names that the root re-exports, each with its module.
fn exports(files: &BTreeMap<Module, File>) -> BTreeMap<String, Module> {
    let mut out = BTreeMap::new();
    let Some(root) = files.get(&Module::new()) else { return out };
    for item in &root.items {
        let Item::Use(item) = item else { continue };
        for path in flatten(&item.tree) {
            let path: &[String] =
                if path.first().is_some_and(|first| first == "crate" || first == "self") { &path[1..] } else { &path };
            let depth = (1..=path.len()).rev().find(|depth| files.contains_key(&path[..*depth]));
            if let (Some(depth), Some(name)) = (depth, path.last()) {
                out.insert(name.clone(), path[..depth].to_vec());
            }
        }
    }
    out
}

/// Modules in files of their own that are for tests only.
fn test_modules(module: &Module, file: &File) -> Vec<Module> {
    let of_tests = file.items.iter().filter_map(|item| match item {
        Item::Mod(one) if one.content.is_none() && is_for_tests(&one.attrs) => Some(one.ident.to_string()),
        _ => None,
    });
    of_tests.map(|name| module.iter().cloned().chain([name]).collect()).collect()
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

/// Finds the paths of a file that lead into its crate, from the root on.
struct Paths {
    module: Module,
    found: Vec<Vec<String>>,
}

impl Paths {
    fn note(&mut self, path: &[String]) {
        let mut base = match path.first().map(String::as_str) {
            Some("crate") => Module::new(),
            Some("self" | "super") => self.module.clone(),
            _ => return,
        };
        for part in path {
            match part.as_str() {
                "crate" | "self" => {}
                "super" => drop(base.pop()),
                name => base.push(name.to_owned()),
            }
        }
        self.found.push(base);
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        for path in flatten(&item.tree) {
            // Of the module itself: `use below::Name` and `pub use below::Name`.
            let is_own = path.first().is_some_and(|first| !matches!(first.as_str(), "crate" | "self" | "super"));
            let own = [vec!["self".to_owned()], path.clone()].concat();
            self.note(if is_own { &own } else { &path });
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if parts.len() > 1 {
            let is_own = !matches!(parts[0].as_str(), "crate" | "self" | "super");
            let own = [vec!["self".to_owned()], parts.clone()].concat();
            self.note(if is_own { &own } else { &parts });
        }
        visit::visit_path(self, path);
    }
}

/// The paths that a `use` names.
fn flatten(tree: &UseTree) -> Vec<Vec<String>> {
    match tree {
        UseTree::Path(path) => {
            let below = flatten(&path.tree).into_iter();
            below.map(|rest| [vec![path.ident.to_string()], rest].concat()).collect()
        }
        UseTree::Name(name) if name.ident == "self" => vec![Vec::new()],
        UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        UseTree::Rename(name) => vec![vec![name.ident.to_string()]],
        UseTree::Glob(_) => vec![Vec::new()],
        UseTree::Group(group) => group.items.iter().flat_map(flatten).collect(),
    }
}

/// Groups of modules of which each reaches every other one.
fn circles_in(uses: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        uses.keys().map(|module| (module, reached_from(module, uses))).collect();
    let mut out = BTreeSet::new();
    for (module, others) in &reached {
        let circle: BTreeSet<Module> = others
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(module)))
            .map(|other| (*other).clone())
            .collect();
        if circle.len() > 1 {
            out.insert(circle);
        }
    }
    out.into_iter().collect()
}

fn reached_from<'a>(module: &Module, uses: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let mut out = BTreeSet::new();
    let mut open: Vec<&Module> = uses.get(module).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if out.insert(next) {
            open.extend(uses.get(next).into_iter().flatten());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let parsed = files.iter().map(|(module, text)| {
            let module = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
            (module, syn::parse_file(text).unwrap())
        });
        let found = circles_in(&uses(&parsed.collect()));
        found.into_iter().map(|circle| circle.into_iter().map(|module| module.join("::")).collect()).collect()
    }

    #[test]
    fn files_that_use_each_other_are_found() {
        let circle = |names: &[&str]| vec![names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
        for (files, expected) in [
            (vec![("a", "use crate::b::B;"), ("b", "use crate::c;"), ("c", "")], vec![]),
            (vec![("a", "use crate::b::B;"), ("b", "use crate::a::A;")], circle(&["a", "b"])),
            (
                vec![
                    ("a", "use crate::{b::{B, C}, d};"),
                    ("b", "fn f() { crate::d::f() }"),
                    ("d", "fn f(x: crate::a::A) {}"),
                ],
                circle(&["a", "b", "d"]),
            ),
            // Through the root's re-export.
            (
                vec![("", "mod a; mod b; pub use a::A;"), ("a", "use crate::b::B;"), ("b", "use crate::A;")],
                circle(&["a", "b"]),
            ),
            // A module and one below it.
            (vec![("a", "mod b; use b::B; struct A;"), ("a::b", "use super::A;")], circle(&["a", "a::b"])),
            (vec![("a", "mod b; struct A;"), ("a::b", "use super::A;")], vec![]),
            (vec![("a", "mod b; mod c; pub use b::B;"), ("a::b", "use super::c::C;"), ("a::c", "")], vec![]),
            // Tests may use what they test.
            (vec![("a", "use crate::b::B;"), ("b", "#[cfg(test)] mod tests { use crate::a::A; }")], vec![]),
            (
                vec![
                    ("", "#[cfg(test)] mod stub;"),
                    ("stub", "use crate::a::A;"),
                    ("a", "#[cfg(test)] mod tests { use crate::stub::f; }"),
                ],
                vec![],
            ),
        ] {
            assert_eq!(circles(&files), expected, "{files:?}");
        }
    }
}
