//! A shop comes back under other names.

use crate::moved::moved;
use crate::results::{self, named};
use crate::shop;
use crate::snapshot;
use crate::support::Bed;

/// The platform stays where it is: others refer to it.
const MOVE: [(&str, &str); 2] = [("storefront", "boutique"), ("warehouse", "depot")];

/// scenario: NamespaceMapping
#[test]
fn a_shop_moves_to_other_namespaces() {
    let bed = Bed::start();
    let kubectl = bed.plane.kubectl();
    let before = shop::backed_up(&bed);

    shop::lose(&kubectl);
    let args = ["restore", "move", "--from-backup", "all", "--preserve-nodeports", "--namespace-mappings"];
    let run = bed.local(&[&args[..], &["storefront:boutique,warehouse:depot"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    shop::bound(&kubectl);
    let after = snapshot::settled(&kubectl, &moved(&before, &MOVE), &[]);
    // Also those that nobody chose.
    assert_eq!(after["Service. boutique till"]["spec"]["ports"], before["Service. storefront till"]["spec"]["ports"]);
    let results = bed.results("move");
    assert_eq!(named(&results, &results::kinds(&kubectl)), [""; 0], "{results}");
}
