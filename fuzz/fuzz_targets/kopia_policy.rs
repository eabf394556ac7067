//! The document of a policy, and rules of files that are left out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lifeboat_kopia::format::policy::{Policy, effective};

fuzz_target!(|text: &str| {
    let Ok(policy) = Policy::parse(text) else { return };
    let written = policy.write();
    let again = Policy::parse(str::from_utf8(&written).expect("text")).expect("what was written can be read");
    assert_eq!(again.write(), written);
    let _ = effective([&policy, &again]);
});
