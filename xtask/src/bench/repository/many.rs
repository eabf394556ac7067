//! Six million files, a million after the other into one repository: does the last one take longer than the first?

use super::ground::{Ground, remove};
use crate::bench::compared::data::{Average, SmallFiles};
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Cost, Costs, Side};
use anyhow::Result;

const PARTS: usize = 6;
const FILES: u64 = 1_000_000;
const BYTES: usize = 2000;

pub(super) fn run(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let (repository, files) = (ground.fresh("many")?, ground.scaled(FILES));
    ground.run_lifeboat(&repository, &["create"])?;
    let mut small = SmallFiles::new()?;
    let (mut costs, mut rates) = (Costs::default(), Vec::new());
    let mut all = Cost::default();
    for _ in 0..PARTS {
        // Each is under a path of its own, so that all of it is new.
        let source = ground.path(&format!("part{}", rates.len()));
        small.make(&source, files, Average::Bytes(BYTES))?;
        ground.settle()?;
        let args = ["snapshot".as_ref(), source.as_os_str()];
        let cost = Cost::of(&ground.lifeboat(&repository.to_string_lossy(), &args))?.0;
        rates.push(files as f64 / cost.wall);
        all = all.and(cost);
        remove(&source)?;
    }
    costs.add(Side::Lifeboat, all);
    remove(&repository)?;
    let (first, last) = (rates[0], rates[PARTS - 1]);
    let listed: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    let total = files * PARTS as u64;
    let row = MeasuredRow::new("snapshot-many-long", total * BYTES as u64, costs).within(256.0);
    let row = row.bounded("seconds for 10,000 files", 10_000.0 / (total as f64 / all.wall), 1.0).bounded(
        "files/s of the first part / the last",
        first / last,
        1.15,
    );
    Ok(vec![row.note(format!("files/s of each part: {}", listed.join(" ")))])
}
