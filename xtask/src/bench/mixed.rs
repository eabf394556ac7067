//! A backup of what clusters are made of.

use super::bed::{Bed, MEASURED, NAMESPACE, pause};
use super::programs::Programs;
use super::report::Measured;
use super::rows::{Mixture, RESOURCES_OF_A_DEFINITION, Row};
use anyhow::{Result, bail};
use lifeboat_testbed::Kubectl;
use std::time::{Duration, Instant};

/// Namespaces of a mixed cluster.
const NAMESPACES: usize = 10;
/// Time limit for the controllers to bind all claims.
const BINDING: Duration = Duration::from_secs(600);

pub(crate) fn run(row: &Row, programs: &Programs) -> Result<Measured> {
    let mixture = Mixture::of(row.objects);
    let folder = tempfile::tempdir()?;
    let bed = Bed::start(programs, folder.path())?;
    bed.settle()?;
    let empty = bed.empty(|name| bed.backup(name, &[]))?;
    fill(&bed, mixture)?;
    let paths = paths(mixture);
    let measured = bed.in_turn(&paths, |name| bed.backup(name, &[]))?;
    check_contents(&bed, mixture)?;
    let note = format!("{}, {:.1} MB of archive", measured.floor.listed(), bed.archive_bytes(MEASURED)? as f64 / 1e6);
    Ok(measured.measured(row, empty, note))
}

/// Makes everything, in the order in which one needs the other, and waits until controllers have done their part.
fn fill(bed: &Bed<'_>, mixture: Mixture) -> Result<()> {
    let Mixture { pods, claims, accounts, definitions } = mixture;
    let kubectl = bed.plane.kubectl();
    let owner = kubectl.try_run(&["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"])?;
    let create = |kind: &str, count: usize, of: usize| {
        let numbers = [NAMESPACES, count, of, accounts].map(|number| number.to_string());
        let [namespaces, count_text, of, accounts] = &numbers;
        bed.floor_create_of(
            count,
            &["--namespace", NAMESPACE, "--namespaces", namespaces, "--count", count_text, "--kind", kind]
                .into_iter()
                .chain(["--of", of, "--accounts", accounts, "--owner", &owner])
                .collect::<Vec<_>>(),
        )
    };
    create("accounts", accounts, 0)?;
    create("definitions", definitions, 0)?;
    create("volumes", claims, 0)?;
    create("claims", claims, 0)?;
    create("pods", pods, claims)?;
    let wait = ["wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=5m"];
    kubectl.try_run(&wait)?;
    create("custom", definitions * RESOURCES_OF_A_DEFINITION, definitions)?;
    bed.settle()?;
    wait_until_bound(&kubectl)
}

/// Waits until every claim has its volume. `kubectl wait` asks for one after the other, which takes minutes.
fn wait_until_bound(kubectl: &Kubectl) -> Result<()> {
    let end = Instant::now() + BINDING;
    let phases = ["get", "persistentvolumeclaims", "--all-namespaces", "--output=jsonpath={.items[*].status.phase}"];
    loop {
        let unbound = kubectl.try_run(&phases)?.split_whitespace().filter(|phase| *phase != "Bound").count();
        if unbound == 0 {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("{unbound} claims have no volume after {} s", BINDING.as_secs());
        }
        pause();
    }
}

/// The lists of all types of the mixture, and of what every namespace holds.
fn paths(mixture: Mixture) -> Vec<String> {
    let core = ["configmaps", "secrets", "serviceaccounts", "pods", "persistentvolumeclaims", "persistentvolumes"];
    let mut out: Vec<String> = core.iter().map(|plural| format!("/api/v1/{plural}")).collect();
    out.push("/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned());
    out.extend((0..mixture.definitions).map(|number| format!("/apis/bench.example.com/v1/things{number:03}")));
    out
}

/// All that was made is in the backup.
fn check_contents(bed: &Bed<'_>, mixture: Mixture) -> Result<()> {
    let Mixture { pods, claims, accounts, definitions } = mixture;
    let saved = bed.counts_in(MEASURED)?;
    let count = |name: &str| saved[name].as_u64().unwrap_or(0) as usize;
    let exact = [
        ("pods", pods),
        ("persistentvolumeclaims", claims),
        ("persistentvolumes", claims),
        ("customresourcedefinitions.apiextensions.k8s.io", definitions),
    ];
    for (name, expected) in exact {
        if count(name) != expected {
            bail!("the backup has {} {name} instead of {expected}", count(name));
        }
    }
    if count("serviceaccounts") < accounts {
        bail!("the backup has {} service accounts, {accounts} were made", count("serviceaccounts"));
    }
    for number in 0..definitions {
        let name = format!("things{number:03}.bench.example.com");
        if count(&name) != RESOURCES_OF_A_DEFINITION {
            bail!("the backup has {} {name} instead of {RESOURCES_OF_A_DEFINITION}", count(&name));
        }
    }
    Ok(())
}
