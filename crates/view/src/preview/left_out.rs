//! Table of the objects that are left out, by reason.

use anyhow::Result;
use lifeboat_object::{GroupResource, printable};
use std::io::Write;

/// A line for each type and reason.
pub(super) fn print_left_out<'a>(
    out: &mut impl Write,
    left_out: impl Iterator<Item = (&'a GroupResource, &'a str, u64)>,
) -> Result<()> {
    for (resource, reason, count) in left_out {
        writeln!(out, "  {}", printable(format!("{count} of {resource}: {reason}")))?;
    }
    Ok(())
}
