//! Brings what an engine has changed into an object that others may have changed meanwhile.

use lifeboat_patch::{merge, merge_diff};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Changes in `now` what was changed from `given` to `made`, and nothing else.
pub(super) fn take_changes<T: Serialize + DeserializeOwned>(now: &mut T, given: &T, made: &T) {
    let changed = || {
        let patch = merge_diff(&serde_json::to_value(given).ok()?, &serde_json::to_value(made).ok()?)?;
        let mut all = serde_json::to_value(&*now).ok()?;
        merge(&mut all, &patch);
        serde_json::from_value(all).ok()
    };
    if let Some(changed) = changed() {
        *now = changed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{BackupSpec, Duration};

    #[test]
    fn what_a_user_changes_meanwhile_stays() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let given = BackupSpec {
            ttl: Duration::from_secs(60),
            excluded_namespaces: names(&["a"]),
            storage_location: "here".into(),
            ..BackupSpec::default()
        };
        let made = BackupSpec { excluded_namespaces: names(&["a", "private"]), ..given.clone() };
        let mut now = BackupSpec { ttl: Duration::from_secs(9), cancel: true, ..given.clone() };
        take_changes(&mut now, &given, &made);
        let expected = BackupSpec { ttl: Duration::from_secs(9), cancel: true, ..made.clone() };
        assert_eq!(now, expected);
        take_changes(&mut now, &given, &given);
        assert_eq!(now, expected, "nothing was changed");
    }
}
