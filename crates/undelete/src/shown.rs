//! The plan of an undelete, as it is shown before it is carried out.

use super::job::UndeletePlan;
use anyhow::Result;
use lifeboat_object::{ObjectKey, first_names, printable};
use lifeboat_restore::PreviewItem;
use lifeboat_view::preview::{item_text, write_volumes};
use serde_json::{Value, json};
use std::io::Write;

/// A plan, with the options of its output.
pub(super) struct ShownPlan<'a> {
    /// The name of the backup that the object is taken from.
    pub(super) backup: &'a str,
    /// The same backup for people.
    pub(super) what: &'a str,
    pub(super) plan: &'a UndeletePlan,
    /// True when the objects that it owned were looked for.
    pub(super) with_owned: bool,
    /// True when the values of Secrets are shown.
    pub(super) secrets: bool,
}

impl ShownPlan<'_> {
    fn items(&self) -> impl Iterator<Item = PreviewItem> {
        self.plan.items.iter().cloned().map(|mut item| {
            if !self.secrets {
                item.hide_secret_values();
            }
            item
        })
    }

    /// As one document.
    pub(super) fn document(&self) -> Value {
        let UndeletePlan { end, asked, .. } = self.plan;
        let items: Vec<Value> = self.items().map(|item| item.to_json()).collect();
        let needed: Vec<Value> = self.plan.along().into_iter().map(ObjectKey::to_json).collect();
        let mut document = json!({"backup": self.backup, "object": asked.to_json(), "items": items, "needed": needed});
        let end = end.to_json();
        document["volumes"] = end["volumes"].clone();
        document["results"] = end["results"].clone();
        document
    }

    /// As text.
    ///
    /// # Errors
    /// When nothing can be written.
    pub(super) fn write_text(&self, out: &mut impl Write, colours: bool) -> Result<()> {
        let UndeletePlan { end, asked, selection, .. } = self.plan;
        let owned = match selection.count() {
            1 if self.with_owned => ", which owned nothing".to_owned(),
            1 => String::new(),
            2 => ", with 1 object that it owned".to_owned(),
            count => format!(", with {} objects that it owned", count - 1),
        };
        writeln!(out, "{}", printable(format!("{asked} is in {}{owned}.", self.what)))?;
        for item in self.items() {
            write!(out, "{}", item_text(&item, colours))?;
        }
        let along: Vec<String> = self.plan.along().iter().map(ToString::to_string).collect();
        if !along.is_empty() {
            let needed = format!("Needed by these, and left as they are where they exist: {}", first_names(&along));
            writeln!(out, "{}", printable(needed))?;
        }
        write_volumes(out, end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::selection::Selection;
    use super::*;
    use lifeboat_archive::volume_info::RestoreVolumeInfo;
    use lifeboat_object::{GroupResource, Results};
    use lifeboat_restore::{Planned, PreviewEnd};
    use std::collections::BTreeMap;

    #[test]
    fn who_names_an_object_makes_no_lines() {
        let key = |resource: &str, name: &str| ObjectKey::new(GroupResource::new("", resource), Some("shop"), name);
        let pod = key("pods", "a\ncreate    secrets/shop/b");
        let [one, two] = ["c\u{1b}[2J", "d\re"].map(|name| key("persistentvolumeclaims", name));
        let mut selection = Selection::of([pod.clone(), key("pods", "f\u{9b}g")].into());
        selection.add([&one, &two]);
        let item = |key: &ObjectKey, planned: Planned| PreviewItem::of(key.clone(), planned);
        let items = vec![
            item(&one, Planned::Create),
            item(&two, Planned::Unchanged),
            item(&pod, Planned::Skip("h\ni".to_owned())),
            item(&key("pods", "f\u{9b}g"), Planned::Create),
        ];
        let volume = RestoreVolumeInfo {
            pvc_namespace: "shop".to_owned(),
            pvc_name: one.name.to_string(),
            message: "j\nk".to_owned(),
            ..RestoreVolumeInfo::default()
        };
        let end = PreviewEnd { left_out: BTreeMap::new(), volumes: vec![volume], results: Results::default() };
        let plan = UndeletePlan { items, end, selection, asked: pod, digest: String::new() };
        let mut out = Vec::new();
        let shown =
            ShownPlan { backup: "l\nm", what: "the backup l\nm", plan: &plan, with_owned: true, secrets: false };
        shown.write_text(&mut out, false).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap().lines().collect::<Vec<_>>(),
            [
                r"pods/shop/a\ncreate    secrets/shop/b is in the backup l\nm, with 1 object that it owned.",
                r"create    persistentvolumeclaims/shop/c\u{1b}[2J",
                r"unchanged persistentvolumeclaims/shop/d\re",
                r"skip      pods/shop/a\ncreate    secrets/shop/b: h\ni",
                r"create    pods/shop/f\u{9b}g",
                r"Needed by these, and left as they are where they exist: persistentvolumeclaims/shop/c\u{1b}[2J, persistentvolumeclaims/shop/d\re",
                "",
                "Volumes:",
                r"  shop/c\u{1b}[2J: j\nk",
            ]
        );
    }
}
