//! Asks before what cannot be undone.

use std::io::Write;

/// Asks until there is an answer; the end of the input is a no.
pub(crate) fn confirmed() -> anyhow::Result<bool> {
    let (mut out, input) = (std::io::stdout(), std::io::stdin());
    loop {
        write!(out, "Are you sure you want to continue (Y/N)? ")?;
        out.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            writeln!(std::io::stderr(), "error reading user input: EOF")?;
            return Ok(false);
        }
        match line.trim_end_matches(['\r', '\n']) {
            "y" | "Y" => return Ok(true),
            "n" | "N" => return Ok(false),
            _ => {}
        }
    }
}
