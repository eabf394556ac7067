//! Checks the links of pages. Pure: pages are texts by their path from the root of the repository.

use mdbook_markdown::pulldown_cmark::{Event, Parser, Tag, TagEnd};
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(crate) type BookPages = BTreeMap<String, String>;

/// The file type at a path that is not a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    File,
    Folder,
}

/// Links of pages to pages, anchors and files that are not there, and HTML, which is not shown as it was written: a
/// line each, with page and line.
pub(crate) fn problems(pages: &BookPages, find: &dyn Fn(&str) -> Option<PathKind>) -> Vec<String> {
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|(path, text)| (path.as_str(), anchors(text))).collect();
    let mut found = Vec::new();
    for (page, text) in pages {
        let mut add = |at: usize, what: String| {
            let line = text[..at].matches('\n').count() + 1;
            found.push(format!("{page}:{line}: {what}"));
        };
        for (range, link) in links(text) {
            if let Some(why) = problem(page, &link, &anchors, find) {
                add(range.start, format!("the link to {link} leads nowhere: {why}"));
            }
        }
        for range in html(text) {
            add(range.start, format!("{:?} would be HTML: put it between backticks", &text[range.clone()]));
        }
    }
    found
}

/// A text in which links that leave a folder are their words alone: the book of the folder has no such pages.
pub(crate) fn without_outer(page: &str, folder: &str, text: &str) -> String {
    let is_inside = |path: &str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for (range, link) in links(text) {
        let target = LinkTarget::of(page, &link);
        let leaves = matches!(&target, Some(LinkTarget::Path { path, .. }) if !is_inside(path));
        // A link with its target elsewhere in the text, or an image, stays.
        let words = text[range.clone()].strip_prefix('[').and_then(|words| Some(words.rsplit_once("](")?.0));
        if let (true, Some(words)) = (leaves, words) {
            out.push_str(&text[done..range.start]);
            out.push_str(words);
            done = range.end;
        }
    }
    out.push_str(&text[done..]);
    out
}

/// The target of a link.
enum LinkTarget {
    /// Another site.
    Elsewhere,
    /// A path from the root of the repository, and an anchor there.
    Path { path: String, anchor: Option<String> },
}

impl LinkTarget {
    /// None for a path that leaves the repository.
    fn of(page: &str, link: &str) -> Option<Self> {
        let scheme = link.split_once(':').map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))) {
            return Some(Self::Elsewhere);
        }
        let (path, anchor) =
            link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor.to_owned())));
        if path.is_empty() {
            return Some(Self::Path { path: page.to_owned(), anchor });
        }
        let mut parts: Vec<&str> = page.split('/').collect();
        parts.pop();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop()?;
                }
                part => parts.push(part),
            }
        }
        Some(Self::Path { path: parts.join("/"), anchor })
    }
}

/// The reason for which a link leads nowhere; `None` when it leads somewhere.
fn problem(
    page: &str,
    link: &str,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
    find: &dyn Fn(&str) -> Option<PathKind>,
) -> Option<String> {
    let Some(target) = LinkTarget::of(page, link) else { return Some("it leaves the repository".to_owned()) };
    let LinkTarget::Path { path, anchor } = target else { return None };
    if let Some(of_page) = anchors.get(path.as_str()) {
        let anchor = anchor.filter(|anchor| !of_page.contains(anchor))?;
        return Some(format!("{path} has no heading with the anchor {anchor}"));
    }
    match find(&path) {
        None => Some(format!("there is no {path}")),
        Some(_) if anchor.is_some() => Some(format!("{path} is no page")),
        // Where the page is read in the repository, a folder is shown.
        Some(PathKind::Folder) if folder(page) == folder(&path) => {
            Some(format!("{path} is a folder, of which the book has no page: name the page"))
        }
        Some(_) => None,
    }
}

/// The first part of a path.
fn folder(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

/// The parser of mdBook, as book.toml sets it.
fn parser(text: &str) -> Parser<'_> {
    let mut options = MarkdownOptions::default();
    options.smart_punctuation = false;
    new_cmark_parser(text, &options)
}

/// The links and images of a page.
fn links(text: &str) -> Vec<(Range<usize>, String)> {
    let found = parser(text).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some((range, dest_url.into_string())),
        _ => None,
    });
    found.collect()
}

/// Tags that are no comments. A text such as `<name>` is one for mdBook.
fn html(text: &str) -> Vec<Range<usize>> {
    let found = parser(text).into_offset_iter().filter_map(|(event, range)| {
        let is_html = matches!(event, Event::InlineHtml(_) | Event::Start(Tag::HtmlBlock));
        (is_html && !text[range.clone()].starts_with("<!--")).then_some(range)
    });
    found.collect()
}

/// The anchors of the headings of a page, by the rules of mdBook: lower case, dashes for blanks, nothing for what is no
/// letter, digit, dash or underscore, and a number for a text that was there before.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut found, mut heading) = (BTreeSet::new(), None::<String>);
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { id: Some(id), .. }) => {
                found.insert(id.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(words) = &mut heading {
                    words.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let Some(words) = heading.take() else { continue };
                let anchor = anchor(&words);
                let numbered = (1..).map(|n: u32| format!("{anchor}-{n}"));
                let free = std::iter::once(anchor.clone()).chain(numbered).find(|anchor| !found.contains(anchor));
                found.extend(free);
            }
            _ => {}
        }
    }
    found
}

fn anchor(words: &str) -> String {
    let kept = words.trim().chars().flat_map(char::to_lowercase).filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
        c => c.is_whitespace().then_some('-'),
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of `docs/a.md` with this text, beside `docs/formats/README.md`, a folder and two files.
    fn of(text: &str) -> Vec<String> {
        let pages = [("docs/a.md", text), ("docs/formats/README.md", "# Formats\n\n## The index\n"), ("README.md", "")];
        let find = |path: &str| match path {
            "docs/formats" | "deploy/helm" => Some(PathKind::Folder),
            "docs/alerts.yaml" => Some(PathKind::File),
            _ => None,
        };
        let pages = pages.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        problems(&pages, &find)
    }

    #[test]
    fn links_to_what_is_there_are_no_problem() {
        let text = "# A page\n\n[site](https://example.org/x#y), [mail](mailto:a@example.org), [itself](#a-page), [page](formats/README.md), \
                    [heading](./formats/README.md#the-index), [up](../README.md), [file](alerts.yaml), [folder](../deploy/helm)\n\n\
                    `[no link](nowhere.md)` and `<no tag>`, <!-- a comment -->\n\n```\n[no link](nowhere.md)\n```\n";
        assert_eq!(of(text), [""; 0]);
    }

    #[test]
    fn each_link_that_leads_nowhere_is_named_with_its_line() {
        let text = "# A page\n\n[a](b.md)\n[b](formats/README.md#the-indices) and\n[c](#b-page) [d](../../x.md) [e](alerts.yaml#x)\n\
                    [f](formats) ![g](picture.png)\n\n[h]\n\n[h]: gone.md\n";
        let expected = [
            "docs/a.md:3: the link to b.md leads nowhere: there is no docs/b.md",
            "docs/a.md:4: the link to formats/README.md#the-indices leads nowhere: docs/formats/README.md has no heading with the anchor the-indices",
            "docs/a.md:5: the link to #b-page leads nowhere: docs/a.md has no heading with the anchor b-page",
            "docs/a.md:5: the link to ../../x.md leads nowhere: it leaves the repository",
            "docs/a.md:5: the link to alerts.yaml#x leads nowhere: docs/alerts.yaml is no page",
            "docs/a.md:6: the link to formats leads nowhere: docs/formats is a folder, of which the book has no page: name the page",
            "docs/a.md:6: the link to picture.png leads nowhere: there is no docs/picture.png",
            "docs/a.md:8: the link to gone.md leads nowhere: there is no docs/gone.md",
        ];
        assert_eq!(of(text), expected);
    }

    #[test]
    fn html_that_is_no_comment_is_a_problem() {
        let expected = [
            "docs/a.md:1: \"<name>\" would be HTML: put it between backticks",
            "docs/a.md:3: \"<div>\\n\" would be HTML: put it between backticks",
        ];
        assert_eq!(of("of <name>\n\n<div>\n\n<!-- a comment\nof two lines -->\n"), expected);
    }

    #[test]
    fn anchors_follow_the_rules_of_mdbook() {
        let text = "# Where `update` differs, on purpose\n\n## 1. What is *there*?\n\n## 1. What is there?\n\n## Über_all - x\n\n## Own {#one}\n";
        let expected =
            ["where-update-differs-on-purpose", "1-what-is-there", "1-what-is-there-1", "über_all---x", "one"];
        assert_eq!(anchors(text), expected.map(str::to_owned).into());
    }

    #[test]
    fn a_link_out_of_the_book_leaves_its_words() {
        let text = "[`deploy/helm`](../deploy/helm) and [a](a.md), [b](../docs/b.md#x), [c](https://example.org), [d](../docsets/e.md) e\n";
        let expected = "`deploy/helm` and [a](a.md), [b](../docs/b.md#x), [c](https://example.org), d e\n";
        assert_eq!(without_outer("docs/x.md", "docs", text), expected);
    }
}
