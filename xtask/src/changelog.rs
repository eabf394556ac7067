//! Form of the changelog: one file for each change since the last release, and a short page of releases.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// Beginnings of a change's first line.
const KINDS: [&str; 3] = ["Bugfix: ", "Enhancement: ", "Change: "];

/// The most lines of one release on the page.
const LINES_OF_A_RELEASE: usize = 40;

/// Checks all files of changes, and the page.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    let folder = Path::new("changelog/unreleased");
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name == ".gitkeep") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        wrong.extend(faults_of_change(&text).into_iter().map(|fault| format!("{}: {fault}", path.display())));
    }
    let page = std::fs::read_to_string("CHANGELOG.md")?;
    wrong.extend(faults_of_page(&page));
    if !wrong.is_empty() {
        bail!("changelog:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// Faults of a change's text.
fn faults_of_change(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut lines = text.lines();
    let title = lines.next().unwrap_or_default();
    match KINDS.iter().find_map(|kind| title.strip_prefix(kind)) {
        None => faults.push(format!("the first line begins with none of {}", KINDS.map(str::trim_end).join(", "))),
        Some(sentence) if sentence.trim().is_empty() || sentence.ends_with('.') => {
            faults.push("the first line is one sentence without a full stop".to_owned());
        }
        Some(_) => {}
    }
    if lines.next().is_some_and(|second| !second.is_empty()) || lines.next().is_none_or(str::is_empty) {
        faults.push("an empty line and a text follow the first line".to_owned());
    }
    faults
}

/// Releases on the page that are too long.
fn faults_of_page(page: &str) -> Vec<String> {
    let releases = page.split("\n## ").skip(1);
    let long = releases.filter(|release| release.trim_end().lines().count() > LINES_OF_A_RELEASE);
    long.map(|release| {
        let name = release.lines().next().unwrap_or_default();
        format!("CHANGELOG.md: {name} has more than {LINES_OF_A_RELEASE} lines")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_a_kind_a_sentence_and_a_text() {
        assert_eq!(faults_of_change("Bugfix: It works\n\nIt did not.\n"), Vec::<String>::new());
        assert_eq!(faults_of_change("Fix: It works\n\nIt did not.\n").len(), 1);
        assert_eq!(faults_of_change("Bugfix: It works.\n\nIt did not.\n").len(), 1);
        assert_eq!(faults_of_change("Bugfix: It works\nIt did not.\n").len(), 1);
        assert_eq!(faults_of_change("Bugfix: It works\n\n").len(), 1);
        assert_eq!(faults_of_change("").len(), 2);
    }

    #[test]
    fn a_release_has_forty_lines_at_most() {
        let page = |lines: usize| format!("# Changelog\n\n## 0.2.0\n{}\n## 0.1.0\n\n- a\n", "- a\n".repeat(lines));
        assert_eq!(faults_of_page(&page(39)), Vec::<String>::new());
        assert_eq!(faults_of_page(&page(40)), ["CHANGELOG.md: 0.2.0 has more than 40 lines"]);
    }
}
