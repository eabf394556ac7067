//! Describes the differences between two archives of images, in words that lead to the cause.

use super::archive::{Archive, File, Image};
use super::elf;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// The first difference, from the inside to the outside: a file before its layer, a layer before the archive.
pub(crate) fn first(one: &[u8], other: &[u8]) -> Result<Option<String>> {
    if one == other {
        return Ok(None);
    }
    let (one, other) = (Archive::read(one)?, Archive::read(other)?);
    if one.images.len() != other.images.len() {
        return Ok(Some(format!("one has {} images, the other {}", one.images.len(), other.images.len())));
    }
    let found = one.images.iter().zip(&other.images).find_map(|(one, other)| in_images(one, other));
    Ok(Some(found.unwrap_or_else(|| "the images are equal, but not how they are packed".to_owned())))
}

fn in_images(one: &Image, other: &Image) -> Option<String> {
    let of = &one.platform["architecture"].as_str().unwrap_or("an image").to_owned();
    let found = in_files(&one.files, &other.files).or_else(|| {
        let (one, other) = (&one.config, &other.config);
        (one != other).then(|| format!("the configurations are\n{one}\nand\n{other}"))
    });
    let found = found.or_else(|| (one.platform != other.platform).then(|| "the platforms differ".to_owned()))?;
    Some(format!("{of}: {found}"))
}

fn in_files(one: &BTreeMap<String, File>, other: &BTreeMap<String, File>) -> Option<String> {
    let paths: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    paths.into_iter().find_map(|path| match (one.get(path), other.get(path)) {
        (Some(one), Some(other)) => in_file(one, other).map(|found| format!("/{path}: {found}")),
        (Some(_), None) => Some(format!("/{path} is only in the first")),
        _ => Some(format!("/{path} is only in the second")),
    })
}

fn in_file(one: &File, other: &File) -> Option<String> {
    if one.about != other.about {
        return Some(format!("{} and {}", one.about, other.about));
    }
    let (one, other) = (&one.content, &other.content);
    let shorter = one.len().min(other.len());
    let at = (0..shorter).find(|at| one[*at] != other[*at]).or((one.len() != other.len()).then_some(shorter))?;
    let place = elf::section_at(one, at).map_or(String::new(), |section| format!(" (section {section})"));
    let sizes = if one.len() == other.len() { String::new() } else { format!(" of {} and {}", one.len(), other.len()) };
    Some(format!("byte {at}{sizes}{place}: {:?} and {:?}", around(one, at), around(other, at)))
}

/// The bytes around a position, as text where they are text.
fn around(content: &[u8], at: usize) -> String {
    const BEFORE: usize = 24;
    const BEHIND: usize = 40;
    let end = content.len().min(at + BEHIND);
    String::from_utf8_lossy(&content[at.saturating_sub(BEFORE)..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::written;
    use super::super::elf::tests::elf;
    use super::*;

    fn file(about: &str, content: &[u8]) -> File {
        File { about: about.to_owned(), content: content.to_vec() }
    }

    fn files(files: &[(&str, &[u8])]) -> BTreeMap<String, File> {
        files.iter().map(|(path, content)| ((*path).to_owned(), file("Regular", content))).collect()
    }

    #[test]
    fn archives_are_equal_or_differ_in_a_section_of_a_program() {
        let program = |words: &[u8]| written(&elf(&[1], &[(".text", b"code"), (".rodata", words)]));
        assert_eq!(first(&program(b"/root/a"), &program(b"/root/a")).expect("whole"), None);
        let found = first(&program(b"/root/a"), &program(b"/root/b")).expect("whole").expect("they differ");
        let at = 64 + 56 + 4 + 6;
        assert!(found.starts_with(&format!("amd64: /lifeboat: byte {at} (section .rodata): ")), "{found}");
        assert!(found.contains("/root/a") && found.contains("/root/b"), "{found}");
    }

    #[test]
    fn the_first_file_that_differs_is_named() {
        for (one, other, expected) in [
            (files(&[("a", b"x")]), files(&[("a", b"x")]), None),
            (files(&[("a", b"x"), ("b", b"x")]), files(&[("a", b"x")]), Some("/b is only in the first")),
            (files(&[("b", b"x")]), files(&[("a", b"x"), ("b", b"x")]), Some("/a is only in the second")),
            (files(&[("a", b"xy")]), files(&[("a", b"x")]), Some(r#"/a: byte 1 of 2 and 1: "xy" and "x""#)),
        ] {
            assert_eq!(in_files(&one, &other).as_deref(), expected);
        }
        assert_eq!(in_file(&file("a", b""), &file("b", b"")).as_deref(), Some("a and b"));
    }
}
