//! Checks a storage location (api-and-controllers.md 5.1).

use super::{Context, Effect, Finished};
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationPhase, Time};
use lifeboat_archive::layout::TOP_LEVEL;
use lifeboat_bucket::{Entry, ListOptions};

/// Looks into the bucket and notes whether it can be used. Nothing is written into it.
pub(crate) async fn validate(context: &Context, location: BackupStorageLocation) -> Finished {
    let found = look(context, &location).await;
    let mut after = location.clone();
    after.status.last_validation_time = Some(Time::new(context.env.now()));
    (after.status.phase, after.status.message) = match found {
        Ok(()) => (Some(BackupStorageLocationPhase::Available), String::new()),
        Err(why) => {
            let message = format!("BackupStorageLocation \"{}\" is unavailable: {why}", location.metadata.name);
            tracing::warn!("{message}");
            (Some(BackupStorageLocationPhase::Unavailable), message)
        }
    };
    let stored = context.client.change(&location, &after).await?;
    Ok(vec![Effect::Location(Box::new(stored))])
}

/// Marks a location as the default, or takes the mark off.
pub(crate) async fn mark(context: &Context, location: BackupStorageLocation, default: bool) -> Finished {
    let mut after = location.clone();
    after.spec.default = default;
    let stored = context.client.change(&location, &after).await?;
    Ok(vec![Effect::Location(Box::new(stored))])
}

async fn look(context: &Context, location: &BackupStorageLocation) -> Result<(), String> {
    let bucket = context.bucket(location).await?;
    let mut strange = Vec::new();
    let mut options = ListOptions { delimiter: Some("/".to_owned()), ..ListOptions::default() };
    loop {
        let page = bucket.list(options.clone()).await.map_err(|e| e.to_string())?;
        strange.extend(page.entries.into_iter().filter_map(|entry| match entry {
            Entry::Prefix(prefix) => Some(prefix.trim_end_matches('/').to_owned()),
            Entry::Object(_) => None,
        }));
        strange.retain(|name| !TOP_LEVEL.contains(&name.as_str()));
        match page.continuation {
            Some(_) if strange.len() > LISTED => break,
            None => break,
            next => options.continuation = next,
        }
    }
    match unexpected(&strange) {
        None => Ok(()),
        Some(message) => Err(message),
    }
}

/// Names that a message lists.
const LISTED: usize = 3;

fn unexpected(strange: &[String]) -> Option<String> {
    let count = strange.len();
    let names = strange.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(" ");
    match count {
        0 => None,
        _ if count <= LISTED => Some(format!("Backup store contains invalid top-level directories: [{names}]")),
        _ => Some(format!("Backup store contains {count} invalid top-level directories: [{names} ...]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_others_are_named() {
        let names = |n: usize| (0..n).map(|n| format!("d{n}")).collect::<Vec<_>>();
        assert_eq!(unexpected(&[]), None);
        assert_eq!(
            unexpected(&names(2)).as_deref(),
            Some("Backup store contains invalid top-level directories: [d0 d1]")
        );
        assert_eq!(
            unexpected(&names(5)).as_deref(),
            Some("Backup store contains 5 invalid top-level directories: [d0 d1 d2 ...]")
        );
    }
}
