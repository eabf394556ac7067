//! Which snapshot locations a backup uses (velero: pkg/controller/backup_controller.go).

use lifeboat_api::VolumeSnapshotLocation;
use std::collections::BTreeMap;

/// The names of one location for each provider: those that the backup names, and for every other provider the only one
/// or the default.
///
/// # Errors
/// Everything that is wrong, in Velero's words.
pub fn resolve(
    named: &[String],
    locations: &[VolumeSnapshotLocation],
    defaults: &BTreeMap<String, String>,
) -> Result<Vec<String>, Vec<String>> {
    let mut chosen: BTreeMap<&str, &str> = BTreeMap::new();
    let mut errors = Vec::new();
    for name in named {
        let Some(location) = locations.iter().find(|location| location.metadata.name == *name) else {
            errors.push(format!(
                "a VolumeSnapshotLocation CRD for the location {name} with the name specified in the backup spec needs to be created before this snapshot can be executed. Error: volumesnapshotlocations.velero.io \"{name}\" not found"
            ));
            continue;
        };
        let provider = location.spec.provider.as_str();
        let first = *chosen.entry(provider).or_insert(name);
        if first != name {
            errors.push(format!(
                "more than one VolumeSnapshotLocation name specified for provider {provider}: {name}; unexpected name was {first}"
            ));
        }
    }
    let mut of_provider: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for location in locations {
        of_provider.entry(&location.spec.provider).or_default().push(&location.metadata.name);
    }
    for (provider, names) in of_provider {
        if chosen.contains_key(provider) {
            continue;
        }
        match (names.as_slice(), defaults.get(provider)) {
            ([only], _) => drop(chosen.insert(provider, only)),
            (_, Some(default)) => drop(chosen.insert(provider, default)),
            _ => errors.push(format!(
                "provider {provider} has more than one possible volume snapshot location, and none were specified explicitly or as a default"
            )),
        }
    }
    if errors.is_empty() { Ok(chosen.into_values().map(str::to_owned).collect()) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_for_each_provider() {
        let location = |(name, provider): (&str, &str)| {
            let mut location = VolumeSnapshotLocation::default();
            location.metadata.name = name.into();
            location.spec.provider = provider.into();
            location
        };
        let missing = "a VolumeSnapshotLocation CRD for the location x with the name specified in the backup spec needs to be created before this snapshot can be executed. Error: volumesnapshotlocations.velero.io \"x\" not found";
        let two = "more than one VolumeSnapshotLocation name specified for provider aws: b; unexpected name was a";
        let open = "provider aws has more than one possible volume snapshot location, and none were specified explicitly or as a default";
        type Pairs<'a> = &'a [(&'a str, &'a str)];
        type Case<'a> = (&'a [&'a str], Pairs<'a>, Pairs<'a>, Result<Vec<&'a str>, Vec<&'a str>>);
        let cases: [Case<'_>; 9] = [
            (&[], &[], &[], Ok(vec![])),
            (&[], &[("a", "aws")], &[], Ok(vec!["a"])),
            (&["a"], &[("a", "aws"), ("b", "aws"), ("g", "gcp")], &[], Ok(vec!["a", "g"])),
            (&["b", "b"], &[("a", "aws"), ("b", "aws")], &[], Ok(vec!["b"])),
            (&["a", "b"], &[("a", "aws"), ("b", "aws")], &[], Err(vec![two])),
            (&["x"], &[], &[], Err(vec![missing])),
            (&[], &[("a", "aws"), ("b", "aws")], &[], Err(vec![open])),
            (&[], &[("a", "aws"), ("b", "aws")], &[("aws", "b")], Ok(vec!["b"])),
            (&["x"], &[("a", "aws"), ("b", "aws")], &[], Err(vec![missing, open])),
        ];
        for (named, locations, defaults, expected) in cases {
            let names: Vec<String> = named.iter().map(|n| (*n).to_owned()).collect();
            let locations: Vec<_> = locations.iter().copied().map(location).collect();
            let defaults = defaults.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let own = |texts: Vec<&str>| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
            assert_eq!(resolve(&names, &locations, &defaults), expected.map(own).map_err(own), "{named:?}");
        }
    }
}
