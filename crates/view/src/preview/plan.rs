//! The plan of a restore as a file, to be compared with a later one (docs/formats/plan.md).

use anyhow::{Context, Result};
use lifeboat_object::printable;
use lifeboat_restore::{PlanChange, PlanDigest, PlanFile, PlanLine, PlanWord, PreviewItem};
use lifeboat_terminal::flags::dry_run::PlanFiles;
use serde_json::{Value, json};
use std::io::Write;

/// The plan on its way.
#[derive(Default)]
pub(super) struct KeptPlan {
    digest: PlanDigest,
    files: PlanFiles,
    before: Option<PlanFile>,
    /// The digest of the plan that the restore is pinned to; empty when to none.
    pinned: String,
    /// Kept only where a file needs them.
    lines: Vec<PlanLine>,
}

/// A plan that is complete.
pub(super) struct EndedPlan {
    pub(super) digest: String,
    /// The digest of the plan that it is compared with, and what differs.
    compared: Option<(String, Vec<PlanChange>)>,
    /// The digest of the plan that the restore is pinned to; empty when to none.
    pinned: String,
}

impl KeptPlan {
    /// Begins, and reads the plan to compare with. `pinned` is the digest of the plan that the restore is pinned to.
    pub(super) fn new(files: &PlanFiles, pinned: &str) -> Result<Self> {
        let before = match &files.compare {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
                let plan = PlanFile::parse(&text);
                Some(plan.with_context(|| format!("{} is no plan that --save has written", path.display()))?)
            }
        };
        let (files, pinned) = (files.clone(), pinned.to_owned());
        Ok(Self { digest: PlanDigest::default(), files, before, pinned, lines: Vec::new() })
    }

    pub(super) fn add(&mut self, item: &PreviewItem) {
        let line = PlanLine::of(item);
        self.digest.add(&line);
        if self.files.is_some() {
            self.lines.push(line);
        }
    }

    /// Writes the file, and compares.
    pub(super) fn end(self) -> Result<EndedPlan> {
        let plan = PlanFile { digest: self.digest.end(), restore_uid: String::new(), lines: self.lines };
        if let Some(path) = &self.files.save {
            std::fs::write(path, plan.text()).with_context(|| format!("write {}", path.display()))?;
        }
        let compared = self.before.map(|before| (before.digest.clone(), before.changes(&plan)));
        Ok(EndedPlan { digest: plan.digest, compared, pinned: self.pinned })
    }
}

impl EndedPlan {
    /// Returns true if the plan is the same as the plan of the file that it is compared with, and as the one that the
    /// restore is pinned to, where there are any.
    pub(super) fn is_same(&self) -> bool {
        self.compared.as_ref().is_none_or(|(before, _)| *before == self.digest) && self.is_as_pinned()
    }

    fn is_as_pinned(&self) -> bool {
        self.pinned.is_empty() || self.pinned == self.digest
    }

    /// Returns true if it is compared with another one.
    pub(super) fn is_compared(&self) -> bool {
        self.compared.is_some() || !self.pinned.is_empty()
    }

    /// The plan that the restore is pinned to, and whether it is this one, as a value; `None` when it is pinned to none.
    pub(super) fn pinned_value(&self) -> Option<Value> {
        (!self.pinned.is_empty()).then(|| json!({"planDigest": self.pinned, "isSame": self.is_as_pinned()}))
    }

    /// Returns the differences as a value; `None` when it is not compared.
    pub(super) fn value(&self) -> Option<Value> {
        let (digest, changes) = self.compared.as_ref()?;
        let change = |change: &PlanChange| {
            let [before, now] = [change.before, change.now].map(|word| word.map(PlanWord::as_str));
            json!({"object": change.object, "before": before, "now": now})
        };
        Some(json!({"planDigest": digest, "changes": changes.iter().map(change).collect::<Vec<_>>()}))
    }

    /// The digest, and what differs.
    pub(super) fn write_text(&self, out: &mut impl Write) -> Result<()> {
        writeln!(out, "Plan: {}", self.digest)?;
        if !self.is_as_pinned() {
            writeln!(
                out,
                "It is another plan than that of --plan-digest, {}: a restore of that one would fail.",
                self.pinned
            )?;
        } else if !self.pinned.is_empty() {
            writeln!(out, "It is the plan of --plan-digest.")?;
        }
        let Some((before, changes)) = &self.compared else { return Ok(()) };
        if *before == self.digest {
            writeln!(out, "It is the same plan as before.")?;
            return Ok(());
        }
        writeln!(out, "It is another plan than {before}:")?;
        for PlanChange { object, before, now } in changes {
            let [before, now] = [before, now].map(|word| word.map_or("(absent)", PlanWord::as_str));
            let object = printable(object);
            match before == now {
                true => writeln!(out, "  {object}: {now}, but the object or what it becomes is another one")?,
                false => writeln!(out, "  {object}: {before} -> {now}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::{GroupResource, ObjectKey};
    use lifeboat_restore::Planned;

    #[test]
    fn a_plan_says_whether_it_is_the_one_that_the_restore_is_pinned_to() {
        let ended = |pinned: &str| {
            let mut plan = KeptPlan::new(&PlanFiles::default(), pinned).unwrap();
            plan.add(&PreviewItem::of(
                ObjectKey::new(GroupResource::new("", "secrets"), Some("n"), "a"),
                Planned::Create,
            ));
            plan.end().unwrap()
        };
        let digest = ended("").digest;
        let first = format!("Plan: {digest}\n");
        let other = "It is another plan than that of --plan-digest, sha256:0: a restore of that one would fail.\n";
        for (pinned, is_same, said) in
            [("", true, ""), (&*digest, true, "It is the plan of --plan-digest.\n"), ("sha256:0", false, other)]
        {
            let (plan, mut text) = (ended(pinned), Vec::new());
            plan.write_text(&mut text).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), format!("{first}{said}"));
            let value = (!pinned.is_empty()).then(|| json!({"planDigest": pinned, "isSame": is_same}));
            assert_eq!((plan.is_same(), plan.pinned_value()), (is_same, value), "{pinned}");
        }
    }
}
