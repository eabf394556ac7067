//! A restore that dies at each of its steps, and is run again.

use crate::cloud::Cloud;
use crate::ground::{Ground, messages, volume};
use crate::native::ground;
use crate::trip::{Kept, Trip};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Runs the restore in a process that dies after so many steps; gives its messages when it came to its end before.
async fn attempt(ground: &Ground, cloud: &Cloud, kept: &Kept, steps: usize) -> Option<[Vec<String>; 2]> {
    let trip = Arc::new(Trip::after(steps));
    cloud.count_steps(&trip);
    let env = ground.env_with(kept.by(&trip));
    tokio::select! {
        outcome = Box::pin(lifeboat_restore::run(&ground.request, &env)) => Some(messages(&outcome.unwrap())),
        () = trip.dead() => None,
    }
}

/// More than any run has.
const MANY: usize = 100;

#[tokio::test]
async fn a_killed_restore_makes_each_volume_once_unless_the_cloud_cannot_tell() {
    let (mut died, mut with_orphans) = (0, 0);
    for steps in 0..MANY {
        let (mut ground, cloud) = ground().await;
        let is_mapped = steps % 3 == 1;
        if is_mapped {
            // The one that is there stays, and another one is made beside it.
            ground.request.restore.spec.namespace_mapping = [("shop".to_owned(), "copy".to_owned())].into();
            ground.put(volume("pv-a", "a", "in-use")[0].clone()).await;
        }
        let kept = Kept::default();
        let first = attempt(&ground, &cloud, &kept, steps).await;
        let is_last = first.is_some();
        // Every other time the next one dies too.
        let mut told = Vec::new();
        let second = match first {
            None if steps % 2 == 1 => attempt(&ground, &cloud, &kept, steps * 5 % 17).await,
            ended => ended,
        };
        let ended = match second {
            Some(ended) => ended,
            None => attempt(&ground, &cloud, &kept, usize::MAX).await.unwrap(),
        };
        let [warnings, errors] = ended;
        told.extend(warnings);
        assert_eq!(errors, Vec::<String>::new(), "after {steps} steps");
        let disks = ground.disks().await;
        let made = cloud.volumes();
        let of = |name: &str| made.get(&disks[name]).cloned().unwrap_or_default();
        let claims: BTreeMap<String, String> =
            ground.claims().await.into_iter().map(|(claim, volume)| (claim, of(&volume))).collect();
        let namespace = if is_mapped { "copy" } else { "shop" };
        let expected = [("a", "snap-a"), ("data-db-0", "snap-db")];
        let expected = expected.map(|(claim, snapshot)| (format!("{namespace}/{claim}"), snapshot.to_owned()));
        assert_eq!((claims, disks.len()), (expected.into(), 2 + usize::from(is_mapped)), "after {steps} steps");
        assert!(!is_mapped || disks["pv-a"] == "in-use");
        // What the one that died may have made and nobody heard of is told.
        let used: BTreeSet<&String> = disks.values().collect();
        let orphans: Vec<&String> = made.iter().filter(|(id, _)| !used.contains(id)).map(|(_, of)| of).collect();
        for snapshot in &orphans {
            let unknown = format!(
                "it is not known whether a volume was made from the snapshot {snapshot} for the PersistentVolume"
            );
            assert!(is_last || told.iter().any(|text| text.starts_with(&unknown)), "after {steps} steps: {told:?}");
        }
        with_orphans += usize::from(!orphans.is_empty());
        if is_last {
            assert!(orphans.is_empty());
            break;
        }
        died += 1;
    }
    assert!(died > 10 && died < MANY && with_orphans > 0 && with_orphans < died / 2, "{died} {with_orphans}");
}
