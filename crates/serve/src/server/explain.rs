//! `lifeboat server --explain`: the next steps of a server, and the reasons why it does nothing about the other
//! resources.

use anyhow::{Context, Result};
use lifeboat_client::Client;
use lifeboat_control::{AtRest, Explanation, Options, ServerClock, explain};
use lifeboat_terminal::output::table::{Labels, print};
use lifeboat_terminal::output::{Output, print_resource};
use std::collections::BTreeMap;
use std::io::Write;

/// Reads the resources once, and prints what becomes of them.
pub(super) async fn tell(client: &Client, options: &Options, clock: ServerClock, output: Option<Output>) -> Result<()> {
    let why = || format!("read the resources of namespace {}, and the Lease of its servers", client.namespace);
    let found = explain(client, options, &clock).await.with_context(why)?;
    match output {
        Some(output) => print_resource(&found, output),
        None => Ok(write(&mut std::io::stdout(), &found)?),
    }
}

fn write(out: &mut impl Write, found: &Explanation) -> std::io::Result<()> {
    let steps = found.steps.iter().map(|step| (step.kind, &step.name, &step.state, step.does.clone()));
    let waits = found.waits.iter().map(|w| (w.kind, &w.name, &w.state, format!("waits for {}", w.waits_for)));
    let none = BTreeMap::new();
    let rows = steps
        .chain(waits)
        .map(|(kind, name, state, what)| (vec![kind.to_owned(), name.clone(), state.clone(), what], &none));
    let labels = Labels { columns: &[], all: false };
    print(out, &["KIND", "NAME", "STATE", "DOES OR WAITS FOR"], rows, &labels)?;
    if !found.steps.is_empty() || !found.waits.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "At rest: {}", at_rest(&found.at_rest))?;
    if let Some(wake) = found.wake {
        writeln!(out, "Due next: {wake}")?;
    }
    match &found.leader {
        Some(leader) => writeln!(
            out,
            "{leader} leads, by the Lease. It is taken to work on all that is in progress. What has failed there and waits to be tried again, and what its flags are, only its own log tells."
        ),
        None => writeln!(out, "Nobody leads: this is what the next server would do, with the flags given here."),
    }
}

/// A part for each kind, such as `3 Backups (2 Completed, 1 Failed)`.
fn at_rest(all: &[AtRest]) -> String {
    let mut kinds: Vec<(&str, Vec<&AtRest>)> = Vec::new();
    for one in all {
        match kinds.last_mut().filter(|(kind, _)| *kind == one.kind) {
            Some((_, rows)) => rows.push(one),
            None => kinds.push((one.kind, vec![one])),
        }
    }
    let of_kind = |(kind, rows): &(&str, Vec<&AtRest>)| {
        let count: usize = rows.iter().map(|row| row.count).sum();
        let plural = if count == 1 { "" } else { "s" };
        let phases: Vec<String> = rows.iter().map(|row| format!("{} {}", row.count, row.phase)).collect();
        format!("{count} {kind}{plural} ({})", phases.join(", "))
    };
    if kinds.is_empty() { "nothing".to_owned() } else { kinds.iter().map(of_kind).collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_control::{ExplainedStep, ExplainedWait};

    fn text(found: &Explanation) -> String {
        let mut out = Vec::new();
        write(&mut out, found).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_for_each_object_that_is_not_at_rest_and_a_count_of_the_others() {
        let rest = |kind, phase: &str, count| AtRest { kind, phase: phase.into(), count };
        let found = Explanation {
            leader: Some("velero-5d8f".into()),
            steps: vec![ExplainedStep {
                kind: "Backup",
                namespace: "velero".into(),
                name: "first".into(),
                state: "Queued".into(),
                reason: "Start",
                does: "leaves the queue, to run".into(),
            }],
            waits: vec![ExplainedWait {
                kind: "Restore",
                namespace: "velero".into(),
                name: "again".into(),
                state: "New".into(),
                reason: "NoSlot",
                waits_for: "its turn".into(),
                until: None,
            }],
            at_rest: vec![rest("Backup", "Completed", 2), rest("Backup", "Failed", 1), rest("Schedule", "Enabled", 1)],
            wake: Some("2026-11-22T12:00:00Z".parse().unwrap()),
        };
        assert_eq!(
            text(&found),
            "KIND      NAME    STATE    DOES OR WAITS FOR\n\
             Backup    first   Queued   leaves the queue, to run\n\
             Restore   again   New      waits for its turn\n\
             \n\
             At rest: 3 Backups (2 Completed, 1 Failed), 1 Schedule (1 Enabled)\n\
             Due next: 2026-11-22T12:00:00Z\n\
             velero-5d8f leads, by the Lease. It is taken to work on all that is in progress. What has failed there and \
             waits to be tried again, and what its flags are, only its own log tells.\n"
        );
        assert_eq!(
            text(&Explanation::default()),
            "At rest: nothing\nNobody leads: this is what the next server would do, with the flags given here.\n"
        );
    }
}
