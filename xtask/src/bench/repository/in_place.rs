//! A restore over a file of which a hundredth has changed.

use super::ground::{Ground, SourceData, remove};
use crate::bench::compared::cache::Cache;
use crate::bench::compared::data::change;
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Cost, Costs, Side};
use anyhow::{Context, Result};

pub(super) fn run(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let (repository, bytes) = (ground.repository(SourceData::File)?, ground.bytes(SourceData::File));
    let target = ground.fresh("restored")?;
    let location = repository.to_string_lossy();
    let command = || {
        let args = ["restore".as_ref(), "latest".as_ref(), target.as_os_str(), "--output=json".as_ref()];
        ground.lifeboat(&location, &args)
    };
    Cost::of(&command())?;
    let mut fetched = 0;
    let costs = Costs::in_turn(ground.rounds, &[Side::Lifeboat], |_| {
        change(&target.join("data"), 0.01)?;
        Cache::Warm.prepare(&target)?;
        Cache::Cold.prepare(&repository)?;
        let (cost, printed) = Cost::of(&command())?;
        let printed: serde_json::Value = serde_json::from_str(&printed).context("what lifeboat prints")?;
        fetched = fetched.max(printed["bytesFetched"].as_u64().context("bytesFetched")?);
        Ok(cost)
    })?;
    remove(&target)?;
    let percent = fetched as f64 / bytes as f64 * 100.0;
    Ok(vec![MeasuredRow::new("restore-in-place", bytes, costs).bounded("bytes fetched, percent", percent, 3.0)])
}
