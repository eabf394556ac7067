//! Decides about the volumes whose objects are on the shelf.

use crate::fetch::{Taker, pick};
use crate::shelve::Shelves;
use crate::stopped::Stopped;
use lifeboat_object::{Item, ObjectKey};
use lifeboat_volume::{Survey, Verdicts};
use std::collections::HashSet;
use std::sync::Arc;

/// Decides about all volumes, once all objects of their types are on the shelf.
pub(crate) async fn decide(shelves: &mut Shelves) -> Result<Verdicts, Stopped> {
    survey_pods_outside(shelves).await?;
    let survey = std::mem::take(&mut shelves.survey);
    Ok(survey.decide(shelves.scope.volume_rules.get()))
}

/// Takes in the pods that are not in the backup and mount its claims: what they ask for counts too.
pub(crate) async fn survey_pods_outside(shelves: &mut Shelves) -> Result<(), Stopped> {
    let (scope, env) = (Arc::clone(&shelves.scope), shelves.env.clone());
    let Some(pods) = scope.find("", "pods") else { return Ok(()) };
    if scope.filter.collects(pods).is_ok() && !scope.filter.selects_namespaced() {
        return Ok(());
    }
    let namespaces: HashSet<String> = shelves.survey.namespaces().into_iter().map(str::to_owned).collect();
    let mut outside = Outside(&mut shelves.survey);
    // A list of each is more than one of the cluster when there are many.
    if namespaces.len() > MANY {
        let is_there = |item: &Item| item.head.namespace.as_ref().is_some_and(|name| namespaces.contains(name));
        return pick(pods, None, is_there, &env, &mut outside).await.map(drop);
    }
    for namespace in namespaces {
        pick(pods, Some(&namespace), |_| true, &env, &mut outside).await?;
    }
    Ok(())
}

/// Namespaces of which each is listed alone.
const MANY: usize = 20;

struct Outside<'a>(&'a mut Survey);

impl Taker for Outside<'_> {
    async fn take(&mut self, item: Item) -> Result<(), Stopped> {
        self.0.take(&item);
        Ok(())
    }

    fn absent(&mut self, _: ObjectKey) {}

    fn unread(&mut self, _: ObjectKey) {}
}
