//! The form of `lifeboat repo snapshot` for block devices, and the changes that a storage tells of them.

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use lifeboat_kopia::format::snapshot::Source;
use lifeboat_kopia::snapshot::{Snapshot, choose};
use lifeboat_mover::snapshot::{BlockChanges, BlockForm};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most bytes of a file with changed ranges.
const MAX_CHANGED: u64 = 64 << 20;
/// The part of a source's path that Velero's uploader of blocks puts before the claim.
const OF_VELERO: &str = "/velero-block/";

/// The form of a file with changed ranges, for people.
const FORM_OF_RANGES: &str = "it has to be a list such as [{\"offset\": 0, \"length\": 4096}], with numbers of bytes";

/// Flags for block devices.
#[derive(Debug, Args)]
pub(crate) struct BlockArgs {
    /// The form in which a block device is saved
    #[arg(long, value_enum, value_name = "FORM", default_value_t = DeviceForm::Stream)]
    device_form: DeviceForm,
    /// An earlier snapshot of the same source, from which all blocks are taken that --changed does not name, without
    /// reading them: an ID, the beginning of one, or latest
    #[arg(long, value_name = "SNAPSHOT", requires = "changed", conflicts_with = "full")]
    since: Option<String>,
    /// A file with the ranges of bytes that may have changed since the snapshot of --since, such as
    /// [{"offset": 0, "length": 4096}]; rbd diff --format json prints them so
    #[arg(long, value_name = "FILE", requires = "since")]
    changed: Option<PathBuf>,
}

/// `--device-form`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DeviceForm {
    /// A stream of its bytes, as Velero saves it with the data mover velero-fs: every version of Velero reads it
    Stream,
    /// Blocks of 1 MiB, as Velero 1.19 saves it with the data mover velero-block; PATH may be an image of a device, too
    Blocks,
}

/// The changes as the flags give them; the snapshot may be `latest`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GivenChanges {
    since: String,
    ranges: Vec<Range<u64>>,
}

impl BlockArgs {
    /// Reads the changed ranges.
    pub(crate) fn changes(&self) -> Result<Option<GivenChanges>> {
        let (Some(since), Some(file)) = (&self.since, &self.changed) else { return Ok(None) };
        if self.device_form != DeviceForm::Blocks {
            bail!("--since and --changed are for devices that are saved as blocks: add --device-form blocks");
        }
        let ranges = read_ranges(file).with_context(|| format!("read the changed ranges from {}", file.display()))?;
        Ok(Some(GivenChanges { since: since.clone(), ranges }))
    }

    /// The form of a device of this source; `None` for a stream.
    pub(crate) fn form(
        &self,
        source: &Source,
        changes: Option<GivenChanges>,
        snapshots: &[Snapshot],
    ) -> Result<Option<BlockForm>> {
        if self.device_form == DeviceForm::Stream {
            return Ok(None);
        }
        let claim = source.path.split_once(OF_VELERO).map_or(source.path.as_str(), |(_, claim)| claim);
        let changes = match changes {
            Some(GivenChanges { since, ranges }) => {
                Some(BlockChanges { parent: choose_since(&since, source, snapshots)?, ranges })
            }
            None => None,
        };
        Ok(Some(BlockForm { changes, ..BlockForm::of(claim) }))
    }
}

/// The ID of a snapshot of the source. Blocks of another device would make a device that never was.
fn choose_since(text: &str, source: &Source, snapshots: &[Snapshot]) -> Result<String> {
    let is_of_it = |one: &&Snapshot| one.document.as_ref().is_ok_and(|document| document.source == *source);
    let of_it: Vec<Snapshot> = snapshots.iter().filter(is_of_it).cloned().collect();
    let Source { user, host, path } = source;
    let snapshot = choose(&of_it, text)
        .with_context(|| format!("--since {text}: look for it among the snapshots of {user}@{host}:{path}"))?;
    Ok(snapshot.id.clone())
}

fn read_ranges(file: &Path) -> Result<Vec<Range<u64>>> {
    let mut text = Vec::new();
    File::open(file)?.take(MAX_CHANGED + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_CHANGED {
        bail!("it has more than {MAX_CHANGED} bytes: read the whole device instead");
    }
    BlockChanges::read_ranges(&text).map_err(|why| anyhow!("{FORM_OF_RANGES}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        /// Read everything
        #[arg(long)]
        full: bool,
        #[command(flatten)]
        blocks: BlockArgs,
    }

    fn parsed(line: &[&str]) -> Result<BlockArgs, String> {
        let line = Line::try_parse_from([&["snapshot"], line].concat()).map_err(|e| e.to_string())?;
        assert!(!line.full || line.blocks.since.is_none());
        Ok(line.blocks)
    }

    fn source(path: &str) -> Source {
        Source { host: "h".to_owned(), user: "u".to_owned(), path: path.to_owned() }
    }

    #[test]
    fn a_device_is_called_like_its_path_or_like_the_claim_of_velero() {
        let name = |path: &str| {
            let args = parsed(&["--device-form", "blocks"]).unwrap();
            args.form(&source(path), None, &[]).unwrap().unwrap()
        };
        assert_eq!(name("/dev/vg/data"), BlockForm::of("dev-vg-data"));
        assert_eq!(name("snapshot-data-upload-download/velero-block/shop/data"), BlockForm::of("shop/data"));
        assert_eq!(parsed(&[]).unwrap().form(&source("/x"), None, &[]).unwrap(), None);
    }

    #[test]
    fn changed_ranges_are_those_that_storages_print() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("changed");
        let given = file.to_str().unwrap();
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let args = parsed(&["--device-form", "blocks", "--since", "abcd", "--changed", given]).unwrap();
            args.changes().map(|changes| changes.unwrap().ranges).map_err(|e| format!("{e:#}"))
        };
        let of_rbd = r#"[{"offset":4194304,"length":8192,"exists":"true"},{"offset":0,"length":1,"exists":"false"}]"#;
        assert_eq!(read(of_rbd), Ok(vec![4_194_304..4_202_496, 0..1]));
        assert_eq!(read("[]"), Ok(Vec::new()));
        for (text, why) in [
            ("{}", "it has to be a list such as [{\"offset\": 0, \"length\": 4096}], with numbers of bytes"),
            (r#"[{"offset":-1,"length":1}]"#, "with numbers of bytes: invalid value: integer `-1`, expected u64"),
            (r#"[{"offset":1}]"#, "with numbers of bytes: missing field `length`"),
            (r#"[{"offset":"1","length":1}]"#, "with numbers of bytes: invalid type: string \"1\", expected u64"),
            (
                r#"[{"offset":1,"length":18446744073709551615}]"#,
                "18446744073709551615 bytes at 1 end beyond all devices",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why) && error.contains(given), "{error}");
        }
    }

    #[test]
    fn changes_need_the_form_of_blocks_and_both_of_their_flags() {
        for line in [&["--since", "latest"][..], &["--changed", "x"], &["--since", "x", "--changed", "x", "--full"]] {
            assert!(parsed(line).is_err(), "{line:?}");
        }
        let error = parsed(&["--since", "latest", "--changed", "x"]).unwrap().changes().unwrap_err().to_string();
        assert_eq!(error, "--since and --changed are for devices that are saved as blocks: add --device-form blocks");
        let args = parsed(&["--device-form", "blocks", "--since", "latest", "--changed", "x"]).unwrap();
        let changes = GivenChanges { since: "latest".to_owned(), ranges: Vec::new() };
        let error = format!("{:#}", args.form(&source("/x"), Some(changes), &[]).unwrap_err());
        assert!(error.contains("--since latest: look for it among the snapshots of u@h:/x: "), "{error}");
    }
}
