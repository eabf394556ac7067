//! The arguments of benchmarks whose rows share flags: words that choose rows, the sizes, and the number of runs.

use anyhow::{Context, Result, bail, ensure};

/// The arguments of a benchmark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Parts of the names of rows.
    pub(crate) words: Vec<String>,
    /// The number by which sizes are divided.
    pub(crate) scale: u64,
    /// The number of times that each side runs; the best counts.
    pub(crate) rounds: usize,
}

impl Flags {
    /// Reads them; without a flag each side runs so many times.
    pub(crate) fn parse(args: &[String], rounds: usize) -> Result<Self> {
        let mut flags = Self { words: Vec::new(), scale: 1, rounds };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut number = || -> Result<u64> {
                let value = args.next().with_context(|| format!("{arg} needs a number"))?;
                let value = value.parse().with_context(|| format!("{arg} {value}"))?;
                ensure!(value > 0, "{arg} has to be more than 0");
                Ok(value)
            };
            match arg.as_str() {
                "--small" => (flags.scale, flags.rounds) = (100, 1),
                "--scale" => flags.scale = number()?,
                "--rounds" => flags.rounds = usize::try_from(number()?)?,
                flag if flag.starts_with('-') => {
                    bail!("unknown flag {flag}: --small, --scale N, --rounds N or names of rows")
                }
                word => flags.words.push(word.to_owned()),
            }
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rounds_are_flags_and_all_else_is_a_word() {
        let of = |args: &[&str]| Flags::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>(), 3);
        let flags = |words: &[&str], scale, rounds| Flags {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            scale,
            rounds,
        };
        assert_eq!(of(&[]).unwrap(), flags(&[], 1, 3));
        assert_eq!(of(&["--small", "sparse"]).unwrap(), flags(&["sparse"], 100, 1));
        assert_eq!(of(&["a", "--scale", "8", "--rounds", "2", "b"]).unwrap(), flags(&["a", "b"], 8, 2));
        for wrong in [&["--scale"][..], &["--scale", "0"], &["--rounds", "x"], &["--fast"]] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
