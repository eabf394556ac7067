//! Random histories of two writers beside a model of what counts.

use crate::content::IndexSource;
use crate::format::content_id::ContentId;
use crate::testing::{BEGIN, Fixture, keys};
use crate::{KopiaError, OpenOptions, Repository, RepositoryWriter};
use bytes::Bytes;
use lifeboat_bucket::Memory;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A refresh is this old when contents are looked up.
const REFRESH: i64 = 15 * 60;
const FLUSH: i64 = 10 * 60;

#[derive(Debug, Clone)]
enum Step {
    Write(usize, u8),
    Delete(usize, u8),
    Undelete(usize, u8),
    Rewrite(usize, u8),
    Flush(usize),
    Refresh(usize),
    Reopen(usize),
    Advance(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let (writer, content) = (0..2_usize, 0..12_u8);
    let both = (writer.clone(), content);
    prop_oneof![
        8 => both.clone().prop_map(|(w, c)| Step::Write(w, c)),
        4 => both.clone().prop_map(|(w, c)| Step::Delete(w, c)),
        1 => both.clone().prop_map(|(w, c)| Step::Undelete(w, c)),
        1 => both.prop_map(|(w, c)| Step::Rewrite(w, c)),
        4 => writer.clone().prop_map(Step::Flush),
        1 => writer.clone().prop_map(Step::Refresh),
        1 => writer.prop_map(Step::Reopen),
        2 => prop_oneof![Just(1), Just(7), Just(300), Just(601), Just(1000), Just(-20)].prop_map(Step::Advance),
    ]
}

/// The bytes of a content: of each prefix some, and long ones.
fn plain(content: u8) -> (Option<u8>, Bytes) {
    let prefix = [None, Some(b'k'), Some(b'x'), None][usize::from(content % 4)];
    (prefix, vec![content; 50 + 400 * usize::from(content)].into())
}

/// Time and liveness, which are ordered as entries are.
type State = (i64, bool);
type States = BTreeMap<u8, State>;

fn merge(into: &mut States, from: &States) {
    for (content, state) in from {
        let known = into.entry(*content).or_insert(*state);
        *known = (*known).max(*state);
    }
}

/// The knowledge of one writer.
#[derive(Default, Clone)]
struct Known {
    seen: States,
    seen_at: i64,
    pending: States,
    flushed_at: i64,
}

struct Model {
    now: i64,
    committed: States,
    writers: [Known; 2],
}

impl Model {
    fn view(&self, writer: usize, content: u8) -> Option<State> {
        let known = &self.writers[writer];
        known.seen.get(&content).max(known.pending.get(&content)).copied()
    }

    fn refresh(&mut self, writer: usize) {
        self.writers[writer].seen = self.committed.clone();
        self.writers[writer].seen_at = self.now;
    }

    fn refresh_when_old(&mut self, writer: usize) {
        if !(0..=REFRESH).contains(&(self.now - self.writers[writer].seen_at)) {
            self.refresh(writer);
        }
    }

    fn flush(&mut self, writer: usize) {
        let pending = std::mem::take(&mut self.writers[writer].pending);
        self.writers[writer].flushed_at = self.now;
        if !pending.is_empty() {
            merge(&mut self.committed, &pending);
            self.refresh(writer);
        }
    }

    fn reopen(&mut self, writer: usize) {
        self.writers[writer] = Known { flushed_at: self.now, ..Known::default() };
        self.refresh(writer);
    }

    fn add(&mut self, writer: usize, content: u8, is_live: bool) {
        let last = self.view(writer, content).map_or(i64::MIN, |(time, _)| time + 1);
        self.writers[writer].pending.insert(content, (self.now.max(last), is_live));
        if !(0..=FLUSH).contains(&(self.now - self.writers[writer].flushed_at)) {
            self.flush(writer);
        }
    }
}

struct Run {
    fixture: Fixture,
    store: Arc<Memory>,
    model: Model,
    writers: Vec<(Repository, RepositoryWriter)>,
    ids: BTreeMap<u8, ContentId>,
    seed: u64,
}

impl Run {
    async fn open(fixture: &Fixture, store: &Arc<Memory>, seed: u64) -> (Repository, RepositoryWriter) {
        let repository = fixture.open(store.clone()).await.unwrap();
        let writer = repository.writer(fixture.write_options(seed)).await.unwrap();
        (repository, writer)
    }

    async fn begin() -> Self {
        let fixture = Fixture::usual().with_packs(3000);
        let store = fixture.store().await;
        let mut model = Model { now: BEGIN / 1_000_000_000, committed: States::new(), writers: Default::default() };
        let mut writers = Vec::new();
        let mut ids = BTreeMap::new();
        for writer in 0..2 {
            model.reopen(writer);
            writers.push(Self::open(&fixture, &store, 100 + writer as u64).await);
        }
        let crypto = writers[0].0.crypto().clone();
        for content in 0..12 {
            let (prefix, plain) = plain(content);
            ids.insert(content, ContentId::new(prefix, crypto.hash(&plain)).unwrap());
        }
        Self { fixture, store, model, writers, ids, seed: 1000 }
    }

    async fn step(&mut self, step: &Step) {
        match *step {
            Step::Advance(seconds) => {
                self.fixture.clock.advance(seconds);
                self.model.now += seconds;
            }
            Step::Flush(writer) => {
                self.writers[writer].1.flush().await.unwrap();
                self.model.flush(writer);
            }
            Step::Refresh(writer) => {
                self.writers[writer].0.contents().refresh().await.unwrap();
                self.model.refresh(writer);
            }
            Step::Reopen(writer) => {
                self.seed += 1;
                self.writers[writer] = Self::open(&self.fixture, &self.store, self.seed).await;
                self.model.reopen(writer);
            }
            Step::Write(writer, content) => {
                let (prefix, plain) = plain(content);
                let id = self.writers[writer].1.contents().write(prefix, plain, None).await.unwrap();
                assert_eq!(id, self.ids[&content]);
                self.model.refresh_when_old(writer);
                if !self.model.view(writer, content).is_some_and(|(_, is_live)| is_live) {
                    self.model.add(writer, content, true);
                }
            }
            Step::Delete(writer, content) => {
                let result = self.writers[writer].1.contents().delete(&self.ids[&content]).await;
                self.model.refresh_when_old(writer);
                let view = self.model.view(writer, content);
                assert_eq!(result.is_ok(), view.is_some(), "{result:?}");
                if view.is_some_and(|(_, is_live)| is_live) {
                    self.model.add(writer, content, false);
                }
            }
            Step::Undelete(writer, content) => {
                let result = self.writers[writer].1.contents().undelete(&self.ids[&content]).await;
                self.model.refresh_when_old(writer);
                let view = self.model.view(writer, content);
                assert_eq!(result.is_ok(), view.is_some(), "{result:?}");
                if view.is_some_and(|(_, is_live)| !is_live) {
                    self.model.add(writer, content, true);
                }
            }
            Step::Rewrite(writer, content) => {
                let result = self.writers[writer].1.contents().rewrite(&self.ids[&content]).await;
                self.model.refresh_when_old(writer);
                let view = self.model.view(writer, content);
                assert_eq!(result.is_ok(), view.is_some(), "{result:?}");
                if let Some((_, is_live)) = view {
                    self.model.add(writer, content, is_live);
                }
            }
        }
    }

    /// Each writer sees what the model says of it, bytes included.
    async fn check_views(&self) {
        for (number, (_, writer)) in self.writers.iter().enumerate() {
            for (content, id) in &self.ids {
                let entry = writer.contents().find(id).unwrap();
                let state = entry.map(|entry| (i64::try_from(entry.timestamp).unwrap(), !entry.is_deleted));
                assert_eq!(state, self.model.view(number, *content), "writer {number}, content {content}");
            }
        }
    }

    async fn check_repository(&self, indexes: IndexSource) {
        let options = OpenOptions { indexes, ..self.fixture.options() };
        let repository = self.fixture.open_with(self.store.clone(), options).await.unwrap();
        for (content, id) in &self.ids {
            let wanted = self.model.committed.get(content).copied();
            let entry = repository.contents().find(id).unwrap();
            let state = entry.map(|entry| (i64::try_from(entry.timestamp).unwrap(), !entry.is_deleted));
            // Packs may also have what was never flushed.
            if indexes == IndexSource::IndexBlobs {
                assert_eq!(state, wanted, "content {content}");
            }
            if wanted.is_some() {
                assert_eq!(repository.contents().read(id).await.unwrap(), plain(*content).1);
            }
        }
    }
}

fn run(steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let result: Result<(), KopiaError> = runtime.block_on(async {
        let mut run = Run::begin().await;
        for step in steps {
            run.step(step).await;
            run.check_views().await;
        }
        run.check_repository(IndexSource::IndexBlobs).await;
        for writer in 0..2 {
            run.step(&Step::Flush(writer)).await;
        }
        run.check_views().await;
        run.check_repository(IndexSource::IndexBlobs).await;
        let forgets = |step: &Step| matches!(step, Step::Delete(..) | Step::Rewrite(..));
        if !steps.iter().any(forgets) {
            run.check_repository(IndexSource::Packs).await;
        }
        if !steps.iter().any(|step| matches!(step, Step::Reopen(_))) {
            assert_eq!(keys(&*run.store, "s").await, [""; 0]);
        }
        Ok(())
    });
    result.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn everything_that_two_writers_flushed_counts_as_the_rules_say(steps in prop::collection::vec(step(), 1..50)) {
        run(&steps);
    }
}

#[test]
fn packs_alone_tell_what_was_written_where_nothing_was_deleted() {
    let steps: Vec<Step> = (0..60_u8)
        .map(|n| match (usize::from(n % 2), n % 7) {
            (writer, 6) => Step::Flush(writer),
            (writer, _) => Step::Write(writer, n % 11),
        })
        .collect();
    run(&steps);
}
