//! Random deaths of local commands, and the same command again. Long: `make test-long`.

use crate::faults::{Ground, applied, config_maps, in_parallel, namespace, shared_plane};
use crate::kills::commands::{backup, is_complete, restore, restore_again, target, undisturbed, undisturbed_restore};
use crate::random::{seeds, splitmix};
use lifeboat_testbed::{ApiClient, Fault, Kill, Kubectl, Nth, Rule};

/// Where a command dies.
#[derive(Debug)]
struct Death {
    seed: u64,
    is_backup: bool,
    /// At a request to the API server, not to the bucket.
    is_api: bool,
    /// At which of all requests, in thousandths.
    thousandths: u64,
    kill: Kill,
}

impl Death {
    fn of(seed: u64) -> Self {
        let random = splitmix(seed);
        Self {
            seed,
            is_backup: random & 1 == 0,
            is_api: random & 2 == 0,
            // Retries make a run's last requests uncertain.
            thousandths: (random >> 8) % 900,
            kill: if random & 4 == 0 { Kill::Before } else { Kill::After },
        }
    }

    /// At the n-th of so many requests, from 1.
    fn nth(&self, requests: usize) -> u64 {
        requests as u64 * self.thousandths / 1000 + 1
    }
}

#[test]
#[ignore = "takes about a quarter of an hour: make test-long"]
fn long_any_request_of_a_local_command_may_be_the_last_one() {
    let deaths: Vec<Death> = seeds(900).into_iter().map(Death::of).collect();
    let mut objects = vec![namespace("some"), applied("some")];
    objects.extend(config_maps("some", 40));
    let (ground, plane) = (Ground::start(objects), shared_plane());
    let kubectl = Kubectl::new(&plane).expect("kubectl");
    let client = ApiClient::of_kubeconfig(&plane).expect("a client");
    let archived = undisturbed(&ground, "some");
    let counted = ground.case("counted");
    assert_eq!(counted.local(&backup("some")).code, 0);
    let (of_api, of_s3) = (counted.api.take_seen().len(), counted.s3.take_seen().len());
    let (restored, to_api, to_s3) = undisturbed_restore(&ground, &plane, &client, "some");
    in_parallel(3, &deaths, |death| {
        let name = format!("s{}", death.seed);
        let case = if death.is_backup { ground.case(&name) } else { ground.case_on(&plane, "base", &name) };
        let requests = match (death.is_backup, death.is_api) {
            (true, true) => of_api,
            (true, false) => of_s3,
            (false, true) => to_api.len(),
            (false, false) => to_s3.len(),
        };
        let proxy = if death.is_api { &case.api } else { &case.s3 };
        proxy.script(vec![Rule::new("*", "*", Nth::Only(death.nth(requests)), Fault::Kill(death.kill))]);
        if death.is_backup {
            let args = backup("some");
            assert!(case.is_killed(&args), "it was not killed");
            is_complete(&case, &case.local(&args), &archived);
        } else {
            let args = restore("some", &name);
            let args = args.each_ref().map(String::as_str);
            assert!(case.is_killed(&args), "it was not killed");
            restore_again(&case, &client, &name, &args, &restored);
            let gone = ["delete", "namespace", &target(&name), "--wait=false"];
            kubectl.try_run(&gone).unwrap_or_else(|e| panic!("{e:#}"));
        }
    });
}
