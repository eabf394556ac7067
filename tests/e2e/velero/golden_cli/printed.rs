//! Output without what is new in each run.

/// The golden files have of a wrong command line only the first message: the usage that follows was cut out.
pub(super) fn without_usage(printed: &str) -> String {
    match printed.rsplit_once("An error occurred: ") {
        Some((before, message)) if before.starts_with("Error: ") && before.contains("\nFor more information, try ") => {
            assert!(before.starts_with(&format!("Error: {message}")), "the message stands at both ends: {printed}");
            format!("Error: {message}")
        }
        _ => printed.to_owned(),
    }
}

/// With `{cluster}` for the URL and the context that a question names.
pub(super) fn without_cluster(text: &str) -> String {
    let found = text.split_once(" of cluster ").and_then(|(before, rest)| Some((before, rest.split_once("): ")?.1)));
    found.map_or_else(|| text.to_owned(), |(before, after)| format!("{before} of cluster {{cluster}}: {after}"))
}

/// With `{now}` for times that have come since then, as tables have them.
pub(super) fn with_now(text: &str, since: jiff::Timestamp) -> String {
    let mut out = text.to_owned();
    let zone = " +0000 UTC";
    for (at, _) in text.match_indices(zone) {
        let Some(clock) = at.checked_sub("2026-11-21 08:36:30".len()).and_then(|start| text.get(start..at)) else {
            continue;
        };
        let time: Option<jiff::Timestamp> = format!("{}Z", clock.replace(' ', "T")).parse().ok();
        // Objects have whole seconds.
        if time.is_some_and(|time| time.as_second() >= since.as_second()) {
            out = out.replace(&format!("{clock}{zone}"), "{now}");
        }
    }
    out
}

/// With `…` for the values that an API server gives to the metadata of an object.
pub(super) fn of_the_cluster(printed: &str) -> String {
    let keys = ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"];
    let (mut out, mut in_metadata, mut in_value) = (String::new(), false, false);
    for line in printed.split_inclusive('\n') {
        if !line.starts_with(' ') {
            (in_metadata, in_value) = (line == "metadata:\n", false);
        }
        in_value &= line.starts_with("   ") || line.starts_with("  - ");
        if in_value {
            continue;
        }
        let key = line.strip_prefix("  ").and_then(|rest| keys.iter().find(|key| rest.starts_with(&format!("{key}:"))));
        match key.filter(|_| in_metadata && !line.ends_with(" null\n")) {
            Some(key) => {
                out.push_str(&format!("  {key}: …\n"));
                in_value = true;
            }
            None => out.push_str(line),
        }
    }
    out
}
