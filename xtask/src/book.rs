//! The book: what mdBook makes of docs/, in the order of docs/SUMMARY.md. A page that the summary lacks and a link that
//! leads nowhere are refused before.

mod links;

use crate::edges;
use anyhow::{Context, Result, bail};
use links::{BookPages, PathKind};
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";

/// Builds the book below cargo's target folder, and gives its first page.
pub(crate) fn build() -> Result<PathBuf> {
    let mut config = Config::from_disk("book.toml").context("read book.toml")?;
    let folder = edges::target_folder()?.join("book");
    config.build.build_dir.clone_from(&folder);
    let root = std::env::current_dir().context("find the folder of the repository")?;
    let mut book = MDBook::load_with_config(root, config).with_context(|| format!("read {SUMMARY} and its pages"))?;

    let chapters =
        book.book.chapters().filter_map(|chapter| chapter.source_path.as_deref().map(in_repository)).collect();
    let pages = pages()?;
    let problems = [not_in_summary(&pages, &chapters), links::problems(&pages, &found)].concat();
    if !problems.is_empty() {
        bail!("the pages of the book:\n{}", problems.join("\n"));
    }
    book.book.for_each_chapter_mut(|chapter| {
        if let Some(path) = &chapter.source_path {
            chapter.content = links::without_outer(&in_repository(path), FOLDER, &chapter.content);
        }
    });
    book.build().context("build the book")?;
    Ok(folder.join("index.html"))
}

fn in_repository(path: &Path) -> String {
    format!("{FOLDER}/{}", path.display())
}

fn found(path: &str) -> Option<PathKind> {
    let path = Path::new(path);
    path.exists().then(|| if path.is_dir() { PathKind::Folder } else { PathKind::File })
}

/// The pages of docs/, and those beside it, whose links are looked at too.
fn pages() -> Result<BookPages> {
    let mut pages = BookPages::new();
    for path in [markdown(Path::new("."))?, below(Path::new(FOLDER))?].concat() {
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        pages.insert(path.strip_prefix(".").unwrap_or(&path).display().to_string(), text);
    }
    Ok(pages)
}

fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = markdown(folder)?;
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(below(&path)?);
        }
    }
    Ok(found)
}

fn markdown(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect())
}

/// The pages of docs/ that are no chapters.
fn not_in_summary(pages: &BookPages, chapters: &BTreeSet<String>) -> Vec<String> {
    let own = pages.keys().filter(|path| path.starts_with(&format!("{FOLDER}/")) && *path != SUMMARY);
    own.filter(|path| !chapters.contains(*path)).map(|path| format!("{path}: {SUMMARY} does not name it")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_the_summary_lacks_is_named() {
        let paths = ["README.md", "docs/SUMMARY.md", "docs/a.md", "docs/formats/b.md"];
        let pages = paths.map(|path| (path.to_owned(), String::new())).into();
        let chapters = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        assert_eq!(not_in_summary(&pages, &chapters(&["docs/a.md", "docs/formats/b.md"])), [""; 0]);
        let expected = ["docs/formats/b.md: docs/SUMMARY.md does not name it"];
        assert_eq!(not_in_summary(&pages, &chapters(&["docs/a.md"])), expected);
    }
}
