//! Reads the headers of an ELF program.

use super::architecture::Architecture;
use anyhow::{Context, Result, bail};

/// Refuses a program that names a loader, since there is none in an image, and says what it is for.
pub(crate) fn static_program(elf: &[u8]) -> Result<Architecture> {
    const INTERPRETER: u64 = 3;
    is_elf(elf)?;
    let (table, size, count) = (number(elf, 32, 8)?, number(elf, 54, 2)?, number(elf, 56, 2)?);
    for header in 0..count {
        if number(elf, place(table, header, size)?, 4)? == INTERPRETER {
            bail!("it is linked dynamically");
        }
    }
    Architecture::of_machine(number(elf, 18, 2)?)
}

/// The name of the section that the byte at an offset belongs to.
pub(crate) fn section_at(elf: &[u8], offset: usize) -> Result<String> {
    const WITHOUT_BYTES: u64 = 8;
    is_elf(elf)?;
    let (table, size) = (number(elf, 40, 8)?, number(elf, 58, 2)?);
    let (count, names) = (number(elf, 60, 2)?, number(elf, 62, 2)?);
    let names = number(elf, place(table, names, size)? + 24, 8)?;
    for header in 0..count {
        let at = place(table, header, size)?;
        let (begin, length) = (number(elf, at + 24, 8)?, number(elf, at + 32, 8)?);
        let is_in = (begin..begin.saturating_add(length)).contains(&u64::try_from(offset)?);
        if is_in && number(elf, at + 4, 4)? != WITHOUT_BYTES {
            let name = place(names, number(elf, at, 4)?, 1)?;
            let name = elf.get(name..).context("it is cut off")?;
            return Ok(name.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect());
        }
    }
    Ok("headers".to_owned())
}

fn is_elf(elf: &[u8]) -> Result<()> {
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        bail!("it is no 64-bit little-endian ELF program");
    }
    Ok(())
}

fn number(elf: &[u8], at: usize, size: usize) -> Result<u64> {
    let bytes = at.checked_add(size).and_then(|end| elf.get(at..end)).context("it is cut off")?;
    Ok(bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

/// The position at which an entry of a table begins.
fn place(table: u64, entry: u64, size: u64) -> Result<usize> {
    let at = entry.checked_mul(size).and_then(|at| at.checked_add(table)).context("a table has no place")?;
    Ok(usize::try_from(at)?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A program for amd64 with these kinds of program headers, and these sections behind them.
    pub(crate) fn elf(kinds: &[u32], sections: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = vec![0; 64];
        out[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (out[18], out[32], out[54], out[56]) = (62, 64, 56, u8::try_from(kinds.len()).expect("a few"));
        for kind in kinds {
            out.extend(kind.to_le_bytes());
            out.resize(out.len() + 52, 0);
        }
        let mut names = vec![0];
        let mut headers = Vec::new();
        for (name, content) in sections {
            headers.push((names.len(), out.len(), content.len()));
            out.extend_from_slice(content);
            names.extend(name.bytes().chain([0]));
        }
        headers.push((0, out.len(), names.len()));
        out.extend(&names);
        let table = out.len();
        for (name, begin, length) in &headers {
            let at = out.len();
            out.resize(at + 64, 0);
            out[at..at + 4].copy_from_slice(&u32::try_from(*name).expect("small").to_le_bytes());
            out[at + 24..at + 32].copy_from_slice(&u64::try_from(*begin).expect("small").to_le_bytes());
            out[at + 32..at + 40].copy_from_slice(&u64::try_from(*length).expect("small").to_le_bytes());
        }
        out[40..48].copy_from_slice(&u64::try_from(table).expect("small").to_le_bytes());
        let count = u8::try_from(headers.len()).expect("a few");
        (out[58], out[60], out[62]) = (64, count, count - 1);
        out
    }

    #[test]
    fn programs_that_need_a_loader_are_refused() {
        assert_eq!(static_program(&elf(&[6, 1, 1, 2], &[])).expect("a static program"), Architecture::Amd64);
        let refused = static_program(&elf(&[6, 3, 1], &[])).expect_err("an interpreter");
        assert_eq!(refused.to_string(), "it is linked dynamically");
        assert!(static_program(b"#!/bin/sh\n").is_err());
        let cut = elf(&[1, 1], &[]);
        assert!(static_program(&cut[..80]).is_err());
    }

    #[test]
    fn programs_of_other_machines_are_refused() {
        let mut program = elf(&[1], &[]);
        program[18] = 183;
        assert_eq!(static_program(&program).expect("known"), Architecture::Arm64);
        program[18] = 243;
        assert!(static_program(&program).is_err());
    }

    #[test]
    fn a_byte_belongs_to_a_section() {
        let program = elf(&[1], &[(".text", b"code"), (".rodata", b"words")]);
        let begin = 64 + 56;
        assert_eq!(section_at(&program, begin).expect("whole"), ".text");
        assert_eq!(section_at(&program, begin + 4).expect("whole"), ".rodata");
        assert_eq!(section_at(&program, 20).expect("whole"), "headers");
        assert!(section_at(&program[..70], 20).is_err());
    }
}
