//! Next step of an undelete, once its plan is known. Pure.

use super::job::{PlanEffect, UndeletePlan};
use super::report::some;
use lifeboat_api::ExistingResourcePolicy;
use lifeboat_object::first_names;

/// Most reasons that are named; the others are only counted.
const NAMED: usize = 10;

/// The step after the plan has been shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing is restored, for this reason.
    Refuse(String),
    /// The plan was all that was asked for.
    End {
        /// True when something of it would come back, or all is there, and nothing is refused.
        is_well: bool,
    },
    /// All is there as in the backup.
    NothingToDo,
    /// The user is asked, and it is restored.
    Restore,
}

impl UndeletePlan {
    /// Decides about the next step. `goes_on` is true when such an undelete was cut off: it perhaps has something left
    /// to do with objects that are there.
    pub(super) fn next(&self, policy: &ExistingResourcePolicy, is_dry_run: bool, goes_on: bool) -> Next {
        let changed: Vec<String> = self.changed_along(policy).iter().map(ToString::to_string).collect();
        if !changed.is_empty() {
            return Next::Refuse(format!(
                "nothing was restored, because what others need would be changed too, being of a type of what was asked for: {}. Undelete \
                 it by itself first, or leave it as it is with --existing-resource-policy none",
                first_names(&changed)
            ));
        }
        match self.outlook() {
            outlook if is_dry_run => Next::End { is_well: self.is_well() && outlook != PlanEffect::Nothing },
            PlanEffect::Writes => Next::Restore,
            PlanEffect::IsThere if goes_on => Next::Restore,
            PlanEffect::IsThere => Next::NothingToDo,
            PlanEffect::Nothing => {
                let why = some(&self.reasons(), NAMED, "; ");
                Next::Refuse(format!("nothing would come back of {}: {why}", self.asked))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::selection::Selection;
    use super::*;
    use lifeboat_object::{GroupResource, ObjectKey, ResultScope, Results};
    use lifeboat_restore::{Planned, PreviewEnd, PreviewItem};
    use std::collections::BTreeMap;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name)
    }

    /// The plan for `a`, which needs `along`.
    fn plan(planned: Planned, along: Planned, errors: &[&str]) -> UndeletePlan {
        let mut selection = Selection::of([key("a")].into());
        selection.add([&key("along")]);
        let mut results = Results::default();
        errors.iter().for_each(|why| results.errors.add(&ResultScope::Velero, *why));
        let items = vec![PreviewItem::of(key("along"), along), PreviewItem::of(key("a"), planned)];
        let end = PreviewEnd { left_out: BTreeMap::new(), volumes: Vec::new(), results };
        UndeletePlan { items, end, selection, asked: key("a"), digest: String::new() }
    }

    #[test]
    fn what_is_done_goes_by_what_the_plan_comes_to() {
        let (update, none) = (ExistingResourcePolicy::Update, ExistingResourcePolicy::None);
        let nothing = || {
            let why = "nothing would come back of configmaps/shop/a: configmaps/shop/a: it has ended";
            Next::Refuse(why.to_owned())
        };
        let changed = Next::Refuse(
            "nothing was restored, because what others need would be changed too, being of a type of what was asked for: \
             configmaps/shop/along. Undelete it by itself first, or leave it as it is with --existing-resource-policy none"
                .to_owned(),
        );
        let skip = || Planned::Skip("it has ended".to_owned());
        let differs = || Planned::Update(Vec::new());
        let [well, unwell] = [true, false].map(|is_well| Next::End { is_well });
        // The first two are without and with --dry-run, the last one goes on with an undelete that was cut off.
        for (plan, policy, expected) in [
            (plan(Planned::Create, Planned::Unchanged, &[]), &update, [Next::Restore, well.clone(), Next::Restore]),
            (
                plan(Planned::Create, Planned::Unchanged, &["e"]),
                &update,
                [Next::Restore, unwell.clone(), Next::Restore],
            ),
            (
                plan(Planned::Unchanged, Planned::Unchanged, &[]),
                &update,
                [Next::NothingToDo, well.clone(), Next::Restore],
            ),
            (plan(skip(), Planned::Unchanged, &[]), &update, [nothing(), unwell.clone(), nothing()]),
            (plan(Planned::Create, differs(), &[]), &update, [changed.clone(), changed.clone(), changed]),
            (plan(Planned::Create, differs(), &[]), &none, [Next::Restore, well, Next::Restore]),
        ] {
            let told: Vec<&str> = plan.items.iter().map(|item| item.planned.word().as_str()).collect();
            let next = [(false, false), (true, false), (false, true)];
            let next = next.map(|(is_dry_run, goes_on)| plan.next(policy, is_dry_run, goes_on));
            assert_eq!(next, expected, "{told:?}, {policy:?}");
        }
    }
}
