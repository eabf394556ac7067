//! An object of the preview of a restore, as text.

use lifeboat_object::printable;
use lifeboat_restore::{Modification, Planned, PreviewItem};
use lifeboat_terminal::output::difference::difference_lines;

/// Indentation of the lines below the line of an object.
const INDENT: usize = 12;

/// Returns true if there is more to say about an object than the counts of its type do.
pub(super) fn says_more(item: &PreviewItem) -> bool {
    let is_counted = matches!(item.planned, Planned::Create | Planned::Unchanged);
    let says = [&item.unasked, &item.errors, &item.warnings].iter().any(|said| !said.is_empty());
    !is_counted || says || item.waits.is_some() || !item.modifications.is_empty()
}

/// Formats the object as a line, its differences as a line each, and further messages.
pub fn item_text(item: &PreviewItem, colours: bool) -> String {
    let mut out = format!("{:<9} {}", item.planned.word(), item.key);
    match &item.planned {
        Planned::Skip(reason) | Planned::Refused(reason) => out.push_str(&format!(": {reason}")),
        Planned::Conflict(_) => out.push_str(": it is there, differs, and stays as it is"),
        // What is never removed has a warning that says so.
        Planned::Extra if item.warnings.is_empty() => {
            out.push_str(": the backup lacks it, and it stays: --prune removes it");
        }
        Planned::Extra => out.push_str(": the backup lacks it, and it stays"),
        Planned::Remove => out.push_str(": the backup lacks it, and it would be deleted"),
        _ => {}
    }
    if let Some(waits) = &item.waits {
        out.push_str(&format!(": waits {waits}"));
    }
    if !item.unasked.is_empty() {
        out.push_str(&format!(" (as far as known: {} decide when it is restored)", item.unasked.join(", ")));
    }
    out = printable(out);
    out.push('\n');
    for (word, said) in [("error", &item.errors), ("warning", &item.warnings)] {
        out.extend(said.iter().map(|text| format!("{:INDENT$}{word}: {}\n", "", printable(text))));
    }
    for Modification { rule, differences } in &item.modifications {
        out.push_str(&format!("          modified by rule {rule}:\n"));
        out.push_str(&difference_lines(differences, INDENT, colours));
    }
    if let Some(differences) = item.planned.differences() {
        if !item.modifications.is_empty() {
            out.push_str("          in the cluster:\n");
        }
        out.push_str(&difference_lines(differences, INDENT, colours));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::{GroupResource, ObjectKey};
    use lifeboat_patch::Difference;
    use serde_json::json;

    #[test]
    fn only_objects_with_more_to_say_have_a_line() {
        let key = || ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), "settings");
        let item = |planned| PreviewItem::of(key(), planned);
        for (planned, expected) in [
            (Planned::Create, false),
            (Planned::Unchanged, false),
            (Planned::Update(Vec::new()), true),
            (Planned::Recreate(Vec::new()), true),
            (Planned::Conflict(Vec::new()), true),
            (Planned::Skip(String::new()), true),
            (Planned::Refused(String::new()), true),
        ] {
            assert_eq!(says_more(&item(planned.clone())), expected, "{planned:?}");
        }
        for with_more in [
            PreviewItem { waits: Some("a".into()), ..item(Planned::Create) },
            PreviewItem { unasked: vec!["a".into()], ..item(Planned::Create) },
            PreviewItem { errors: vec!["a".into()], ..item(Planned::Create) },
            PreviewItem { warnings: vec!["a".into()], ..item(Planned::Create) },
        ] {
            assert!(says_more(&with_more), "{with_more:?}");
        }
    }

    #[test]
    fn one_line_for_each_object_and_one_for_each_difference() {
        let key = || ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), "settings");
        let item = |planned| PreviewItem::of(key(), planned);
        let differences = vec![
            Difference { path: "/data/a".into(), left: Some(json!("x".repeat(200))), right: Some(json!("1")) },
            Difference { path: "/data/b".into(), left: None, right: Some(json!("2")) },
        ];
        let cut = "x".repeat(99);
        for (planned, expected) in [
            (Planned::Create, "create    configmaps/shop/settings\n".to_owned()),
            (
                Planned::Conflict(differences),
                format!(
                    "conflict  configmaps/shop/settings: it is there, differs, and stays as it is\n            /data/a: \"{cut}… (202 bytes) -> \"1\"\n            /data/b: (absent) -> \"2\"\n"
                ),
            ),
            (Planned::Skip("why".into()), "skip      configmaps/shop/settings: why\n".to_owned()),
            (
                Planned::Extra,
                "extra     configmaps/shop/settings: the backup lacks it, and it stays: --prune removes it\n"
                    .to_owned(),
            ),
        ] {
            assert_eq!(item_text(&item(planned), false), expected);
        }
        let waits = "until the one in the cluster is gone, which is being deleted".to_owned();
        assert_eq!(
            item_text(&PreviewItem { waits: Some(waits.clone()), ..item(Planned::Create) }, false),
            format!("create    configmaps/shop/settings: waits {waits}\n")
        );
        let never = "it is not removed: why".to_owned();
        assert_eq!(
            item_text(&PreviewItem { warnings: vec![never.clone()], ..item(Planned::Extra) }, false),
            format!(
                "extra     configmaps/shop/settings: the backup lacks it, and it stays\n            warning: {never}\n"
            )
        );
        let changed = Difference { path: "/data/c".into(), left: Some(json!("3")), right: None };
        let modified = PreviewItem {
            modifications: vec![Modification { rule: 2, differences: vec![changed] }],
            errors: vec!["rule 3: why".into()],
            warnings: vec!["rule 4: otherwise".into()],
            ..item(Planned::Create)
        };
        assert!(says_more(&modified));
        assert_eq!(
            item_text(&modified, false),
            "create    configmaps/shop/settings\n            error: rule 3: why\n            warning: rule 4: otherwise\n          modified by rule 2:\n            /data/c: \"3\" -> (absent)\n"
        );
        assert_eq!(
            modified.to_json(),
            json!({"action": "create", "type": "configmaps", "namespace": "shop", "name": "settings", "errors": ["rule 3: why"], "warnings": ["rule 4: otherwise"],
                "modifications": [{"rule": 2, "differences": [{"path": "/data/c", "before": "3"}]}]})
        );
        let unasked = PreviewItem { unasked: vec!["example.com/x".into()], ..item(Planned::Unchanged) };
        assert_eq!(
            item_text(&unasked, false),
            "unchanged configmaps/shop/settings (as far as known: example.com/x decide when it is restored)\n"
        );
        assert_eq!(
            unasked.to_json(),
            json!({"action": "unchanged", "type": "configmaps", "namespace": "shop", "name": "settings", "decidedWhenRestored": ["example.com/x"]})
        );
    }
}
