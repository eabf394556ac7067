//! Documents of rules, read from files.

use anyhow::Context;
use lifeboat_select::RulesText;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most bytes that are read of a file: the parser of the document refuses a longer one.
const LARGEST: u64 = RulesText::MOST_BYTES as u64 + 1;

/// The document in a file.
///
/// # Errors
/// When the file cannot be read, or holds no text.
pub fn document(path: &Path) -> anyhow::Result<RulesText> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_string(&mut text));
    read.with_context(|| format!("read {}", path.display()))?;
    Ok(RulesText { source: path.display().to_string(), text })
}
